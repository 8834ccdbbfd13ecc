package simulation

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/rayslice/rayslice/sandbox/gpushare"
)

const patience = 60 * time.Second

func clients(t *testing.T) kubernetes.Interface {
	t.Helper()
	needSandbox(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually waits until the condition holds, or fails with what it last said.
func eventually(t *testing.T, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("still after %s: %v", patience, last)
	}
}

// namespace makes one whose pods may run: the default service account has to be there first.
func namespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "simulation-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{})
	})
	eventually(t, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(made.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return made.Name
}

// machine makes a simulated node of so many A10 cards, found by its name alone, and waits until it is ready.
func machine(t *testing.T, client kubernetes.Interface, cards int, labels map[string]string) string {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "simulation-",
		Labels: map[string]string{
			"type": "kwok", gpushare.ModeLabel: "cgpu",
			"aliyun.accelerator/nvidia_name": "NVIDIA-A10", "aliyun.accelerator/nvidia_mem": "23028MiB",
		},
	}}
	for label, value := range labels {
		node.Labels[label] = value
	}
	offer := corev1.ResourceList{
		"cpu": resource.MustParse("128"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("256"),
		gpushare.Count: *resource.NewQuantity(int64(cards), resource.DecimalSI), gpushare.Memory: *resource.NewQuantity(int64(22*cards), resource.DecimalSI),
	}
	if node.Labels[gpushare.ModeLabel] == "core_mem" {
		offer[gpushare.Core] = *resource.NewQuantity(int64(100*cards), resource.DecimalSI)
	}
	node.Status.Capacity, node.Status.Allocatable = offer, offer
	made, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.CoreV1().Nodes().Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
	eventually(t, func(ctx context.Context) error { return nodeReady(ctx, client, made.Name) })
	return made.Name
}

func nodeReady(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", name)
}

// slicePod asks for slices, one container each, on one node.
func slicePod(node string, labels map[string]string, containers ...corev1.ResourceList) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "slice-", Labels: labels},
		Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}},
		}}},
	}
	for i, limits := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: "container-" + strconv.Itoa(i), Image: "ray", Resources: corev1.ResourceRequirements{Limits: limits},
		})
	}
	return pod
}

func units(memory int) corev1.ResourceList {
	return corev1.ResourceList{gpushare.Memory: *resource.NewQuantity(int64(memory), resource.DecimalSI)}
}

func withCore(memory, percent int) corev1.ResourceList {
	list := units(memory)
	list[gpushare.Core] = *resource.NewQuantity(int64(percent), resource.DecimalSI)
	return list
}

func create(t *testing.T, client kubernetes.Interface, namespace string, pod *corev1.Pod) string {
	t.Helper()
	made, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Name
}

// placed waits for a pod to be bound, and returns its allocation annotation.
func placed(t *testing.T, client kubernetes.Interface, namespace, name string) string {
	t.Helper()
	var text string
	eventually(t, func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("not bound: %s", refusal(pod))
		}
		text = pod.Annotations[gpushare.AllocationAnnotation]
		return nil
	})
	return text
}

func refusal(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// refused waits for a pod to be refused with the given reason.
func refused(t *testing.T, client kubernetes.Interface, namespace, name, reason string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if message := refusal(pod); !strings.Contains(message, reason) {
			return fmt.Errorf("message %q does not say %q", message, reason)
		}
		return nil
	})
}

// Four cards with 12 units left each have 48 in sum, and no room for a slice of 16 until one of them is freed.
func TestCardsNotSums(t *testing.T) {
	client := clients(t)
	space, node := namespace(t, client), machine(t, client, 4, map[string]string{gpushare.PlacementLabel: "spread"})
	first := create(t, client, space, slicePod(node, nil, units(10)))
	freed := placed(t, client, space, first)
	seen := map[string]bool{freed: true}
	for range 3 {
		seen[placed(t, client, space, create(t, client, space, slicePod(node, nil, units(10))))] = true
	}
	if len(seen) != 4 {
		t.Fatalf("spread put four slices at %v", seen)
	}
	large := create(t, client, space, slicePod(node, nil, units(16)))
	refused(t, client, space, large, "1 Insufficient GPU Memory in one device")

	if err := client.CoreV1().Pods(space).Delete(t.Context(), first, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := placed(t, client, space, large), strings.Replace(freed, ":10}", ":16}", 1); got != want {
		t.Errorf("the slice of 16 went to %s, want the freed card, %s", got, want)
	}
}

func TestRefusals(t *testing.T) {
	client := clients(t)
	space := namespace(t, client)
	cgpu, coreMem := machine(t, client, 2, nil), machine(t, client, 2, map[string]string{gpushare.ModeLabel: "core_mem"})
	crowded := machine(t, client, 1, map[string]string{gpushare.MaxPodLabel: "1"})
	placed(t, client, space, create(t, client, space, slicePod(crowded, nil, units(1))))

	tests := map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"larger than a card":         {slicePod(cgpu, nil, units(24)), "Insufficient GPU Memory in one device"},
		"memory only on core_mem":    {slicePod(coreMem, nil, units(8)), "node(s) owns gpu resources are not matched that pod requests"},
		"compute on cgpu":            {slicePod(cgpu, nil, withCore(8, 50)), "node(s) owns gpu resources are not matched that pod requests"},
		"kinds differ":               {slicePod(coreMem, nil, withCore(8, 50), units(8)), "The requested gpu resource types should be consistent for all containers"},
		"one pod per card":           {slicePod(crowded, nil, units(1)), "The number of pods per gpu device has reached the maximum allowed"},
		"does not divide over cards": {slicePod(cgpu, map[string]string{gpushare.CardsLabel: "2"}, units(9)), "9 does not divide over 2 cards"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused(t, client, space, create(t, client, space, test.pod), test.want)
		})
	}
}

func TestAllocations(t *testing.T) {
	client := clients(t)
	space := namespace(t, client)
	tests := map[string]struct {
		mode string
		pod  func(node string) *corev1.Pod
		want map[string]string
	}{
		"memory": {mode: "cgpu", pod: func(node string) *corev1.Pod { return slicePod(node, nil, units(8)) },
			want: map[string]string{gpushare.AllocationAnnotation: `{"0":{"0":8}}`}},
		"memory and compute": {mode: "core_mem", pod: func(node string) *corev1.Pod { return slicePod(node, nil, withCore(8, 50)) },
			want: map[string]string{gpushare.AllocationAnnotation: `{"0":{"0":8}}`, gpushare.CoreAnnotation: `{"0":{"0":50}}`}},
		"two cards": {mode: "cgpu", pod: func(node string) *corev1.Pod {
			return slicePod(node, map[string]string{gpushare.CardsLabel: "2"}, units(30))
		}, want: map[string]string{gpushare.AllocationAnnotation: `{"0":{"0":15,"1":15}}`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := machine(t, client, 2, map[string]string{gpushare.ModeLabel: test.mode})
			pod := create(t, client, space, test.pod(node))
			placed(t, client, space, pod)
			made, err := client.CoreV1().Pods(space).Get(t.Context(), pod, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			test.want[gpushare.AssignedAnnotation], test.want[gpushare.DevicesAnnotation] = "true", `{"0":22,"1":22}`
			for key, want := range test.want {
				if got := made.Annotations[key]; got != want {
					t.Errorf("%s = %q, want %q", key, got, want)
				}
			}
			assumed, err := strconv.ParseInt(made.Annotations[gpushare.AssumeTimeAnnotation], 10, 64)
			if age := time.Since(time.Unix(0, assumed)); err != nil || age < 0 || age > patience {
				t.Errorf("%s = %q, %s ago: %v", gpushare.AssumeTimeAnnotation, made.Annotations[gpushare.AssumeTimeAnnotation], age, err)
			}
		})
	}
}

// Sixty pods at once for room of twelve: three of 7 units on each card of 22, never four.
func TestCrowd(t *testing.T) {
	client := clients(t)
	space, node := namespace(t, client), machine(t, client, 4, nil)
	for range 60 {
		create(t, client, space, slicePod(node, nil, units(7)))
	}
	eventually(t, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(space).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		cards, pending := map[string]int{}, 0
		for i := range pods.Items {
			switch pod := &pods.Items[i]; {
			case pod.Spec.NodeName != "":
				cards[pod.Annotations[gpushare.AllocationAnnotation]]++
			case refusal(pod) != "":
				pending++
			}
		}
		for card, count := range cards {
			if count > 3 {
				t.Fatalf("%d slices of 7 at %s", count, card)
			}
		}
		if len(cards) != 4 || pending != 48 {
			return fmt.Errorf("%d refused, placed at %v", pending, cards)
		}
		return nil
	})
}
