package handlers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
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
	Check func(text []byte) rayslice.LintReport // what is wrong with it, and the request it would become
	// Fix mends the finding of that key, or all with "", as far as it comes before ctx ends; n = how many.
	Fix func(ctx context.Context, text []byte, key string) (fixed []byte, n int)
}

// maxLooks is how many texts are looked at at a time. One takes less than 200 ms; a fault that made it take for ever would take this
// many cores and no more.
const maxLooks = 4

// bounded does what looks at somebody's text, and answers 503 when that takes longer than a reader waits. Nothing can stop work
// that looks at no context: it goes on without anybody who waits, and keeps its place.
func bounded[T any](ctx context.Context, s *Server, work func(context.Context) T) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.look)
	defer cancel()
	var none T
	select {
	case s.looks <- struct{}{}:
	case <-ctx.Done():
		return none, tooLong(ctx)
	}
	done := make(chan func() (T, error), 1)
	go func() {
		defer func() { <-s.looks }()
		done <- caught(func() T { return work(ctx) })
	}()
	select {
	case answer := <-done:
		return answer()
	case <-ctx.Done():
		return none, tooLong(ctx)
	}
}

// tooLong says why nobody waits any more.
func tooLong(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err // the reader has left
	}
	return &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "lint_too_long"}
}

// caught does the work and keeps what it returns. A panic becomes an error: beside the request nobody else would catch it, and the
// portal would end.
func caught[T any](work func() T) (answer func() (T, error)) {
	defer func() {
		if fault := recover(); fault != nil {
			err := fmt.Errorf("look at YAML: %v\n%s", fault, debug.Stack())
			answer = func() (none T, _ error) { return none, err }
		}
	}()
	done := work()
	return func() (T, error) { return done, nil }
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
	report, err := s.lookAt(c.Request().Context(), &p, values.Get("fix"))
	if err != nil {
		return err
	}
	if values.Has("request") && report.Draft != nil && len(report.Draft.Groups) <= web.MaxFormGroups {
		return s.formOf(c, *report.Draft)
	}
	p.Report = &report
	return page(c, http.StatusOK, web.ImportView(p))
}

// lookAt looks at the page's text, after it has mended the finding of the key, or all with web.FixAll; "" = none.
func (s *Server) lookAt(ctx context.Context, p *web.ImportPage, key string) (rayslice.LintReport, error) {
	type looked struct {
		text   []byte
		n      int
		report rayslice.LintReport
	}
	text := []byte(p.Text) // the page may be gone before the work is
	got, err := bounded(ctx, s, func(ctx context.Context) looked {
		l := looked{text: text}
		if key != "" {
			mending, cancel := context.WithTimeout(ctx, s.timing.look/2) // the rest is for the look at what it became
			defer cancel()
			l.text, l.n = s.config.Lint.Fix(mending, l.text, keyOf(key))
		}
		l.report = s.config.Lint.Check(l.text)
		return l
	})
	if err != nil || key == "" {
		return got.report, err
	}
	p.Text, p.Missed = string(got.text), got.n == 0
	p.Unusual = slices.ContainsFunc(got.report.Findings, func(f rayslice.Finding) bool {
		return len(f.Fix) > 0 && (key == web.FixAll || f.Key() == key)
	})
	return got.report, nil
}

// keyOf returns the key that a Linter knows what a form asks for by.
func keyOf(asked string) string {
	if asked == web.FixAll {
		return ""
	}
	return asked
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
	report, err := bounded(c.Request().Context(), s, func(context.Context) rayslice.LintReport { return s.config.Lint.Check(text) })
	if err != nil {
		return err
	}
	locale := visitOf(c).locale
	answer := lintJSON{Errors: report.Errors(), Findings: []findingJSON{}, Request: report.Draft, LeftOut: append([]string{}, report.LeftOut...)}
	for _, f := range report.Findings {
		answer.Findings = append(answer.Findings, findingJSON{f, append([]rayslice.Patch{}, f.Fix...), locale.Finding(f), locale.Remedy(f)})
	}
	return c.JSON(http.StatusOK, answer)
}
