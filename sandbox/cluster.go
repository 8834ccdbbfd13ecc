package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rayslice/rayslice/sandbox/fleet"
	"github.com/rayslice/rayslice/sandbox/manifests"
)

const (
	fieldManager = "rayslice-sandbox"
	stageLabel   = "sandbox.rayslice.io/stage" // on the stages of the fleet
	markerName   = "rayslice-sandbox"          // config map in kube-system that tells what is installed
	markerKey    = "manifests"                 // in it: a digest
	poll         = 100 * time.Millisecond
	patience     = 3 * time.Minute // a loaded machine with two cores needs most of one
)

var applyOptions = metav1.ApplyOptions{FieldManager: fieldManager, Force: true}

// resources are those of the objects that the sandbox installs.
var resources = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"ClusterRole":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding":       {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Stage":                    {Group: "kwok.x-k8s.io", Version: "v1alpha1", Resource: "stages"},
}

// cluster is the sandbox's Kubernetes, through an administrator's eyes.
type cluster struct {
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

// openCluster connects to the cluster of a kubeconfig; nothing is asked yet.
func openCluster(path string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit: we are alone on this machine
	config.UserAgent = fieldManager
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dynamic, err := dynamic.NewForConfig(config)
	return &cluster{config, client, dynamic}, err
}

// isReady is the API server's own opinion.
func (c *cluster) isReady(ctx context.Context) error {
	return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// install gives the components their rights and their kinds, and returns when the API server serves these. What an
// earlier up installed is left alone: KubeRay's definitions are megabytes, which cost seconds to read and to apply.
func (c *cluster) install(ctx context.Context) error {
	have, err := c.installed(ctx)
	if err != nil {
		return err
	}
	want := manifests.Digest()
	if have != want {
		rbac, rbacErr := manifests.RBAC()
		crds, crdErr := manifests.CRDs()
		if err := errors.Join(rbacErr, crdErr); err != nil {
			return err
		}
		if err := c.apply(ctx, append(rbac, crds...)); err != nil {
			return err
		}
	}
	if err := c.awaitServed(ctx, manifests.Kinds()); err != nil || have == want {
		return err
	}
	marker := applycorev1.ConfigMap(markerName, metav1.NamespaceSystem).WithData(map[string]string{markerKey: want})
	_, err = c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Apply(ctx, marker, applyOptions)
	return err
}

// installed is the digest of the manifests that an earlier up has installed, empty when none has.
func (c *cluster) installed(ctx context.Context) (string, error) {
	marker, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, markerName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return marker.Data[markerKey], nil
}

// apply applies the objects, several at a time.
func (c *cluster) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, object := range objects {
		group.Go(func() error {
			_, err := c.dynamic.Resource(resources[object.GetKind()]).Apply(ctx, object.GetName(), object, applyOptions)
			if err != nil {
				return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// awaitServed waits until clients can discover the kinds, which is a moment after these are established.
func (c *cluster) awaitServed(ctx context.Context, kinds []schema.GroupResource) error {
	var missing []schema.GroupResource
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(context.Context) (bool, error) {
		// What could not be discovered is missing in the lists, so the error tells nothing more.
		_, lists, _ := c.client.Discovery().ServerGroupsAndResources()
		served := sets.New[schema.GroupResource]()
		for _, list := range lists {
			group, _, _ := strings.Cut(list.GroupVersion, "/")
			for _, resource := range list.APIResources {
				served.Insert(schema.GroupResource{Group: group, Resource: resource.Name})
			}
		}
		missing = slices.DeleteFunc(slices.Clone(kinds), served.Has)
		return len(missing) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("the API server does not serve %v: %w", missing, err)
	}
	return nil
}

// applyStages makes KWOK's stages those of the fleet, and no others of ours.
func (c *cluster) applyStages(ctx context.Context, want fleet.Fleet) error {
	stages, err := want.Stages()
	if err != nil {
		return err
	}
	names := sets.New[string]()
	for _, stage := range stages {
		stage.SetLabels(map[string]string{stageLabel: "true"})
		names.Insert(stage.GetName())
	}
	if err := c.apply(ctx, stages); err != nil {
		return err
	}
	client := c.dynamic.Resource(resources["Stage"])
	existing, err := client.List(ctx, metav1.ListOptions{LabelSelector: stageLabel})
	if err != nil {
		return err
	}
	for _, stage := range existing.Items {
		if names.Has(stage.GetName()) {
			continue
		}
		if err := client.Delete(ctx, stage.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// applyNodes makes the nodes those of the fleet. A machine that was killed stays dead.
func (c *cluster) applyNodes(ctx context.Context, want []*applycorev1.NodeApplyConfiguration) error {
	existing, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fleet.GroupLabel})
	if err != nil {
		return err
	}
	have := map[string]*corev1.Node{}
	for i := range existing.Items {
		have[existing.Items[i].Name] = &existing.Items[i]
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, node := range want {
		before := have[*node.Name]
		delete(have, *node.Name)
		group.Go(func() error { return c.applyNode(ctx, before, node) })
	}
	for name := range have {
		group.Go(func() error { return c.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}) })
	}
	return group.Wait()
}

func (c *cluster) applyNode(ctx context.Context, before *corev1.Node, want *applycorev1.NodeApplyConfiguration) error {
	if before != nil && isDead(before) {
		delete(want.Labels, fleet.ManagedLabel)
	}
	node, err := c.client.CoreV1().Nodes().Apply(ctx, want, applyOptions)
	if err != nil || before == nil { // a new node has its status from the start, before KWOK can invent one
		return err
	}
	port := *want.Status.DaemonEndpoints.KubeletEndpoint.Port
	if equality.Semantic.DeepEqual(node.Status.Capacity, *want.Status.Capacity) && node.Status.DaemonEndpoints.KubeletEndpoint.Port == port {
		return nil
	}
	return c.replaceResources(ctx, want)
}

// replaceResources overwrites what a node offers. Applying would not do: KWOK owns the same fields, so a resource that the
// fleet no longer has would stay.
func (c *cluster) replaceResources(ctx context.Context, want *applycorev1.NodeApplyConfiguration) error {
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/status/capacity", "value": want.Status.Capacity},
		{"op": "add", "path": "/status/allocatable", "value": want.Status.Allocatable},
		{"op": "add", "path": "/status/daemonEndpoints", "value": want.Status.DaemonEndpoints},
	})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, *want.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	return err
}

// awaitUsable waits until a pod could be created and scheduled: living nodes are ready, and the default namespace has the
// service account that admission asks for.
func (c *cluster) awaitUsable(ctx context.Context) error {
	last := errors.New("the API server did not answer")
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		last = c.usable(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the cluster is not usable: %w: %w", err, last)
	}
	return nil
}

func (c *cluster) usable(ctx context.Context) error {
	if _, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fleet.ManagedLabel + "=" + fleet.ManagedValue})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		if !isSettled(&nodes.Items[i]) {
			return fmt.Errorf("node %s is not ready", nodes.Items[i].Name)
		}
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isSettled reports whether the node is ready and the node controller has taken note of it.
func isSettled(node *corev1.Node) bool {
	return isReady(node) && !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
	})
}
