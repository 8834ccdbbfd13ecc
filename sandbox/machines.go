package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rayslice/rayslice/sandbox/fleet"
)

// drain keeps new pods off a node and evicts those on it, waiting until they are gone or the time is over. Pod disruption
// budgets are respected.
func (c *cluster) drain(ctx context.Context, name string, patience time.Duration) error {
	if err := c.patchNode(ctx, name, map[string]any{"spec": map[string]any{"unschedulable": true}}); err != nil {
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
	err := c.patchNode(ctx, name, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{fleet.ManagedLabel: nil}},
		"spec": map[string]any{"taints": []map[string]any{
			{"key": corev1.TaintNodeOutOfService, "value": "nodeshutdown", "effect": corev1.TaintEffectNoExecute},
		}},
	})
	if err != nil {
		return err
	}
	// What the node controller would find out by itself after 50 s of silence.
	return c.patchNode(ctx, name, map[string]any{"status": map[string]any{"conditions": []map[string]any{{
		"type": corev1.NodeReady, "status": corev1.ConditionUnknown, "lastTransitionTime": metav1.Now(),
		"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
	}}}}, "status")
}

// revive undoes kill and drain, and returns when the node is ready again.
func (c *cluster) revive(ctx context.Context, name string) error {
	err := c.patchNode(ctx, name, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{fleet.ManagedLabel: fleet.ManagedValue}},
		"spec": map[string]any{
			"unschedulable": nil,
			"taints":        []map[string]any{{"key": corev1.TaintNodeOutOfService, "$patch": "delete"}},
		},
	})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, poll, time.Minute, true, func(ctx context.Context) (bool, error) {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && isReady(node), err
	})
}

func isDead(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

// patchNode merges the change into one of the fleet's nodes. For a name that is none, the error lists those there are.
func (c *cluster) patchNode(ctx context.Context, name string, change map[string]any, subresource ...string) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	nodes := c.client.CoreV1().Nodes()
	_, err = nodes.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, subresource...)
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
