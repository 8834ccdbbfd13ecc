package handlers

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

// testLinter finds the word "bad" in each line that has it, and makes it "good": looking at YAML proper is tested where it
// lives. A text with "cluster" becomes a request.
func testLinter() Linter {
	check := func(text []byte) rayslice.LintReport {
		var report rayslice.LintReport
		for i, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "bad") {
				report.Findings = append(report.Findings, rayslice.Finding{Line: i + 1, Column: 1, Path: strings.TrimSpace(line), Code: rayslice.FindingNoNumGPUs,
					Severity: rayslice.SeverityError, Args: map[string]any{"want": 1}, Fix: []rayslice.Patch{{Op: "add", Path: "/x", Value: "1"}}})
			}
		}
		if groups := strings.Count(string(text), "cluster"); groups > 0 {
			report.Draft = &rayslice.RequestDraft{Name: "brought along", Hours: 8, Head: rayslice.Head{CPU: 2, MemoryGiB: 8}, Image: "rayproject/ray:2.52.0-py311"}
			for range groups {
				report.Draft.Groups = append(report.Draft.Groups, rayslice.Group{Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}, Workers: 1, MinWorkers: 1, MaxWorkers: 1, CPU: 4, MemoryGiB: 16})
			}
			report.LeftOut = []string{"spec.suspend"}
		}
		return report
	}
	fix := func(_ context.Context, text []byte, key string) ([]byte, int) {
		lines, n := strings.Split(string(text), "\n"), 0
		for _, f := range check(text).Findings {
			if key == "" || f.Key() == key {
				lines[f.Line-1] = strings.Replace(lines[f.Line-1], "bad", "good", 1)
				n++
			}
		}
		return []byte(strings.Join(lines, "\n")), n
	}
	return Linter{Check: check, Fix: fix}
}

// TestImport goes the way of somebody with YAML: look, mend one, mend the rest, make a request of it. Nothing is stored.
func TestImport(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	if ada.get("/clusters/new").want(http.StatusOK).page().Find(`a[href="/clusters/import"]`).Length() != 1 {
		t.Error("the form does not lead here")
	}
	page := ada.get("/clusters/import").want(http.StatusOK).page()
	if page.Find("textarea[name=yaml]").Length() != 1 || page.Find("#findings").Length() != 0 {
		t.Error("the page is not as a newcomer finds it")
	}
	text := "cluster\r\n<b>bad one</b>\r\nbad two\r\nbad three"
	page = ada.post("/clusters/import", url.Values{"yaml": {text}}).want(http.StatusOK).page()
	if got := page.Find(".finding").Length(); got != 3 {
		t.Errorf("%d findings", got)
	}
	if got := page.Find(".finding .detail").First().Text(); got != "<b>bad one</b>" {
		t.Errorf("the line is shown as %q", got)
	}
	button := page.Find(".finding button[name=fix]").Eq(1)
	page = ada.post("/clusters/import", url.Values{"yaml": {text}, "fix": {button.AttrOr("value", "")}}).want(http.StatusOK).page()
	const mended = "cluster\n<b>bad one</b>\ngood two\nbad three"
	if got := page.Find("textarea[name=yaml]").Text(); got != "\n"+mended && got != mended {
		t.Errorf("mended to %q", got)
	}
	page = ada.post("/clusters/import", url.Values{"yaml": {mended}, "fix": {button.AttrOr("value", "")}}).want(http.StatusOK).page()
	if page.Find(".note.warn[role=status]").Length() == 0 || page.Find(".finding").Length() != 2 {
		t.Error("a fix of what is gone is not said to do nothing")
	}
	page = ada.post("/clusters/import", url.Values{"yaml": {mended}, "fix": {"all"}}).want(http.StatusOK).page()
	if page.Find(".finding").Length() != 0 || !strings.Contains(page.Find("main").Text(), "spec.suspend") {
		t.Error("not all is mended, or what is left out is not said")
	}
	page = ada.post("/clusters/import", url.Values{"yaml": {mended}, "request": {"1"}}).want(http.StatusOK).page()
	if page.Find("form#request-form").AttrOr("action", "") != "/clusters" || page.Find("input[name=name]").AttrOr("value", "") != "brought along" ||
		page.Find(`input[value="a10:8"][checked]`).Length() != 1 {
		t.Error("the form is not filled in")
	}
	if list := ada.get("/clusters").page().Find("table tbody tr").Length(); list != 0 {
		t.Errorf("%d requests were stored", list)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	for _, text := range []string{"", " \r\n "} {
		if ada.post("/clusters/import", url.Values{"yaml": {text}}).want(http.StatusUnprocessableEntity).page().Find("#yaml-error").Length() != 1 {
			t.Errorf("%q: the field does not say that it is empty", text)
		}
	}
	for name, text := range map[string]string{"no cluster": "nothing", "more groups than the form has": strings.Repeat("cluster\n", 4)} {
		page := ada.post("/clusters/import", url.Values{"yaml": {text}, "request": {"1"}}).want(http.StatusOK).page()
		if page.Find("form#request-form").Length() != 0 || page.Find("button[name=request]").Length() != 0 {
			t.Errorf("%s: it became a request", name)
		}
	}
	tooLarge := ada.post("/clusters/import", url.Values{"yaml": {strings.Repeat("a", maxBody)}}).want(http.StatusRequestEntityTooLarge).page().Find("main")
	if text := tooLarge.Text(); !strings.Contains(text, "1024 KiB") || !strings.Contains(text, "rayslice lint FILE") ||
		tooLarge.Find(`a.primary[href="/clusters/import"]`).Length() != 1 {
		t.Errorf("of a text that is too large: %s", text)
	}
	other := ada.post("/clusters/preview", url.Values{"name": {strings.Repeat("a", maxBody)}}).want(http.StatusRequestEntityTooLarge).page().Find("main")
	if text := other.Text(); strings.Contains(text, "rayslice lint") || other.Find(`a.primary[href="/clusters"]`).Length() != 1 {
		t.Errorf("of a form that is too large: %s", text)
	}
	if got := p.nobody().post("/clusters/import", url.Values{"yaml": {"cluster"}}).want(http.StatusSeeOther).location(); got != "/signin?next=%2Fclusters%2Fimport" {
		t.Errorf("sent to %s", got)
	}
	ada.with("Sec-Fetch-Site", "cross-site").post("/clusters/import", url.Values{"yaml": {"cluster"}}).want(http.StatusForbidden)
}

// TestNobodyWaitsForALook: a look that never ends is answered with 503 in time (T27), and takes only so many cores; one that
// panics ends nothing.
func TestNobodyWaitsForALook(t *testing.T) {
	t.Parallel()
	released, running := make(chan struct{}), make(chan struct{}, 2*maxLooks)
	p := open(t, func(c *Config) {
		lint := testLinter()
		c.Lint.Check = func(text []byte) rayslice.LintReport {
			switch string(text) {
			case "for ever":
				running <- struct{}{}
				<-released
			case "panic":
				panic("at the parser")
			}
			return lint.Check(text)
		}
		c.Lint.Fix = func(ctx context.Context, text []byte, key string) ([]byte, int) {
			if string(text) == "slow bad" {
				<-ctx.Done() // it is told to stop in time
			}
			return lint.Fix(ctx, text, key)
		}
	})
	p.server.timing.look = 200 * time.Millisecond
	ada, reader := p.as(p.Ada), p.token(p.newToken(p.Ada, rayslice.ScopeRead)).with("Content-Type", "application/yaml")
	if page := ada.post("/clusters/import", url.Values{"yaml": {"slow bad"}, "fix": {"all"}}).want(http.StatusOK).page(); page.Find("textarea").Text() != "\nslow good" && page.Find("textarea").Text() != "slow good" {
		t.Errorf("mended to %q", page.Find("textarea").Text())
	}
	reader.send(http.MethodPost, "/api/v1/lint", strings.NewReader("panic")).want(http.StatusInternalServerError)
	for range maxLooks {
		began := time.Now()
		ada.post("/clusters/import", url.Values{"yaml": {"for ever"}}).want(http.StatusServiceUnavailable)
		if body := reader.send(http.MethodPost, "/api/v1/lint", strings.NewReader("for ever")).want(http.StatusServiceUnavailable).Body.String(); !strings.Contains(body, "lint_too_long") {
			t.Errorf("the answer is %s", body)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("answered after %v", took)
		}
	}
	if len(running) != maxLooks {
		t.Errorf("%d looks run", len(running))
	}
	close(released)
	reader.send(http.MethodPost, "/api/v1/lint", strings.NewReader("bad")).want(http.StatusOK)
}

// TestUnusualPlaces: a fix that is offered and cannot be carried out in the text says so.
func TestUnusualPlaces(t *testing.T) {
	t.Parallel()
	p := open(t, func(c *Config) {
		c.Lint.Fix = func(_ context.Context, text []byte, _ string) ([]byte, int) { return text, 0 }
	})
	ada := p.as(p.Ada)
	button := ada.post("/clusters/import", url.Values{"yaml": {"bad"}}).want(http.StatusOK).page().Find("button[name=fix]").First().AttrOr("value", "")
	note := ada.post("/clusters/import", url.Values{"yaml": {"bad"}, "fix": {button}}).want(http.StatusOK).page().Find(".note.warn[role=status]")
	if !strings.Contains(note.Text(), "by hand") {
		t.Errorf("says %q", note.Text())
	}
}

func TestLintByAPI(t *testing.T) {
	t.Parallel()
	p := open(t)
	reader := p.token(p.newToken(p.Ada, rayslice.ScopeRead))
	for _, contentType := range []string{"application/yaml", "application/json", "text/yaml; charset=utf-8"} {
		var got struct {
			Errors   int
			Findings []struct {
				Line, Column   int
				Path, Code     string
				Severity, Text string
				Remedy         string
				Fix            []rayslice.Patch
			}
			Request *rayslice.RequestDraft
			LeftOut []string `json:"left_out"`
		}
		reader.with("Content-Type", contentType).send(http.MethodPost, "/api/v1/lint", strings.NewReader("cluster\nbad")).want(http.StatusOK).decode(&got)
		if got.Errors != 1 || len(got.Findings) != 1 || got.Request == nil || got.Request.Groups[0].GiB != 8 || len(got.LeftOut) != 1 {
			t.Fatalf("%s: %+v", contentType, got)
		}
		if f := got.Findings[0]; f.Line != 2 || f.Code != rayslice.FindingNoNumGPUs || len(f.Fix) != 1 || f.Fix[0].Path != "/x" ||
			!strings.Contains(f.Text, "num-gpus") || !strings.Contains(f.Remedy, `"1"`) {
			t.Errorf("%+v", f)
		}
	}
	body := reader.with("Content-Type", "application/yaml").with("Accept-Language", "zh-CN").send(http.MethodPost, "/api/v1/lint", strings.NewReader("nothing")).want(http.StatusOK).Body.String()
	if want := `{"errors":0,"findings":[],"request":null,"left_out":[]}`; strings.TrimSpace(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
	reader.with("Content-Type", "text/plain").send(http.MethodPost, "/api/v1/lint", strings.NewReader("x")).want(http.StatusUnsupportedMediaType)
}
