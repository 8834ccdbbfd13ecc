package lint

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// source is a text by its lines, as the parser counts them: from 1, and columns in characters.
type source struct {
	text  []byte
	lines []int // where each line begins
}

var byteOrderMark = []byte("\ufeff")

func newSource(text []byte) source {
	s := source{text, []int{0}}
	if bytes.HasPrefix(text, byteOrderMark) {
		s.lines[0] = len(byteOrderMark)
	}
	for i := s.lines[0]; i < len(text); {
		n := lineBreak(text[i:])
		i += max(n, 1)
		if n > 0 {
			s.lines = append(s.lines, i)
		}
	}
	return s
}

// lineBreak returns how many bytes the line break is long that the text begins with, 0 when it begins with none. YAML 1.1
// knows five.
func lineBreak(text []byte) int {
	switch {
	case bytes.HasPrefix(text, []byte("\r\n")):
		return 2
	case text[0] == '\n', text[0] == '\r':
		return 1
	case bytes.HasPrefix(text, []byte("\u0085")):
		return 2
	case bytes.HasPrefix(text, []byte("\u2028")), bytes.HasPrefix(text, []byte("\u2029")):
		return 3
	}
	return 0
}

// errUnusual is about a place that is written in a way the editor leaves alone.
var errUnusual = errors.New("written in an unusual way")

// at returns where a node begins, as an offset into the text.
func (s source) at(node *yaml.Node) (int, error) {
	if node.Line < 1 || node.Line > len(s.lines) || node.Column < 1 {
		return 0, errUnusual
	}
	at := s.lines[node.Line-1]
	for range node.Column - 1 {
		if at >= len(s.text) {
			return 0, errUnusual
		}
		_, n := utf8.DecodeRune(s.text[at:])
		at += n
	}
	return at, nil
}

// line returns the text of a line without its break.
func (s source) line(n int) string {
	from, to := s.lines[n-1], s.after(n)
	line := s.text[from:to]
	for i := range line {
		if lineBreak(line[i:]) > 0 {
			return string(line[:i])
		}
	}
	return string(line)
}

// after returns where the line after one begins.
func (s source) after(n int) int {
	if n < len(s.lines) {
		return s.lines[n]
	}
	return len(s.text)
}

// lineOf returns the line of an offset.
func (s source) lineOf(at int) int {
	n, exact := slices.BinarySearch(s.lines, at)
	if exact {
		return n + 1
	}
	return max(n, 1)
}

// newline returns the line break that ends a line; at the end of a text without one, that of its first line.
func (s source) newline(n int) string {
	for _, n := range []int{n, 1} {
		if text := s.line(n); s.lines[n-1]+len(text) < s.after(n) {
			return string(s.text[s.lines[n-1]+len(text) : s.after(n)])
		}
	}
	return "\n"
}

// column returns how many characters stand before a node on its line, and whether they are nothing but spaces.
func (s source) column(node *yaml.Node) (column int, first bool) {
	line := s.line(node.Line)
	return node.Column - 1, len(line)-len(strings.TrimLeft(line, " ")) == node.Column-1
}

func plain(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Style == 0 && node.Anchor == ""
}

// empty reports whether a node is a null that is not written.
func empty(node *yaml.Node) bool { return plain(node) && node.Value == "" }

func block(node *yaml.Node) bool {
	return (node.Kind == yaml.MappingNode || node.Kind == yaml.SequenceNode) && node.Style&yaml.FlowStyle == 0
}

// end returns where a scalar or a flow collection ends.
func (s source) end(node *yaml.Node) (int, error) {
	at, err := s.at(node)
	if err != nil || node.Anchor != "" || node.Style&yaml.TaggedStyle != 0 {
		return 0, errUnusual
	}
	rest := s.text[at:]
	switch {
	case node.Kind == yaml.AliasNode && bytes.HasPrefix(rest, []byte("*"+node.Value)):
		return at + 1 + len(node.Value), nil
	case plain(node) && bytes.HasPrefix(rest, []byte(node.Value)):
		return at + len(node.Value), nil
	case node.Kind == yaml.ScalarNode && node.Style == yaml.DoubleQuotedStyle:
		return s.quoted(at, '"')
	case node.Kind == yaml.ScalarNode && node.Style == yaml.SingleQuotedStyle:
		return s.quoted(at, '\'')
	case node.Kind == yaml.MappingNode && !block(node):
		return s.closing(node, at, '{', '}')
	case node.Kind == yaml.SequenceNode && !block(node):
		return s.closing(node, at, '[', ']')
	}
	return 0, errUnusual
}

// quoted returns where a quoted scalar ends. A doubled quote is two of them, which ends at the same place.
func (s source) quoted(at int, quote byte) (int, error) {
	if at >= len(s.text) || s.text[at] != quote {
		return 0, errUnusual
	}
	for i := at + 1; i < len(s.text); i++ {
		switch {
		case s.text[i] == '\\' && quote == '"':
			i++
		case s.text[i] != quote:
		case quote == '\'' && i+1 < len(s.text) && s.text[i+1] == quote:
			i++
		default:
			return i + 1, nil
		}
	}
	return 0, errUnusual
}

// closing returns where a flow collection ends: behind the bracket that follows its last entry. A comment before it is
// unusual.
func (s source) closing(node *yaml.Node, at int, open, end byte) (int, error) {
	if at >= len(s.text) || s.text[at] != open {
		return 0, errUnusual
	}
	at++
	if n := entries(node); n > 0 {
		var err error
		if at, err = s.entryEnd(node, n-1); err != nil {
			return 0, err
		}
	}
	for ; at < len(s.text); at++ {
		switch s.text[at] {
		case ' ', '\t', '\r', '\n', ',':
		case end:
			return at + 1, nil
		default:
			return 0, errUnusual
		}
	}
	return 0, errUnusual
}

// entries returns how many members or items a collection has.
func entries(node *yaml.Node) int {
	if node.Kind == yaml.MappingNode {
		return len(node.Content) / 2
	}
	return len(node.Content)
}

// head returns the node that an entry begins with: the key of a member, or the item.
func head(node *yaml.Node, i int) *yaml.Node {
	if node.Kind == yaml.MappingNode {
		return node.Content[2*i]
	}
	return node.Content[i]
}

// entryEnd returns where an entry of a collection ends, a value that is not written behind the colon.
func (s source) entryEnd(node *yaml.Node, i int) (int, error) {
	if node.Kind == yaml.SequenceNode {
		return s.end(node.Content[i])
	}
	key, content := node.Content[2*i], node.Content[2*i+1]
	if !empty(content) {
		return s.end(content)
	}
	return s.colon(key)
}

// colon returns the place behind the colon of a key.
func (s source) colon(key *yaml.Node) (int, error) {
	at, err := s.end(key)
	if err != nil {
		return 0, err
	}
	for at < len(s.text) && (s.text[at] == ' ' || s.text[at] == '\t') {
		at++
	}
	if at >= len(s.text) || s.text[at] != ':' {
		return 0, errUnusual
	}
	return at + 1, nil
}
