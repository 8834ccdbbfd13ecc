package k8s

import (
	"cmp"
	"context"
	"slices"

	"github.com/rayslice/rayslice"
)

// lookForUnmanaged lists what holds GPUs in the teams' namespaces without the portal.
func (c *Controller) lookForUnmanaged(ctx context.Context) error {
	limits, err := c.cfg.Store.NamespaceLimits(ctx, rayslice.System)
	if err != nil {
		return err
	}
	pods := c.caches.foreign.all()
	var found []rayslice.Unmanaged
	for _, limit := range limits {
		found = append(found, unmanaged(limit.Team, limit.Namespace, pods)...)
	}
	slices.SortStableFunc(found, func(a, b rayslice.Unmanaged) int {
		return cmp.Or(cmp.Compare(b.Charge.Cards, a.Charge.Cards), cmp.Compare(b.Charge.GiB, a.Charge.GiB))
	})
	found = found[:min(len(found), rayslice.MaxUnmanaged)]
	c.unmanaged.Store(&found)
	return nil
}

// unmanaged adds up what the namespace's pods hold by whoever controls them, sorted by name.
func unmanaged(team, namespace string, pods []*foreignPod) []rayslice.Unmanaged {
	byName := map[string]*rayslice.Unmanaged{}
	var found []*rayslice.Unmanaged
	for _, pod := range pods {
		if pod.hold.Namespace != namespace {
			continue
		}
		u := byName[pod.object]
		if u == nil {
			u = &rayslice.Unmanaged{Team: team, Namespace: namespace, Object: pod.object, CreatedAt: pod.createdAt}
			byName[pod.object], found = u, append(found, u)
		}
		u.Charge, u.Pods = u.Charge.Add(pod.charge), u.Pods+1
		if pod.createdAt.Before(u.CreatedAt) {
			u.CreatedAt = pod.createdAt
		}
	}
	slices.SortFunc(found, func(a, b *rayslice.Unmanaged) int { return cmp.Compare(a.Object, b.Object) })
	all := make([]rayslice.Unmanaged, 0, len(found))
	for _, u := range found {
		all = append(all, *u)
	}
	return all
}
