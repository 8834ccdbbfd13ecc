package k8s

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/rayslice/rayslice"
)

const byRequest = "request" // name of the pods' index

// caches hold what the API server says, slimmed, shared by everything in the portal: the number of viewers never adds
// a call.
type caches struct {
	clusters cache.SharedIndexInformer
	pods     cache.SharedIndexInformer
	nodes    cache.SharedIndexInformer
	policies cache.SharedIndexInformer
	quotas   cache.SharedIndexInformer // nil = the portal keeps none
	events   *eventStore
	made     atomic.Int64 // unix nanoseconds of when KubeRay made its latest pod; 0 = none seen
	foreign  *foreignPods

	pulses     []*pulse // of clusters, pods, nodes and the two event watches
	quotaPulse *pulse
	spare      []*pulse // of what the portal can do without, so that missing rights to it do not make it look cut off
	feeds      []*cache.Reflector
}

// newCaches prepares the watches; nothing is read before run. wake is called with the id of every request something
// happened to, fleet when a node changed, alive when a watch works again.
func newCaches(c clients, silence time.Duration, wake func(id string), fleet, alive func()) *caches {
	k := &caches{events: newEventStore(wake), foreign: newForeignPods(fleet)}
	newPulse := func(name string) *pulse {
		p := &pulse{name: name, silence: silence, onLife: alive}
		k.pulses = append(k.pulses, p)
		return p
	}
	labelled := func(o *metav1.ListOptions) { o.LabelSelector = LabelRequest }
	all := func(*metav1.ListOptions) {}

	// All RayClusters, not only ours: so it is known without asking that a name is free, and seen when somebody takes our
	// label off. Of other people's only the name is kept.
	rays := c.ray.RayV1().RayClusters(metav1.NamespaceAll)
	k.clusters = informer(newPulse("rayclusters").listWatch(listOf(rays.List), rays.Watch, all), &rayv1.RayCluster{}, slimCluster)
	pods := c.core.CoreV1().Pods(metav1.NamespaceAll)
	k.pods = informer(newPulse("pods").listWatch(listOf(pods.List), pods.Watch, labelled), &corev1.Pod{}, slimPod)
	foreign := newPulse("foreign pods").listWatch(listForeign(pods), pods.Watch, foreignOnly)
	k.feeds = append(k.feeds, cache.NewNamedReflector("pods/foreign", foreign, &corev1.Pod{}, k.foreign, 0))
	nodes := c.core.CoreV1().Nodes()
	k.nodes = informer(newPulse("nodes").listWatch(listOf(nodes.List), nodes.Watch, all), &corev1.Node{}, slimNode)

	events := c.core.CoreV1().Events(metav1.NamespaceAll)
	for _, kind := range []string{"RayCluster", "Pod"} {
		about := func(o *metav1.ListOptions) { o.FieldSelector = "involvedObject.kind=" + kind }
		p := newPulse("events of " + kind)
		p.mute = true
		lw := p.listWatch(listOf(events.List), events.Watch, about)
		k.feeds = append(k.feeds, cache.NewNamedReflector("events/"+kind, lw, &corev1.Event{}, k.events.of(kind), 0))
	}

	teams := func(o *metav1.ListOptions) { o.LabelSelector = LabelTeam }
	policies, spare := c.core.NetworkingV1().NetworkPolicies(metav1.NamespaceAll), &pulse{name: "networkpolicies", silence: silence, onLife: alive}
	k.policies = informer(spare.listWatch(listOf(policies.List), policies.Watch, teams), &networkingv1.NetworkPolicy{}, slimPolicy)
	k.spare = append(k.spare, spare)

	wakeOwner := func(obj any) { wake(idOf(obj)) }
	must(k.clusters.AddEventHandler(onChange(wakeOwner)))
	must(k.pods.AddEventHandler(onChange(func(obj any) { k.noteMade(obj); wakeOwner(obj) })))
	must(k.pods.AddEventHandler(onMove(fleet)))
	must(k.nodes.AddEventHandler(onChange(func(any) { fleet() })))
	must(k.policies.AddEventHandler(onChange(func(obj any) {
		if id := idOf(obj); id != "" {
			wake(id)
		} else {
			alive() // a namespace's own: all its clusters are concerned
		}
	})))
	return k
}

// run keeps the caches up to date until ctx ends; running is done when nothing of it is left.
func (k *caches) run(ctx context.Context, running *sync.WaitGroup) {
	informers := []cache.SharedIndexInformer{k.clusters, k.pods, k.nodes, k.policies}
	if k.quotas != nil {
		informers = append(informers, k.quotas)
	}
	for _, i := range informers {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	for _, feed := range k.feeds {
		running.Go(func() { feed.RunWithContext(ctx) })
	}
}

// synced reports whether RayClusters and pods have been read once.
func (k *caches) synced() bool { return k.clusters.HasSynced() && k.pods.HasSynced() }

// watchQuotas adds the ResourceQuotas of our name, whosesoever they are; changed is called when one changes.
func (k *caches) watchQuotas(c clients, silence time.Duration, changed func()) {
	k.quotaPulse = &pulse{name: "resourcequotas", silence: silence, onLife: changed}
	k.spare = append(k.spare, k.quotaPulse)
	quotas := c.core.CoreV1().ResourceQuotas(metav1.NamespaceAll)
	named := func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + guardName } // the only ones the rights are for
	k.quotas = informer(k.quotaPulse.listWatch(listOf(quotas.List), quotas.Watch, named), &corev1.ResourceQuota{}, slimQuota)
	must(k.quotas.AddEventHandler(onChange(func(any) { changed() })))
}

// quota returns what the cache holds of the namespace's ResourceQuota of our name; nil when there is none.
func (k *caches) quota(namespace string) *quotaView {
	obj, ok, _ := k.quotas.GetIndexer().GetByKey(namespace + "/" + guardName)
	if !ok {
		return nil
	}
	return obj.(*quotaView)
}

// policy returns what the cache holds of a NetworkPolicy of ours; nil when there is none.
func (k *caches) policy(namespace, name string) *policyView {
	obj, ok, _ := k.policies.GetIndexer().GetByKey(namespace + "/" + name)
	if !ok {
		return nil
	}
	return obj.(*policyView)
}

// see returns what the caches hold about the request.
func (k *caches) see(request rayslice.Request) sighting {
	var seen sighting
	if obj, ok, _ := k.clusters.GetIndexer().GetByKey(request.Namespace + "/" + request.ObjectName()); ok {
		seen.cluster = obj.(*rayv1.RayCluster)
	}
	found, _ := k.pods.GetIndexer().ByIndex(byRequest, request.ID)
	for _, obj := range found {
		if pod := obj.(*podView); pod.Namespace == request.Namespace {
			seen.pods = append(seen.pods, pod)
		}
	}
	seen.events = k.events.about(request.Namespace, request.ID)
	if made := k.made.Load(); made != 0 {
		seen.operator = time.Unix(0, made).UTC()
	}
	return seen
}

// noteMade remembers when KubeRay last made a pod: that it works, while a cluster waits for its turn.
func (k *caches) noteMade(obj any) {
	pod, ok := obj.(*podView)
	if !ok || pod.kind == "" {
		return
	}
	at := pod.worker.CreatedAt.UnixNano()
	for last := k.made.Load(); at > last && !k.made.CompareAndSwap(last, at); {
		last = k.made.Load()
	}
}

func informer(lw *cache.ListWatch, kind runtime.Object, slim cache.TransformFunc) cache.SharedIndexInformer {
	i := cache.NewSharedIndexInformer(lw, kind, 0, cache.Indexers{byRequest: func(obj any) ([]string, error) {
		if id := idOf(obj); id != "" {
			return []string{id}, nil
		}
		return nil, nil
	}})
	if err := i.SetTransform(slim); err != nil {
		panic(err) // only after it has been started
	}
	return i
}

// listOf turns a typed List into the one client-go's reflectors want.
func listOf[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) listFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}
}

func onChange(do func(obj any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    do,
		UpdateFunc: func(_, obj any) { do(obj) },
		DeleteFunc: do,
	}
}

// idOf returns the id of the request an object belongs to, or has the name of; also of one whose deletion was only
// noticed afterwards.
func idOf(obj any) string {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	switch obj := obj.(type) {
	case *podView:
		return obj.request
	case *policyView:
		return obj.request
	case *rayv1.RayCluster:
		return requestNamed(obj.Name)
	}
	return ""
}

func must(_ cache.ResourceEventHandlerRegistration, err error) {
	if err != nil {
		panic(err) // only after the informer has been stopped
	}
}
