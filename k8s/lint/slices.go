package lint

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// Names of the resources that are about GPUs.
const (
	gpuMem  = string(k8s.ResourceGPUMem)
	gpuCore = string(k8s.ResourceGPUCore)
	gpu     = string(k8s.ResourceGPU)
)

func isGPU(resource string) bool { return resource == gpuMem || resource == gpuCore || resource == gpu }

// amount is what a container asks of a resource.
type amount struct{ limit, request *value }

// at returns the limit, or the request where there is no limit; nil when it asks for nothing.
func (a amount) at() *value {
	if a.limit.there() {
		return a.limit
	}
	if a.request.there() {
		return a.request
	}
	return nil
}

func amountOf(container *value, resource string) amount {
	return amount{container.get("resources", "limits", resource), container.get("resources", "requests", resource)}
}

var whole = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)

// number returns a whole number above 0, else 0.
func (v *value) number() int {
	if !whole.MatchString(v.str()) {
		return 0
	}
	n, _ := strconv.Atoi(v.str())
	return n
}

// sliced reports whether any worker has a slice.
func (cl cluster) sliced() bool {
	return slices.ContainsFunc(cl.workers(), func(g group) bool { return len(g.holders(gpuMem, gpuCore)) > 0 })
}

// holders returns the containers of a group that ask for one of the resources, init containers last.
func (g group) holders(resources ...string) []*value {
	var all []*value
	for _, container := range slices.Concat(g.containers, g.inits) {
		if slices.ContainsFunc(resources, func(r string) bool { return amountOf(container, r).at() != nil }) {
			all = append(all, container)
		}
	}
	return all
}

// slices finds what is wrong with the GPU memory a group asks for, and with what Ray is told of it.
func (c *checker) slices(g group) {
	for _, container := range slices.Concat(g.containers, g.inits) {
		for _, resource := range []string{gpuMem, gpuCore, gpu} {
			c.amount(resource, amountOf(container, resource))
		}
		c.extended(container)
	}
	c.numGPUs(g)
	holders := g.holders(gpuMem, gpuCore)
	if len(holders) == 0 {
		return
	}
	c.place(g, holders)
	c.kinds(g, holders[0])
	c.cards(g, holders[0])
}

// amount finds sizes that Kubernetes refuses or the device plugin cannot read, and requests that are not the limit.
func (c *checker) amount(resource string, a amount) {
	at := a.at()
	if at == nil {
		return
	}
	if !whole.MatchString(at.str()) {
		c.size(resource, at)
		return
	}
	if resource == gpuCore && (at.number()%5 != 0 || at.number() > 100) {
		step := min(max((at.number()+2)/5*5, 5), 100)
		c.fail(rayslice.FindingCoreStep, at, map[string]any{"value": at.number()}, a.both(strconv.Itoa(step))...)
		return
	}
	limit, request := a.limit.str(), a.request.str()
	switch {
	case limit == "":
		resources := at.parent.parent
		c.fail(rayslice.FindingRequestsDiffer, at, map[string]any{"resource": resource, "limit": "–", "request": short(request)},
			set(resources, request, "limits", resource))
	case a.request.there() && request != limit:
		c.fail(rayslice.FindingRequestsDiffer, a.request, map[string]any{"resource": resource, "limit": limit, "request": short(request)}, replace(a.request, limit))
	}
}

// both sets limit and request, as far as they are there.
func (a amount) both(to string) []rayslice.Patch {
	var fix []rayslice.Patch
	for _, v := range []*value{a.limit, a.request} {
		if v.there() {
			fix = append(fix, replace(v, to))
		}
	}
	return fix
}

var withUnit = regexp.MustCompile(`^([1-9][0-9]{0,3}) ?(G|Gi|GiB|GB|g|gi|gb)$`)

// size finds what a size should not be: "10G" is ten thousand million for Kubernetes, and half of it is no number of units.
func (c *checker) size(resource string, at *value) {
	args := map[string]any{"resource": resource, "value": short(at.str())}
	if resource != gpuMem {
		c.fail(rayslice.FindingGPUFraction, at, args)
		return
	}
	container := at.parent.parent.parent
	if m := withUnit.FindStringSubmatch(at.str()); m != nil {
		c.fail(rayslice.FindingSliceSize, at, args, amountOf(container, resource).both(m[1])...)
		return
	}
	c.fail(rayslice.FindingSliceSize, at, args)
}

// extended finds fractions of other devices that Kubernetes counts: whatever has a domain in its name that is not its own.
func (c *checker) extended(container *value) {
	for _, kind := range []string{"limits", "requests"} {
		for _, v := range container.get("resources", kind).members() {
			domain, _, named := strings.Cut(v.name, "/")
			if !named || isGPU(v.name) || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
				continue
			}
			if amount, err := parseQuantity(v.str()); err == nil && amount.CmpInt64(amount.Value()) != 0 { // Value rounds up
				c.fail(rayslice.FindingGPUFraction, v, map[string]any{"resource": short(v.name), "value": short(v.str())})
			}
		}
	}
}

// want returns how many GPUs Ray must be told that a worker of the group has; 0 = it has none.
func (g group) want() int {
	if len(g.holders(gpuMem, gpuCore)) == 0 {
		return 0
	}
	return cmp.Or(g.meta.get("labels", k8s.LabelGPUCount).number(), 1)
}

var digits = regexp.MustCompile(`^[0-9]{1,9}$`)

// told returns what Ray is told of a group's GPUs, in either of the two ways; nil = nothing.
func (g group) told() *value {
	if v := g.params.get("num-gpus"); v.there() {
		return v
	}
	if v := g.get("resources", "GPU"); v.there() { // KubeRay 1.5 takes this map instead
		return v
	}
	return nil
}

// unfit reports whether there is a text that `ray start` cannot take for a whole number. Variables are the shell's to read.
func unfit(told *value) bool {
	text := told.str()
	return text != "" && !digits.MatchString(text) && !variable.MatchString(text)
}

// counts reports whether a text is the whole number n.
func counts(told *value, n int) bool {
	got, err := strconv.Atoi(told.str())
	return err == nil && got == n
}

// numGPUs finds what Ray would wrongly believe: KubeRay derives num-gpus from nvidia.com/gpu and not from slices.
func (c *checker) numGPUs(g group) {
	want := g.want()
	wanted := strconv.Itoa(want)
	told, own := g.told(), g.get("resources").there()
	args := map[string]any{"want": want, "value": short(told.str())}
	switch {
	case unfit(told):
		c.fail(rayslice.FindingNumGPUsFraction, told, args, replace(told, strconv.Itoa(max(want, 1))))
	case want == 0 || g.head:
	case !told.there() && own:
		c.fail(rayslice.FindingNoNumGPUs, g.get("resources"), args, set(g.value, wanted, "resources", "GPU"))
	case !told.there():
		at := g.value
		if g.params != nil {
			at = g.params
		}
		c.fail(rayslice.FindingNoNumGPUs, at, args, set(g.value, wanted, "rayStartParams", "num-gpus"))
	case counts(told, 0):
		c.fail(rayslice.FindingNumGPUsZero, told, args, replace(told, wanted))
	case !counts(told, want):
		c.fail(rayslice.FindingNumGPUsDiffers, told, args, replace(told, wanted))
	}
	c.resourcesBoth(g)
}

// resourcesBoth finds a group that says its resources in both ways, which KubeRay 1.5 refuses.
func (c *checker) resourcesBoth(g group) {
	own := g.get("resources")
	if len(own.members()) == 0 {
		return
	}
	for _, name := range []string{"num-cpus", "num-gpus", "memory", "resources"} {
		if told := g.params.get(name); told.there() {
			c.fail(rayslice.FindingResourcesTwice, told, map[string]any{"name": name})
			return
		}
	}
}

// place finds slices on any container but the first, where Ray runs: the device plugin compares each container with the
// pod's total, so one must have all (domain facts A.2).
func (c *checker) place(g group, holders []*value) {
	first := g.containers[0]
	if holders[0] == first {
		for _, other := range holders[1:] {
			c.fail(rayslice.FindingSliceTwice, other, map[string]any{"container": nameOf(other), "first": nameOf(first)}, withoutGPU(other)...)
		}
		return
	}
	for i, other := range holders {
		args := map[string]any{"container": nameOf(other), "first": nameOf(first)}
		if i == 0 && len(holders) == 1 {
			c.fail(rayslice.FindingSliceNotFirst, other, args, moved(other, first)...)
			continue
		}
		c.fail(rayslice.FindingSliceNotFirst, other, args)
	}
}

func nameOf(container *value) string {
	return short(cmp.Or(container.get("name").str(), container.path()))
}

// withoutGPU removes what a container asks of GPUs.
func withoutGPU(container *value) []rayslice.Patch {
	var fix []rayslice.Patch
	for _, resource := range []string{gpuMem, gpuCore} {
		a := amountOf(container, resource)
		for _, v := range []*value{a.limit, a.request} {
			if v != nil {
				fix = append(fix, remove(v))
			}
		}
	}
	return fix
}

// moved gives what one container asks of GPUs to another.
func moved(from, to *value) []rayslice.Patch {
	limits := map[string]any{}
	for _, resource := range []string{gpuMem, gpuCore} {
		if at := amountOf(from, resource).at(); at != nil {
			limits[resource] = at.str()
		}
	}
	fix := withoutGPU(from)
	if to.get("resources").there() && to.get("resources", "limits").there() {
		for _, resource := range []string{gpuMem, gpuCore} {
			if limits[resource] != nil {
				fix = append(fix, set(to, limits[resource], "resources", "limits", resource))
			}
		}
		return fix
	}
	return append(fix, set(to, limits, "resources", "limits"))
}

// kinds finds resources that do not go together.
func (c *checker) kinds(g group, holder *value) {
	memory, core := amountOf(holder, gpuMem).at(), amountOf(holder, gpuCore).at()
	if memory == nil {
		c.fail(rayslice.FindingCoreAlone, core, nil)
	}
	for _, container := range g.holders(gpu) {
		c.fail(rayslice.FindingMixedGPUs, amountOf(container, gpu).at(), nil)
	}
	mode := g.pod.get("nodeSelector", k8s.LabelGPUMode)
	switch {
	case mode.str() == string(rayslice.ModeShare):
		c.warn(rayslice.FindingNotIsolated, mode, nil)
	case mode.str() == string(rayslice.ModeCoreMem) && core == nil:
		c.fail(rayslice.FindingCoreMissing, memory, nil)
	}
}

// cards finds slices over several cards that cannot be divided (domain facts A.2).
func (c *checker) cards(g group, holder *value) {
	label := g.meta.get("labels", k8s.LabelGPUCount)
	cards, memory := label.number(), amountOf(holder, gpuMem).at()
	switch {
	case cards < 2 || memory == nil:
	case amountOf(holder, gpuCore).at() != nil:
		c.fail(rayslice.FindingCardsCore, label, map[string]any{"cards": cards})
	case memory.number()%cards != 0:
		c.fail(rayslice.FindingCardsUneven, label, map[string]any{"gib": memory.number(), "cards": cards})
	}
}
