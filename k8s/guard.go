package k8s

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rayslice/rayslice"
)

const (
	guardPause = time.Second     // a policy that was just applied is not applied again sooner: the cache may be behind, or somebody fights over it
	guardStart = 5 * time.Second // how long the first look waits for the policies to be listed
)

// guarded is an apply of a policy that may not have come back through the watch yet.
type guarded struct {
	digest [sha256.Size]byte
	at     time.Time
}

// unguarded is why a policy cannot be kept.
type unguarded struct {
	reason rayslice.Reason
	at     time.Time
}

// waitToSee waits until what the portal can do without has been listed, and goes on soon also without the right to see it.
func waitToSee(ctx context.Context, i cache.SharedIndexInformer) {
	ctx, cancel := context.WithTimeout(ctx, guardStart)
	defer cancel()
	cache.WaitForCacheSync(ctx.Done(), i.HasSynced)
}

// guard keeps the policies of an existing cluster as they should be, and returns why they are not; zero when they are.
// An error is the API server's absence, not its refusal: a cluster that may not be guarded runs all the same, and says so.
func (c *Controller) guard(ctx context.Context, request rayslice.Request, have rayslice.Cluster) (rayslice.Reason, error) {
	if !have.Exists || !have.Ours || have.Deleting {
		return rayslice.Reason{}, nil
	}
	if reason, err := c.guardNamespace(ctx, request); err != nil || !reason.IsZero() {
		return reason, err
	}
	return c.guardCluster(ctx, request, types.UID(have.UID))
}

// guardNamespace keeps the policy that lets nobody in. The RayCluster is applied after it.
func (c *Controller) guardNamespace(ctx context.Context, request rayslice.Request) (rayslice.Reason, error) {
	return c.keepPolicy(ctx, request.ID, NamespacePolicy(request.Namespace, request.Team))
}

// guardCluster keeps the policy that lets in who may.
func (c *Controller) guardCluster(ctx context.Context, request rayslice.Request, uid types.UID) (rayslice.Reason, error) {
	return c.keepPolicy(ctx, request.ID, ClusterPolicy(request, uid, c.cfg.Namespace, c.cfg.KubeRayNamespace))
}

// keepPolicy applies the policy when what stands is not alike. One that was not seen to be ours is applied without
// force, so that somebody else's of the same name is not overwritten.
func (c *Controller) keepPolicy(ctx context.Context, id string, want *networkingv1.NetworkPolicy) (rayslice.Reason, error) {
	digest := policyDigest(want)
	seen := c.caches.policy(want.Namespace, want.Name)
	if seen != nil && seen.digest == digest {
		c.guardStands(policyKey(want))
		return rayslice.Reason{}, nil
	}
	if last, ok := c.unguarded.Load(policyKey(want)); ok && time.Since(last.(unguarded).at) < refusedAgain {
		return last.(unguarded).reason, nil // a thousand clusters need not ask every second
	}
	if c.guardedLately(id, want, digest) {
		return rayslice.Reason{}, nil
	}
	err := c.applyPolicy(ctx, want, seen != nil)
	switch {
	case err == nil:
		c.guards.Store(policyKey(want), guarded{digest, time.Now()})
		c.guardStands(policyKey(want))
		return rayslice.Reason{}, nil
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return rayslice.Reason{}, nil // without its namespace there is nothing to guard
	case away(err):
		return rayslice.Reason{}, &apiError{err}
	}
	return c.notGuarded(ctx, want, err), nil
}

func policyKey(p *networkingv1.NetworkPolicy) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// guardedLately reports whether just this policy was just applied; then another look is due soon. While the policies
// cannot be watched it is applied once per sweep.
func (c *Controller) guardedLately(id string, want *networkingv1.NetworkPolicy, digest [sha256.Size]byte) bool {
	last, ok := c.guards.Load(policyKey(want))
	if !ok || last.(guarded).digest != digest {
		return false
	}
	pause := guardPause
	if !c.caches.policies.HasSynced() {
		pause = c.cfg.Resync
	}
	lately := time.Since(last.(guarded).at) < pause
	if q := c.queue.Load(); q != nil && lately {
		(*q).AddAfter(id, pause)
	}
	return lately
}

func (c *Controller) applyPolicy(ctx context.Context, want *networkingv1.NetworkPolicy, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	manifest, err := policyManifest(want)
	if err != nil {
		return err
	}
	_, err = c.clients.core.NetworkingV1().NetworkPolicies(want.Namespace).Patch(ctx, want.Name, types.ApplyPatchType, manifest,
		metav1.PatchOptions{FieldManager: FieldManager, Force: &force})
	return err
}

// notGuarded turns a refusal into a reason, for the cluster and for the fleet's report.
func (c *Controller) notGuarded(ctx context.Context, want *networkingv1.NetworkPolicy, err error) rayslice.Reason {
	reason := unguardedReason(want, err)
	c.log.WarnContext(ctx, "network policy refused", "namespace", want.Namespace, "policy", want.Name, "reason", reason.Code, "error", err)
	c.unguarded.Store(policyKey(want), unguarded{reason, time.Now()})
	nudge(c.fleetDirty)
	return reason
}

func (c *Controller) guardStands(policy types.NamespacedName) {
	if _, was := c.unguarded.LoadAndDelete(policy); was {
		nudge(c.fleetDirty)
	}
}

func unguardedReason(want *networkingv1.NetworkPolicy, err error) rayslice.Reason {
	if apierrors.IsConflict(err) {
		return rayslice.Reason{Code: ReasonUnguardedTaken, Args: map[string]any{"policy": want.Name}}
	}
	why := refusal(err, want.Namespace)
	if why.Code == rayslice.ReasonNotPermitted {
		return rayslice.Reason{Code: ReasonUnguardedRights}
	}
	return rayslice.Reason{Code: ReasonUnguardedRefused, Detail: why.Detail}
}

// unguardedProblems tells the administrators which namespaces' clusters can be reached from other teams, by cause.
func (c *Controller) unguardedProblems() []rayslice.Reason {
	namespaces, reasons := map[string][]string{}, map[string]rayslice.Reason{}
	c.unguarded.Range(func(policy, last any) bool {
		reason := last.(unguarded).reason
		namespaces[reason.Code] = append(namespaces[reason.Code], policy.(types.NamespacedName).Namespace)
		reasons[reason.Code] = reason
		return true
	})
	var problems []rayslice.Reason
	for _, code := range slices.Sorted(maps.Keys(reasons)) {
		names := slices.Compact(slices.Sorted(slices.Values(namespaces[code])))
		args := maps.Clone(reasons[code].Args)
		if args == nil {
			args = map[string]any{}
		}
		args["namespaces"] = clean(strings.Join(names, ", "))
		problems = append(problems, rayslice.Reason{Code: code, Args: args})
	}
	return problems
}

// forgetGuards drops what no look has come back to: the watch has told of it since, or its cluster is gone.
func (c *Controller) forgetGuards() {
	long := 2*c.cfg.Resync + refusedAgain
	c.guards.Range(func(key, last any) bool {
		if time.Since(last.(guarded).at) > long {
			c.guards.Delete(key)
		}
		return true
	})
	c.unguarded.Range(func(key, last any) bool {
		if time.Since(last.(unguarded).at) > long {
			c.guardStands(key.(types.NamespacedName))
		}
		return true
	})
}
