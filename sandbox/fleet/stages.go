package fleet

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayslice/rayslice/sandbox/manifests"
)

// Stages are KWOK's instructions for playing kubelet at the fleet's pace: how nodes become and stay ready, and how pods
// start, complete, fail on request (label pod-container-running-failed.stage.kwok.x-k8s.io=true) and stop.
func (f Fleet) Stages() ([]*unstructured.Unstructured, error) {
	var s stageSet
	s.add("node", "node-initialize")
	s.add("node", "node-heartbeat-with-lease")
	s.add("chaos", "pod-container-running-failed")
	f.addStart(&s)
	f.addStop(&s)
	return s.stages, errors.Join(s.errs...)
}

// addStart has pods pass all phases that a kubelet shows, and wait in the last one. Without a pace they are Running in a
// single step, the least work for a benchmark.
func (f Fleet) addStart(s *stageSet) {
	shortest, longest, err := f.PodStart.Bounds()
	if err != nil || longest == 0 {
		s.add("fast", "pod-ready")
		s.add("fast", "pod-complete")
		return
	}
	for _, name := range []string{"pod-create", "pod-init-container-running", "pod-init-container-completed"} {
		s.pace(s.add("general", name), 0, 0)
	}
	s.pace(s.add("general", "pod-ready"), shortest, longest)
	s.add("general", "pod-complete")
}

func (f Fleet) addStop(s *stageSet) {
	shortest, longest, err := f.PodStop.Bounds()
	if err != nil || longest == 0 {
		s.add("fast", "pod-delete")
		return
	}
	stage := s.add("general", "pod-delete")
	// KWOK's own stage takes any part of the grace period, up to 30 s; Ray's processes end soon after SIGTERM.
	unstructured.RemoveNestedField(stage.Object, "spec", "delay", "jitterDurationFrom")
	s.pace(stage, shortest, longest)
}

type stageSet struct {
	stages []*unstructured.Unstructured
	errs   []error
}

func (s *stageSet) add(folder, name string) *unstructured.Unstructured {
	stage, err := manifests.Stage(folder, name)
	if err != nil {
		s.errs = append(s.errs, err)
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	s.stages = append(s.stages, stage)
	return stage
}

// pace sets how long a stage takes. What KWOK calls jitter is the longest time, not a part added to the delay.
func (s *stageSet) pace(stage *unstructured.Unstructured, shortest, longest time.Duration) {
	for field, value := range map[string]time.Duration{"durationMilliseconds": shortest, "jitterDurationMilliseconds": longest} {
		err := unstructured.SetNestedField(stage.Object, value.Milliseconds(), "spec", "delay", field)
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("stage %s: %w", stage.GetName(), err))
		}
	}
}
