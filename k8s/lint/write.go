package lint

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A writer writes values as the text around them is written.
type writer struct {
	quote   yaml.Style // of strings, 0 = none where that is possible
	json    bool       // the text around it is JSON: keys are quoted too
	newline string
}

// bare are strings that can stand without quotes wherever they are no number, date or truth.
var bare = regexp.MustCompile(`^[A-Za-z0-9/][A-Za-z0-9_./-]*$`)

// scalar writes a text, a number or a truth.
func (w writer) scalar(node *yaml.Node) string {
	text := node.Value
	if node.Tag != "!!str" {
		return text
	}
	without := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	_, truth := truthOf(without)
	switch {
	case w.json || w.quote == yaml.DoubleQuotedStyle:
	case w.quote == yaml.SingleQuotedStyle && bare.MatchString(text):
		return "'" + text + "'"
	case bare.MatchString(text) && without.ShortTag() == "!!str" && !truth:
		return text
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always can be
	return strings.TrimSuffix(out.String(), "\n")
}

// flow writes a value on one line.
func (w writer) flow(node *yaml.Node) string {
	var parts []string
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			parts = append(parts, w.key(node.Content[i])+": "+w.flow(node.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for _, item := range node.Content {
			parts = append(parts, w.flow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return w.scalar(node)
}

// key writes the key of a member: without the quotes that the values have.
func (w writer) key(node *yaml.Node) string { return writer{json: w.json}.scalar(node) }

// member writes a member of a block mapping: its lines, each indented and ended.
func (w writer) member(indent int, name, content *yaml.Node) string {
	begin := strings.Repeat(" ", indent) + w.key(name) + ":"
	switch {
	case content.Kind == yaml.MappingNode && len(content.Content) > 0:
		return begin + w.newline + w.members(indent+2, content)
	case content.Kind == yaml.SequenceNode && len(content.Content) > 0:
		var out strings.Builder
		out.WriteString(begin + w.newline)
		for _, item := range content.Content {
			out.WriteString(w.item(indent, item))
		}
		return out.String()
	}
	return begin + " " + w.flow(content) + w.newline
}

func (w writer) members(indent int, node *yaml.Node) string {
	var out strings.Builder
	for i := 0; i+1 < len(node.Content); i += 2 {
		out.WriteString(w.member(indent, node.Content[i], node.Content[i+1]))
	}
	return out.String()
}

// item writes an item of a block sequence.
func (w writer) item(indent int, node *yaml.Node) string {
	dash := strings.Repeat(" ", indent) + "- "
	if node.Kind == yaml.MappingNode && len(node.Content) > 0 {
		return dash + strings.TrimLeft(w.members(indent+2, node), " ")
	}
	return dash + w.flow(node) + w.newline
}
