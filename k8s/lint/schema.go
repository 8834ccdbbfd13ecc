package lint

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rayslice/rayslice"
)

// clusterKinds are the kinds that hold a Ray cluster: their types, where the cluster's spec is in them, and how long their names may
// be: KubeRay adds to the names of the two that make clusters (validation.go and constant.go of KubeRay 1.5).
var clusterKinds = map[string]struct {
	schema  reflect.Type
	spec    []string
	maxName int
}{
	"RayCluster": {reflect.TypeFor[rayv1.RayCluster](), []string{"spec"}, 53},
	"RayJob":     {reflect.TypeFor[rayv1.RayJob](), []string{"spec", "rayClusterSpec"}, 47},
	"RayService": {reflect.TypeFor[rayv1.RayService](), []string{"spec", "rayClusterConfig"}, 47},
}

var (
	quantityType    = reflect.TypeFor[resource.Quantity]()
	intOrStringType = reflect.TypeFor[intstr.IntOrString]()
	timeType        = reflect.TypeFor[metav1.Time]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
)

// conform holds a value against the type that Kubernetes decodes it into: fields that do not exist and values of another
// kind are errors, as kubectl and the API server take them.
func (c *checker) conform(v *value, want reflect.Type) {
	for want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	if v.null() {
		return
	}
	switch {
	case want == quantityType:
		c.conformQuantity(v)
	case want == intOrStringType, want == timeType:
		c.wantKind(v, yaml.ScalarNode, "text")
	case reflect.PointerTo(want).Implements(unmarshaler), want.Kind() == reflect.Interface:
		// it reads itself
	case want.Kind() == reflect.Struct:
		c.conformStruct(v, want)
	case want.Kind() == reflect.Map:
		if c.wantKind(v, yaml.MappingNode, "map") {
			for _, field := range v.fields {
				c.conform(field, want.Elem())
			}
		}
	case want.Kind() == reflect.Slice && want.Elem().Kind() != reflect.Uint8:
		if c.wantKind(v, yaml.SequenceNode, "list") {
			for _, item := range v.items {
				c.conform(item, want.Elem())
			}
		}
	default:
		c.conformScalar(v, want)
	}
}

func (c *checker) wantKind(v *value, kind yaml.Kind, want string) bool {
	if v.node.Kind == kind {
		return true
	}
	c.fail(rayslice.FindingWrongType, v, map[string]any{"want": want, "got": kindName(v.node)})
	return false
}

func (c *checker) conformStruct(v *value, want reflect.Type) {
	if !c.wantKind(v, yaml.MappingNode, "map") {
		return
	}
	known := fieldsOf(want)
	for _, field := range v.fields {
		t, ok := known[field.name]
		switch {
		case !ok:
			c.fail(rayslice.FindingUnknownField, field, map[string]any{"name": short(field.name)}, remove(field))
		case v.parent == nil && field.name == "status":
			// the API server drops it
		default:
			c.conform(field, t)
		}
	}
}

// conformScalar finds values without the quotes that they need, which is what people most often get wrong.
func (c *checker) conformScalar(v *value, want reflect.Type) {
	if !c.wantKind(v, yaml.ScalarNode, wantName(want)) {
		return
	}
	got := kindName(v.node)
	wrong := func(fix ...rayslice.Patch) {
		c.fail(rayslice.FindingWrongType, v, map[string]any{"want": wantName(want), "got": got}, fix...)
	}
	switch want.Kind() {
	case reflect.String, reflect.Slice:
		if got != "text" {
			wrong(replace(v, v.node.Value))
		}
	case reflect.Bool:
		if _, ok := truthOf(v.node); ok {
			return
		}
		if truth, err := strconv.ParseBool(v.node.Value); err == nil {
			wrong(replace(v, truth))
			return
		}
		wrong()
	case reflect.Float32, reflect.Float64:
		if got != "int" && got != "number" {
			wrong()
		}
	default:
		if got == "int" {
			return
		}
		if n, err := strconv.ParseInt(v.node.Value, 10, 32); err == nil {
			wrong(replace(v, int(n)))
			return
		}
		wrong()
	}
}

func (c *checker) conformQuantity(v *value) {
	if !c.wantKind(v, yaml.ScalarNode, "quantity") || isGPU(v.name) {
		return // sizes of slices have findings of their own
	}
	switch _, err := parseQuantity(v.node.Value); {
	case err == nil:
	case errors.Is(err, errQuantityRange):
		c.fail(rayslice.FindingQuantityRange, v, map[string]any{"name": short(v.name), "value": short(v.node.Value)})
	default:
		c.fail(rayslice.FindingWrongType, v, map[string]any{"want": "quantity", "got": short(v.node.Value)})
	}
}

func wantName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String, reflect.Slice:
		return "text"
	case reflect.Bool:
		return "bool"
	case reflect.Float32, reflect.Float64:
		return "number"
	}
	return "int"
}

// schemas caches fieldsOf.
var schemas sync.Map

// fieldsOf returns the type of each field by its name in JSON, those of embedded structs included.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := schemas.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case field.Anonymous && (name == "" || strings.Contains(options, "inline")):
			for embedded, et := range fieldsOf(field.Type) {
				fields[embedded] = et
			}
		default:
			fields[name] = field.Type
		}
	}
	schemas.Store(t, fields)
	return fields
}
