package gpushare

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Name is the plugin's name in a scheduler configuration.
const Name = "GPUShare"

var (
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.ReservePlugin     = (*Plugin)(nil)
	_ framework.PreBindPlugin     = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
)

// Plugin places pods that ask for GPU slices. Pods that ask for none pass it untouched.
type Plugin struct {
	handle framework.Handle
	placed placements
}

// New builds the plugin; it takes no arguments of its own.
func New(_ context.Context, _ runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	plugin := &Plugin{handle: handle, placed: placements{byPod: map[types.UID]Allocation{}}}
	_, err := handle.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				plugin.placed.forget(pod.UID)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return plugin, nil
}

// Name is the plugin's name in a scheduler configuration.
func (*Plugin) Name() string { return Name }

// EventsToRegister wakes refused pods when a card may have gained room.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel}},
	}, nil
}

const stateKey fwk.StateKey = Name

// state carries a pod's request from PreFilter through one scheduling attempt.
type state struct {
	request     Request
	annotations map[string]string // set by Reserve
}

// Clone returns the state itself: nothing changes it while copies are in use.
func (s *state) Clone() fwk.StateData { return s }

func stateOf(cycle fwk.CycleState) (*state, bool) {
	data, err := cycle.Read(stateKey)
	if err != nil {
		return nil, false
	}
	s, ok := data.(*state)
	return s, ok
}

// PreFilter reads the pod's request once, refuses what no node could take, and skips the plugin for everybody else.
func (p *Plugin) PreFilter(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*framework.PreFilterResult, *fwk.Status) {
	request, err := RequestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if len(request.Containers) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	cycle.Write(stateKey, &state{request: request})
	return nil, nil
}

// PreFilterExtensions is nil: Filter looks at the node's pods afresh each time.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter refuses nodes on which no card has room.
func (p *Plugin) Filter(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, ok := stateOf(cycle)
	if !ok {
		return nil
	}
	offer, err := NodeOf(info.Node())
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if err := offer.Admits(s.request); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if _, err := offer.Place(s.request, p.placed.on(info)); err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	return nil
}

// Reserve picks the cards and holds them until the annotations are written.
func (p *Plugin) Reserve(_ context.Context, cycle fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	s, ok := stateOf(cycle)
	if !ok {
		return nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("node %s: %w", nodeName, err))
	}
	offer, err := NodeOf(info.Node())
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	cards, err := offer.Place(s.request, p.placed.on(info))
	if err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	allocation := Allocate(s.request, cards)
	if s.annotations, err = allocation.Annotations(offer, time.Now()); err != nil {
		return fwk.AsStatus(err)
	}
	p.placed.put(pod.UID, allocation)
	return nil
}

// Unreserve lets the cards go when the pod was not bound after all.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.placed.forget(pod.UID)
}

// PreBindPreFlight skips PreBind for pods without a slice.
func (p *Plugin) PreBindPreFlight(_ context.Context, cycle fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	if _, ok := stateOf(cycle); !ok {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// PreBind writes the annotations, so that no pod ever runs on a card that its annotations do not name.
func (p *Plugin) PreBind(ctx context.Context, cycle fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	s, ok := stateOf(cycle)
	if !ok {
		return nil
	}
	// The UID keeps the patch off a new pod of the same name.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": s.annotations}})
	if err != nil {
		return fwk.AsStatus(err)
	}
	_, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Name})
	return fwk.AsStatus(err)
}

// placements remembers by pod what this scheduler has placed, because the scheduler counts a pod on its node from the
// moment of Reserve, while the annotations arrive a round trip later. What it did not place itself it learns from
// annotations.
type placements struct {
	mu    sync.Mutex
	byPod map[types.UID]Allocation
}

func (p *placements) put(pod types.UID, allocation Allocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byPod[pod] = allocation
}

func (p *placements) forget(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byPod, pod)
}

// on lists what the live pods of a node hold. Terminating pods still hold their cards; pods that nobody recorded are not
// counted, as on ACK.
func (p *placements) on(info fwk.NodeInfo) []Allocation {
	p.mu.Lock()
	defer p.mu.Unlock()
	var held []Allocation
	for _, podInfo := range info.GetPods() {
		pod := podInfo.GetPod()
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		allocation, ok := p.byPod[pod.UID]
		if !ok {
			if allocation, ok = AllocationOf(pod); ok {
				p.byPod[pod.UID] = allocation
			}
		}
		if ok {
			held = append(held, allocation)
		}
	}
	return held
}
