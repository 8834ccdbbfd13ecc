package rayhead

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayslice/rayslice/sandbox/gpushare"
)

// cluster is one Ray cluster as its head knows it at one moment.
type cluster struct {
	version string // of Ray
	session string // the head's own name for this run of it
	now     time.Time
	nodes   []rayNode       // the head first, then workers by name
	faults  map[string]bool // of the head
}

// rayNode is one Ray node: a pod.
type rayNode struct {
	pod       *corev1.Pod
	id        string // Ray's 56 hexadecimal digits
	head      bool
	alive     bool
	lost      bool               // with its machine, without a word
	resources map[string]float64 // what the raylet was started with
	gpus      []gpu              // as Ray reads them; nil when lost
	cards     []gpu              // as they are
	machine   *corev1.Node
	faults    map[string]bool // of the machine
	busy      bool            // an actor runs here
}

// gpu is one card as a process in the pod sees it: the slice of it.
type gpu struct {
	uuid        string
	name        string
	totalMiB    int
	usedMiB     int
	utilization int
	whole       bool // the pod has the card to itself
	index       int  // of the card on its node
	units       int  // of gpu-mem that the pod has on it; 0 for whole cards
	percent     int  // of compute that the pod has on it; 0 = not limited
	othersMiB   int  // what other pods' work holds on it
}

// nodeLookup finds a node by name; nil when it is gone.
type nodeLookup func(name string) *corev1.Node

// clusterOf describes the cluster of a head and its workers at a moment. Pods without an address are no Ray nodes yet.
func clusterOf(head *corev1.Pod, pods []*corev1.Pod, node nodeLookup, version string, now time.Time) cluster {
	c := cluster{version: version, session: sessionName(head), now: now, faults: faultsOf(head, node(head.Spec.NodeName))}
	for _, pod := range pods {
		if pod.Status.PodIP != "" && (pod.UID == head.UID || pod.Labels[nodeTypeLabel] == "worker") {
			c.nodes = append(c.nodes, rayNodeOf(pod, node(pod.Spec.NodeName), now))
		}
	}
	slices.SortFunc(c.nodes, func(a, b rayNode) int {
		if a.head != b.head {
			return map[bool]int{true: -1, false: 1}[a.head]
		}
		return strings.Compare(a.pod.Name, b.pod.Name)
	})
	return c
}

func sessionName(head *corev1.Pod) string {
	return "session_" + startOf(head).UTC().Format("2006-01-02_15-04-05_000000") + "_1"
}

// alive lists the nodes that Ray counts on.
func (c cluster) alive() []rayNode {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n rayNode) bool { return !n.alive })
}

// total sums the resources of the living nodes.
func (c cluster) total() (total, used map[string]float64) {
	total, used = map[string]float64{}, map[string]float64{}
	for _, n := range c.alive() {
		for name, amount := range n.resources {
			total[name] += amount
			used[name] += n.used(name)
		}
	}
	return total, used
}

func rayNodeOf(pod *corev1.Pod, node *corev1.Node, now time.Time) rayNode {
	n := rayNode{
		pod:  pod,
		id:   digest(string(pod.UID))[:56],
		head: pod.Labels[nodeTypeLabel] == "head",
		lost: isDown(node),
	}
	n.alive = pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil && !n.lost
	faults := faultsOf(pod, node)
	load := loadOf(string(pod.UID), startOf(pod), now)
	if faults[Idle] {
		load = loadLevel{}
	}
	n.gpus, n.machine, n.faults = cardsOf(pod, node, load, faults), node, faults
	n.cards = n.gpus
	n.resources = resourcesOf(pod, len(n.gpus))
	n.busy = n.alive && len(n.gpus) > 0 && load.memory > 0
	if faults[GPULost] {
		n.gpus = nil
	}
	return n
}

// used is how much of a resource the running actor has reserved: the node's GPUs.
func (n rayNode) used(resource string) float64 {
	if n.busy && resource == "GPU" {
		return n.resources[resource]
	}
	return 0
}

func faultsOf(pod *corev1.Pod, node *corev1.Node) map[string]bool {
	faults, listed := map[string]bool{}, pod.Annotations[FaultsAnnotation]
	if node != nil {
		listed += "," + node.Annotations[FaultsAnnotation]
	}
	for fault := range strings.SplitSeq(listed, ",") {
		faults[strings.TrimSpace(fault)] = true
	}
	if isDown(node) {
		faults[DeadDashboard] = true
	}
	return faults
}

// isDown reports whether a machine is known not to work; a node that is gone is.
func isDown(node *corev1.Node) bool {
	if node == nil {
		return true
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status != corev1.ConditionTrue
		}
	}
	return false
}

func startOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// digest is a stable name for what has none.
func digest(of ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(of, "/"))))
}

func cardUUID(of ...string) string {
	d := digest(of...)
	return fmt.Sprintf("GPU-%s-%s-%s-%s-%s", d[:8], d[8:12], d[12:16], d[16:20], d[20:32])
}

// cardsOf lists what the pod's Ray process sees of its node's cards: its slices, or its whole cards.
func cardsOf(pod *corev1.Pod, node *corev1.Node, load loadLevel, faults map[string]bool) []gpu {
	cards := []gpu{}
	if node == nil {
		return cards
	}
	// The label has dashes for the driver's spaces, of which the first is one for sure.
	physical, name := cardMiB(node), strings.Replace(node.Labels["aliyun.accelerator/nvidia_name"], "-", " ", 1)
	allocation, _ := gpushare.AllocationOf(pod)
	shares := allocation.PerCard()
	for _, index := range slices.Sorted(maps.Keys(shares)) {
		uuid := cardUUID(node.Name, strconv.Itoa(index))
		total := physical
		if !faults[IsolationOff] && isolated(node) {
			total = sliceMiB(node, physical, shares[index].Memory)
		}
		card := gpu{uuid: uuid, name: name, totalMiB: total, index: index, units: shares[index].Memory, percent: shares[index].Core}
		cards = append(cards, load.on(card, faults))
	}
	for i := range wholeCards(pod) {
		// Which of the node's cards these are is the kubelet's business, and there is none here.
		uuid := cardUUID(node.Name, string(pod.UID), strconv.Itoa(i))
		cards = append(cards, load.on(gpu{uuid: uuid, name: name, totalMiB: physical, whole: true}, faults))
	}
	return cards
}

func isolated(node *corev1.Node) bool {
	return node.Labels[gpushare.ModeLabel] != "share" && node.Labels["cgpu.disable.isolation"] != "true"
}

// cardMiB is a card's physical memory: its label as ACK writes it ("23028MiB"), or else the whole GiB that the node offers.
func cardMiB(node *corev1.Node) int {
	if mib, err := strconv.Atoi(strings.TrimSuffix(node.Labels["aliyun.accelerator/nvidia_mem"], "MiB")); err == nil {
		return mib
	}
	offer, _ := gpushare.NodeOf(node)
	return offer.Size.Memory * 1024
}

// sliceMiB is what cGPU shows of a card: its part of the physical memory, rounded down.
func sliceMiB(node *corev1.Node, physical, units int) int {
	offer, _ := gpushare.NodeOf(node)
	if offer.Size.Memory == 0 {
		return physical
	}
	return physical * units / offer.Size.Memory
}

func wholeCards(pod *corev1.Pod) int {
	count := int64(0)
	for _, container := range pod.Spec.Containers {
		count += container.Resources.Limits.Name("nvidia.com/gpu", "").Value()
	}
	return int(count)
}

var (
	startFlag      = regexp.MustCompile(`--(num-cpus|num-gpus|memory)=(\d+)`)
	resourcesFlag  = regexp.MustCompile(`--resources=("(?:[^"\\]|\\.)*"|'[^']*'|\S+)`)
	startFlagNames = map[string]string{"num-cpus": "CPU", "num-gpus": "GPU", "memory": "memory"}
)

// resourcesOf reads what Ray was told to count from the start command that KubeRay generated. What it was not told, it
// finds out: GPUs from the driver, CPU and memory from the container's limits.
func resourcesOf(pod *corev1.Pod, visibleGPUs int) map[string]float64 {
	limits, command := corev1.ResourceList{}, ""
	if len(pod.Spec.Containers) > 0 {
		limits, command = pod.Spec.Containers[0].Resources.Limits, startCommand(pod.Spec.Containers[0])
	}
	resources := map[string]float64{
		"CPU":    float64(limits.Cpu().Value()),
		"memory": float64(limits.Memory().Value()),
		"GPU":    float64(visibleGPUs),
	}
	for _, match := range startFlag.FindAllStringSubmatch(command, -1) {
		resources[startFlagNames[match[1]]], _ = strconv.ParseFloat(match[2], 64)
	}
	maps.Copy(resources, customResources(command))
	resources["object_store_memory"] = float64(int64(resources["memory"] * 0.3))
	resources["node:"+pod.Status.PodIP] = 1
	if pod.Labels[nodeTypeLabel] == "head" {
		resources["node:__internal_head__"] = 1
	}
	maps.DeleteFunc(resources, func(_ string, amount float64) bool { return amount == 0 })
	return resources
}

func startCommand(container corev1.Container) string {
	for _, variable := range container.Env {
		if variable.Name == "KUBERAY_GEN_RAY_START_CMD" {
			return variable.Value
		}
	}
	return ""
}

func customResources(command string) map[string]float64 {
	match := resourcesFlag.FindStringSubmatch(command)
	if match == nil {
		return nil
	}
	text := strings.Trim(match[1], "'")
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	var resources map[string]float64
	if json.Unmarshal([]byte(text), &resources) != nil {
		return nil
	}
	return resources
}
