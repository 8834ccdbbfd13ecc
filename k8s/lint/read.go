package lint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rayslice/rayslice"
)

// read returns the documents of the text; nil with a finding when it cannot be read. What would cost much is refused
// before the parser sees it: every value needs a mark of its own, so marks bound the values.
func read(text []byte, c *checker) []*value {
	switch marks, line := countMarks(text); {
	case len(text) > MaxSize:
		c.addAt(rayslice.FindingTooLarge, 1, map[string]any{"max_kib": MaxSize >> 10})
		return nil
	case marks > 2*MaxValues:
		c.addAt(rayslice.FindingTooMuch, line, map[string]any{"max": MaxValues})
		return nil
	}
	roots, err := parse(text)
	if err != nil {
		c.unreadable(text, err)
		return nil
	}
	if len(roots) > MaxDocuments {
		c.document = MaxDocuments
		c.addAt(rayslice.FindingDocuments, roots[MaxDocuments].Line, map[string]any{"max": MaxDocuments})
		return nil
	}
	b := &builder{checker: c}
	documents := make([]*value, len(roots))
	for i, root := range roots {
		c.document = i
		documents[i] = b.document(root)
		if b.refused {
			return nil
		}
	}
	return documents
}

// countMarks counts the characters that can begin a value, and returns the line where there are too many.
func countMarks(text []byte) (marks, line int) {
	line = 1
	for _, b := range text[:min(len(text), MaxSize)] {
		switch b {
		case '\n':
			line++
			marks++
		case ',', ':', '-', '[', '{', '?':
			marks++
		}
		if marks > 2*MaxValues {
			break
		}
	}
	return marks, line
}

// parse returns the documents as the parser sees them, one more than MaxDocuments at most.
func parse(text []byte) (roots []*yaml.Node, err error) {
	defer func() {
		if caught := recover(); caught != nil { // a fault of the parser is no reason to end the portal
			roots, err = nil, fmt.Errorf("yaml: %v", caught)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for len(roots) <= MaxDocuments {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err != nil {
			return nil, err
		}
		roots = append(roots, &root)
	}
	return roots, nil
}

var errorLine = regexp.MustCompile(`line (\d+): `)

// unreadable says what the parser stumbled over, and where.
func (c *checker) unreadable(text []byte, err error) {
	problem, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := errorLine.FindStringSubmatch(problem); m != nil {
		line, _ = strconv.Atoi(m[1])
		problem = strings.TrimPrefix(problem, m[0])
	}
	if strings.Contains(problem, "exceeded max depth") {
		c.addAt(rayslice.FindingTooDeep, line, map[string]any{"max": MaxDepth})
		return
	}
	if at := tabLine(text, line); at > 0 && strings.Contains(problem, "cannot start any token") {
		c.addAt(rayslice.FindingTabs, at, nil)
		return
	}
	c.addAt(rayslice.FindingNotYAML, line, map[string]any{"problem": short(problem)})
}

// tabLine returns the number of the line, or of the next one, when it is indented by a tab: the parser counts differently
// from case to case. 0 = neither is.
func tabLine(text []byte, line int) int {
	n := 0
	for l := range bytes.Lines(text) {
		if n++; n > line+1 {
			break
		}
		indent := l[:len(l)-len(bytes.TrimLeft(l, " \t"))]
		if n >= line && bytes.ContainsRune(indent, '\t') {
			return n
		}
	}
	return 0
}

// builder writes aliases and merge keys out, within bounds.
type builder struct {
	*checker
	values  int
	refused bool
}

func (b *builder) document(root *yaml.Node) *value {
	if len(root.Content) == 0 {
		return nil
	}
	return b.build(&value{index: -1}, root.Content[0], 0)
}

// build fills v in with what stands at the node. After a refusal it returns at once.
func (b *builder) build(v *value, node *yaml.Node, depth int) *value {
	if node.Kind == yaml.AliasNode {
		v.shared = true
		if v.node = node; b.inItself(node, v.parent) {
			return v
		}
		node = node.Alias
	}
	v.node = node
	if b.values++; b.refused || b.beyond(v, depth) {
		return v
	}
	switch node.Kind {
	case yaml.MappingNode:
		b.fields(v, node, depth, false)
	case yaml.SequenceNode:
		for i, item := range node.Content {
			v.items = append(v.items, b.build(&value{parent: v, index: i, shared: v.shared}, item, depth+1))
		}
	}
	return v
}

// inItself refuses an alias of something that it is a part of, in a value or, where that is a merge key, of one.
func (b *builder) inItself(alias *yaml.Node, in *value) bool {
	for ; in != nil && !b.refused; in = in.parent {
		if in.node == alias.Alias {
			b.addAt(rayslice.FindingInItself, alias.Line, map[string]any{"name": short(alias.Value)})
			b.refused = true
		}
	}
	return b.refused
}

func (b *builder) beyond(v *value, depth int) bool {
	line, _ := v.position()
	switch {
	case depth > MaxDepth:
		b.addAt(rayslice.FindingTooDeep, line, map[string]any{"max": MaxDepth})
	case b.values > MaxValues:
		b.addAt(rayslice.FindingTooMuch, line, map[string]any{"max": MaxValues})
	default:
		return false
	}
	b.refused = true
	return true
}

// fields adds the members of a map. Those that a merge key brings stand behind those that are written.
func (b *builder) fields(v *value, node *yaml.Node, depth int, merged bool) {
	var merges []*yaml.Node
	for i := 0; i+1 < len(node.Content) && !b.refused; i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		field := &value{parent: v, key: key, name: key.Value, index: -1, shared: v.shared || merged}
		switch known := v.get(key.Value); {
		case key.ShortTag() == "!!merge":
			merges = append(merges, content)
		case key.Kind != yaml.ScalarNode:
			field.node = content
			b.fail(rayslice.FindingWrongType, field, map[string]any{"want": "text", "got": kindName(key)})
		case known != nil && merged:
		case known != nil:
			field.node = content
			b.fail(rayslice.FindingDuplicateKey, field, map[string]any{"name": short(key.Value)})
		default:
			v.add(b.build(field, content, depth+1))
		}
	}
	for _, m := range merges {
		b.merge(v, m, depth)
	}
}

func (b *builder) merge(v *value, node *yaml.Node, depth int) {
	if node.Kind == yaml.AliasNode {
		if b.inItself(node, v) {
			return
		}
		node = node.Alias
	}
	if b.values++; b.refused || b.beyond(&value{node: node}, depth) {
		return
	}
	switch node.Kind {
	case yaml.MappingNode:
		b.fields(v, node, depth+1, true)
	case yaml.SequenceNode:
		for _, one := range node.Content {
			b.merge(v, one, depth+1)
		}
	}
}
