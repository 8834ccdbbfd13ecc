package k8s

import (
	"slices"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Slimming drops what nobody reads before an object enters a cache: with thousands of pods that is most of the memory.
// It is done to live reads too, so that both look alike.

func slimCluster(obj any) (any, error) {
	cluster, ok := obj.(*rayv1.RayCluster)
	if !ok {
		return obj, nil
	}
	delete(cluster.Annotations, corev1.LastAppliedConfigAnnotation)
	cluster.ManagedFields = foreignWriters(cluster.ManagedFields)
	cluster.Status = rayv1.RayClusterStatus{
		State:              cluster.Status.State,
		Conditions:         cluster.Status.Conditions,
		ObservedGeneration: cluster.Status.ObservedGeneration,
	}
	return cluster, nil
}

// foreignWriters keeps who else wrote into the object and what, for drift to name.
func foreignWriters(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if entry.Manager != FieldManager && entry.Subresource == "" {
			kept = append(kept, entry)
		}
	}
	return kept
}

func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              pod.Name,
			Namespace:         pod.Namespace,
			UID:               pod.UID,
			ResourceVersion:   pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp,
			DeletionTimestamp: pod.DeletionTimestamp,
			Labels:            keep(pod.Labels, LabelRequest, labelGroup, labelNodeType, LabelGPUCount, LabelPool),
			Annotations:       keep(pod.Annotations, placementAnnotations...),
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName, Containers: slimContainers(pod.Spec.Containers)},
		Status: corev1.PodStatus{
			Phase:                 pod.Status.Phase,
			Reason:                pod.Status.Reason,
			Message:               pod.Status.Message,
			PodIP:                 pod.Status.PodIP,
			Conditions:            slimConditions(pod.Status.Conditions),
			ContainerStatuses:     slimStatuses(pod.Status.ContainerStatuses),
			InitContainerStatuses: slimStatuses(pod.Status.InitContainerStatuses),
		},
	}, nil
}

func keep(from map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := from[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

func slimContainers(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, 0, len(containers))
	for _, c := range containers {
		limits := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{ResourceGPUMem, ResourceGPUCore, ResourceGPU, corev1.ResourceMemory} {
			if quantity, ok := c.Resources.Limits[name]; ok {
				limits[name] = quantity
			}
		}
		out = append(out, corev1.Container{Name: c.Name, Image: c.Image, Resources: corev1.ResourceRequirements{Limits: limits}})
	}
	return out
}

func slimConditions(conditions []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range conditions {
		if slices.Contains([]corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget}, c.Type) {
			out = append(out, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	return out
}

func slimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, 0, len(statuses))
	for _, s := range statuses {
		out = append(out, corev1.ContainerStatus{
			Name:                 s.Name,
			Ready:                s.Ready,
			RestartCount:         s.RestartCount,
			State:                s.State,
			LastTerminationState: s.LastTerminationState,
		})
	}
	return out
}

// slimNode keeps labels, what the node offers and whether it is ready; its heartbeats go, so that they wake nobody.
func slimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name,
			UID:             node.UID,
			ResourceVersion: node.ResourceVersion,
			Labels:          node.Labels,
		},
		Spec:   corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{}},
	}
	for name, quantity := range node.Status.Allocatable {
		if strings.HasPrefix(string(name), "aliyun.com/") || name == ResourceGPU {
			slim.Status.Allocatable[name] = quantity
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			slim.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, Reason: c.Reason}}
		}
	}
	return slim, nil
}
