package lint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rayslice/rayslice"
)

func replace(v *value, with any) rayslice.Patch {
	return rayslice.Patch{Op: "replace", Path: v.pointer(), Value: with}
}

func remove(v *value) rayslice.Patch { return rayslice.Patch{Op: "remove", Path: v.pointer()} }

// set returns what makes a member of a map have the value, and the maps above it that are not there yet.
func set(at *value, with any, names ...string) rayslice.Patch {
	for len(names) > 1 && at.get(names[0]).there() {
		at, names = at.get(names[0]), names[1:]
	}
	for _, name := range slices.Backward(names[1:]) {
		with = map[string]any{name: with}
	}
	return rayslice.Patch{Op: "add", Path: at.pointer() + "/" + pointerEscape.Replace(names[0]), Value: with}
}

// FixAll mends what can be mended without anybody deciding, and returns the text and how many findings were mended. What
// one fix brings to light, the next round mends.
func FixAll(text []byte, catalogue rayslice.Catalogue) ([]byte, int) {
	const rounds = 5 // a fix brings at most a few others to light
	n := 0
	for range rounds {
		fixed, mended := fix(text, Check(text, catalogue).Findings)
		if mended == 0 {
			break
		}
		text, n = fixed, n+mended
	}
	return text, n
}

// Fix mends the finding that has the key, and returns the text as it was when there is none, or nothing mends it.
func Fix(text []byte, catalogue rayslice.Catalogue, key string) ([]byte, bool) {
	findings := slices.DeleteFunc(Check(text, catalogue).Findings, func(f rayslice.Finding) bool { return f.Key() != key })
	fixed, n := fix(text, findings[:min(1, len(findings))])
	return fixed, n > 0
}

// fix applies the fixes from the last to the first, so that none moves what another one is about, and writes the text anew:
// comments stay, empty lines do not. A text that would not read back is not changed.
func fix(text []byte, findings []rayslice.Finding) ([]byte, int) {
	findings = slices.DeleteFunc(slices.Clone(findings), func(f rayslice.Finding) bool { return len(f.Fix) == 0 })
	roots, err := parse(text)
	if err != nil || len(findings) == 0 {
		return text, 0
	}
	slices.SortStableFunc(findings, func(a, b rayslice.Finding) int {
		return cmp.Or(cmp.Compare(b.Line, a.Line), cmp.Compare(b.Column, a.Column))
	})
	n, touched := 0, map[int][]string{}
	for _, f := range findings {
		if f.Document >= len(roots) || overlap(touched[f.Document], f.Fix) || apply(roots[f.Document], f.Fix) != nil {
			continue
		}
		for _, p := range f.Fix {
			touched[f.Document] = append(touched[f.Document], p.Path)
		}
		n++
	}
	fixed, err := encode(roots)
	if err != nil || n == 0 {
		return text, 0
	}
	if _, err := parse(fixed); err != nil {
		return text, 0
	}
	return fixed, n
}

func encode(roots []*yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	for _, root := range roots {
		if err := encoder.Encode(root); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), encoder.Close()
}

var errPatch = errors.New("the patch does not fit the document")

// overlap reports whether a fix is about something that another one has changed already: it waits for the next round, when the
// finding may be gone.
func overlap(touched []string, patches []rayslice.Patch) bool {
	return slices.ContainsFunc(patches, func(p rayslice.Patch) bool {
		return slices.ContainsFunc(touched, func(t string) bool {
			return p.Path == t || strings.HasPrefix(p.Path, t+"/") || strings.HasPrefix(t, p.Path+"/")
		})
	})
}

// apply carries the operations out. They fit the document that they were made for.
func apply(document *yaml.Node, patches []rayslice.Patch) error {
	if len(document.Content) == 0 || !reachable(document.Content[0], patches) {
		return errPatch
	}
	for _, p := range patches {
		if err := applyOne(document.Content[0], p); err != nil {
			return err
		}
	}
	return nil
}

func applyOne(root *yaml.Node, p rayslice.Patch) error {
	names := strings.Split(strings.TrimPrefix(p.Path, "/"), "/")
	parent := root
	for _, name := range names[:len(names)-1] {
		at := find(parent, name)
		if at < 0 {
			return errPatch
		}
		parent = parent.Content[at]
	}
	name, content := pointerUnescape.Replace(names[len(names)-1]), &yaml.Node{}
	at := find(parent, names[len(names)-1])
	if p.Op != "remove" {
		if err := content.Encode(p.Value); err != nil {
			return fmt.Errorf("encode the value of %s: %w", p.Path, err)
		}
	}
	return edit(parent, p.Op, name, at, content)
}

// edit changes one member of a map or list; at is its place in Content, negative when it is not there.
func edit(parent *yaml.Node, op, name string, at int, content *yaml.Node) error {
	switch {
	case op == "remove" && at >= 0:
		from := at
		if parent.Kind == yaml.MappingNode {
			from--
		}
		parent.Content = slices.Delete(slices.Clone(parent.Content), from, at+1)
	case op == "remove", op == "replace" && at < 0:
		return errPatch
	case at >= 0 && (op == "replace" || parent.Kind == yaml.MappingNode):
		old := parent.Content[at]
		content.HeadComment, content.LineComment, content.FootComment = old.HeadComment, old.LineComment, old.FootComment
		parent.Content = slices.Clone(parent.Content)
		parent.Content[at] = content
	case parent.Kind == yaml.MappingNode:
		parent.Style &^= yaml.FlowStyle
		parent.Content = append(slices.Clone(parent.Content), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, content)
	case parent.Kind == yaml.SequenceNode && name == "-":
		parent.Style &^= yaml.FlowStyle
		parent.Content = append(slices.Clone(parent.Content), content)
	default:
		return errPatch
	}
	return nil
}

var pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")

// find returns the place of a member in Content, -1 when it is not there. Of members that stand twice it is the first, which
// is the one that findings are about.
func find(node *yaml.Node, name string) int {
	name = pointerUnescape.Replace(name)
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return i + 1
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return i
		}
	}
	return -1
}

// reachable reports whether every operation stays clear of aliases and merge keys: behind one stands what other places
// share.
func reachable(root *yaml.Node, patches []rayslice.Patch) bool {
	for _, p := range patches {
		node := root
		for name := range strings.SplitSeq(strings.TrimPrefix(p.Path, "/"), "/") {
			at := find(node, name)
			if at < 0 {
				break
			}
			if node = node.Content[at]; node.Kind == yaml.AliasNode || node.Anchor != "" {
				return false
			}
		}
	}
	return true
}
