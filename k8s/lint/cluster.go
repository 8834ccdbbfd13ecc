package lint

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rayslice/rayslice"
)

// cluster is a Ray cluster of a file.
type cluster struct {
	object
	kind string
	name *value // nil when it has none
	spec *value
	head group
	all  []group // the head first
}

// group is the head or one worker group.
type group struct {
	*value            // of the group's spec
	head       bool   // it is the head
	name       *value // of worker groups
	params     *value // rayStartParams
	meta       *value // of the pod template
	pod        *value // spec of the pod template
	containers []*value
	inits      []*value
}

// workers returns the worker groups.
func (cl cluster) workers() []group { return cl.all[1:] }

// ray returns the container that Ray runs in: the first one, nil when there is none.
func (g group) ray() *value {
	if len(g.containers) == 0 {
		return nil
	}
	return g.containers[0]
}

// cluster reads an object's Ray cluster; false for objects that have none.
func (c *checker) cluster(o object) (cluster, bool) {
	c.document = o.document
	kind, ok := clusterKinds[o.get("kind").str()]
	if !ok {
		return cluster{}, false
	}
	c.apiVersion(o)
	c.conform(o.value, kind.schema)
	found := cluster{object: o, kind: o.get("kind").str(), name: o.get("metadata", "name"), spec: o.get(kind.spec...)}
	if !found.spec.there() {
		if !o.get("spec", "clusterSelector").there() { // a RayJob may run on a cluster that exists
			c.fail(rayslice.FindingNoSpec, o.value, map[string]any{"field": strings.Join(kind.spec, ".")})
		}
		return cluster{}, false
	}
	head := found.spec.get("headGroupSpec")
	if !head.there() {
		c.fail(rayslice.FindingNoSpec, found.spec, map[string]any{"field": "headGroupSpec"})
		return cluster{}, false
	}
	found.head = newGroup(head, true)
	found.all = []group{found.head}
	for _, w := range found.spec.get("workerGroupSpecs").all() {
		found.all = append(found.all, newGroup(w, false))
	}
	return found, true
}

func newGroup(v *value, head bool) group {
	pod := v.get("template", "spec")
	return group{value: v, head: head, name: v.get("groupName"), params: v.get("rayStartParams"), meta: v.get("template", "metadata"), pod: pod,
		containers: pod.get("containers").all(), inits: pod.get("initContainers").all()}
}

func (c *checker) apiVersion(o object) {
	const want = "ray.io/v1"
	got := o.get("apiVersion")
	switch {
	case got.str() == want:
	case got == nil:
		c.fail(rayslice.FindingAPIVersion, o.value, map[string]any{"want": want, "got": "–"}, set(o.value, want, "apiVersion"))
	default:
		c.warn(rayslice.FindingAPIVersion, got, map[string]any{"want": want, "got": short(got.str())}, replace(got, want))
	}
}

// check looks at one cluster.
func (c *checker) check(cl cluster) {
	c.document = cl.document
	c.names(cl)
	c.versions(cl)
	sliced := cl.sliced()
	for _, g := range cl.all {
		if g.ray() == nil {
			c.fail(rayslice.FindingNoSpec, g.value, map[string]any{"field": "template.spec.containers"})
			continue
		}
		c.slices(g)
		c.startParams(g)
		c.pod(g, sliced)
		if !g.head {
			c.replicas(g)
		}
	}
	c.head(cl, sliced)
}

// names finds names that KubeRay refuses, or cuts so that pods of two groups look alike (domain facts B.2).
func (c *checker) names(cl cluster) {
	name, most := cl.name.str(), clusterKinds[cl.kind].maxName
	if cl.name != nil && (len(name) > most || len(validation.IsDNS1035Label(name)) > 0) {
		c.fail(rayslice.FindingBadName, cl.name, map[string]any{"name": short(name), "max": most})
	}
	seen := map[string]bool{}
	for _, g := range cl.workers() {
		group := g.name.str()
		switch {
		case group == "":
			c.fail(rayslice.FindingNoSpec, g.value, map[string]any{"field": "groupName"})
		case seen[group]:
			c.fail(rayslice.FindingGroupTwice, g.name, map[string]any{"name": short(group)}, replace(g.name, freeName(group, seen, cl)))
		case len(validation.IsDNS1035Label(group)) > 0:
			c.fail(rayslice.FindingBadName, g.name, map[string]any{"name": short(group), "max": 63})
		case cl.kind == "RayCluster" && len(name) <= most && len(name)+1+len(group) > 50:
			c.warn(rayslice.FindingGroupNameLong, g.name, map[string]any{"name": short(group), "max": max(1, 50-1-len(name))})
		}
		seen[group] = true
	}
}

// freeName returns the name with the first number that no group has.
func freeName(name string, seen map[string]bool, cl cluster) string {
	for _, g := range cl.workers() {
		seen[g.name.str()] = true
	}
	for n := 2; ; n++ {
		if free := fmt.Sprintf("%s-%d", name, n); !seen[free] {
			return free
		}
	}
}

func (c *checker) replicas(g group) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(g.get(name).str()); err == nil {
			return n
		}
		return otherwise
	}
	least, most := number("minReplicas", 0), number("maxReplicas", math.MaxInt32)
	n := number("replicas", least)
	if least < 0 || n < least || n > most {
		at := cmp.Or(g.get("replicas"), g.get("maxReplicas"), g.get("minReplicas"))
		c.fail(rayslice.FindingReplicas, at, map[string]any{"min": least, "replicas": n, "max": most})
	}
}

// imageVersion finds the Ray version in the tag of an image, e.g. rayproject/ray:2.52.0-py311.
var imageVersion = regexp.MustCompile(`:(\d{1,2}\.\d{1,3}\.\d{1,3})\b`)

// versionOf returns the Ray version that an image's tag names, "" when it names none.
func versionOf(image string) string {
	if m := imageVersion.FindStringSubmatch(image); m != nil && strings.Contains(image, "ray") {
		return m[1]
	}
	return ""
}

// versions finds Ray versions that differ: client and cluster must have the same, and so must head and workers.
func (c *checker) versions(cl cluster) {
	image := cl.head.ray().get("image")
	has, declared := versionOf(image.str()), cl.spec.get("rayVersion")
	switch {
	case declared.str() == "" && has != "":
		c.warn(rayslice.FindingRayVersion, cl.spec, nil, set(cl.spec, has, "rayVersion"))
	case declared.str() == "":
		c.warn(rayslice.FindingRayVersion, cl.spec, nil)
	case has != "" && has != declared.str():
		c.warn(rayslice.FindingImageVersion, declared, map[string]any{"image": short(image.str()), "version": short(declared.str())}, replace(declared, has))
	}
	for _, g := range cl.workers() {
		other := g.ray().get("image")
		if has != "" && other.str() != "" && versionOf(other.str()) != "" && versionOf(other.str()) != has {
			c.warn(rayslice.FindingImagesDiffer, other, map[string]any{"image": short(other.str()), "head": short(image.str())})
		}
	}
}
