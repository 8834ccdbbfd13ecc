// Package fleet reads the file that describes the sandbox's simulated machines, and says what Kubernetes objects they are.
package fleet

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice/sandbox/rayhead"
)

// Fleet is the content of a fleet file.
type Fleet struct {
	PodStart   Pace    `json:"podStart"`   // from scheduled to Running
	PodStop    Pace    `json:"podStop"`    // from deleted to gone
	NodeGroups []Group `json:"nodeGroups"` // the machines
}

// Pace is a duration that varies: anything from Delay − Jitter to Delay + Jitter, never below zero.
type Pace struct {
	Delay  string `json:"delay"`  // a Go duration such as 2s
	Jitter string `json:"jitter"` // a Go duration
}

// Group is a number of equal machines.
type Group struct {
	Name           string   `json:"name"`
	NamePrefix     string   `json:"namePrefix"`     // a node is this and its number, from 1
	Count          *int     `json:"count"`          // nodes; absent is 1
	Mode           Mode     `json:"mode"`           // how the cards are shared
	Cards          int      `json:"cards"`          // physical GPUs per node
	CardModel      string   `json:"cardModel"`      // as in NVIDIA-A10
	CardMiB        int      `json:"cardMiB"`        // what nvidia-smi shows as memory.total
	GiBPerCard     int      `json:"gibPerCard"`     // what a card offers to slices
	MaxPodsPerCard int      `json:"maxPodsPerCard"` // 0 for the scheduler's own default
	Placement      string   `json:"placement"`      // binpack, spread, or empty for the default
	InstanceType   string   `json:"instanceType"`   // label only
	CPU            string   `json:"cpu"`            // a Kubernetes quantity
	Memory         string   `json:"memory"`         // a Kubernetes quantity
	MaxPods        int      `json:"maxPods"`        // 0 is 256
	Faults         []string `json:"faults"`         // how the machines misbehave
}

// Mode is how a node's cards are shared: ACK's label ack.node.gpu.schedule, or "none" without GPUs.
type Mode string

// The modes of the simulated machines.
const (
	CGPU    Mode = "cgpu"     // memory isolated
	CoreMem Mode = "core_mem" // memory and compute isolated
	Share   Mode = "share"    // no isolation
	Whole   Mode = "default"  // whole cards
	None    Mode = "none"     // no GPU
)

var (
	modes      = []Mode{CGPU, CoreMem, Share, Whole, None}
	placements = []string{"", "binpack", "spread"}
	faults     = []string{
		rayhead.IsolationOff, rayhead.WrongNumbers, rayhead.GPULost, rayhead.Idle,
		rayhead.LimitLost, rayhead.LimitInEnvironment, rayhead.CardFull, rayhead.DriverBroken, rayhead.DriverHangs, rayhead.NoisyDriver,
		rayhead.JobsDown, rayhead.JobsStuck, rayhead.JobsNoisy, rayhead.JobsHalf,
		rayhead.DeadDashboard, rayhead.HTMLDashboard, rayhead.RedirectDashboard, rayhead.HugeDashboard,
	}
	model = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
)

const (
	mostNodes = 2000 // per group
	mostCards = 16   // per node
)

// Parse reads and checks a fleet file. The error names every field that is wrong and what it should be.
func Parse(content []byte) (Fleet, error) {
	var fleet Fleet
	if err := yaml.UnmarshalStrict(content, &fleet); err != nil {
		return Fleet{}, fmt.Errorf("fleet file: %w", err)
	}
	fleet.setDefaults()
	if err := fleet.validate(); err != nil {
		return Fleet{}, fmt.Errorf("fleet file: %w", err)
	}
	return fleet, nil
}

func (f *Fleet) setDefaults() {
	if f.PodStart == (Pace{}) {
		f.PodStart = Pace{"2s", "2s"}
	}
	if f.PodStop == (Pace{}) {
		f.PodStop = Pace{"1s", "500ms"}
	}
	for i := range f.NodeGroups {
		group := &f.NodeGroups[i]
		if group.Count == nil {
			group.Count = new(1)
		}
		if group.MaxPods == 0 {
			group.MaxPods = 256
		}
	}
}

// problems collects what is wrong, each with the field's path.
type problems struct{ found []string }

func (p *problems) check(ok bool, field, want string, args ...any) {
	if !ok {
		p.found = append(p.found, field+" must be "+fmt.Sprintf(want, args...))
	}
}

func (p *problems) err() error {
	if len(p.found) == 0 {
		return nil
	}
	return errors.New(strings.Join(p.found, "; "))
}

func (f Fleet) validate() error {
	var p problems
	_, _, err := f.PodStart.Bounds()
	p.check(err == nil, "podStart", "durations such as {delay: 2s, jitter: 500ms}: %v", err)
	_, _, err = f.PodStop.Bounds()
	p.check(err == nil, "podStop", "durations such as {delay: 2s, jitter: 500ms}: %v", err)
	p.check(len(f.NodeGroups) > 0, "nodeGroups", "a list of at least one group")
	groups, nodes := map[string]bool{}, map[string]bool{}
	for i, group := range f.NodeGroups {
		at := fmt.Sprintf("nodeGroups[%d].", i)
		group.validate(&p, at)
		p.check(!groups[group.Name], at+"name", "unique, %q is taken", group.Name)
		groups[group.Name] = true
		for _, name := range group.nodeNames() {
			p.check(!nodes[name], at+"namePrefix", "such that node names differ, %q is taken", name)
			nodes[name] = true
		}
	}
	return p.err()
}

func (g Group) validate(p *problems, at string) {
	p.check(len(validation.IsDNS1123Label(g.Name)) == 0, at+"name", "lower-case letters, digits and dashes, got %q", g.Name)
	p.check(len(validation.IsDNS1123Subdomain(g.NamePrefix+"1")) == 0 && len(g.NamePrefix) <= 58,
		at+"namePrefix", "the beginning of a node name such as cn-hangzhou.10.200.12., got %q", g.NamePrefix)
	p.check(*g.Count >= 0 && *g.Count <= mostNodes, at+"count", "from 0 to %d, got %d", mostNodes, *g.Count)
	p.check(slices.Contains(modes, g.Mode), at+"mode", "one of %v, got %q", modes, g.Mode)
	p.check(slices.Contains(placements, g.Placement), at+"placement", "binpack or spread, got %q", g.Placement)
	p.check(g.MaxPodsPerCard >= 0, at+"maxPodsPerCard", "0 or more, got %d", g.MaxPodsPerCard)
	p.check(g.MaxPods > 0, at+"maxPods", "1 or more, got %d", g.MaxPods)
	p.check(g.InstanceType == "" || model.MatchString(g.InstanceType), at+"instanceType", "a label value, got %q", g.InstanceType)
	p.check(positive(g.CPU), at+"cpu", "a quantity above 0 such as 32, got %q", g.CPU)
	p.check(positive(g.Memory), at+"memory", "a quantity above 0 such as 188Gi, got %q", g.Memory)
	for i, fault := range g.Faults {
		p.check(slices.Contains(faults, fault), fmt.Sprintf("%sfaults[%d]", at, i), "one of %v, got %q", faults, fault)
	}
	g.validateCards(p, at)
}

// nodeNames are the names of the group's nodes, none while the count makes no sense.
func (g Group) nodeNames() []string {
	var names []string
	for number := 1; number <= min(*g.Count, mostNodes); number++ {
		names = append(names, g.NamePrefix+strconv.Itoa(number))
	}
	return names
}

func (g Group) validateCards(p *problems, at string) {
	if g.Mode == None {
		p.check(g.Cards == 0, at+"cards", "left out in mode none, got %d", g.Cards)
		return
	}
	p.check(g.Cards >= 1 && g.Cards <= mostCards, at+"cards", "from 1 to %d, got %d", mostCards, g.Cards)
	p.check(model.MatchString(g.CardModel), at+"cardModel", "a name such as NVIDIA-A10, got %q", g.CardModel)
	p.check(g.CardMiB > 0, at+"cardMiB", "the card's memory.total in MiB, got %d", g.CardMiB)
	if g.Mode == Whole {
		p.check(g.GiBPerCard == 0, at+"gibPerCard", "left out in mode default, where whole cards are given, got %d", g.GiBPerCard)
		return
	}
	p.check(g.GiBPerCard >= 1 && g.GiBPerCard*1024 <= g.CardMiB, at+"gibPerCard",
		"from 1 to the card's %d GiB, got %d", g.CardMiB/1024, g.GiBPerCard)
}

func positive(quantity string) bool {
	value, err := resource.ParseQuantity(quantity)
	return err == nil && value.Sign() > 0
}

// Bounds are the shortest and the longest time.
func (p Pace) Bounds() (shortest, longest time.Duration, err error) {
	delay, err := time.ParseDuration(orZero(p.Delay))
	if err != nil {
		return 0, 0, fmt.Errorf("delay: %w", err)
	}
	jitter, err := time.ParseDuration(orZero(p.Jitter))
	if err != nil {
		return 0, 0, fmt.Errorf("jitter: %w", err)
	}
	if delay < 0 || jitter < 0 {
		return 0, 0, fmt.Errorf("delay %s and jitter %s must not be negative", delay, jitter)
	}
	return max(0, delay-jitter), delay + jitter, nil
}

func orZero(duration string) string {
	if duration == "" {
		return "0s"
	}
	return duration
}
