package k8s

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
)

const (
	fleetEvery   = 30 * time.Second // a fleet report is never older while the portal works
	fleetSettles = time.Second      // nodes come and go in bursts
	quiet        = 2 * time.Minute  // a watch silent for longer has missed bookmarks, which come about every minute
	kubeRayEvery = time.Minute      // how often the RayCluster kind is looked for; it may be installed or upgraded under us
)

// reportFleet saves what the nodes say: when it changes, and often enough that it is never old.
func (c *Controller) reportFleet(ctx context.Context) {
	var last fleetReport
	ticker := time.NewTicker(fleetEvery)
	defer ticker.Stop()
	for {
		if err := c.reportOnce(ctx, &last); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "fleet report failed, will try again", "error", err)
		}
		select {
		case <-c.fleetDirty:
		case <-ticker.C:
			last.saved = time.Time{}
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(fleetSettles):
		case <-ctx.Done():
			return
		}
	}
}

// fleetReport remembers what was reported last.
type fleetReport struct {
	digest  [sha256.Size]byte
	saved   time.Time
	kubeRay rayslice.Reason // what is wrong with the RayCluster kind
	looked  time.Time       // when it was looked for
}

func (c *Controller) reportOnce(ctx context.Context, last *fleetReport) error {
	if time.Since(last.looked) >= kubeRayEvery || !last.kubeRay.IsZero() {
		if reason, err := c.kubeRayProblem(ctx); err == nil { // on error the last word stands; Health says that the server is away
			last.kubeRay, last.looked = reason, time.Now()
		}
	}
	fleet := observeFleet(c.nodes(), c.pods(), c.caches.foreign.all(), c.cfg.Catalogue, c.cfg.MaxPodsPerCard, c.seenAt(time.Now()))
	fleet.PodsUnread = !c.caches.pods.HasSynced() || !c.caches.foreign.read()
	if !last.kubeRay.IsZero() {
		fleet.Problems = append([]rayslice.Reason{last.kubeRay}, fleet.Problems...)
	}
	fleet.Guards = c.unguardedProblems()
	if problems := c.quotaProblems.Load(); problems != nil {
		fleet.Guards = append(fleet.Guards, *problems...)
	}
	if unmanaged := c.unmanaged.Load(); unmanaged != nil {
		fleet.Unmanaged = *unmanaged
	}
	if orphans := c.orphans.Load(); orphans != nil {
		fleet.Orphans = *orphans
	}
	digest, err := fleetDigest(fleet)
	if err != nil || digest == last.digest && !last.saved.IsZero() {
		return err
	}
	if err := c.cfg.Store.SaveFleet(ctx, rayslice.System, fleet); err != nil {
		return err
	}
	last.digest, last.saved = digest, time.Now()
	return nil
}

// seenAt returns how fresh the caches are: now, or when a watch that fails or has fallen silent last showed life.
func (c *Controller) seenAt(now time.Time) time.Time {
	at := now
	for _, p := range c.caches.pulses {
		if age := p.age(now, c.started); !p.well(age) && now.Add(-age).Before(at) {
			at = now.Add(-age)
		}
	}
	return at
}

// fleetDigest ignores when it was looked.
func fleetDigest(fleet rayslice.Fleet) ([sha256.Size]byte, error) {
	fleet.ObservedAt = time.Time{}
	text, err := json.Marshal(fleet)
	return sha256.Sum256(text), err
}

func (c *Controller) nodes() []*corev1.Node {
	list := c.caches.nodes.GetIndexer().List()
	nodes := make([]*corev1.Node, 0, len(list))
	for _, obj := range list {
		nodes = append(nodes, obj.(*corev1.Node))
	}
	return nodes
}

// node returns what the cache holds of one node; nil when there is none.
func (c *Controller) node(name string) *corev1.Node {
	obj, ok, _ := c.caches.nodes.GetIndexer().GetByKey(name)
	if !ok {
		return nil
	}
	return obj.(*corev1.Node)
}

func (c *Controller) pods() []*podView {
	list := c.caches.pods.GetIndexer().List()
	pods := make([]*podView, 0, len(list))
	for _, obj := range list {
		pods = append(pods, obj.(*podView))
	}
	return pods
}

// kubeRayProblem looks whether the API server knows RayClusters in the version we speak (ray-project/kuberay#2105).
func (c *Controller) kubeRayProblem(ctx context.Context) (rayslice.Reason, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var group metav1.APIGroup
	err := c.clients.core.Discovery().RESTClient().Get().AbsPath("/apis/" + rayv1.GroupVersion.Group).Do(ctx).Into(&group)
	if err != nil && !apierrors.IsNotFound(err) {
		return rayslice.Reason{}, err
	}
	var versions []string
	for _, v := range group.Versions {
		versions = append(versions, v.Version)
	}
	return kubeRayVersions(versions), nil
}

func kubeRayVersions(versions []string) rayslice.Reason {
	switch {
	case len(versions) == 0:
		return rayslice.Reason{Code: rayslice.ReasonKubeRayMissing}
	case !slices.Contains(versions, rayv1.GroupVersion.Version):
		return rayslice.Reason{Code: rayslice.ReasonKubeRayVersion, Args: map[string]any{"versions": clean(strings.Join(versions, ", "))}}
	}
	return rayslice.Reason{}
}
