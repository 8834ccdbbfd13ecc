package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/rayslice/rayslice/sandbox/fleet"
)

// drain keeps new pods off a node and evicts those on it, waiting until they are gone or the time is over. Pod disruption
// budgets are respected.
func (c *cluster) drain(ctx context.Context, name string, patience time.Duration) error {
	if err := c.changeNode(ctx, name, func(node *corev1.Node) { node.Spec.Unschedulable = true }); err != nil {
		return err
	}
	last := ""
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		pods, err := c.podsOn(ctx, name)
		if err != nil || len(pods) == 0 {
			return true, err
		}
		for i := range pods {
			if pods[i].DeletionTimestamp != nil {
				continue
			}
			if last, err = c.evict(ctx, &pods[i]); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("node %s still has pods after %s%s: try again, or `sandbox kill %s`", name, patience, last, name)
	}
	return err
}

// evict asks for a pod's eviction; the text tells why it was refused for now.
func (c *cluster) evict(ctx context.Context, pod *corev1.Pod) (string, error) {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
	err := c.client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, eviction)
	switch {
	case apierrors.IsTooManyRequests(err):
		return fmt.Sprintf(" (%s: %v)", pod.Name, err), nil
	case apierrors.IsNotFound(err):
		return "", nil
	}
	return "", err
}

// podsOn lists the pods that a drain moves: those of daemon sets would come back at once.
func (c *cluster) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if owner := metav1.GetControllerOf(&pod); owner == nil || owner.Kind != "DaemonSet" {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// kill makes a machine die: its kubelet is silent, and the taint by which an operator or a cloud tells Kubernetes that a
// machine is out of service has the real controllers fail and remove its pods, within about 20 s.
func (c *cluster) kill(ctx context.Context, name string) error {
	err := c.changeNode(ctx, name, func(node *corev1.Node) {
		delete(node.Labels, fleet.ManagedLabel)
		if !isDead(node) {
			node.Spec.Taints = append(node.Spec.Taints, outOfService)
		}
	})
	if err != nil {
		return err
	}
	// What the node controller would find out by itself after 50 s of silence.
	silent, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.Now(),
		Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
	}}}})
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, silent, options, "status")
	return err
}

// revive undoes kill and drain, and returns when the node takes pods again.
func (c *cluster) revive(ctx context.Context, name string) error {
	err := c.changeNode(ctx, name, func(node *corev1.Node) {
		node.Labels[fleet.ManagedLabel] = fleet.ManagedValue
		node.Spec.Unschedulable = false
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == outOfService.Key })
	})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, poll, time.Minute, true, func(ctx context.Context) (bool, error) {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && isSettled(node), err
	})
}

var outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

func isDead(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == outOfService.Key })
}

// changeNode changes one of the fleet's nodes. For a name that is none, the error lists those there are.
func (c *cluster) changeNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	nodes := c.client.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{FieldManager: fieldManager})
		return err
	})
	if !apierrors.IsNotFound(err) {
		return err
	}
	list, err := nodes.List(ctx, metav1.ListOptions{LabelSelector: fleet.GroupLabel})
	if err != nil {
		return err
	}
	var names []string
	for _, node := range list.Items {
		names = append(names, node.Name)
	}
	return fmt.Errorf("no node %q; the fleet has %s", name, strings.Join(names, ", "))
}
