package rayhead

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayslice/rayslice/sandbox/gpushare"
	"github.com/rayslice/rayslice/sandbox/stubgpu"
)

//go:embed all:shim
var shim embed.FS

// A Machine is a folder in which jobs of simulated clusters really run, with a driver for the simulated cards. The zero
// value has none: heads then refuse jobs.
type Machine struct {
	dir    string
	broken error // why there is no driver
}

// NewMachine prepares the folder: it ends what an earlier one left running there, and builds the driver. Without a driver,
// which the second result explains, jobs run all the same and find none.
func NewMachine(dir string) (Machine, error) {
	m := Machine{dir: dir}
	endAll(dir)
	for _, old := range []string{"jobs", "pods", "cards"} {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return m, err
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "cards"), 0o755), m.unpack()); err != nil {
		return m, err
	}
	m.broken = stubgpu.Build(filepath.Join(dir, "driver"))
	return m, m.broken
}

// unpack writes the stand-in for the module ray.
func (m Machine) unpack() error {
	return fs.WalkDir(shim, "shim", func(path string, entry fs.DirEntry, err error) error {
		target := filepath.Join(m.dir, path)
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(target, 0o755))
		}
		content, err := shim.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}

// shimNode is a node as the stand-in for ray reads it.
type shimNode struct {
	NodeID              string
	Alive               bool
	NodeManagerAddress  string
	NodeManagerHostname string
	Resources           map[string]float64
	Available           map[string]float64 `json:"available"`
	Env                 map[string]string  `json:"env"`
}

// describe writes what a job's Ray knows of its cluster, and returns the environment of the head, in which the job runs.
func (m Machine) describe(c cluster, file string) (map[string]string, error) {
	var nodes []shimNode
	environment := map[string]string{}
	for _, n := range c.nodes {
		env, err := m.environment(n)
		if err != nil {
			return nil, err
		}
		if n.head {
			environment = maps.Clone(env)
		}
		node := shimNode{NodeID: n.id, Alive: n.alive, NodeManagerAddress: n.pod.Status.PodIP, NodeManagerHostname: n.pod.Name,
			Resources: n.resources, Available: map[string]float64{}, Env: env}
		for name, amount := range n.resources {
			node.Available[name] = amount - n.used(name)
		}
		nodes = append(nodes, node)
	}
	content, err := json.Marshal(map[string]any{"version": c.version, "nodes": nodes})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, err
	}
	environment["PYTHONPATH"] = filepath.Join(m.dir, "shim")
	environment["PYTHONDONTWRITEBYTECODE"] = "1"
	environment["RAYSLICE_SANDBOX_RAY"] = file
	return environment, nil
}

// environment is what a process in the pod's container would have: the device plugin's variables, then the pod's own.
func (m Machine) environment(n rayNode) (map[string]string, error) {
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOSTNAME": n.pod.Name}
	maps.Copy(env, pluginVariables(n))
	if len(n.pod.Spec.Containers) > 0 {
		for _, variable := range n.pod.Spec.Containers[0].Env {
			if variable.ValueFrom == nil {
				env[variable.Name] = variable.Value
			}
		}
	}
	if m.broken != nil || len(n.cards) == 0 {
		return env, nil
	}
	limit := n.settings(filepath.Join(m.dir, "cards"))
	if n.faults[LimitInEnvironment] {
		env["STUB_SLICE_MIB"], limit["SLICE_MIB"] = limit["SLICE_MIB"], "0"
	}
	driver, err := stubgpu.Install(filepath.Join(m.dir, "driver"), filepath.Join(m.dir, "pods", string(n.pod.UID)), limit)
	if err != nil {
		return nil, fmt.Errorf("driver of %s: %w", n.pod.Name, err)
	}
	maps.Copy(env, driver)
	return env, nil
}

// pluginVariables are what ACK's device plugin injects (domain facts A.3).
func pluginVariables(n rayNode) map[string]string {
	if len(n.cards) == 0 || n.cards[0].units == 0 {
		return nil
	}
	offer, _ := gpushare.NodeOf(n.machine)
	card, total := n.cards[0], 0
	for _, c := range n.cards {
		total += c.units
	}
	variables := map[string]string{
		"NVIDIA_VISIBLE_DEVICES":       strconv.Itoa(card.index),
		"ALIYUN_COM_GPU_MEM_IDX":       strconv.Itoa(card.index),
		"ALIYUN_COM_GPU_MEM_POD":       strconv.Itoa(total),
		"ALIYUN_COM_GPU_MEM_CONTAINER": strconv.Itoa(total),
		"ALIYUN_COM_GPU_MEM_DEV":       strconv.Itoa(offer.Size.Memory),
		"ALIYUN_COM_GPU_MEM_UNIT":      "GiB",
	}
	if card.percent > 0 {
		variables["ALIYUN_COM_GPU_SCHD_WEIGHT"] = strconv.Itoa(card.percent / 5)
	}
	if n.machine.Labels["cgpu.disable.isolation"] == "true" {
		variables["CGPU_DISABLE"] = "true"
	}
	return variables
}

// settings make the driver show the pod's cards as the simulation has them.
func (n rayNode) settings(cards string) stubgpu.Settings {
	card, physical := n.cards[0], cardMiB(n.machine)
	limit := 0
	if card.totalMiB < physical {
		limit = card.totalMiB
	}
	settings := stubgpu.Settings{
		"STATE": filepath.Join(cards, card.uuid), "POD": string(n.pod.UID), "UUID": card.uuid, "NAME": card.name,
		"CARDS": strconv.Itoa(len(n.cards)), "CARD_MIB": strconv.Itoa(physical), "TOTAL_MIB": strconv.Itoa(card.totalMiB),
		"UTILIZATION": strconv.Itoa(card.utilization), "OWN_MIB": strconv.Itoa(card.usedMiB), "NEIGHBOURS_MIB": strconv.Itoa(card.othersMiB),
	}
	if card.percent > 0 {
		settings["PERCENT"] = strconv.Itoa(card.percent)
	}
	for fault, change := range map[string]stubgpu.Settings{
		GPULost:      {"BROKEN": "100", "SMI": "lost"},
		DriverBroken: {"BROKEN": "999"},
		DriverHangs:  {"HANG": "cuMemAlloc"},
		NoisyDriver:  {"SMI": "noise"},
		WrongNumbers: {"SMI": "wrong", "OWN_MIB": "0", "UTILIZATION": "0"},
		CardFull:     {"NEIGHBOURS_MIB": strconv.Itoa(physical - max(limit, physical/4))},
	} {
		if n.faults[fault] {
			maps.Copy(settings, change)
		}
	}
	settings["SLICE_MIB"] = strconv.Itoa(limit)
	if n.faults[LimitLost] {
		settings["SLICE_MIB"] = "0"
	}
	return settings
}

// neighbours fills in what other pods' work holds on the cards of a cluster's pods.
func neighbours(c cluster, others []*corev1.Pod, node nodeLookup) cluster {
	held := map[string]map[string]int{} // by card and pod, MiB
	for _, pod := range others {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		for _, card := range rayNodeOf(pod, node(pod.Spec.NodeName), c.now).cards {
			if held[card.uuid] == nil {
				held[card.uuid] = map[string]int{}
			}
			held[card.uuid][string(pod.UID)] = min(card.usedMiB, card.totalMiB)
		}
	}
	for _, n := range c.nodes {
		for i := range n.cards {
			for pod, mib := range held[n.cards[i].uuid] {
				if pod != string(n.pod.UID) {
					n.cards[i].othersMiB += mib
				}
			}
		}
	}
	return c
}
