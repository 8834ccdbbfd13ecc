package k8s

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
)

// Labels KubeRay puts on pods (domain facts B.4).
const (
	labelGroup    = "ray.io/group"
	labelNodeType = "ray.io/node-type"
	typeHead      = "head"
	typeWorker    = "worker"
)

// Annotations that say on which card a pod is, newest generation first (domain facts A.3).
const (
	annotationAllocation = "scheduler.framework.gpushare.allocation"
	annotationCardIndex  = "ALIYUN_COM_GPU_MEM_IDX"
	annotationCardUnits  = "ALIYUN_COM_GPU_MEM_POD"
	annotationDevices    = "gpushare.alibabacloud.com/device-resource" // what every card of the pod's node offers
	annotationV3         = "gpushare.alibabacloud.com/gpumemory"
)

// A sighting is what the caches, or a live read, hold about one request.
type sighting struct {
	cluster *rayv1.RayCluster // nil = no object has the request's name
	pods    []*podView        // pods with the request's label, in its namespace
	events  []rayslice.Event  // latest first

	operator time.Time // when KubeRay last made a pod, whosesoever; zero = not seen
}

// observe turns a sighting into what Plan and the pages read. It is pure; HeadAnswers, RayVersion and Confirmed are
// for the caller to fill in.
func observe(request rayslice.Request, seen sighting, now time.Time) rayslice.Cluster {
	have := rayslice.Cluster{RequestID: request.ID, ObservedAt: now.UTC(), Events: seen.events}
	if c := seen.cluster; c != nil {
		have.Exists = true
		have.Ours = owned(request, c)
		have.UID = string(c.UID)
		have.Deleting = c.DeletionTimestamp != nil
		have.CreatedAt = c.CreationTimestamp.UTC()
		have.Service = c.Name + "-head-svc." + c.Namespace + ".svc"
		have.Touched = c.Status.ObservedGeneration > 0
		have.Conditions = kubeRayConditions(c)
	}
	have.Head, have.Workers = observePods(seen)
	if have.Exists && (have.Head == nil || len(have.Workers) < request.Draft.MinWorkers()) {
		have.OperatorAt = seen.operator
	}
	have.Problem = problem(request, seen, have, now)
	return have
}

// kubeRayConditions copies what KubeRay says of the object.
func kubeRayConditions(c *rayv1.RayCluster) []rayslice.KubeRayCondition {
	var out []rayslice.KubeRayCondition
	for _, condition := range c.Status.Conditions {
		out = append(out, rayslice.KubeRayCondition{
			Type: clean(condition.Type), True: condition.Status == metav1.ConditionTrue, Reason: clean(condition.Reason),
			Message: clean(condition.Message), At: condition.LastTransitionTime.UTC(),
		})
	}
	return out
}

// owned reports whether the object is the request's: by its label, or, when somebody has taken the label off, by the
// UID recorded before.
func owned(request rayslice.Request, c *rayv1.RayCluster) bool {
	return c.Labels[LabelRequest] == request.ID || (request.ClusterUID != "" && string(c.UID) == request.ClusterUID)
}

func observePods(seen sighting) (head *rayslice.Worker, workers []rayslice.Worker) {
	for _, pod := range seen.pods {
		worker := pod.worker
		if reason := eventProblem(worker, seen.events); !reason.IsZero() {
			worker.Problem = reason
		}
		switch pod.kind {
		case typeHead:
			if head == nil || newer(worker, *head) {
				head = &worker
			}
		case typeWorker:
			workers = append(workers, worker)
		}
	}
	slices.SortFunc(workers, func(a, b rayslice.Worker) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	return head, workers
}

// newer prefers the head that stays over the one that goes, then the younger one.
func newer(a, b rayslice.Worker) bool {
	if a.Deleting != b.Deleting {
		return b.Deleting
	}
	return a.CreatedAt.After(b.CreatedAt)
}

func observePod(pod *corev1.Pod) rayslice.Worker {
	worker := rayslice.Worker{
		Name:       pod.Name,
		UID:        string(pod.UID),
		Group:      pod.Labels[labelGroup],
		Phase:      rayslice.PodPhase(pod.Status.Phase),
		Ready:      podReady(pod),
		Deleting:   pod.DeletionTimestamp != nil,
		Node:       pod.Spec.NodeName,
		IP:         pod.Status.PodIP,
		Slice:      podSlice(pod),
		Placements: placements(pod),
		Restarts:   restarts(pod),
		CreatedAt:  pod.CreationTimestamp.UTC(),
	}
	worker.Problem = podProblem(pod, worker)
	return worker
}

func podReady(pod *corev1.Pod) bool {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	return pod.Status.Phase == corev1.PodRunning && i >= 0 && pod.Status.Conditions[i].Status == corev1.ConditionTrue
}

func restarts(pod *corev1.Pod) int {
	n := 0
	for _, s := range pod.Status.ContainerStatuses {
		n += int(s.RestartCount)
	}
	return n
}

// podSlice reads what the running pod asks for, which an edit of the RayCluster does not change (domain facts B.5).
func podSlice(pod *corev1.Pod) rayslice.Slice {
	total, core, whole := limit(pod, ResourceGPUMem), limit(pod, ResourceGPUCore), limit(pod, ResourceGPU)
	pool := pod.Labels[LabelPool]
	switch {
	case total > 0:
		cards := 1
		if n, err := strconv.Atoi(pod.Labels[LabelGPUCount]); err == nil && n > 0 && n <= total {
			cards = n
		}
		return rayslice.Slice{Pool: pool, GiB: total / cards, CorePercent: core, Cards: cards}
	case whole > 0:
		return rayslice.Slice{Pool: pool, Cards: whole}
	}
	return rayslice.Slice{}
}

// limit sums an extended resource over the pod's containers, as ACK's scheduler does.
func limit(pod *corev1.Pod, name corev1.ResourceName) int {
	n := int64(0)
	for _, c := range pod.Spec.Containers {
		if quantity, ok := c.Resources.Limits[name]; ok {
			n += max(0, quantity.Value())
		}
	}
	return int(n)
}

// placements reads on which cards the pod is. Nothing legible means unknown, never card 0.
func placements(pod *corev1.Pod) []rayslice.Placement {
	if text, ok := pod.Annotations[annotationAllocation]; ok {
		return placementsV2(text)
	}
	card, errCard := strconv.Atoi(pod.Annotations[annotationCardIndex])
	units, errUnits := strconv.Atoi(pod.Annotations[annotationCardUnits])
	if errCard != nil || errUnits != nil || !plausible(card, units) {
		return nil
	}
	return []rayslice.Placement{{Card: card, GiB: units}}
}

// placementsV2 reads {"<container>":{"<card>":<units>}} and sums over the containers.
func placementsV2(text string) []rayslice.Placement {
	var containers map[string]map[string]int
	if json.Unmarshal([]byte(text), &containers) != nil {
		return nil
	}
	sums := map[int]int{}
	for _, cards := range containers {
		for index, units := range cards {
			card, err := strconv.Atoi(index)
			if err != nil || !plausible(card, units) {
				return nil
			}
			sums[card] += units
		}
	}
	var out []rayslice.Placement
	for card, units := range sums {
		out = append(out, rayslice.Placement{Card: card, GiB: units})
	}
	slices.SortFunc(out, func(a, b rayslice.Placement) int { return cmp.Compare(a.Card, b.Card) })
	return out
}

// plausible refuses the -1 of a failed allocation and numbers no machine has.
func plausible(card, units int) bool { return card >= 0 && card < 1024 && units > 0 && units < 1<<20 }
