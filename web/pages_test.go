package web

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

var sampleTime = time.Date(2026, 3, 2, 11, 22, 0, 0, time.UTC)

func render(t *testing.T, c templ.Component) *goquery.Document {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	page, err := goquery.NewDocumentFromReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// sample draws the sample of that name in English.
func sample(t *testing.T, name string) *goquery.Document {
	t.Helper()
	for _, s := range Samples() {
		if s.Name == name {
			return render(t, s.View(SampleFrame(NewLocalizer("en"), "/clusters", sampleTime)))
		}
	}
	t.Fatalf("no sample %s", name)
	return nil
}

// unspoken is what a missing sentence or argument looks like.
var unspoken = regexp.MustCompile(`<no value>|\b(label|hint|field|reason|error|kind|state|now|step|column|amount|size|quota|connect)_[a-z_]+\b`)

func TestEverySampleIsSound(t *testing.T) {
	for _, s := range Samples() {
		for _, language := range Languages() {
			t.Run(s.Name+" "+language.Code, func(t *testing.T) {
				page := render(t, s.View(SampleFrame(NewLocalizer(language.Code), "/clusters", sampleTime)))
				checkNothingInline(t, page)
				checkStructure(t, page, language.Code)
				checkReferences(t, page)
				checkInputs(t, page)
				page.Find("pre, code").Remove()
				if found := unspoken.FindString(page.Text()); found != "" {
					t.Errorf("the page says %q", found)
				}
			})
		}
	}
}

// checkNothingInline: the content security policy allows neither inline styles nor inline scripts.
func checkNothingInline(t *testing.T, page *goquery.Document) {
	t.Helper()
	page.Find("*").Each(func(_ int, s *goquery.Selection) {
		for _, a := range s.Nodes[0].Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") || strings.HasPrefix(a.Key, "hx-on") || strings.HasPrefix(a.Val, "javascript:") {
				t.Errorf("<%s %s=%q>", s.Nodes[0].Data, a.Key, a.Val)
			}
		}
	})
	page.Find("style, script:not([src])").Each(func(_ int, s *goquery.Selection) { t.Errorf("inline <%s>", s.Nodes[0].Data) })
}

func checkStructure(t *testing.T, page *goquery.Document, code string) {
	t.Helper()
	if got, _ := page.Find("html").Attr("lang"); got != code {
		t.Errorf("lang is %q", got)
	}
	for _, one := range []string{"h1", "main", "header.top", "a.skip", "head title"} {
		if n := page.Find(one).Length(); n != 1 {
			t.Errorf("%d of %s", n, one)
		}
	}
	page.Find("th:not([scope])").Each(func(_ int, s *goquery.Selection) { t.Errorf("th without scope: %s", s.Text()) })
}

// checkReferences: ids are there once, and whatever points to one finds it.
func checkReferences(t *testing.T, page *goquery.Document) {
	t.Helper()
	ids := map[string]int{}
	page.Find("[id]").Each(func(_ int, s *goquery.Selection) { ids[s.AttrOr("id", "")]++ })
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %s is there %d times", id, n)
		}
	}
	for _, attribute := range []string{"aria-labelledby", "aria-describedby", "for", "data-copy", "data-dialog"} {
		page.Find("[" + attribute + "]").Each(func(_ int, s *goquery.Selection) {
			for _, id := range strings.Fields(s.AttrOr(attribute, "")) {
				if ids[id] == 0 && attribute != "data-dialog" {
					t.Errorf("%s=%s points nowhere", attribute, id)
				}
			}
		})
	}
	page.Find(`a[href^="#"]`).Each(func(_ int, s *goquery.Selection) {
		if id := strings.TrimPrefix(s.AttrOr("href", ""), "#"); ids[id] == 0 {
			t.Errorf("the link to #%s points nowhere", id)
		}
	})
}

// checkInputs: each has a label.
func checkInputs(t *testing.T, page *goquery.Document) {
	t.Helper()
	page.Find("input:not([type=hidden]), select, textarea").Each(func(_ int, s *goquery.Selection) {
		if s.Closest("label").Length() == 0 && page.Find(fmt.Sprintf(`label[for=%q]`, s.AttrOr("id", ""))).Length() == 0 {
			t.Errorf("%s has no label", s.AttrOr("name", "?"))
		}
	})
}

func TestARejectedFormComesBackFilledIn(t *testing.T) {
	page := sample(t, "new-rejected")
	for name, want := range map[string]string{"hours": "forever", "ray_version": "latest", "groups[0].min_workers": "3", "groups[1].workers": "0"} {
		input := page.Find(fmt.Sprintf("input[name=%q]", name))
		if got := input.AttrOr("value", ""); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
		if input.AttrOr("aria-invalid", "") != "true" {
			t.Errorf("%s is not marked as wrong", name)
		}
		said := page.Find("#" + input.AttrOr("id", "") + "-error").Text()
		if said == "" || !strings.Contains(input.AttrOr("aria-describedby", ""), input.AttrOr("id", "")+"-error") {
			t.Errorf("%s has no sentence of its own", name)
		}
	}
	if !strings.Contains(page.Find("textarea[name=env]").Text(), "LD_PRELOAD=/x.so\nno equals sign") {
		t.Error("the environment is not as it was typed")
	}
	if page.Find(`#problem[role=alert] li a[href="#f-hours"]`).Length() != 1 {
		t.Error("the summary does not lead to the hours")
	}
	if _, open := page.Find("details.more").Attr("open"); !open {
		t.Error("what is wrong is folded away")
	}
}

func TestClosedPoolsSayWhy(t *testing.T) {
	page := sample(t, "new")
	for _, value := range []string{"t4:4", "a10s:8"} {
		radio := page.Find(fmt.Sprintf("input[value=%q]", value))
		if _, disabled := radio.Attr("disabled"); !disabled {
			t.Errorf("%s can be chosen", value)
		}
		if radio.Closest(".pool").Find(".closed").Text() == "" {
			t.Errorf("%s does not say why it is closed", value)
		}
	}
	if page.Find(`input[value="a10:8"][checked]`).Length() != 1 {
		t.Error("what was chosen is not checked")
	}
}

func TestThePreviewCarriesTheSidePanelAlong(t *testing.T) {
	frame := SampleFrame(NewLocalizer("en"), "/clusters/new", sampleTime)
	p := samplePage(frame, sampleForm())
	p.YAML = sampleYAML
	page := render(t, RequestPreview(p))
	if got := page.Find("#request-aside[hx-swap-oob] button").Text(); got != "Ask for 2 × 8 GiB of NVIDIA A10" {
		t.Errorf("the button says %q", got)
	}
	if page.Find("pre.yaml em").First().Text() != "# KubeRay cannot see a slice; without this Ray starts with no GPU" {
		t.Error("the comments of the YAML do not stand apart")
	}
	if page.Find("#fit-a10-8[hx-swap-oob]").Length() != 1 {
		t.Error("how much fits is not renewed")
	}
}

func TestRawTextFromKubernetesIsEscapedAndCut(t *testing.T) {
	page := sample(t, "request-unschedulable")
	if got := page.Find("#going-on .detail"); !strings.HasPrefix(got.Text(), "3 Insufficient GPU memory on one device (<b>asked 16</b>)") || got.Children().Length() != 0 {
		t.Errorf("the detail is %q", got.Text())
	}
	if got := page.Find("#attempts ~ table tbody td:last-child"); got.Text() != unschedulableText || got.Children().Length() != 0 {
		t.Errorf("the attempt says %q", got.Text())
	}
	if got := page.Find("table.pods tr:nth-child(3) td:last-child .sub").Text(); got != "no node has room for it now. It starts by itself when there is room." {
		t.Errorf("the pod's row says %q", got)
	}
	if sample(t, "request-names").Find("main script:not([src])").Length() != 0 {
		t.Error("a name became markup")
	}
	if got := cut(strings.Repeat("界", maxDetail+1), maxDetail); got != strings.Repeat("界", maxDetail)+" …" {
		t.Error("long text is not cut at a character")
	}
}

func TestWorkersSayWhereTheyAre(t *testing.T) {
	page := sample(t, "request-mixed")
	cell := func(row, column int) string {
		return strings.Join(strings.Fields(page.Find(fmt.Sprintf("table.pods tbody tr:nth-child(%d) > :nth-child(%d)", row, column)).Text()), " ")
	}
	for where, want := range map[[2]int]string{
		{2, 2}: "cn-hangzhou.10.0.12.34 card 0 · 8 GiB",
		{3, 2}: "cn-hangzhou.10.0.12.35 card unknown",
		{4, 2}: "cn-hangzhou.10.0.12.40 card 1, card 6",
		{4, 3}: "2 whole NVIDIA A100",
		{5, 3}: "8 GiB and 50 % of NVIDIA A10",
		{3, 4}: "Ready restarted 2 times",
	} {
		if got := cell(where[0], where[1]); got != want {
			t.Errorf("row %d column %d says %q, want %q", where[0], where[1], got, want)
		}
	}
	if got := sample(t, "request-drift").Find("table.pods tbody tr:nth-child(3) .badtext").Text(); got != "approved: 8 GiB of NVIDIA A10" {
		t.Errorf("a slice that differs says %q", got)
	}
	if got := sample(t, "request-many-workers").Find("table.pods tbody tr").Length(); got != maxPods {
		t.Errorf("%d rows of 200 workers", got)
	}
}

func TestTheConnectBoxNamesExactVersions(t *testing.T) {
	page := sample(t, "request-no-way")
	service := "rs-k5d2m7qxw3ab-head-svc.team-vision.svc"
	for id, want := range map[string]string{
		"connect-notebook": "# pip install \"ray[default]==2.52.0\"\nimport ray\nray.init(\"ray://" + service + ":10001\")",
		"connect-job":      "ray job submit --address http://" + service + ":8265 --working-dir . -- python train.py",
		"connect-forward":  "kubectl -n team-vision port-forward service/rs-k5d2m7qxw3ab-head-svc 10001:10001 8265:8265",
	} {
		if got := page.Find("#" + id).Text(); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if !strings.Contains(page.Find("section[aria-labelledby=connect]").Text(), "Python 3.11") {
		t.Error("the Python version is not named")
	}
	if sample(t, "request-stopped").Find("#connect-notebook").Length() != 0 {
		t.Error("a stopped cluster can be connected to")
	}
}

func TestTheTimelineShowsWhereARequestStands(t *testing.T) {
	for name, want := range map[string]string{
		"request-pending":      "done now   ",
		"request-approved":     "done done now  ",
		"request-provisioning": "done done now  ",
		"request-ready":        "done done done now ",
		"request-attention":    "done done done bad ",
		"request-invalid-spec": "done done bad  ",
		"request-stopping":     "done done done done now",
		"request-stopped":      "done done done done done",
		"request-rejected":     "done bad",
	} {
		var tones []string
		sample(t, name).Find("ol.steps li").Each(func(_ int, s *goquery.Selection) { tones = append(tones, s.AttrOr("class", "")) })
		if got := strings.Join(tones, " "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestStoppingAsksOnceMore(t *testing.T) {
	page := sample(t, "request-ready")
	if page.Find(`#stop[href="/clusters/k5d2m7qxw3ab?confirm=stop"][data-dialog=stop-dialog]`).Length() != 1 {
		t.Error("the stop link works with or without JavaScript")
	}
	form := `form[method=post][action="/clusters/k5d2m7qxw3ab/stop"]`
	if page.Find("dialog#stop-dialog "+form).Length() != 1 {
		t.Error("the dialog has no form")
	}
	if sample(t, "request-confirm-stop").Find("section.confirm "+form).Length() != 1 {
		t.Error("the page without JavaScript has no form")
	}
	for _, name := range []string{"request-stopped", "request-stopping", "request-stale"} {
		if sample(t, name).Find("#stop, dialog").Length() != 0 {
			t.Errorf("%s can be stopped", name)
		}
	}
}

func TestStaleDataIsMarked(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 0, StaleAfter - time.Second: 0, StaleAfter: 1, time.Hour: 1} {
		frame := SampleFrame(NewLocalizer("en"), "/clusters", sampleTime)
		frame.DataAge = age
		if got := render(t, ClusterRows(ClusterList{Frame: frame})).Find(".note.warn").Length(); got != want {
			t.Errorf("%d banners at %v, want %d", got, age, want)
		}
	}
}

func TestPagesWithAStreamRefreshThemselves(t *testing.T) {
	row := SampleRow(sampleTime, rayslice.StateReady)
	frame := SampleFrame(NewLocalizer("en"), "/clusters/x", sampleTime)
	page := render(t, RequestView(RequestPage{Frame: frame, Request: row.Request, Cluster: row.Cluster, Stream: "/clusters/x/events"}))
	if page.Find(`[hx-ext="sse,morph"][sse-connect="/clusters/x/events"] #live[sse-swap=live]`).Length() != 1 {
		t.Error("the page does not listen to its stream")
	}
	if page.Find(`#live #going-on[aria-live=polite]`).Length() != 1 {
		t.Error("what is going on is not a live region")
	}
}

// TestFormsStandBelowTheTitle, and outside of what an event replaces, so that nothing typed is lost.
func TestFormsStandBelowTheTitle(t *testing.T) {
	for name, form := range map[string]string{"request-returned": "#reply", "request-pending-lead": "#decide", "request-answered-twice": "#problem"} {
		page := sample(t, name)
		if page.Find("#request-head h1").Length() != 1 || page.Find("#request-head ~ "+form).Length() != 1 || page.Find("#live "+form).Length() != 0 {
			t.Errorf("%s: %s is not between the title and what is replaced", name, form)
		}
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	cell := sample(t, "clusters-unknown").Find(`td[data-label="Workers ready"]`)
	if got := strings.Join(strings.Fields(cell.Text()), " "); got != "– / 2" {
		t.Errorf("workers nobody has seen are %q", got)
	}
}

func TestQuotaBarsStayInsideTheirFrame(t *testing.T) {
	for name, c := range map[string]struct {
		limit, used, held, asked int
		want                     string
	}{
		"empty":         {96, 0, 0, 0, ""},
		"used and held": {96, 48, 8, 0, "used 0.00+50.00, held 50.00+8.33"},
		"asked fits":    {100, 50, 0, 50, "used 0.00+50.00, asked 50.00+50.00"},
		"asked is over": {100, 50, 0, 80, "used 0.00+50.00, over 50.00+50.00"},
		"over already":  {32, 40, 0, 0, "used 0.00+80.00, over 80.00+20.00"},
		"held is over":  {32, 24, 16, 8, "used 0.00+60.00, held 60.00+20.00, over 80.00+20.00"},
		"no limit":      {0, 0, 0, 4, "over 0.00+100.00"},
	} {
		t.Run(name, func(t *testing.T) {
			var parts []string
			for _, s := range stack(c.limit, c.used, c.held, c.asked) {
				parts = append(parts, s.class+" "+s.x+"+"+s.width)
			}
			if got := strings.Join(parts, ", "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestWayIn gives those who may only look no line to send jobs with, and everybody the line that works where they are.
func TestWayIn(t *testing.T) {
	host, local := "https://k5d2m7qxw3ab.clusters.example", "http://k5d2m7qxw3ab.clusters.localhost:8080"
	for name, tc := range map[string]struct {
		way    Way
		want   string // of the line; "" = there is none
		button bool
	}{
		"everything": {Way{host, "https://rayslice.example", rayslice.AccessFull}, "--address " + host + ` \` + "\n" + `  --headers "{\"Authorization\": \"Bearer $RAYSLICE_TOKEN\"}" \`, true},
		"this machine": {Way{local, "http://127.0.0.1:8080", rayslice.AccessFull},
			`--address http://127.0.0.1:8080 \` + "\n" + `  --headers "{\"Host\": \"k5d2m7qxw3ab.clusters.localhost:8080\", \"Authorization\": \"Bearer $RAYSLICE_TOKEN\"}" \`, true},
		"to look at":  {Way{host, "https://rayslice.example", rayslice.AccessView}, "", true},
		"not through": {Way{}, "--address http://rs-k5d2m7qxw3ab-head-svc.team-vision.svc:8265 ", false},
	} {
		row := SampleRow(sampleTime, rayslice.StateReady)
		c, ok := connection(RequestPage{Frame: Frame{Locale: NewLocalizer("en")}, Request: row.Request, Cluster: row.Cluster, Way: tc.way})
		line := c.job
		if c.views {
			line = ""
		}
		if !ok || c.opens != tc.button || tc.want == "" && line != "" || !strings.Contains(line, tc.want) {
			t.Errorf("%s: button %v, line\n%s\nwant\n%s", name, c.opens, line, tc.want)
		}
	}
}
