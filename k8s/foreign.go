package k8s

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rayslice/rayslice"
)

// foreignPods keeps the live pods without our label that ask for GPUs: a card is shared by pods of many. All other pods of
// the cluster pass by here and are dropped at once, so that they cost no memory.
type foreignPods struct {
	changed func() // called when something other than the same again was told

	mu     sync.RWMutex
	by     map[types.NamespacedName]*foreignPod
	listed bool
}

// foreignPod is what is kept of one.
type foreignPod struct {
	hold      rayslice.Hold
	object    string // what controls it, "RayCluster/demo", or the pod itself
	charge    rayslice.Charge
	createdAt time.Time
	devices   string // what the scheduler says each card of the node offers
}

func newForeignPods(changed func()) *foreignPods {
	return &foreignPods{changed: changed, by: map[types.NamespacedName]*foreignPod{}}
}

// foreignOnly selects pods that are not ours and have not ended: the API server tells of one that ends as if it were deleted.
func foreignOnly(o *metav1.ListOptions) {
	o.LabelSelector = "!" + LabelRequest
	o.FieldSelector = "status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)
}

// foreignPage is how many pods one answer of the API server holds while they are listed.
const foreignPage = 500

type podLister interface {
	List(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error)
}

// listForeign lists page by page and keeps what asks for GPUs, so that the list of a large cluster is never in memory. The
// options say what to select; where to begin is for this function alone.
func listForeign(pods podLister) listFunc {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		options.ResourceVersion, options.ResourceVersionMatch, options.Continue, options.Limit = "", "", "", foreignPage
		kept := &corev1.PodList{}
		for {
			page, err := pods.List(ctx, options)
			if err != nil {
				return nil, err
			}
			kept.ListMeta = metav1.ListMeta{ResourceVersion: page.ResourceVersion}
			for i := range page.Items {
				if viewForeign(&page.Items[i]) != nil {
					kept.Items = append(kept.Items, page.Items[i])
				}
			}
			if options.Continue = page.Continue; options.Continue == "" {
				return kept, nil
			}
		}
	}
}

// viewForeign returns what is kept of a pod; nil when it holds no GPU, or none any more.
func viewForeign(pod *corev1.Pod) *foreignPod {
	slice := podSlice(pod)
	if slice == (rayslice.Slice{}) || pod.Labels[LabelRequest] != "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	object := "Pod/" + pod.Name
	if owner := metav1.GetControllerOf(pod); owner != nil {
		object = owner.Kind + "/" + owner.Name
	}
	return &foreignPod{
		hold: rayslice.Hold{
			Foreign: true, Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName,
			Slice: slice, Placements: placements(pod), Deleting: pod.DeletionTimestamp != nil,
		},
		object: object, charge: rayslice.Charge{GiB: limit(pod, ResourceGPUMem), Cards: limit(pod, ResourceGPU)}, createdAt: pod.CreationTimestamp.UTC(),
		devices: pod.Annotations[annotationDevices],
	}
}

// all returns the pods, sorted by namespace and name.
func (f *foreignPods) all() []*foreignPod {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make([]*foreignPod, 0, len(f.by))
	for _, pod := range f.by {
		all = append(all, pod)
	}
	slices.SortFunc(all, func(a, b *foreignPod) int {
		return cmp.Or(cmp.Compare(a.hold.Namespace, b.hold.Namespace), cmp.Compare(a.hold.Pod, b.hold.Pod))
	})
	return all
}

// read reports whether all have been listed once.
func (f *foreignPods) read() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.listed
}

// Add is what a reflector tells of a new pod.
func (f *foreignPods) Add(obj any) error { return f.Update(obj) }

// Update is what a reflector tells of a changed pod.
func (f *foreignPods) Update(obj any) error {
	if pod, ok := obj.(*corev1.Pod); ok {
		f.put(podKey(pod), viewForeign(pod))
	}
	return nil
}

// Delete is what a reflector tells of a pod that is gone, has ended, or has become ours.
func (f *foreignPods) Delete(obj any) error {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		f.put(podKey(pod), nil)
	}
	return nil
}

// Replace is what a reflector tells after a list.
func (f *foreignPods) Replace(list []any, _ string) error {
	by := map[types.NamespacedName]*foreignPod{}
	for _, obj := range list {
		if pod, ok := obj.(*corev1.Pod); ok {
			if view := viewForeign(pod); view != nil {
				by[podKey(pod)] = view
			}
		}
	}
	f.mu.Lock()
	f.by, f.listed = by, true
	f.mu.Unlock()
	f.changed()
	return nil
}

// Resync does nothing: what is kept is looked at whenever it changes.
func (f *foreignPods) Resync() error { return nil }

// put keeps what a pod has now; nil = nothing.
func (f *foreignPods) put(name types.NamespacedName, pod *foreignPod) {
	f.mu.Lock()
	before := f.by[name]
	if pod == nil {
		delete(f.by, name)
	} else {
		f.by[name] = pod
	}
	f.mu.Unlock()
	if (before == nil) != (pod == nil) || pod != nil && !sameHold(before.hold, pod.hold) {
		f.changed()
	}
}

func podKey(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func sameHold(a, b rayslice.Hold) bool {
	return a.Node == b.Node && a.Slice == b.Slice && a.Deleting == b.Deleting && slices.Equal(a.Placements, b.Placements)
}

// hold returns what one of our pods has; false when it has, and waits for, nothing.
func (p *podView) hold() (rayslice.Hold, bool) {
	w := p.worker
	if w.Slice == (rayslice.Slice{}) || w.Phase == rayslice.PodSucceeded || w.Phase == rayslice.PodFailed {
		return rayslice.Hold{}, false
	}
	return rayslice.Hold{RequestID: p.request, Team: p.team, Namespace: p.Namespace, Pod: p.Name, Node: w.Node, Slice: w.Slice, Placements: w.Placements, Deleting: w.Deleting}, true
}

// holds returns what live pods have of the cards, sorted by node, and how many foreign ones wait somewhere.
func holds(pods []*podView, others []*foreignPod) (found []rayslice.Hold, strays int) {
	for _, pod := range pods {
		if hold, ok := pod.hold(); ok {
			found = append(found, hold)
		}
	}
	for _, pod := range others {
		if pod.hold.Node == "" {
			strays++
		} else {
			found = append(found, pod.hold)
		}
	}
	slices.SortFunc(found, func(a, b rayslice.Hold) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return found, strays
}

// onMove calls do when one of our pods has got, or lost, a part of a card.
func onMove(do func()) cache.ResourceEventHandler {
	hold := func(obj any) (rayslice.Hold, bool) {
		if pod, ok := obj.(*podView); ok {
			return pod.hold()
		}
		return rayslice.Hold{}, true // deleted while nobody looked
	}
	one := func(obj any) {
		if _, ok := hold(obj); ok {
			do()
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: one, DeleteFunc: one, UpdateFunc: func(old, obj any) {
		before, had := hold(old)
		if now, has := hold(obj); had != has || !sameHold(before, now) {
			do()
		}
	}}
}
