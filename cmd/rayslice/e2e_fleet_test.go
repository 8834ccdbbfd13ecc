package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// fleet is machines of a test's own on the shared sandbox, which no pod of another test tolerates, and the pods on them.
type fleet struct {
	*installation
	model  string // label that picks the machines
	random *rand.Rand
	live   []string // foreign pods that were not deleted yet
	made   int
	names  map[string]string // of real clusters, by the id of their request
}

// fleetNodes are the machines: a mode, cards, what they offer, and most pods per card ("" = no label).
var fleetNodes = []struct {
	mode, maxPods string
	cards, units  int
}{
	{"cgpu", "", 4, 22}, {"cgpu", "3", 4, 22}, {"cgpu", "3", 2, 22}, {"core_mem", "", 2, 22}, {"default", "", 4, 0},
}

const fleetCatalogue = `
pools:
  - {name: own-mem, model: Test, mode: cgpu, card_gib: 22, sizes: [2, 4, 8, 16, 22], max_cards: 1, node_selector: {ack.node.gpu.schedule: cgpu, aliyun.accelerator/nvidia_name: MODEL}}
  - {name: own-core, model: Test, mode: core_mem, card_gib: 22, sizes: [4, 8], max_cards: 1, node_selector: {ack.node.gpu.schedule: core_mem, aliyun.accelerator/nvidia_name: MODEL}}
  - {name: own-whole, model: Test, mode: whole, card_gib: 80, max_cards: 4, node_selector: {ack.node.gpu.schedule: default, aliyun.accelerator/nvidia_name: MODEL}}
images:
  - {name: Ray, ref: "rayproject/ray:2.52.0-py311", ray_version: 2.52.0, python: "3.11"}
`

func ownFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{installation: install(t), random: rand.New(rand.NewPCG(7, 7)), names: map[string]string{}}
	f.model = "TEST-" + f.lease
	file := filepath.Join(t.TempDir(), "catalogue.yaml")
	f.must(os.WriteFile(file, []byte(strings.ReplaceAll(fleetCatalogue, "MODEL", f.model)), 0o600))
	f.env = append(f.env, "RAYSLICE_CATALOGUE="+file, "RAYSLICE_NAMESPACE_QUOTA=false", "RAYSLICE_LOG_LEVEL=warn")
	for n := range fleetNodes {
		f.node(n)
	}
	return f
}

func (f *fleet) nodeName(n int) string { return fmt.Sprintf("%s.%d", f.lease, n) }

// node makes one machine, which KWOK plays.
func (f *fleet) node(n int) {
	f.Helper()
	kind := fleetNodes[n]
	labels := map[string]string{"type": "kwok", corev1.LabelHostname: f.nodeName(n), corev1.LabelOSStable: "linux", k8s.LabelGPUMode: kind.mode, "aliyun.accelerator/nvidia_name": f.model}
	if kind.maxPods != "" {
		labels["ack.node.gpu.max-pod"] = kind.maxPods
	}
	offer := map[string]string{"cpu": "256", "memory": "2Ti", "pods": "250"}
	switch kind.mode {
	case "default":
		offer["nvidia.com/gpu"] = strconv.Itoa(kind.cards)
	case "core_mem":
		offer["aliyun.com/gpu-core.percentage"] = strconv.Itoa(100 * kind.cards)
		fallthrough
	default:
		offer["aliyun.com/gpu-mem"], offer["aliyun.com/gpu-count"] = strconv.Itoa(kind.cards*kind.units), strconv.Itoa(kind.cards)
	}
	nodes := f.core.CoreV1().Nodes()
	_, err := nodes.Create(f.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.nodeName(n), Labels: labels},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "aliyun.com/gpu-mem", Effect: corev1.TaintEffectNoSchedule}}}}, metav1.CreateOptions{})
	f.must(err)
	f.Cleanup(func() { _ = nodes.Delete(context.Background(), f.nodeName(n), metav1.DeleteOptions{}) })
	status, err := json.Marshal(map[string]any{"status": map[string]any{"allocatable": offer, "capacity": offer}})
	f.must(err)
	_, err = nodes.Patch(f.Context(), f.nodeName(n), types.MergePatchType, status, metav1.PatchOptions{}, "status")
	f.must(err)
}

// pod makes a foreign pod of some slice, in a namespace that is no team's. With a node it is put there by hand, past the scheduler.
func (f *fleet) pod(s rayslice.Slice, node string, change ...func(*corev1.Pod)) string {
	f.Helper()
	f.made++
	limits := corev1.ResourceList{}
	selector := map[string]string{"aliyun.accelerator/nvidia_name": f.model}
	labels := map[string]string{"test": "foreign"}
	switch {
	case s.Whole():
		limits["nvidia.com/gpu"] = *resource.NewQuantity(int64(s.Cards), resource.DecimalSI)
	case s.CorePercent > 0:
		limits["aliyun.com/gpu-core.percentage"] = *resource.NewQuantity(int64(s.CorePercent), resource.DecimalSI)
	}
	if s.GiB > 0 {
		limits["aliyun.com/gpu-mem"] = *resource.NewQuantity(int64(s.GiB*s.Cards), resource.DecimalSI)
	}
	if s.GiB > 0 && s.Cards > 1 {
		labels[k8s.LabelGPUCount] = strconv.Itoa(s.Cards)
	}
	grace := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("foreign-%d", f.made), Namespace: f.lease, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: node, NodeSelector: selector, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: new(false),
			Tolerations: []corev1.Toleration{{Key: "aliyun.com/gpu-mem", Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "x", Image: "x", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	_, err := f.core.CoreV1().Pods(f.lease).Create(f.Context(), pod, metav1.CreateOptions{})
	f.must(err)
	f.live = append(f.live, pod.Name)
	return pod.Name
}

func (f *fleet) remove(name string) {
	f.Helper()
	f.must(f.core.CoreV1().Pods(f.lease).Delete(f.Context(), name, metav1.DeleteOptions{}))
	f.live = slices.DeleteFunc(f.live, func(n string) bool { return n == name })
}

// turn starts or stops one pod at random. Some are put on a node by hand, as the scheduler of somebody else would: with an index
// of the old kind, with nothing, or with a card that is not there; some end by themselves.
func (f *fleet) turn() {
	f.Helper()
	if len(f.live) > 12 && f.random.IntN(2) == 0 || len(f.live) > 30 {
		f.remove(f.live[f.random.IntN(len(f.live))])
		return
	}
	annotated := func(values map[string]string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = values }
	}
	small := rayslice.Slice{Pool: "x", GiB: 1 + f.random.IntN(2), Cards: 1}
	switch kind := f.random.IntN(20); kind {
	case 0, 1, 2:
		f.pod(rayslice.Slice{Pool: "x", GiB: 2 + f.random.IntN(6), CorePercent: 5 * (1 + f.random.IntN(8)), Cards: 1}, "")
	case 3, 4, 5:
		f.pod(rayslice.Slice{Pool: "x", Cards: 1 + f.random.IntN(2)}, "")
	case 6, 7:
		f.pod(rayslice.Slice{Pool: "x", GiB: 1 + f.random.IntN(4), Cards: 2}, "")
	case 8:
		f.pod(small, f.nodeName(0), annotated(map[string]string{"ALIYUN_COM_GPU_MEM_IDX": strconv.Itoa(f.random.IntN(4)), "ALIYUN_COM_GPU_MEM_POD": strconv.Itoa(small.GiB)}))
	case 9:
		f.pod(small, f.nodeName(0))
	case 10:
		f.pod(small, f.nodeName(1), annotated(map[string]string{"scheduler.framework.gpushare.allocation": `{"0":{"9":1}}`}))
	case 11:
		name := f.pod(small, "")
		_, err := f.core.CoreV1().Pods(f.lease).Patch(f.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		f.must(err)
	default:
		f.pod(rayslice.Slice{Pool: "x", GiB: 1 + f.random.IntN(16), Cards: 1}, "")
	}
}

// held is what lies on a card, or on a node without a card, as "name, GiB" in order.
type held map[string][]string

// fromPods reads it as kubectl would: from the pods' phases, limits and annotations.
func (f *fleet) fromPods() held {
	f.Helper()
	pods, err := f.core.CoreV1().Pods("").List(f.Context(), metav1.ListOptions{})
	f.must(err)
	all, whole := held{}, map[string]int{}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range pods.Items {
		n := f.numberOf(pod.Spec.NodeName)
		if n < 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		name := "not started by rayslice"
		if id := pod.Labels[k8s.LabelRequest]; id != "" {
			name = f.names[id]
		}
		limits := pod.Spec.Containers[0].Resources.Limits
		gib, gpus := limits["aliyun.com/gpu-mem"], limits["nvidia.com/gpu"]
		if cards := int(gpus.Value()); cards > 0 {
			for range cards {
				key := fmt.Sprintf("card-%s-%d", pod.Spec.NodeName, whole[pod.Spec.NodeName])
				all[key], whole[pod.Spec.NodeName] = append(all[key], name), whole[pod.Spec.NodeName]+1
			}
			continue
		}
		left := int(gib.Value())
		for card, units := range allocation(pod) {
			if card < fleetNodes[n].cards {
				key := fmt.Sprintf("card-%s-%d", pod.Spec.NodeName, card)
				all[key], left = append(all[key], fmt.Sprintf("%s, %d GiB", name, units)), left-units
			}
		}
		if left > 0 {
			key := "loose-" + pod.Spec.NodeName
			all[key] = append(all[key], fmt.Sprintf("%s, %d GiB", name, gib.Value()))
		}
	}
	return all.sorted()
}

func (f *fleet) numberOf(node string) int {
	for n := range fleetNodes {
		if f.nodeName(n) == node {
			return n
		}
	}
	return -1
}

func allocation(pod corev1.Pod) map[int]int {
	var containers map[string]map[int]int
	if text := pod.Annotations["scheduler.framework.gpushare.allocation"]; text != "" && json.Unmarshal([]byte(text), &containers) == nil {
		return containers["0"]
	}
	card, err := strconv.Atoi(pod.Annotations["ALIYUN_COM_GPU_MEM_IDX"])
	units, errUnits := strconv.Atoi(pod.Annotations["ALIYUN_COM_GPU_MEM_POD"])
	if err != nil || errUnits != nil {
		return nil
	}
	return map[int]int{card: units}
}

func (h held) sorted() held {
	for key := range h {
		slices.Sort(h[key])
	}
	return h
}

var extras = regexp.MustCompile(`, (\d+ % compute|going|\d+ cards?)$`)

// fromPage reads the same from GET /fleet, as Mei Lin sees it.
func (f *fleet) fromPage() held {
	f.Helper()
	all := held{}
	for _, pool := range []string{"own-mem", "own-core", "own-whole"} {
		request, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.url+"/fleet?view=table&pool="+pool, nil)
		f.must(err)
		request.Header.Set("Authorization", "Bearer "+f.portal.token)
		response, err := http.DefaultClient.Do(request)
		f.must(err)
		page, err := goquery.NewDocumentFromReader(io.LimitReader(response.Body, 1<<24))
		response.Body.Close()
		f.must(err)
		for _, row := range page.Find("table.holders tr[id]").EachIter() {
			key := row.AttrOr("id", "")
			for _, part := range row.Find("li").EachIter() {
				text := strings.TrimSpace(part.Text())
				for extras.MatchString(text) {
					text = extras.ReplaceAllString(text, "")
				}
				all[key] = append(all[key], text)
			}
		}
	}
	return all.sorted()
}

// settle waits until the page shows what the pods say.
func (f *fleet) settle(when string) {
	f.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		want := f.fromPods()
		diff := cmp.Diff(want, f.fromPage())
		if diff == "" && cmp.Diff(want, f.fromPods()) == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			f.Fatalf("%s: the page (-pods +page):\n%s", when, diff)
		}
	}
}

// TestFleetMatchesPods starts and stops 200 pods at random, real clusters among them, and compares the fleet page with the pods'
// own annotations; then it asks the real share scheduler to keep what Fit promises.
func TestFleetMatchesPods(t *testing.T) {
	t.Parallel()
	f := ownFleet(t)
	f.start()
	f.leads()
	for n := range 2 {
		name := fmt.Sprintf("real-%d", n)
		got, err := f.call(http.MethodPost, "/api/v1/requests", name, fmt.Sprintf(`{"team": "vision", "name": %q, "hours": 8, "pool": "own-mem", "slice_gib": 4, "workers": 2}`, name))
		f.must(err)
		if got.ID == "" {
			f.Fatalf("%+v", got)
		}
		f.names[got.ID] = name
	}
	for n := range 200 {
		f.turn()
		if n%50 == 49 {
			f.settle(fmt.Sprintf("after %d turns", n+1))
		}
	}
	gone := slices.Sorted(maps.Keys(f.names))[0]
	_, err := f.call(http.MethodPost, "/api/v1/requests/"+gone+"/stop", "", "")
	f.must(err)
	f.untilState(gone, rayslice.StateStopped)
	f.settle("after a cluster has ended")
	f.keepPromises(8)
}

// keepPromises asks Fit about drafts and starts those that it says fit: the scheduler places every pod.
func (f *fleet) keepPromises(rounds int) {
	f.Helper()
	kept := 0
	for range rounds {
		for len(f.live) > 14 {
			f.remove(f.live[f.random.IntN(len(f.live))])
		}
		f.settle("before a promise")
		seen, err := f.store.FleetCards(f.Context(), rayslice.System)
		f.must(err)
		draft := f.draft()
		if fit := rayslice.Fit(draft, seen.Room()); !fit.Fits {
			continue
		}
		kept++
		f.placeAll(draft)
	}
	if kept == 0 {
		f.Error("nothing was promised")
	}
	f.Logf("%d promises of %d drafts kept", kept, rounds)
}

func (f *fleet) draft() (draft rayslice.RequestDraft) {
	add := func(workers int, spread bool, s rayslice.Slice) {
		draft.Groups = append(draft.Groups, rayslice.Group{Slice: s, MaxWorkers: workers, Spread: spread})
	}
	n := f.random.IntN
	for range 1 + n(3) {
		switch n(5) {
		case 0:
			add(1+n(2), false, rayslice.Slice{Pool: "own-core", GiB: 1 + n(5), CorePercent: 5 * (1 + n(5)), Cards: 1})
		case 1:
			add(1, false, rayslice.Slice{Pool: "own-whole", Cards: 1 + n(2)})
		case 2:
			add(1, false, rayslice.Slice{Pool: "own-mem", GiB: 1 + n(4), Cards: 2})
		default:
			add(1+n(3), n(3) == 0, rayslice.Slice{Pool: "own-mem", GiB: 1 + n(10), Cards: 1})
		}
	}
	return draft
}

// placeAll starts every worker of the draft, in any order, and waits until each has a node.
func (f *fleet) placeAll(draft rayslice.RequestDraft) {
	f.Helper()
	var starts []func() string
	for i, g := range draft.Groups {
		group := fmt.Sprintf("spread-%d-%d", f.made, i)
		apart := func(p *corev1.Pod) {
			if g.Spread {
				p.Labels["group"] = group
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": group}}}}}}
			}
		}
		for range g.MaxWorkers {
			starts = append(starts, func() string { return f.pod(g.Slice, "", apart) })
		}
	}
	f.random.Shuffle(len(starts), func(i, j int) { starts[i], starts[j] = starts[j], starts[i] })
	var names []string
	for _, start := range starts {
		names = append(names, start())
	}
	f.until(fmt.Sprintf("all of %+v are placed", draft.Groups), func() bool {
		for _, name := range names {
			pod, err := f.core.CoreV1().Pods(f.lease).Get(f.Context(), name, metav1.GetOptions{})
			f.must(err)
			if pod.Spec.NodeName == "" {
				return false
			}
		}
		return true
	})
}
