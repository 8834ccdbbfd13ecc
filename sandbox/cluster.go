package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	fieldManager     = "rayslice-sandbox"
	digestAnnotation = "sandbox.rayslice.io/digest" // of what was applied, so that it need not be applied again
	stageLabel       = "sandbox.rayslice.io/stage"  // on the stages of the fleet
	poll             = 100 * time.Millisecond
	patience         = 3 * time.Minute // a loaded machine with two cores needs most of one
)

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

// install gives the components their rights and their kinds, and returns when the API server serves these.
func (c *cluster) install(ctx context.Context) error {
	rbac, rbacErr := manifests.RBAC()
	crds, crdErr := manifests.CRDs()
	if err := errors.Join(rbacErr, crdErr); err != nil {
		return err
	}
	if err := c.apply(ctx, append(rbac, crds...)); err != nil {
		return err
	}
	for _, crd := range crds {
		if err := c.awaitServed(ctx, crd); err != nil {
			return err
		}
	}
	return nil
}

// apply applies the objects, several at a time, those that are there already excepted.
func (c *cluster) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, object := range objects {
		group.Go(func() error {
			if err := c.applyOne(ctx, object); err != nil {
				return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// applyOne skips an object that carries the digest of what would be applied: KubeRay's definitions are megabytes, which
// cost the API server seconds each time.
func (c *cluster) applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	client := c.dynamic.Resource(resources[object.GetKind()])
	content, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	existing, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err == nil && existing.GetAnnotations()[digestAnnotation] == digest {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[digestAnnotation] = digest
	object.SetAnnotations(annotations)
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// awaitServed waits until clients can discover a definition's kind, which is a moment after it is established.
func (c *cluster) awaitServed(ctx context.Context, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range versions {
		name, _, _ := unstructured.NestedString(version.(map[string]any), "name")
		served := func(context.Context) (bool, error) {
			list, err := c.client.Discovery().ServerResourcesForGroupVersion(group + "/" + name)
			if err != nil {
				return false, nil // not yet
			}
			for _, resource := range list.APIResources {
				if resource.Name == plural {
					return true, nil
				}
			}
			return false, nil
		}
		if err := wait.PollUntilContextTimeout(ctx, poll, patience, true, served); err != nil {
			return fmt.Errorf("the API server does not serve %s of %s/%s: %w", plural, group, name, err)
		}
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
	node, err := c.client.CoreV1().Nodes().Apply(ctx, want, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
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
