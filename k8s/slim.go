package k8s

import (
	"slices"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/rayslice/rayslice"
)

// Slimming drops what nobody reads before an object enters a cache: with thousands of pods that is most of the memory.
// It is done to live reads too, so that both look alike.

// Slims returns what the caches make of RayClusters and of pods, for benchmarks.
func Slims() (clusters, pods cache.TransformFunc) { return slimCluster, slimPod }

func slimCluster(obj any) (any, error) {
	cluster, ok := obj.(*rayv1.RayCluster)
	if !ok {
		return obj, nil
	}
	if cluster.Labels[LabelRequest] == "" && requestNamed(cluster.Name) == "" {
		return &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{
			Name: cluster.Name, Namespace: cluster.Namespace, UID: cluster.UID, ResourceVersion: cluster.ResourceVersion,
		}}, nil
	}
	delete(cluster.Annotations, corev1.LastAppliedConfigAnnotation)
	cluster.ManagedFields = foreignWriters(cluster.ManagedFields)
	cluster.Status = rayv1.RayClusterStatus{
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

// podView is a pod as the cache keeps it: read once, when it arrives, into what is shown. A corev1.Pod, however empty, is
// four times as large.
type podView struct {
	metav1.ObjectMeta // name, namespace, UID and resource version only

	request string // id in its label
	team    string // in its label
	kind    string // head, worker, …
	worker  rayslice.Worker
	devices string // what the scheduler says each card of the node offers
	placed  bool   // some share scheduler has put it on a card
}

func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return viewPod(pod), nil
}

func viewPod(pod *corev1.Pod) *podView {
	return &podView{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		request:    pod.Labels[LabelRequest],
		team:       pod.Labels[LabelTeam],
		kind:       pod.Labels[labelNodeType],
		worker:     observePod(pod),
		devices:    pod.Annotations[annotationDevices],
		placed:     hasAny(pod.Annotations, annotationAllocation, annotationCardIndex, annotationV3),
	}
}

func hasAny(from map[string]string, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { _, ok := from[key]; return ok })
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
