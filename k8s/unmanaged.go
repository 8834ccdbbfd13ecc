package k8s

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
)

// lookForUnmanaged lists what holds GPUs in the teams' namespaces without the portal. Such pods are no part of the caches,
// whose size our own clusters decide; they are read once per sweep, one list per namespace, from the API server's memory.
func (c *Controller) lookForUnmanaged(ctx context.Context) error {
	limits, err := c.cfg.Store.NamespaceLimits(ctx, rayslice.System)
	if err != nil {
		return err
	}
	var found []rayslice.Unmanaged
	for _, limit := range limits {
		pods, err := c.otherPods(ctx, limit.Namespace)
		if err != nil {
			return err
		}
		found = append(found, unmanaged(limit.Team, pods)...)
	}
	slices.SortStableFunc(found, func(a, b rayslice.Unmanaged) int {
		return cmp.Or(cmp.Compare(b.Charge.Cards, a.Charge.Cards), cmp.Compare(b.Charge.GiB, a.Charge.GiB))
	})
	found = found[:min(len(found), rayslice.MaxUnmanaged)]
	c.unmanaged.Store(&found)
	return nil
}

func (c *Controller) otherPods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	list, err := c.clients.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "!" + LabelRequest, ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// unmanaged adds up what pods hold by whoever controls them, sorted by name. Pods that have ended hold nothing.
func unmanaged(team string, pods []corev1.Pod) []rayslice.Unmanaged {
	byName := map[string]*rayslice.Unmanaged{}
	var found []*rayslice.Unmanaged
	for i := range pods {
		pod := &pods[i]
		holds := rayslice.Charge{GiB: limit(pod, ResourceGPUMem), Cards: limit(pod, ResourceGPU)}
		if holds == (rayslice.Charge{}) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		name := "Pod/" + pod.Name
		if owner := metav1.GetControllerOf(pod); owner != nil {
			name = owner.Kind + "/" + owner.Name
		}
		u := byName[name]
		if u == nil {
			u = &rayslice.Unmanaged{Team: team, Namespace: pod.Namespace, Object: name, CreatedAt: pod.CreationTimestamp.UTC()}
			byName[name], found = u, append(found, u)
		}
		u.Charge, u.Pods = u.Charge.Add(holds), u.Pods+1
		if at := pod.CreationTimestamp.UTC(); at.Before(u.CreatedAt) {
			u.CreatedAt = at
		}
	}
	slices.SortFunc(found, func(a, b *rayslice.Unmanaged) int { return cmp.Compare(a.Object, b.Object) })
	all := make([]rayslice.Unmanaged, 0, len(found))
	for _, u := range found {
		all = append(all, *u)
	}
	return all
}
