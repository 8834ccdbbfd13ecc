package handlers

import (
	"crypto/rand"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// importPath is the page that looks at somebody's YAML, and where its form is sent.
const importPath = "/clusters/import"

// A Linter looks at YAML that somebody has. Both are pure and take any bytes.
type Linter struct {
	Check func(text []byte) rayslice.LintReport               // what is wrong with it, and the request it would become
	Fix   func(text []byte, key string) (fixed []byte, n int) // mends the finding of that key, or all with ""; n = how many
}

// showImport shows the page that looks at somebody's YAML.
func (s *Server) showImport(c echo.Context) error {
	frame, err := s.liveFrame(c)
	if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.ImportView(web.ImportPage{Frame: frame}))
}

// importYAML looks at the text that was sent, mends what was asked for, or opens the form of the request that it would
// become. Nothing is stored.
func (s *Server) importYAML(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	frame, err := s.liveFrame(c)
	if err != nil {
		return err
	}
	p := web.ImportPage{Frame: frame, Text: strings.ReplaceAll(values.Get("yaml"), "\r\n", "\n")}
	if strings.TrimSpace(p.Text) == "" {
		p.Empty = true
		return page(c, http.StatusUnprocessableEntity, web.ImportView(p))
	}
	if key := values.Get("fix"); key != "" {
		if key == web.FixAll {
			key = ""
		}
		fixed, n := s.config.Lint.Fix([]byte(p.Text), key)
		p.Text, p.Missed = string(fixed), n == 0
	}
	report := s.config.Lint.Check([]byte(p.Text))
	if values.Has("request") && report.Draft != nil && len(report.Draft.Groups) <= web.MaxFormGroups {
		return s.formOf(c, *report.Draft)
	}
	p.Report = &report
	return page(c, http.StatusOK, web.ImportView(p))
}

// formOf opens the form for a new request as the draft would fill it in, for the visitor's first team.
func (s *Server) formOf(c echo.Context, draft rayslice.RequestDraft) error {
	draft.Team = firstTeam(user(c))
	p, err := s.newRequestPage(c, web.FormFromDraft(draft, s.config.Catalogue), rand.Text())
	if err != nil {
		return err
	}
	_, err = s.look(c, &p)
	if rayslice.KindOf(err) == rayslice.KindInvalid {
		_, p.Problem = explain(err)
	} else if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.NewRequestView(p))
}

// findingJSON is a finding as programs see it.
type findingJSON struct {
	rayslice.Finding
	Fix    []rayslice.Patch `json:"fix"`    // JSON Patch (RFC 6902) on the document; empty = somebody has to decide
	Text   string           `json:"text"`   // what is wrong, in the caller's language
	Remedy string           `json:"remedy"` // what to do
}

// lintJSON is what was found in somebody's YAML.
type lintJSON struct {
	Errors   int                    `json:"errors"` // how many findings are errors
	Findings []findingJSON          `json:"findings"`
	Request  *rayslice.RequestDraft `json:"request"`  // what it would become, without a team; null = it holds no cluster, or more than one
	LeftOut  []string               `json:"left_out"` // paths of what a request has no place for
}

// lintTypes are the content types of YAML, of which JSON is a part; only the second is registered (RFC 9512).
var lintTypes = []string{echo.MIMEApplicationJSON, "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"}

// apiLint says what is wrong with the YAML in the body. Nothing is stored.
func (s *Server) apiLint(c echo.Context) error {
	if !slices.Contains(lintTypes, mediaType(c.Request())) {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", map[string]any{"want": "application/yaml"}, nil)
	}
	text, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return err
	}
	report, locale := s.config.Lint.Check(text), visitOf(c).locale
	answer := lintJSON{Errors: report.Errors(), Findings: []findingJSON{}, Request: report.Draft, LeftOut: append([]string{}, report.LeftOut...)}
	for _, f := range report.Findings {
		answer.Findings = append(answer.Findings, findingJSON{f, append([]rayslice.Patch{}, f.Fix...), locale.Finding(f), locale.Remedy(f)})
	}
	return c.JSON(http.StatusOK, answer)
}
