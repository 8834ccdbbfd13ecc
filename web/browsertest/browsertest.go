// Package browsertest gives tests a real headless Chromium, and eyes for what a browser complains about. Without Chromium
// tests skip, and fail where CI=true.
package browsertest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed axe.min.js
var axe string

const chromium = "/usr/bin/chromium"

// New starts one headless Chromium with an empty page. It ends with the test.
func New(t *testing.T) context.Context {
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
	browser, stopBrowser := chromedp.NewContext(allocator, chromedp.WithErrorf(t.Logf), chromedp.WithBrowserOption(chromedp.WithDialTimeout(time.Minute)))
	t.Cleanup(stopBrowser)
	if err := chromedp.Run(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

// Complaints collects what the console of a page says: exceptions, refused inline code, files that are missing.
type Complaints struct {
	mu    sync.Mutex
	lines []string
}

// Watch starts to collect from the browser's page.
func (c *Complaints) Watch(browser context.Context) error {
	chromedp.ListenTarget(browser, c.listen)
	return chromedp.Run(browser, log.Enable())
}

func (c *Complaints) listen(ev any) {
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

// Take returns what was collected and forgets it.
func (c *Complaints) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	c.lines = nil
	return lines
}

// Scheme makes the page "light" or "dark".
func Scheme(name string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}})
}

// Violations runs axe-core on the page and stores what is serious or critical. rule narrows it down; "" = all.
func Violations(rule string, found *[]string) chromedp.Action {
	options := `{resultTypes: ["violations"]}`
	if rule != "" {
		options = fmt.Sprintf(`{resultTypes: ["violations"], runOnly: {type: "rule", values: [%q]}}`, rule)
	}
	script := `axe.run(document, ` + options + `).then(r => JSON.stringify(r.violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.flatMap(v => v.nodes.map(n => v.id + ": " + n.html + " " + n.failureSummary))))`
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var result string
		wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
		if err := (chromedp.Tasks{chromedp.Evaluate(axe, nil), chromedp.Evaluate(script, &result, wait)}).Do(ctx); err != nil {
			return err
		}
		return json.Unmarshal([]byte(result), found)
	})
}

// Shoot saves the whole page as PNG, and makes the folder that is missing.
func Shoot(file string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var image []byte
		if err := chromedp.FullScreenshot(&image, 100).Do(ctx); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, image, 0o644)
	})
}
