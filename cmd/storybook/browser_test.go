package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rayslice/rayslice/web"
)

//go:embed testdata/axe.min.js
var axe string

const (
	chromium    = "/usr/bin/chromium"
	screenshots = "../../build/screenshots"
)

// newBrowser starts one headless Chromium for the test.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	if _, err := os.Stat(chromium); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs Chromium: apt-get install chromium fonts-noto-cjk")
		}
		t.Skipf("no Chromium at %s: apt-get install chromium fonts-noto-cjk", chromium)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(time.Minute))
	allocator, stopAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stopAllocator)
	browser, stopBrowser := chromedp.NewContext(allocator, chromedp.WithErrorf(t.Logf))
	t.Cleanup(stopBrowser)
	if err := chromedp.Run(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

// complaints collects what the console says: exceptions, refused inline code, files that are missing.
type complaints struct {
	mu    sync.Mutex
	lines []string
}

func (c *complaints) listen(ev any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		c.lines = append(c.lines, ev.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.LevelError {
			c.lines = append(c.lines, ev.Entry.Text+" "+ev.Entry.URL)
		}
	}
}

func (c *complaints) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	c.lines = nil
	return lines
}

func scheme(name string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}})
}

// violations runs axe-core on the page and returns what is serious or critical. rules narrows it down; "" = all.
func violations(rules string, found *[]string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		options := `{resultTypes: ["violations"]}`
		if rules != "" {
			options = fmt.Sprintf(`{resultTypes: ["violations"], runOnly: {type: "rule", values: [%q]}}`, rules)
		}
		script := `axe.run(document, ` + options + `).then(r => JSON.stringify(r.violations
			.filter(v => v.impact === "serious" || v.impact === "critical")
			.flatMap(v => v.nodes.map(n => v.id + ": " + n.html + " " + n.failureSummary))))`
		var result string
		err := chromedp.Evaluate(script, &result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }).Do(ctx)
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(result), found)
	})
}

// shoot saves the whole page as build/screenshots/NAME.png.
func shoot(name string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var image []byte
		if err := chromedp.FullScreenshot(&image, 100).Do(ctx); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(screenshots, name+".png"), image, 0o644)
	})
}

func TestEverySampleIsAccessibleInABrowser(t *testing.T) {
	server := httptest.NewServer(newStorybook())
	t.Cleanup(server.Close)
	browser := newBrowser(t)
	var said complaints
	chromedp.ListenTarget(browser, said.listen)
	if err := chromedp.Run(browser, log.Enable()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, sample := range web.Samples() {
		for _, language := range web.Languages() {
			name := sample.Name + "-" + language.Code
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(browser, time.Minute)
				defer cancel()
				lookAt(t, ctx, fmt.Sprintf("%s/%s?lang=%s", server.URL, sample.Name, language.Code), name)
				if lines := slices.DeleteFunc(said.take(), expected); len(lines) > 0 {
					t.Errorf("the console says:\n%s", strings.Join(lines, "\n"))
				}
			})
		}
	}
}

// expected are complaints that belong to a sample: its form is wrong, so its preview is answered with 422.
func expected(line string) bool { return strings.Contains(line, "422 (Unprocessable Entity)") }

// lookAt opens a page wide and narrow, light and dark. Only colours differ in the dark, and only words in another
// language, so those get fewer pictures.
func lookAt(t *testing.T, ctx context.Context, address, name string) {
	t.Helper()
	var light, dark, narrow []string
	var overflow int
	more := func(name string) chromedp.Action {
		if strings.Contains(address, "lang=en") {
			return shoot(name)
		}
		return chromedp.Tasks{}
	}
	err := chromedp.Run(ctx,
		chromedp.EmulateViewport(1280, 900), scheme("light"), chromedp.Navigate(address), shoot(name),
		chromedp.Evaluate(axe, nil), violations("", &light),
		scheme("dark"), violations("color-contrast", &dark), more(name+"-dark"),
		chromedp.EmulateViewport(390, 844), more(name+"-narrow"),
		chromedp.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &overflow),
		chromedp.Evaluate(`[...document.querySelectorAll(".panel, .field input, .field select")]
			.filter(e => e.checkVisibility() && e.offsetWidth < 100).map(e => e.outerHTML.slice(0, 200))`, &narrow),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range append(light, dark...) {
		t.Error(v)
	}
	if overflow > 0 {
		t.Errorf("at 390 px the page is %d px too wide", overflow)
	}
	for _, e := range narrow {
		t.Errorf("at 390 px this is squeezed: %s", e)
	}
}
