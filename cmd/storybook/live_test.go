package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/chromedp/chromedp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
	"github.com/rayslice/rayslice/web/browsertest"
)

// livePortal serves one request's page and its event stream; what is sent to events goes out.
type livePortal struct {
	*httptest.Server
	events chan string
	opened chan string // receives the path of every page and stream that is opened
}

func newLivePortal(t *testing.T) *livePortal {
	p := &livePortal{events: make(chan string), opened: make(chan string, 10)}
	storybook := newStorybook()
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			p.opened <- r.URL.Path
			w.Header().Set("Content-Security-Policy", contentSecurityPolicy)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			if err := web.RequestView(livePage(rayslice.StateProvisioning)).Render(r.Context(), w); err != nil {
				t.Error(err)
			}
		case "/stream":
			p.opened <- r.URL.Path
			p.stream(w, r)
		default:
			storybook.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *livePortal) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-p.events:
			fmt.Fprint(w, event)
			_ = flusher.Flush()
		}
	}
}

// livePage is a request's page that listens to /stream.
func livePage(state rayslice.State) web.RequestPage {
	row := web.SampleRow(time.Now(), state)
	return web.RequestPage{
		Frame:   web.SampleFrame(web.NewLocalizer("en"), "/page", time.Now()),
		Request: row.Request, Cluster: row.Cluster, Catalogue: web.SampleCatalogue(), CanStop: true, Stream: "/stream",
	}
}

func eventOf(t *testing.T, name string, c templ.Component) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return "event: " + name + "\ndata: " + strings.ReplaceAll(b.String(), "\n", "\ndata: ") + "\n\n"
}

func (p *livePortal) waitFor(t *testing.T, path string) {
	t.Helper()
	select {
	case got := <-p.opened:
		if got != path {
			t.Fatalf("%s was opened, want %s", got, path)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s was not opened", path)
	}
}

func TestAPageRefreshesItselfAndKeepsTheFocus(t *testing.T) {
	portal := newLivePortal(t)
	browser := browsertest.New(t)
	var said browsertest.Complaints
	if err := said.Watch(browser); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(browser, 3*time.Minute)
	defer cancel()
	run := func(actions ...chromedp.Action) {
		t.Helper()
		if err := chromedp.Run(ctx, actions...); err != nil {
			t.Fatal(err)
		}
	}
	run(chromedp.Navigate(portal.URL + "/page"))
	portal.waitFor(t, "/page")
	portal.waitFor(t, "/stream")
	run(chromedp.Focus("#stop"))

	portal.events <- eventOf(t, web.EventLive, web.RequestLive(livePage(rayslice.StateReady)))
	var focused string
	run(chromedp.WaitVisible(`//h1/span[text()="Ready"]`, chromedp.BySearch),
		chromedp.Evaluate(`document.activeElement.id`, &focused))
	if focused != "stop" {
		t.Errorf("the focus went to %q", focused)
	}

	run(chromedp.Click("#stop"), chromedp.WaitVisible("#stop-dialog"),
		chromedp.Click("#stop-dialog [data-close]"), chromedp.WaitNotVisible("#stop-dialog"))

	portal.events <- "event: " + web.EventAuthExpired + "\ndata: {}\n\n"
	portal.waitFor(t, "/page") // loaded again
	if lines := said.Take(); len(lines) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(lines, "\n"))
	}
}

func TestThePreviewFollowsTheForm(t *testing.T) {
	server := httptest.NewServer(newStorybook())
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(browsertest.New(t), 3*time.Minute)
	defer cancel()
	err := chromedp.Run(ctx,
		chromedp.Navigate(server.URL+"/new?lang=en"),
		chromedp.Click(`input[value="a10:16"]`),
		chromedp.WaitVisible(`//aside//button[contains(., "Ask for 2 × 16 GiB of NVIDIA A10")]`, chromedp.BySearch),
		chromedp.SetValue(`[name="groups[0].workers"]`, "9"),
		chromedp.Evaluate(`document.querySelector('[name="groups[0].workers"]').dispatchEvent(new Event("change", {bubbles: true}))`, nil),
		chromedp.WaitVisible(`//aside//p[contains(@class, "bad") and contains(., "104 GiB too much")]`, chromedp.BySearch),
		chromedp.SetValue(`[name="hours"]`, "soon"),
		chromedp.Evaluate(`document.querySelector('[name="hours"]').dispatchEvent(new Event("change", {bubbles: true}))`, nil),
		chromedp.WaitVisible(`//*[@id="request-preview"]//a[@href="#f-hours"]`, chromedp.BySearch),
	)
	if err != nil {
		t.Error(err)
	}
}
