package lint

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one value of a document, aliases and merge keys written out, that knows where it stands. A nil value is one
// that is not there: it has no members and no text.
type value struct {
	node   *yaml.Node
	key    *yaml.Node // of a map's member
	parent *value
	name   string // of a map's member
	index  int    // of a list's, else -1
	shared bool   // it stands in several places, by an alias or a merge key
	fields []*value
	items  []*value
	byName map[string]*value // of fields, where there are many
}

// manyFields is from how many on a map is looked up by name.
const manyFields = 16

func (v *value) add(field *value) {
	v.fields = append(v.fields, field)
	switch {
	case v.byName != nil:
		v.byName[field.name] = field
	case len(v.fields) >= manyFields:
		v.byName = map[string]*value{}
		for _, f := range v.fields {
			v.byName[f.name] = f
		}
	}
}

// get returns the member at the end of the names, nil when there is none.
func (v *value) get(names ...string) *value {
	for _, name := range names {
		if v == nil {
			return nil
		}
		if v.byName != nil {
			v = v.byName[name]
			continue
		}
		i := slices.IndexFunc(v.fields, func(f *value) bool { return f.name == name })
		if i < 0 {
			return nil
		}
		v = v.fields[i]
	}
	return v
}

// all returns the members of a list; none for anything else.
func (v *value) all() []*value {
	if v == nil {
		return nil
	}
	return v.items
}

// members returns the members of a map; none for anything else.
func (v *value) members() []*value {
	if v == nil {
		return nil
	}
	return v.fields
}

// str returns the text of a scalar, "" for anything else.
func (v *value) str() string {
	if v == nil || v.node.Kind != yaml.ScalarNode || v.null() {
		return ""
	}
	return v.node.Value
}

// there reports whether there is such a value, and it is not null.
func (v *value) there() bool { return v != nil && !v.null() }

func (v *value) null() bool { return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null" }

// yes reports whether it is true, in any way that YAML has to say so.
func (v *value) yes() bool {
	if v == nil || v.node.Kind != yaml.ScalarNode {
		return false
	}
	truth, ok := truthOf(v.node)
	return ok && truth
}

// truthOf returns what the scalar means as true or false. kubectl reads YAML 1.1, where yes and on are true.
func truthOf(node *yaml.Node) (truth, ok bool) {
	if node.ShortTag() == "!!bool" {
		return strings.EqualFold(node.Value, "true"), true
	}
	if node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 || node.ShortTag() != "!!str" {
		return false, false
	}
	switch strings.ToLower(node.Value) {
	case "y", "yes", "on":
		return true, true
	case "n", "no", "off":
		return false, true
	}
	return false, false
}

// position returns where it stands: line and column, both from 1.
func (v *value) position() (line, column int) {
	if v.key != nil {
		return max(v.key.Line, 1), max(v.key.Column, 1)
	}
	return max(v.node.Line, 1), max(v.node.Column, 1)
}

func (v *value) root() *value {
	for v.parent != nil {
		v = v.parent
	}
	return v
}

// path returns where it stands for people: "spec.workerGroupSpecs[0].groupName".
func (v *value) path() string {
	if v.parent == nil {
		return ""
	}
	above := v.parent.path()
	switch {
	case v.index >= 0:
		return above + "[" + strconv.Itoa(v.index) + "]"
	case above == "":
		return short(v.name)
	}
	return above + "." + short(v.name)
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns where it stands for programs (RFC 6901): "/spec/workerGroupSpecs/0/groupName".
func (v *value) pointer() string {
	if v.parent == nil {
		return ""
	}
	if v.index >= 0 {
		return v.parent.pointer() + "/" + strconv.Itoa(v.index)
	}
	return v.parent.pointer() + "/" + pointerEscape.Replace(v.name)
}

// maxShort is how much of a text from a file a finding repeats, characters.
const maxShort = 80

// short cuts a text from a file to what a sentence can bear.
func short(text string) string {
	text = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxShort {
		return string(runes[:maxShort]) + "…"
	}
	return text
}

// joined lists names, each once, a few of them.
func joined(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) > 5 {
		names = append(names[:5:5], "…")
	}
	return short(strings.Join(names, ", "))
}

// kindName returns what a node is, as findings say it.
func kindName(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "map"
	case yaml.SequenceNode:
		return "list"
	case yaml.AliasNode:
		return kindName(node.Alias)
	}
	if _, ok := truthOf(node); ok {
		return "bool"
	}
	switch node.ShortTag() {
	case "!!int":
		return "int"
	case "!!float":
		return "number"
	case "!!null":
		return "null"
	}
	return "text"
}
