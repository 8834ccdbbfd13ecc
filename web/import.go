package web

import (
	"fmt"
	"strings"

	"github.com/rayslice/rayslice"
)

// FixAll is the value of a form's fix that mends all that can be mended.
const FixAll = "all"

// ImportPage looks at YAML that somebody has.
// Form: POST /clusters/import with yaml, and fix (the key of a finding, or FixAll) or request=1, which answers with
// NewRequestView.
type ImportPage struct {
	Frame
	Text    string
	Report  *rayslice.LintReport // nil = nothing was looked at yet
	Empty   bool                 // it was sent without any text
	Missed  bool                 // what was to be fixed is not there any more
	Unusual bool                 // it is there, in a place that cannot be fixed by itself
}

// canRequest reports whether the form for a new request can hold what was found.
func (p ImportPage) canRequest() bool {
	return p.Report != nil && p.Report.Draft != nil && len(p.Report.Draft.Groups) <= MaxFormGroups
}

// noRequest says why no request can be made of it.
func (p ImportPage) noRequest() string {
	if p.Report.Draft == nil {
		return p.Locale.T("import_no_request")
	}
	return p.Locale.T("import_too_many_groups", Args{"Max": MaxFormGroups})
}

// summary counts errors and warnings.
func (p ImportPage) summary() string {
	var parts []string
	if n := p.Report.Errors(); n > 0 {
		parts = append(parts, p.Locale.N("import_errors", n))
	}
	if n := len(p.Report.Findings) - p.Report.Errors(); n > 0 {
		parts = append(parts, p.Locale.N("import_warnings", n))
	}
	return strings.Join(parts, " · ")
}

// fixable counts the findings that a click mends.
func (p ImportPage) fixable() int {
	n := 0
	for _, f := range p.Report.Findings {
		if len(f.Fix) > 0 {
			n++
		}
	}
	return n
}

// maxExcerpt is how much of a line of somebody's text is shown beside a finding, characters.
const maxExcerpt = 120

// excerpts returns the line of the text that each finding is about, "" where there is none.
func (p ImportPage) excerpts() []string {
	lines := strings.Split(p.Text, "\n")
	texts := make([]string, len(p.Report.Findings))
	for i, f := range p.Report.Findings {
		if f.Line <= len(lines) {
			texts[i] = cut(strings.TrimSpace(lines[f.Line-1]), maxExcerpt)
		}
	}
	return texts
}

func severityTone(s rayslice.Severity) string {
	if s == rayslice.SeverityError {
		return "bad"
	}
	return "warn"
}

// findingID returns the id of the heading of the i-th finding.
func findingID(i int) string { return fmt.Sprintf("finding-%d", i) }

// importHints returns the ids of what explains the text field.
func importHints(p ImportPage) string {
	if p.Empty {
		return "yaml-hint yaml-error"
	}
	return "yaml-hint"
}
