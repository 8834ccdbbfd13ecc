package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
// one fix brings to light, the next round mends. Nothing but the mended places changes; what stands in a place that is written in
// an unusual way stays as it is. It stops where it is when ctx ends, with what is mended by then.
func FixAll(ctx context.Context, text []byte, catalogue rayslice.Catalogue) ([]byte, int) {
	const rounds = 5 // a fix brings at most a few others to light
	n := 0
	for range rounds {
		fixed, mended := fix(ctx, text, Check(text, catalogue).Findings)
		if mended == 0 {
			break
		}
		text, n = fixed, n+mended
	}
	return text, n
}

// Fix mends the finding that has the key, as FixAll does, and returns the text as it was when there is none, or nothing mends
// it.
func Fix(ctx context.Context, text []byte, catalogue rayslice.Catalogue, key string) ([]byte, bool) {
	findings := slices.DeleteFunc(Check(text, catalogue).Findings, func(f rayslice.Finding) bool { return f.Key() != key })
	fixed, n := fix(ctx, text, findings[:min(1, len(findings))])
	return fixed, n > 0
}

// fix applies the fixes from the last to the first, so that none moves what another one is about. One that cannot be applied leaves
// the others be; one that is about what another one changes waits, as it may not be needed then.
func fix(ctx context.Context, text []byte, findings []rayslice.Finding) ([]byte, int) {
	findings = slices.DeleteFunc(slices.Clone(findings), func(f rayslice.Finding) bool { return len(f.Fix) == 0 })
	if len(findings) == 0 || !utf8.Valid(text) { // positions are those of UTF-8
		return text, 0
	}
	slices.SortStableFunc(findings, func(a, b rayslice.Finding) int {
		return cmp.Or(cmp.Compare(b.Line, a.Line), cmp.Compare(b.Column, a.Column))
	})
	var first, rest []rayslice.Finding
	touched := touching{}
	for _, f := range findings {
		if touched.by(f) {
			rest = append(rest, f)
			continue
		}
		first = append(first, f)
		touched.add(f)
	}
	m := &mender{ctx: ctx, text: text, touched: touching{}}
	m.all(first)
	for _, f := range rest {
		if !m.touched.by(f) {
			m.all([]rayslice.Finding{f})
		}
	}
	return m.text, m.n
}

// touching are the paths that fixes change, by document.
type touching map[int][]string

func (t touching) add(f rayslice.Finding) {
	for _, p := range f.Fix {
		t[f.Document] = append(t[f.Document], p.Path)
	}
}

// by reports whether a fix is about something that another one changes.
func (t touching) by(f rayslice.Finding) bool { return overlap(t[f.Document], f.Fix) }

// A mender carries fixes out in a text.
type mender struct {
	ctx     context.Context
	text    []byte
	n       int // how many were
	touched touching
}

// all carries out what it can of the fixes: all at once, since every look at whether the text is right reads all of it, and
// where that does not work one half after the other.
func (m *mender) all(findings []rayslice.Finding) {
	if len(findings) == 0 || m.ctx.Err() != nil {
		return
	}
	fixed, err := mend(m.text, findings)
	if err != nil && len(findings) == 1 {
		fixed, err = mendByStep(m.text, findings[0])
	}
	switch half := len(findings) / 2; {
	case err == nil:
		m.text, m.n = fixed, m.n+len(findings)
		for _, f := range findings {
			m.touched.add(f)
		}
	case half > 0:
		m.all(findings[:half])
		m.all(findings[half:])
	}
}

// mend applies fixes to the text in one go. The text must then read as its documents do with the patches applied.
func mend(text []byte, findings []rayslice.Finding) ([]byte, error) {
	roots, err := parse(text)
	if err != nil {
		return nil, err
	}
	s := newSource(text)
	var changes []change
	for _, f := range findings {
		if f.Document >= len(roots) || len(roots[f.Document].Content) == 0 || !reachable(roots[f.Document].Content[0], f.Fix) {
			return nil, errPatch
		}
		for _, p := range f.Fix {
			more, err := s.changes(roots[f.Document].Content[0], p)
			if err != nil {
				return nil, err
			}
			changes = append(changes, more...)
		}
	}
	fixed, err := s.changed(changes)
	if err != nil {
		return nil, err
	}
	for _, f := range findings {
		for _, p := range f.Fix {
			if err := applyOne(roots[f.Document].Content[0], p); err != nil {
				return nil, err
			}
		}
	}
	got, err := parse(fixed)
	if err == nil && !slices.EqualFunc(got, roots, same) {
		err = errUnusual
	}
	return fixed, err
}

// mendByStep applies one patch of a fix after the other: of two in the same brackets, the second must see what the first has left.
func mendByStep(text []byte, f rayslice.Finding) (_ []byte, err error) {
	for _, p := range f.Fix {
		f.Fix = []rayslice.Patch{p}
		if text, err = mend(text, []rayslice.Finding{f}); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// same reports whether two nodes mean the same, however they are written.
func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Value == b.Value && a.Anchor == b.Anchor && a.ShortTag() == b.ShortTag() && slices.EqualFunc(a.Content, b.Content, same)
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

// applyOne carries an operation out. It fits the document that it was made for.
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
		parent.Content = slices.Clone(parent.Content)
		parent.Content[at] = content
	case parent.Kind == yaml.MappingNode:
		parent.Content = append(slices.Clone(parent.Content), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, content)
	case parent.Kind == yaml.SequenceNode && name == "-":
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
// share. Nor does it change or cut out what an alias elsewhere stands for.
func reachable(root *yaml.Node, patches []rayslice.Patch) bool {
	for _, p := range patches {
		node, there := root, true
		for name := range strings.SplitSeq(strings.TrimPrefix(p.Path, "/"), "/") {
			at := find(node, name)
			if there = at >= 0; !there {
				break
			}
			if node = node.Content[at]; node.Kind == yaml.AliasNode || node.Anchor != "" && inUse(root, nil, node) {
				return false
			}
		}
		if there && !cuttable(root, node, node) {
			return false
		}
	}
	return true
}

// cuttable reports whether no alias outside of the part stands for anything at the node or below it.
func cuttable(root, part, node *yaml.Node) bool {
	if node.Anchor != "" && inUse(root, part, node) {
		return false
	}
	return !slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return !cuttable(root, part, n) })
}

// inUse reports whether an alias stands for the node, other than in the part that is left aside.
func inUse(at, aside, node *yaml.Node) bool {
	if at == aside {
		return false
	}
	return at.Kind == yaml.AliasNode && at.Alias == node || slices.ContainsFunc(at.Content, func(n *yaml.Node) bool { return inUse(n, aside, node) })
}
