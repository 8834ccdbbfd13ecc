package k8s

import (
	"slices"
	"strings"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/rayslice/rayslice"
)

// deletingLimit is how long a deletion may take before it is shown as hanging.
const deletingLimit = 2 * time.Minute

// problem names the most telling thing that is wrong with a cluster; zero when nothing is.
func problem(request rayslice.Request, seen sighting, have rayslice.Cluster, now time.Time) rayslice.Reason {
	switch {
	case !have.Exists && have.Pods() > 0:
		return rayslice.Reason{Code: rayslice.ReasonPodsRemain, Args: map[string]any{"pods": have.Pods()}}
	case !have.Exists, !have.Ours:
		return rayslice.Reason{}
	case have.Deleting:
		return deletingProblem(seen.cluster, now)
	}
	found := []rayslice.Reason{invalidSpec(seen, have), suspended(seen.cluster), replicaFailure(seen.cluster)}
	if have.Head != nil {
		found = append(found, have.Head.Problem)
	}
	for _, w := range have.Workers {
		found = append(found, w.Problem)
	}
	if have.Head == nil || len(have.Workers) < request.Draft.MinWorkers() {
		found = append(found, lastWarning(seen.events))
	}
	for _, reason := range append(found, rayslice.OperatorProblem(request, have, now)) {
		if !reason.IsZero() {
			return reason
		}
	}
	return rayslice.Reason{}
}

// deletingProblem tells of a deletion that hangs, with who holds it up (ray-project/ray#22505).
func deletingProblem(c *rayv1.RayCluster, now time.Time) rayslice.Reason {
	waited := now.Sub(c.DeletionTimestamp.Time)
	if waited < deletingLimit {
		return rayslice.Reason{}
	}
	return rayslice.Reason{Code: rayslice.ReasonDeletingSlow, Args: map[string]any{
		"minutes":    int(waited.Minutes()),
		"finalizers": clean(strings.Join(c.Finalizers, ", ")),
	}}
}

// invalidSpec finds KubeRay's refusal, which it leaves in an event only (domain facts B.2). Once there is a head, the
// spec has been accepted and an old refusal no longer counts.
func invalidSpec(seen sighting, have rayslice.Cluster) rayslice.Reason {
	if have.Head != nil {
		return rayslice.Reason{}
	}
	for _, e := range clusterWarnings(seen.events) {
		if strings.HasPrefix(e.Reason, "InvalidRayCluster") {
			return rayslice.Reason{Code: rayslice.ReasonInvalidSpec, Detail: e.Message}
		}
	}
	return rayslice.Reason{}
}

func suspended(c *rayv1.RayCluster) rayslice.Reason {
	if c.Spec.Suspend == nil || !*c.Spec.Suspend {
		return rayslice.Reason{}
	}
	return rayslice.Reason{Code: rayslice.ReasonSuspended}
}

// replicaFailure reads the condition KubeRay sets while it cannot make a pod, and takes away afterwards.
func replicaFailure(c *rayv1.RayCluster) rayslice.Reason {
	failure := meta.FindStatusCondition(c.Status.Conditions, string(rayv1.RayClusterReplicaFailure))
	if failure == nil || failure.Status != "True" {
		return rayslice.Reason{}
	}
	return rayslice.ReadRefusal(clean(failure.Message), rayslice.ReasonCreateFailed)
}

// lastWarning quotes the latest warning about the RayCluster itself.
func lastWarning(events []rayslice.Event) rayslice.Reason {
	if warnings := clusterWarnings(events); len(warnings) > 0 {
		latest := warnings[0]
		latest.Message = clean(latest.Message)
		return rayslice.ReadEvent(latest)
	}
	return rayslice.Reason{}
}

func clusterWarnings(events []rayslice.Event) []rayslice.Event {
	var out []rayslice.Event
	for _, e := range events {
		if e.Warning && strings.HasPrefix(e.Object, "RayCluster/") {
			out = append(out, e)
		}
	}
	return out
}

// podProblem says why a pod does not run; zero when it does, or is only on its way.
func podProblem(pod *corev1.Pod, worker rayslice.Worker) rayslice.Reason {
	if !mayHaveProblem(worker) {
		return rayslice.Reason{}
	}
	for _, find := range []func(*corev1.Pod) rayslice.Reason{statusProblem, failedPod, unscheduled, containerProblem} {
		if reason := find(pod); !reason.IsZero() {
			return about(pod.Name, reason)
		}
	}
	return rayslice.Reason{}
}

func mayHaveProblem(worker rayslice.Worker) bool {
	return !worker.Deleting && !worker.Ready && worker.Phase != rayslice.PodSucceeded
}

func about(pod string, reason rayslice.Reason) rayslice.Reason {
	if reason.Args == nil {
		reason.Args = map[string]any{}
	}
	reason.Args["pod"] = pod
	return reason
}

// eventProblem finds what only the pod's events tell.
func eventProblem(worker rayslice.Worker, events []rayslice.Event) rayslice.Reason {
	if !mayHaveProblem(worker) {
		return rayslice.Reason{}
	}
	for _, e := range events {
		if e.Warning && e.Object == "Pod/"+worker.Name {
			if reason := rayslice.ReadCardText(e.Message); !reason.IsZero() {
				return about(worker.Name, reason)
			}
		}
	}
	return rayslice.Reason{}
}

func statusProblem(pod *corev1.Pod) rayslice.Reason {
	texts := []string{pod.Status.Message}
	for _, s := range allStatuses(pod) {
		if s.State.Waiting != nil {
			texts = append(texts, s.State.Waiting.Message)
		}
		for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if t != nil {
				texts = append(texts, t.Message)
			}
		}
	}
	for _, c := range pod.Status.Conditions {
		texts = append(texts, c.Message)
	}
	for _, text := range texts {
		if reason := rayslice.ReadCardText(clean(text)); !reason.IsZero() {
			return reason
		}
	}
	return rayslice.Reason{}
}

func allStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

func failedPod(pod *corev1.Pod) rayslice.Reason {
	if pod.Status.Phase != corev1.PodFailed {
		return rayslice.Reason{}
	}
	if pod.Status.Reason == "Evicted" {
		return rayslice.Reason{Code: rayslice.ReasonEvicted, Detail: clean(pod.Status.Message)}
	}
	if reason := containerProblem(pod); !reason.IsZero() {
		return reason
	}
	return rayslice.Reason{Code: rayslice.ReasonPodFailed, Args: map[string]any{"what": clean(pod.Status.Reason)}, Detail: clean(pod.Status.Message)}
}

func unscheduled(pod *corev1.Pod) rayslice.Reason {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return rayslice.Reason{Code: rayslice.ReasonUnschedulable, Detail: clean(c.Message)}
		}
	}
	return rayslice.Reason{}
}

// containerProblem looks at the containers in the order they start.
func containerProblem(pod *corev1.Pod) rayslice.Reason {
	for _, s := range allStatuses(pod) {
		reason := waitingProblem(pod, s)
		if reason.IsZero() {
			reason = endedProblem(pod, s)
		}
		if !reason.IsZero() {
			reason.Args["container"] = s.Name
			return reason
		}
	}
	return rayslice.Reason{}
}

func waitingProblem(pod *corev1.Pod, s corev1.ContainerStatus) rayslice.Reason {
	waiting := s.State.Waiting
	if waiting == nil {
		return rayslice.Reason{}
	}
	switch waiting.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return rayslice.Reason{}
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError":
		return rayslice.Reason{Code: rayslice.ReasonImagePull, Args: map[string]any{"image": image(pod, s.Name)}, Detail: clean(waiting.Message)}
	case "CrashLoopBackOff":
		return crashLoop(pod, s)
	}
	return rayslice.Reason{Code: rayslice.ReasonContainerFailed, Args: map[string]any{"what": clean(waiting.Reason)}, Detail: clean(waiting.Message)}
}

func crashLoop(pod *corev1.Pod, s corev1.ContainerStatus) rayslice.Reason {
	last := s.LastTerminationState.Terminated
	if last == nil {
		return rayslice.Reason{Code: rayslice.ReasonCrashLoop, Args: map[string]any{"restarts": int(s.RestartCount), "exit_code": "?"}}
	}
	if reason := oomKilled(pod, s.Name, last); !reason.IsZero() {
		return reason
	}
	return rayslice.Reason{
		Code:   rayslice.ReasonCrashLoop,
		Args:   map[string]any{"restarts": int(s.RestartCount), "exit_code": int(last.ExitCode)},
		Detail: clean(last.Message),
	}
}

func endedProblem(pod *corev1.Pod, s corev1.ContainerStatus) rayslice.Reason {
	ended := s.State.Terminated
	if ended == nil && s.State.Running != nil && !s.Ready {
		return oomKilled(pod, s.Name, s.LastTerminationState.Terminated) // restarted and not ready yet
	}
	if ended == nil {
		return rayslice.Reason{}
	}
	if reason := oomKilled(pod, s.Name, ended); !reason.IsZero() || ended.ExitCode == 0 {
		return reason
	}
	return rayslice.Reason{Code: rayslice.ReasonContainerExited, Args: map[string]any{"exit_code": int(ended.ExitCode)}, Detail: clean(ended.Message)}
}

// oomKilled tells of a container killed for main memory, with the limit it hit (ray-project/kuberay#528).
func oomKilled(pod *corev1.Pod, container string, ended *corev1.ContainerStateTerminated) rayslice.Reason {
	if ended == nil || ended.Reason != "OOMKilled" {
		return rayslice.Reason{}
	}
	memory := "?"
	for _, c := range pod.Spec.Containers {
		if quantity, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && c.Name == container {
			memory = quantity.String()
		}
	}
	return rayslice.Reason{Code: rayslice.ReasonOOMKilled, Args: map[string]any{"memory": memory}}
}

func image(pod *corev1.Pod, container string) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return clean(c.Image)
		}
	}
	return "?"
}
