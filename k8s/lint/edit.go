package lint

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rayslice/rayslice"
)

// A change puts a text in the place of another.
type change struct {
	from, to int
	with     string
}

// changed carries changes out. Two that meet do not go together: which is first would matter.
func (s source) changed(changes []change) ([]byte, error) {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	var out bytes.Buffer
	last, before := 0, -1
	for _, c := range changes {
		if c.from < last || c.from == before {
			return nil, errUnusual
		}
		out.Write(s.text[last:c.from])
		out.WriteString(c.with)
		last, before = c.to, c.from
	}
	out.Write(s.text[last:])
	return out.Bytes(), nil
}

// A step is a collection on the way to a place in a document, and which of its entries goes on; the last one's is negative
// when there is no such entry yet.
type step struct {
	node  *yaml.Node
	entry int
}

// content returns the value of the step's entry.
func (t step) content() *yaml.Node {
	if t.node.Kind == yaml.MappingNode {
		return t.node.Content[2*t.entry+1]
	}
	return t.node.Content[t.entry]
}

// way returns the steps to a patch's place, and the name of the last.
func way(root *yaml.Node, path string) (steps []step, name string, err error) {
	names := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, name := range names {
		at := find(root, name)
		if root.Kind == yaml.MappingNode && at > 0 {
			at /= 2
		}
		steps = append(steps, step{root, at})
		if i == len(names)-1 {
			return steps, pointerUnescape.Replace(name), nil
		}
		if at < 0 {
			return nil, "", errPatch
		}
		root = steps[i].content()
	}
	return nil, "", errPatch
}

// editor finds what of a text has to change so that its document is as a patch makes it.
type editor struct {
	source
	steps []step
}

// changes returns what carries the patch out on a document of the text.
func (s source) changes(root *yaml.Node, p rayslice.Patch) ([]change, error) {
	steps, name, err := way(root, p.Path)
	if err != nil {
		return nil, err
	}
	e, content := editor{s, steps}, &yaml.Node{}
	if p.Op != "remove" {
		if err := content.Encode(p.Value); err != nil {
			return nil, fmt.Errorf("encode the value of %s: %w", p.Path, err)
		}
	}
	last := steps[len(steps)-1]
	switch {
	case p.Op == "remove" && last.entry >= 0:
		return e.remove(last)
	case p.Op == "remove", p.Op == "replace" && last.entry < 0:
		return nil, errPatch
	case last.entry >= 0 && (p.Op == "replace" || last.node.Kind == yaml.MappingNode):
		return e.replace(last, content)
	case last.node.Kind == yaml.MappingNode:
		return e.addMember(last.node, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, content)
	case last.node.Kind == yaml.SequenceNode && name == "-":
		return e.addItem(last.node, content)
	}
	return nil, errPatch
}

// writer returns what writes as the text around a collection is written.
func (e editor) writer(line int) writer {
	w := writer{newline: e.newline(line)}
	for _, t := range slices.Backward(e.steps) {
		if t.node.Kind == yaml.MappingNode && len(t.node.Content) > 0 {
			w.json = !block(t.node) && t.node.Content[0].Style == yaml.DoubleQuotedStyle
			break
		}
	}
	return w
}

// replace changes the value of an entry. One that is not written is written behind its colon.
func (e editor) replace(t step, with *yaml.Node) ([]change, error) {
	old := t.content()
	w := e.writer(old.Line)
	if empty(old) && t.node.Kind == yaml.MappingNode {
		at, err := e.colon(head(t.node, t.entry))
		if err != nil {
			return nil, err
		}
		return []change{{at, at, " " + w.flow(with)}}, nil
	}
	from, err := e.at(old)
	if err != nil {
		return nil, err
	}
	to, err := e.end(old)
	if err != nil {
		return nil, err
	}
	if old.Kind == yaml.ScalarNode {
		w.quote = old.Style
	}
	return []change{{from, to, w.flow(with)}}, nil
}

// addMember puts a member behind the last one of a map.
func (e editor) addMember(node, name, content *yaml.Node) ([]change, error) {
	if !block(node) {
		w := e.writer(node.Line)
		return e.addInFlow(node, w.key(name)+": "+w.flow(content))
	}
	indent, _ := e.column(node.Content[0])
	line := e.lastLine(len(e.steps)-1, entries(node)-1, indent)
	return e.insert(line, e.writer(line).member(indent, name, content)), nil
}

// addItem puts an item behind the last one of a list.
func (e editor) addItem(node, content *yaml.Node) ([]change, error) {
	if !block(node) {
		return e.addInFlow(node, e.writer(node.Line).flow(content))
	}
	indent, _ := e.column(node)
	line := e.lastLine(len(e.steps)-1, entries(node)-1, indent)
	return e.insert(line, e.writer(line).item(indent, content)), nil
}

// insert puts whole lines behind a line.
func (e editor) insert(line int, text string) []change {
	at := e.after(line)
	if at == len(e.text) && len(e.line(line)) == at-e.lines[line-1] { // the last line of the text has no end
		text = e.newline(line) + strings.TrimSuffix(text, e.newline(line))
	}
	return []change{{at, at, text}}
}

// addInFlow puts an entry behind the last one in brackets, on a line of its own if the last one has one.
func (e editor) addInFlow(node *yaml.Node, text string) ([]change, error) {
	n := entries(node)
	if n == 0 {
		at, err := e.at(node)
		return []change{{at + 1, at + 1, text}}, err
	}
	at, err := e.entryEnd(node, n-1)
	if err != nil {
		return nil, err
	}
	separator := ", "
	if indent, first := e.column(head(node, n-1)); first && head(node, n-1).Line > node.Line {
		separator = "," + e.newline(node.Line) + strings.Repeat(" ", indent)
	}
	return []change{{at, at, separator + text}}, nil
}

// remove cuts an entry out. A collection that has none left is written as {} or [].
func (e editor) remove(t step) ([]change, error) {
	switch {
	case !block(t.node):
		return e.removeInFlow(t)
	case entries(t.node) == 1:
		return e.removeAll(t)
	}
	from, indent, err := e.entry(t)
	if err != nil {
		return nil, err
	}
	line := e.lineOf(from)
	last := e.lastLine(len(e.steps)-1, t.entry, indent)
	if begin := e.lines[line-1]; strings.Trim(string(e.text[begin:from]), " ") == "" {
		return []change{{begin, e.after(last), ""}}, nil
	}
	if t.entry+1 == entries(t.node) { // behind a dash, and still the last: not the first of several
		return nil, errUnusual
	}
	next, _, err := e.entry(step{t.node, t.entry + 1})
	if err != nil || e.lineOf(next) != last+1 {
		return nil, errUnusual
	}
	return []change{{from, next, ""}}, nil
}

// entry returns where an entry of a block collection begins, its dash included, and how far it is indented.
func (e editor) entry(t step) (from, indent int, err error) {
	first := head(t.node, t.entry)
	if from, err = e.at(first); err != nil {
		return 0, 0, err
	}
	if t.node.Kind == yaml.MappingNode {
		indent, _ = e.column(first)
		return from, indent, nil
	}
	indent, _ = e.column(t.node)
	from, err = e.at(&yaml.Node{Line: first.Line, Column: t.node.Column})
	if err != nil || from >= len(e.text) || e.text[from] != '-' {
		return 0, 0, errUnusual
	}
	return from, indent, nil
}

// removeAll removes the only entry of a block collection.
func (e editor) removeAll(t step) ([]change, error) {
	if len(e.steps) < 2 {
		return nil, errUnusual
	}
	from, indent, err := e.entry(t)
	if err != nil {
		return nil, err
	}
	nothing := "{}"
	if t.node.Kind == yaml.SequenceNode {
		nothing = "[]"
	}
	line, last := e.lineOf(from), e.lastLine(len(e.steps)-1, t.entry, indent)
	begin := e.lines[line-1]
	if strings.Trim(string(e.text[begin:from]), " ") != "" { // behind a dash
		return []change{{from, e.lines[last-1] + len(e.line(last)), nothing}}, nil
	}
	holder := e.steps[len(e.steps)-2]
	if holder.node.Kind != yaml.MappingNode {
		return nil, errUnusual
	}
	colon, err := e.colon(head(holder.node, holder.entry))
	if err != nil {
		return nil, err
	}
	return []change{{colon, colon, " " + nothing}, {begin, e.after(last), ""}}, nil
}

// removeInFlow removes an entry in brackets with the comma beside it.
func (e editor) removeInFlow(t step) ([]change, error) {
	from, err := e.at(head(t.node, t.entry))
	if err != nil {
		return nil, err
	}
	to, err := e.entryEnd(t.node, t.entry)
	if err != nil {
		return nil, err
	}
	gap := ""
	switch n := entries(t.node); {
	case t.entry+1 < n:
		next, err := e.at(head(t.node, t.entry+1))
		if err != nil || next < to {
			return nil, errUnusual
		}
		gap, to = string(e.text[to:next]), next
	case n > 1:
		before, err := e.entryEnd(t.node, t.entry-1)
		if err != nil || before > from {
			return nil, errUnusual
		}
		gap, from = string(e.text[before:from]), before
	}
	if strings.Trim(gap, " \t\r\n,") != "" { // a comment
		return nil, errUnusual
	}
	return []change{{from, to, ""}}, nil
}

// lastLine returns the last line of an entry of a block collection on the way: the last before what follows, without the empty lines and
// the comments that are not indented further.
func (e editor) lastLine(depth, entry, indent int) int {
	first := head(e.steps[depth].node, entry).Line
	last := e.follows(depth, entry, first) - 1
	for ; last > first; last-- {
		text := e.line(last)
		trimmed := strings.TrimLeft(text, " \t")
		if trimmed != "" && (trimmed[0] != '#' || len(text)-len(trimmed) > indent) {
			break
		}
	}
	return last
}

// follows returns the line of what follows an entry, of whatever collection around it; behind all it is the line of the mark that ends the document, or
// the one behind the text.
func (e editor) follows(depth, entry, first int) int {
	for d := depth; d >= 0; d-- {
		node := e.steps[d].node
		if d < depth {
			entry = e.steps[d].entry
		}
		if entry+1 < entries(node) {
			return head(node, entry+1).Line
		}
	}
	for n := first + 1; n <= len(e.lines); n++ {
		if text := e.line(n); text == "---" || text == "..." || strings.HasPrefix(text, "--- ") || strings.HasPrefix(text, "... ") {
			return n
		}
	}
	if last := len(e.lines); e.lines[last-1] == len(e.text) && last > 1 {
		return last
	}
	return len(e.lines) + 1
}
