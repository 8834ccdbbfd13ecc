package k8s

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayslice/rayslice"
)

// quotaSettles is how long further changes to limits are gathered after one was dealt with.
const quotaSettles = time.Second

// Kubernetes limits extended resources by what is requested of them and in no other way.
const (
	quotaGPUMem = "requests." + ResourceGPUMem
	quotaGPU    = "requests." + ResourceGPU
)

// NamespaceQuota returns the ResourceQuota that backs a team's quota against pods made without the portal. It is pure.
func NamespaceQuota(limit rayslice.NamespaceLimit) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: guardName, Namespace: limit.Namespace, Labels: map[string]string{LabelTeam: limit.Team}},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			quotaGPUMem: *resource.NewQuantity(int64(limit.Charge.GiB), resource.DecimalSI),
			quotaGPU:    *resource.NewQuantity(int64(limit.Charge.Cards), resource.DecimalSI),
		}},
	}
}

// quotaView is a ResourceQuota of our name as the cache keeps it.
type quotaView struct {
	metav1.ObjectMeta // name, namespace, UID and resource version only

	team  string          // in its label; "" = somebody else's
	hard  rayslice.Charge // what it limits
	whole bool            // it limits both
}

func slimQuota(obj any) (any, error) {
	q, ok := obj.(*corev1.ResourceQuota)
	if !ok {
		return obj, nil
	}
	gib, limitsGiB := q.Spec.Hard[quotaGPUMem]
	cards, limitsCards := q.Spec.Hard[quotaGPU]
	return &quotaView{
		ObjectMeta: metav1.ObjectMeta{Name: q.Name, Namespace: q.Namespace, UID: q.UID, ResourceVersion: q.ResourceVersion},
		team:       q.Labels[LabelTeam],
		hard:       rayslice.Charge{GiB: int(gib.Value()), Cards: int(cards.Value())},
		whole:      limitsGiB && limitsCards,
	}, nil
}

// WakeQuotas asks for a look at the namespaces' quotas soon, after a team's limit or what it holds has changed. It never
// blocks.
func (c *Controller) WakeQuotas() { nudge(c.quotaDirty) }

// keepQuotas keeps every team's ResourceQuota at its limit, whenever one may have changed.
func (c *Controller) keepQuotas(ctx context.Context) {
	waitToSee(ctx, c.caches.quotas)
	for {
		problems, err := c.keepQuotasOnce(ctx)
		switch {
		case err == nil:
			c.quotaProblems.Store(&problems)
			nudge(c.fleetDirty)
		case ctx.Err() == nil:
			c.log.WarnContext(ctx, "namespace quotas not kept, will try again", "error", err)
		}
		select {
		case <-time.After(quotaSettles):
		case <-ctx.Done():
			return
		}
		select {
		case <-c.quotaDirty:
		case <-ctx.Done():
			return
		}
	}
}

// keepQuotasOnce returns what administrators should know; an error when it could not look.
func (c *Controller) keepQuotasOnce(ctx context.Context) ([]rayslice.Reason, error) {
	if !c.caches.quotas.HasSynced() {
		if c.caches.quotaPulse.failed.Load() == nil {
			return nil, nil // being listed; the sweep comes back
		}
		return []rayslice.Reason{{Code: ReasonQuotaRights}}, nil
	}
	limits, err := c.cfg.Store.NamespaceLimits(ctx, rayslice.System)
	if err != nil {
		return nil, err
	}
	refused := map[string][]string{}
	for _, limit := range limits {
		code, err := c.keepQuota(ctx, limit)
		if err != nil {
			return nil, err
		}
		if code != "" {
			refused[code] = append(refused[code], limit.Namespace)
		}
	}
	return quotaProblems(refused), nil
}

func quotaProblems(refused map[string][]string) []rayslice.Reason {
	var problems []rayslice.Reason
	for _, code := range []string{ReasonQuotaRights, ReasonQuotaTaken, ReasonQuotaRefused} {
		if names := refused[code]; len(names) > 0 {
			slices.Sort(names)
			problems = append(problems, rayslice.Reason{Code: code, Args: map[string]any{"namespaces": clean(strings.Join(names, ", "))}})
		}
	}
	return problems
}

// keepQuota applies the namespace's ResourceQuota when what stands is not alike, and returns the code of why it cannot.
// Limits of other things that somebody has added to ours stay; one of our name that is somebody else's is left alone.
func (c *Controller) keepQuota(ctx context.Context, limit rayslice.NamespaceLimit) (string, error) {
	seen := c.caches.quota(limit.Namespace)
	switch {
	case seen != nil && seen.team == "":
		return ReasonQuotaTaken, nil
	case seen != nil && seen.whole && seen.hard == limit.Charge && seen.team == limit.Team:
		return "", nil
	}
	err := c.applyQuota(ctx, limit, seen != nil)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", nil // a namespace that is not there needs none
	case away(err), ctx.Err() != nil:
		return "", err
	case apierrors.IsConflict(err):
		return ReasonQuotaTaken, nil
	}
	c.log.WarnContext(ctx, "namespace quota refused", "namespace", limit.Namespace, "error", err)
	if refusal(err, limit.Namespace).Code == rayslice.ReasonNotPermitted {
		return ReasonQuotaRights, nil
	}
	return ReasonQuotaRefused, nil
}

func (c *Controller) applyQuota(ctx context.Context, limit rayslice.NamespaceLimit, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	want := NamespaceQuota(limit)
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": want.APIVersion, "kind": want.Kind,
		"metadata": map[string]any{"name": want.Name, "namespace": want.Namespace, "labels": want.Labels},
		"spec":     want.Spec, // without the empty status that the Go type adds
	})
	if err != nil {
		return err
	}
	_, err = c.clients.core.CoreV1().ResourceQuotas(want.Namespace).Patch(ctx, want.Name, types.ApplyPatchType, manifest,
		metav1.PatchOptions{FieldManager: FieldManager, Force: &force})
	return err
}
