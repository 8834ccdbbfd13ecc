package lint

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// draftOf returns the request that a cluster would become, and the paths of what a request has no place for. What the draft
// lacks or has wrong, the form says.
func draftOf(cl cluster, catalogue rayslice.Catalogue) (*rayslice.RequestDraft, []string) {
	d := &drafter{cluster: cl, catalogue: catalogue, image: cl.head.ray().get("image").str()}
	draft := &rayslice.RequestDraft{
		Name: cl.name.str(), Hours: rayslice.DefaultHours, Image: d.image,
		Head: rayslice.Head{CPU: cmp.Or(cpus(cl.head.ray()), rayslice.DefaultHeadCPU), MemoryGiB: cmp.Or(memory(cl.head.ray()), rayslice.DefaultHeadMemoryGiB)},
		Env:  map[string]string{},
	}
	if _, known := catalogue.Image(d.image); !known {
		draft.RayVersion = cmp.Or(cl.spec.get("rayVersion").str(), versionOf(d.image))
	}
	if most := catalogue.Limits.MaxHours; most > 0 {
		draft.Hours = min(draft.Hours, most)
	}
	for _, g := range cl.workers() {
		draft.Groups = append(draft.Groups, d.group(g))
	}
	for _, g := range cl.all {
		d.env(g, draft.Env)
		d.pod(g)
		for _, secret := range g.pod.get("imagePullSecrets").all() {
			if name := secret.get("name").str(); name != "" && !slices.Contains(draft.PullSecrets, name) {
				draft.PullSecrets = append(draft.PullSecrets, name)
			}
		}
	}
	d.object()
	slices.Sort(d.left)
	return draft, slices.Compact(d.left)
}

// drafter makes a draft and notes what it leaves out.
type drafter struct {
	cluster
	catalogue rayslice.Catalogue
	image     string // of the head; a request has one image for all
	left      []string
}

func (d *drafter) leave(v *value) { d.left = append(d.left, v.path()) }

// but leaves out the members of a map except those named.
func (d *drafter) but(v *value, names ...string) {
	for _, field := range v.members() {
		if !slices.Contains(names, field.name) && !field.null() {
			d.leave(field)
		}
	}
}

// gib returns an amount of memory in whole GiB, rounded up; 0 when there is none or it is none.
func gib(v *value) int {
	q, err := parseQuantity(v.str())
	if err != nil || q.Sign() <= 0 {
		return 0
	}
	const perGiB = 1 << 30
	return int(min((q.Value()-1)/perGiB+1, math.MaxInt32))
}

func memory(container *value) int { return gib(amountOf(container, "memory").at()) }

// cpus returns a container's CPUs, rounded up.
func cpus(container *value) int {
	q, err := parseQuantity(amountOf(container, "cpu").at().str())
	if err != nil || q.Sign() <= 0 {
		return 0
	}
	return int(min(q.Value(), math.MaxInt32))
}

// groupName is what requests call a group.
var groupName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

func (d *drafter) group(g group) rayslice.Group {
	container := g.ray()
	group := rayslice.Group{
		Slice: d.slice(g), CPU: cmp.Or(cpus(container), rayslice.DefaultWorkerCPU),
		MemoryGiB: cmp.Or(memory(container), rayslice.DefaultWorkerMemoryGiB),
	}
	if name := g.name.str(); groupName.MatchString(name) && name != "headgroup" {
		group.Name = name
	}
	count := func(name string) int { return g.get(name).number() }
	group.Workers = max(1, count("replicas"), count("minReplicas"))
	group.MinWorkers, group.MaxWorkers = group.Workers, group.Workers
	if most := count("maxReplicas"); d.spec.get("enableInTreeAutoscaling").yes() && most > 0 && most < math.MaxInt32 {
		group.MinWorkers, group.MaxWorkers = min(count("minReplicas"), group.Workers), max(most, group.Workers)
	}
	group.Spread = spreads(g)
	if g.get("numOfHosts").number() > 1 {
		d.leave(g.get("numOfHosts"))
	}
	if image := container.get("image"); image.str() != "" && image.str() != d.image {
		d.leave(image)
	}
	return group
}

// spreads reports whether a group's pods must be on different nodes.
func spreads(g group) bool {
	for _, term := range g.pod.get("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution").all() {
		if term.get("topologyKey").str() == "kubernetes.io/hostname" {
			return true
		}
	}
	return false
}

// slice returns what each worker of a group has, by whatever container asks for it.
func (d *drafter) slice(g group) rayslice.Slice {
	ask := func(resource string) *value {
		for _, container := range g.holders(resource) {
			return amountOf(container, resource).at()
		}
		return nil
	}
	mem, core, cards := ask(gpuMem), ask(gpuCore), ask(gpu)
	switch {
	case mem != nil:
		n := max(g.meta.get("labels", k8s.LabelGPUCount).number(), 1)
		size := mem.number()
		if m := withUnit.FindStringSubmatch(mem.str()); m != nil {
			size, _ = strconv.Atoi(m[1])
		}
		s := rayslice.Slice{GiB: (size + n - 1) / n, Cards: n, CorePercent: core.number()}
		s.Pool = d.pool(g, s)
		return s
	case cards != nil:
		s := rayslice.Slice{Cards: max(cards.number(), 1)}
		s.Pool = d.pool(g, s)
		return s
	}
	return rayslice.Slice{}
}

// pool returns the pool that a group's slice would be cut from: the one whose nodes it names, else the first that offers
// the size, else the first that is shared in the same way; "" when there is none.
func (d *drafter) pool(g group, s rayslice.Slice) string {
	best, bestRank := "", 0
	for _, p := range d.catalogue.Pools {
		rank := 0
		switch {
		case p.Mode.Sliced() != (s.GiB > 0), (p.Mode == rayslice.ModeCoreMem) != (s.CorePercent > 0), !p.Offered():
			continue
		case named(g, p):
			rank = 3
		case !p.Mode.Sliced() || p.Offers(s.GiB):
			rank = 2
		default:
			rank = 1
		}
		if rank > bestRank {
			best, bestRank = p.Name, rank
		}
	}
	return best
}

// named reports whether a group's node selector asks for the pool's nodes.
func named(g group, p rayslice.Pool) bool {
	for label, want := range p.NodeSelector {
		if g.pod.get("nodeSelector", label).str() != want {
			return false
		}
	}
	return len(p.NodeSelector) > 0
}

// env takes variables over that a request may set; the first of two values holds.
func (d *drafter) env(g group, env map[string]string) {
	for _, entry := range g.ray().get("env").all() {
		name, text := entry.get("name").str(), entry.get("value")
		known, there := env[name]
		switch {
		case name == "NVIDIA_VISIBLE_DEVICES", name == "CGPU_DISABLE": // the portal sets them
		case entry.get("valueFrom").there(), rayslice.ReservedEnv(name), there && known != text.str(), len(env) >= rayslice.MaxEnvVars && !there:
			d.leave(entry)
		case name != "":
			env[name] = text.str()
		}
	}
}

// pod notes what a pod has that a request cannot say. What the portal sets by itself is not missed.
func (d *drafter) pod(g group) {
	d.but(g.get("template"), "spec", "metadata")
	d.but(g.meta.get("annotations"))
	d.but(g.pod, "containers", "imagePullSecrets", "nodeSelector", "tolerations", "restartPolicy", "affinity", "automountServiceAccountToken")
	for i, container := range g.containers {
		if i > 0 {
			d.leave(container)
			continue
		}
		d.but(container, "name", "image", "imagePullPolicy", "env", "resources", "ports", "securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
		for _, list := range []string{"limits", "requests"} {
			d.but(container.get("resources", list), "cpu", "memory", gpuMem, gpuCore, gpu)
		}
	}
	d.but(g.params, slices.Collect(maps.Keys(ownParams))...)
	d.but(g.value, "groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template", "resources", "scaleStrategy")
}

// ownParams are parameters that the portal sets as it needs them, and those that KubeRay does.
var ownParams = map[string]bool{"num-gpus": true, "num-cpus": true, "dashboard-host": true, "block": true, "resources": true, "metrics-export-port": true}

// object notes what stands around the cluster.
func (d *drafter) object() {
	d.but(d.spec, "rayVersion", "headGroupSpec", "workerGroupSpecs", "enableInTreeAutoscaling", "autoscalerOptions")
	if d.kind != "RayCluster" {
		d.but(d.get("spec"), clusterKinds[d.kind].spec[1])
	}
}
