package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rayslice/rayslice/web"
	"github.com/rayslice/rayslice/web/browsertest"
)

func shoot(name string) chromedp.Action {
	return browsertest.Shoot(filepath.Join("../../build/screenshots", name+".png"))
}

func TestEverySampleIsAccessibleInABrowser(t *testing.T) {
	server := httptest.NewServer(newStorybook())
	t.Cleanup(server.Close)
	browser := browsertest.New(t)
	var said browsertest.Complaints
	if err := said.Watch(browser); err != nil {
		t.Fatal(err)
	}
	for _, sample := range web.Samples() {
		if sample.Name == "api-docs" {
			continue // swagger-ui's markup, of a specification that only the portal serves
		}
		for _, language := range web.Languages() {
			name := sample.Name + "-" + language.Code
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(browser, time.Minute)
				defer cancel()
				lookAt(t, ctx, fmt.Sprintf("%s/%s?lang=%s", server.URL, sample.Name, language.Code), name)
				if lines := slices.DeleteFunc(said.Take(), expected); len(lines) > 0 {
					t.Errorf("the console says:\n%s", strings.Join(lines, "\n"))
				}
			})
		}
	}
}

// expected are complaints that belong to a sample: its form is wrong, so its preview is answered with 422.
func expected(line string) bool { return strings.Contains(line, "422 (Unprocessable Entity)") }

// lookAt opens a page wide and narrow, light and dark. Only colours differ in the dark, and only words in another
// language, so those get fewer looks.
func lookAt(t *testing.T, ctx context.Context, address, name string) {
	t.Helper()
	var light, dark, narrow []string
	var overflow int
	english := func(actions ...chromedp.Action) chromedp.Action {
		if strings.Contains(address, "lang=en") {
			return chromedp.Tasks(actions)
		}
		return chromedp.Tasks{}
	}
	err := chromedp.Run(ctx,
		chromedp.EmulateViewport(1280, 900), browsertest.Scheme("light"), chromedp.Navigate(address), shoot(name),
		browsertest.Violations("", &light),
		english(browsertest.Scheme("dark"), browsertest.Violations("color-contrast", &dark), shoot(name+"-dark")),
		chromedp.EmulateViewport(390, 844), english(shoot(name+"-narrow")),
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
