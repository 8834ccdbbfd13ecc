package k8s

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/rayslice/rayslice"
)

// WithReplicas returns a copy of desired in which autoscaled groups keep what belongs to Ray's autoscaler: the present
// number of workers, held between minimum and maximum, and the workers it has picked for removal. The list of groups
// is atomic under server-side apply, so leaving these out would reset them. A nil live changes nothing.
//
// The autoscaler may write between the read of live and the apply; setting live's resourceVersion on what is applied
// turns that into a conflict.
func WithReplicas(desired, live *rayv1.RayCluster) *rayv1.RayCluster {
	merged := desired.DeepCopy()
	if live == nil {
		return merged
	}
	for i := range merged.Spec.WorkerGroupSpecs {
		group := &merged.Spec.WorkerGroupSpecs[i]
		present := groupNamed(live, group.GroupName)
		if *group.MinReplicas == *group.MaxReplicas || present == nil || present.Replicas == nil {
			continue
		}
		group.Replicas = new(min(max(*present.Replicas, *group.MinReplicas), *group.MaxReplicas))
		group.ScaleStrategy = *present.ScaleStrategy.DeepCopy()
	}
	return merged
}

func groupNamed(cluster *rayv1.RayCluster, name string) *rayv1.WorkerGroupSpec {
	groups := cluster.Spec.WorkerGroupSpecs
	i := slices.IndexFunc(groups, func(g rayv1.WorkerGroupSpec) bool { return g.GroupName == name })
	if i < 0 {
		return nil
	}
	return &groups[i]
}

// Drift compares what we render with what stands and returns every difference, in the order of the object. Left out
// are status and other people's labels and annotations, unless KubeRay acts on them, and what the autoscaler may decide
// within the approved bounds. Fields that are newer than our KubeRay types are not seen. Who wrote a difference is known
// only when live still carries its managed fields. A nil live has no drift.
func Drift(desired, live *rayv1.RayCluster) []rayslice.Drift {
	if live == nil {
		return nil
	}
	approved, errApproved := objectOf(WithReplicas(desired, live))
	observed, errObserved := objectOf(live)
	if errApproved != nil || errObserved != nil {
		return []rayslice.Drift{{Field: "spec", Observed: fmt.Sprintf("cannot be compared: %v %v", errApproved, errObserved)}}
	}
	c := comparison{owners: ownersOf(live.ManagedFields)}
	for _, field := range []string{"labels", "annotations"} {
		at := location{}.field("metadata").field(field)
		ours := metadataOf(approved, field)
		c.fields(at, ours, relevant(ours, metadataOf(observed, field)))
	}
	c.compare(location{}.field("spec"), approved["spec"], observed["spec"])
	return c.drifts
}

func metadataOf(object map[string]any, field string) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	entries, _ := metadata[field].(map[string]any)
	return entries
}

// relevant returns the observed entries that we set, and those that KubeRay acts on.
func relevant(ours, observed map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range observed {
		if _, set := ours[key]; set || strings.HasPrefix(key, "ray.io/") {
			kept[key] = value
		}
	}
	return kept
}

// comparison collects differences.
type comparison struct {
	owners []ownership
	drifts []rayslice.Drift
}

func (c *comparison) compare(at location, approved, observed any) {
	if isEmpty(approved) && isEmpty(observed) {
		return
	}
	switch approved := approved.(type) {
	case map[string]any:
		if observed, same := observed.(map[string]any); same {
			c.fields(at, approved, observed)
			return
		}
	case []any:
		if observed, same := observed.([]any); same {
			c.items(at, approved, observed)
			return
		}
	}
	if !reflect.DeepEqual(approved, observed) {
		c.drifts = append(c.drifts, rayslice.Drift{
			Field: at.text, Approved: textOf(approved), Observed: textOf(observed), Manager: managerOf(c.owners, at.path),
		})
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func (c *comparison) fields(at location, approved, observed map[string]any) {
	keys := slices.Collect(maps.Keys(approved))
	for key := range observed {
		if _, both := approved[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		c.compare(at.field(key), approved[key], observed[key])
	}
}

// items compares lists: members that have a name with their namesakes, others by position.
func (c *comparison) items(at location, approved, observed []any) {
	paired := make([]bool, len(observed))
	for i, want := range approved {
		j := partner(i, want, observed, paired)
		if j < 0 {
			c.compare(at.item(i, want), want, nil)
			continue
		}
		paired[j] = true
		c.compare(at.item(i, want), want, observed[j])
	}
	for j, extra := range observed {
		if !paired[j] {
			c.compare(at.item(j, extra), nil, extra)
		}
	}
}

// partner returns the index of the observed member that belongs to the i-th approved one, or -1.
func partner(i int, want any, observed []any, paired []bool) int {
	key, name := nameOf(want)
	if key == "" {
		if i < len(observed) && !paired[i] {
			return i
		}
		return -1
	}
	for j, candidate := range observed {
		if _, n := nameOf(candidate); n == name && !paired[j] {
			return j
		}
	}
	return -1
}

// nameOf returns the field that names a member of a list and the name; "" when it has none.
func nameOf(item any) (key, name string) {
	fields, _ := item.(map[string]any)
	for _, key := range []string{"groupName", "name"} {
		if name, ok := fields[key].(string); ok {
			return key, name
		}
	}
	return "", ""
}

// location is a place in the object: as people read it, and as managed fields spell it.
type location struct {
	text string
	path fieldpath.Path
}

var plainField = regexp.MustCompile(`^[A-Za-z0-9]+$`)

func (l location) field(key string) location {
	text := l.text + "." + key
	if !plainField.MatchString(key) {
		text = fmt.Sprintf("%s[%s]", l.text, key)
	}
	return location{strings.TrimPrefix(text, "."), l.with(fieldpath.PathElement{FieldName: &key})}
}

func (l location) item(i int, item any) location {
	element := fieldpath.PathElement{Index: &i}
	if key, name := nameOf(item); key != "" {
		element = fieldpath.PathElement{Key: &value.FieldList{{Name: key, Value: value.NewValueInterface(name)}}}
	}
	return location{fmt.Sprintf("%s[%d]", l.text, i), l.with(element)}
}

func (l location) with(element fieldpath.PathElement) fieldpath.Path {
	return append(slices.Clip(l.path), element)
}

// longestText bounds a value in a drift, in runes: somebody's extra container can be long.
const longestText = 300

func textOf(v any) string {
	text, isString := v.(string)
	if !isString && v != nil {
		raw, err := json.Marshal(v)
		if err != nil {
			raw = []byte(err.Error())
		}
		text = string(raw)
	}
	if utf8.RuneCountInString(text) > longestText {
		text = string([]rune(text)[:longestText]) + "…"
	}
	return text
}

// ownership is what one field manager wrote last.
type ownership struct {
	manager string
	at      time.Time
	fields  *fieldpath.Set
}

// ownersOf reads managed fields, others before us and later writers before earlier ones. Entries that cannot be read
// are left out: the difference is then shown without its author.
func ownersOf(entries []metav1.ManagedFieldsEntry) []ownership {
	var all []ownership
	for _, entry := range entries {
		fields := &fieldpath.Set{}
		if entry.Subresource != "" || entry.FieldsV1 == nil || fields.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)) != nil {
			continue
		}
		o := ownership{manager: entry.Manager, fields: fields}
		if entry.Time != nil {
			o.at = entry.Time.Time
		}
		all = append(all, o)
	}
	slices.SortStableFunc(all, func(a, b ownership) int {
		if (a.manager == FieldManager) != (b.manager == FieldManager) {
			if a.manager == FieldManager {
				return 1
			}
			return -1
		}
		return b.at.Compare(a.at)
	})
	return all
}

// managerOf returns who owns the path most closely.
func managerOf(all []ownership, path fieldpath.Path) string {
	manager, deepest := "", 0
	for _, o := range all {
		if depth := ownedDepth(o.fields, path); depth > deepest {
			manager, deepest = o.manager, depth
		}
	}
	return manager
}

// ownedDepth returns how many elements of the path lead to what the set owns: the place itself, or an atomic list or
// map around it; 0 when neither.
func ownedDepth(set *fieldpath.Set, path fieldpath.Path) int {
	for i, element := range path {
		inner, deeper := set.Children.Get(element)
		switch {
		case !deeper && set.Members.Has(element):
			return i + 1
		case !deeper:
			return 0
		}
		set = inner
	}
	return len(path)
}
