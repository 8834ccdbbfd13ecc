package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/rayslice/rayslice"
)

// turns is a proxy that sends each request to the next of the portals, as a load balancer without affinity does.
type turns struct {
	*httptest.Server
	mu      sync.Mutex
	portals []*url.URL
	next    int
	streams []string // hosts of the portals that the event streams of one page went to
}

func takeTurns(t *testing.T) *turns {
	t.Helper()
	p := &turns{}
	p.Server = httptest.NewServer(&httputil.ReverseProxy{Rewrite: p.rewrite})
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

func (p *turns) rewrite(r *httputil.ProxyRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.portals[p.next%len(p.portals)]
	if p.next++; strings.HasSuffix(r.In.URL.Path, "/events") {
		p.streams = append(p.streams, to.Host)
	}
	r.SetURL(to)
	r.Out.Host = r.In.Host
}

func (i *installation) behind(p *turns, addresses ...string) {
	i.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range addresses {
		u, err := url.Parse(address)
		i.must(err)
		p.portals = append(p.portals, u)
	}
	i.url = p.URL
}

// stream returns the portal that has the page's stream, and how many streams there have been.
func (p *turns) stream() (host string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.streams) == 0 {
		return "", 0
	}
	return p.streams[len(p.streams)-1], len(p.streams)
}

// noteBars makes a page remember what its first bar showed: how wide it was drawn, and its words. Loading it again forgets them.
const noteBars = `window.bars = [];
	document.addEventListener("DOMContentLoaded", () => {
		const note = () => {
			const bar = document.querySelector("#use tbody svg.bar rect"), text = document.querySelector("#use tbody td span")?.textContent;
			if (bar && text !== window.bars.at(-1)?.text) window.bars.push({text, width: Number(bar.getAttribute("width"))});
		};
		note();
		new MutationObserver(note).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
	});`

type bar struct {
	Text  string
	Width float64
}

// watchBars waits, without touching the page, until its bar has shown n values, and returns them.
func (v *visitor) watchBars(what string, n int) (bars []bar) {
	v.Helper()
	v.do(what, chromedp.PollFunction(`n => window.bars.length >= n`, nil, chromedp.WithPollingArgs(n), chromedp.WithPollingTimeout(patience)),
		chromedp.Evaluate(`window.bars`, &bars))
	return bars
}

// TestABarMoves watches a slice's bar on a real page that two portal processes keep fresh, behind a proxy that takes turns: the
// sandbox's Ray head says what is used, one process asks it, and the page shows it whichever of the two it hears.
func TestABarMoves(t *testing.T) {
	t.Parallel()
	i := install(t)
	proxy := takeTurns(t)
	i.env = append(i.env, "RAYSLICE_PUBLIC_URL="+proxy.URL, "RAYSLICE_VERIFY=false", "RAYSLICE_USAGE_WATCHED_EVERY=1s") // others wait for half a minute
	i.start()
	i.leads()
	i.behind(proxy, i.url, i.another())
	v := i.visit()
	v.do("note bars", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(noteBars).Do(ctx)
		return err
	}))
	v.signIn("Mei Lin")
	got, err := i.call(http.MethodPost, "/api/v1/requests", "bar", draftOf("bar", 8))
	i.must(err)
	v.do("open its page", chromedp.Navigate(i.url+"/clusters/"+got.ID), chromedp.WaitVisible(`//h1/span[text()="Ready"]`, chromedp.BySearch))
	first := v.watchBars("see the bar move", 3)
	wantMoving(t, first)
	host, n := proxy.stream()

	proxy.CloseClientConnections() // the page connects again by itself, to the other portal or in turn
	i.until("the other portal has the stream", func() bool {
		now, count := proxy.stream()
		if count > n && now == host { // its sheets or its chart took the turn in between
			proxy.CloseClientConnections()
			n = count
		}
		return now != host
	})
	later := v.watchBars("see it go on", len(first)+2)
	wantMoving(t, later[len(first)-1:])
	heading := v.text(`#use-heading`)
	if !regexp.MustCompile(`from Ray, \d+ s ago`).MatchString(heading) {
		t.Errorf("%q: want where the figure comes from, and its age", heading)
	}
	v.do("see the chart", chromedp.WaitVisible(`#use-chart canvas`, chromedp.ByQuery), chromedp.WaitNotPresent(`#use-history-none`, chromedp.ByQuery))
	v.look("use-moving")
	if lines := v.said.Take(); len(lines) > 0 && !onlyConnections(lines) {
		t.Errorf("the console says:\n%s", strings.Join(lines, "\n"))
	}
	_, err = i.call(http.MethodPost, "/api/v1/requests/"+got.ID+"/stop", "", "")
	i.must(err)
	i.untilState(got.ID, rayslice.StateStopped)
	i.checkNothingLeft()
}

// wantMoving fails unless the bars are those of 8 units of a card of 23,028 MiB in 22, which is used more and more.
func wantMoving(t *testing.T, bars []bar) {
	t.Helper()
	for n, b := range bars {
		if !regexp.MustCompile(`^\d\.\d of 8\.2 GiB$`).MatchString(b.Text) || n > 0 && b.Width <= bars[n-1].Width {
			t.Errorf("the bar showed %+v, want it to grow", bars)
			return
		}
	}
}

// onlyConnections reports whether a console complains of nothing but the connections that the test has cut.
func onlyConnections(lines []string) bool {
	for _, line := range lines {
		if !strings.Contains(line, "net::ERR_") {
			return false
		}
	}
	return true
}
