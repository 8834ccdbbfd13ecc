package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web/browsertest"
)

// visitor is a person at a browser, in front of one installation.
type visitor struct {
	*installation
	browser context.Context
	said    browsertest.Complaints
}

func (i *installation) visit() *visitor {
	i.Helper()
	v := &visitor{installation: i, browser: browsertest.New(i.T)}
	i.must(v.said.Watch(v.browser))
	v.do("open a window", chromedp.EmulateViewport(1280, 900), browsertest.Scheme("light"))
	return v
}

// do runs actions within the test's patience.
func (v *visitor) do(what string, actions ...chromedp.Action) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.browser, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var text string
		_ = chromedp.Run(v.browser, chromedp.Evaluate(`location.href + "\n" + document.body.innerText`, &text), v.picture("failed"))
		v.Fatalf("%s: %v\n%s", what, err, text)
	}
}

func (v *visitor) picture(name string) chromedp.Action {
	return browsertest.Shoot(filepath.Join("../../build/screenshots", "e2e-"+name+".png"))
}

// look photographs the page and checks that everybody can use it.
func (v *visitor) look(name string) {
	v.Helper()
	var light, dark []string
	v.do("look at "+name,
		chromedp.Evaluate(`scrollTo(0, 0)`, nil), v.picture(name), browsertest.Violations("", &light))
	v.do("look at "+name+" in the dark",
		browsertest.Scheme("dark"), v.picture(name+"-dark"), browsertest.Violations("color-contrast", &dark),
		browsertest.Scheme("light"))
	for _, violation := range append(light, dark...) {
		v.Errorf("%s: %s", name, violation)
	}
}

// text returns what a part of the page says.
func (v *visitor) text(selector string) string {
	v.Helper()
	var text string
	v.do("read "+selector, chromedp.Text(selector, &text, chromedp.ByQuery))
	return text
}

func (v *visitor) signIn(name string) {
	v.Helper()
	v.do("sign in", chromedp.Navigate(v.url+"/signin?next=/clusters"),
		chromedp.Click(fmt.Sprintf(`//button[contains(., %q)]`, name), chromedp.BySearch),
		chromedp.WaitVisible(`//h1[text()="Clusters"]`, chromedp.BySearch))
}

// fillIn asks for 2 workers × 8 GiB of an A10 for 8 hours.
func (v *visitor) fillIn(name string) {
	v.Helper()
	v.do("fill in the form",
		chromedp.Click(`input[value="a10:8"]`, chromedp.ByQuery),
		typeIn(`input[name="name"]`, name), typeIn(`input[name="groups[0].workers"]`, "2"), typeIn(`input[name="hours"]`, "8"))
}

// typeIn replaces what stands in a field.
func typeIn(selector, text string) chromedp.Action {
	return chromedp.Tasks{
		chromedp.Evaluate(fmt.Sprintf(`document.querySelector(%q).select()`, selector), nil),
		chromedp.SendKeys(selector, text+"\t", chromedp.ByQuery), // leaving the field is what tells the page
	}
}

// requestID returns the id in the address of the request's page, once that is open.
func (v *visitor) requestID() string {
	v.Helper()
	var address string
	v.do("see the request", chromedp.WaitVisible(`ol.steps`, chromedp.ByQuery), chromedp.Location(&address))
	id := regexp.MustCompile(`/clusters/([a-z2-7]{12})$`).FindStringSubmatch(address)
	if id == nil {
		v.Fatalf("at %s", address)
	}
	return id[1]
}

// noteStates makes every page remember the states that its heading showed. Loading it again forgets them.
const noteStates = `window.seen = [];
	document.addEventListener("DOMContentLoaded", () => {
		const note = () => {
			const state = document.querySelector("h1 .badge")?.textContent;
			if (state && state !== window.seen.at(-1)) window.seen.push(state);
		};
		note();
		new MutationObserver(note).observe(document.body, {subtree: true, childList: true, characterData: true});
	});`

// watchUntil waits, without touching the page, until its heading shows the state; it returns all that it showed.
func (v *visitor) watchUntil(state string) []string {
	v.Helper()
	var seen []string
	v.do("watch until "+state,
		chromedp.WaitVisible(fmt.Sprintf(`//h1/span[text()=%q]`, state), chromedp.BySearch), chromedp.Evaluate(`window.seen`, &seen))
	return seen
}

// TestStory is the main job, as a person does it: ask for a slice, get a Ray cluster, stop it.
func TestStory(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.start()
	i.leads()
	v := i.visit()
	v.do("note states", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(noteStates).Do(ctx)
		return err
	}))

	v.do("come", chromedp.Navigate(i.url), chromedp.WaitVisible(`form.personas`, chromedp.ByQuery))
	v.look("1-signin")
	v.signIn("Mei Lin")
	v.look("2-clusters-empty")
	v.do("open the form", chromedp.Click(`.title a.primary`, chromedp.ByQuery), chromedp.WaitVisible(`#request-form`, chromedp.ByQuery))
	v.fillIn("ablation-7")
	v.do("see the button", chromedp.WaitVisible(`//aside//button[contains(., "Ask for 2 × 8 GiB of NVIDIA A10")]`, chromedp.BySearch),
		chromedp.WaitVisible(`//pre[contains(., "name: ablation-7") or contains(., "rayslice.io/name: ablation-7")]`, chromedp.BySearch))
	wantAll(t, v.text(`#request-preview`), `aliyun.com/gpu-mem: "8"`, `num-gpus: "1"`)
	v.look("3-form")

	i.kill()
	i.holdLease() // so that "approved" stays until the page has shown it
	i.start()
	v.do("send it", chromedp.Click(`#request-aside button`, chromedp.ByQuery))
	id := v.requestID()
	v.watchUntil("Approved")
	i.dropLease()
	wantInOrder(t, v.watchUntil("Ready"), "Approved", "Starting", "Ready")
	v.checkReady(id)
	v.look("4-ready")

	v.do("stop", chromedp.Click(`#stop`, chromedp.ByQuery), chromedp.WaitVisible(`#stop-dialog`, chromedp.ByQuery), v.picture("5-stop-dialog"),
		chromedp.Click(`#stop-dialog .danger-solid`, chromedp.ByQuery), chromedp.WaitNotPresent(`#stop`, chromedp.ByQuery))
	v.look("6-stopping")
	wantInOrder(t, v.watchUntil("Stopped"), "Stopping", "Stopped")
	v.look("7-stopped")
	v.do("see the team", chromedp.Navigate(i.url+"/teams/vision"), chromedp.WaitVisible(`.legend`, chromedp.ByQuery))
	wantAll(t, v.text(`.legend`), "0 GiB in use", "96 GiB left")
	v.look("8-team")
	v.do("read Chinese", chromedp.Click(`button[lang="zh-CN"]`, chromedp.ByQuery), chromedp.WaitVisible(`html[lang="zh-CN"] main`, chromedp.ByQuery),
		chromedp.Navigate(i.url+"/clusters/"+id), chromedp.WaitVisible(`//h1/span[text()="已停止"]`, chromedp.BySearch))
	v.look("9-chinese")

	i.checkNothingLeft()
	i.checkAudit(id)
	if lines := slices.DeleteFunc(v.said.Take(), isPreview); len(lines) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(lines, "\n"))
	}
}

// wantInOrder fails unless a page showed the first and the last state, and what it showed between in order: states that
// follow each other within its rhythm are shown as one change.
func wantInOrder(t *testing.T, seen []string, order ...string) {
	t.Helper()
	rank := func(state string) int { return slices.Index(order, state) }
	inOrder := slices.IsSortedFunc(seen, func(a, b string) int { return rank(a) - rank(b) })
	if len(seen) < 2 || seen[0] != order[0] || seen[len(seen)-1] != order[len(order)-1] || !inOrder {
		t.Errorf("the page showed %v, want %v", seen, order)
	}
}

// isPreview finds what a browser says about the preview of a form that is not filled in yet: 422 is its answer.
func isPreview(line string) bool {
	return strings.Contains(line, "422 (Unprocessable Entity)") && strings.Contains(line, "/clusters/preview")
}

// checkReady reads what a ready cluster's page says about pods and how to connect.
func (v *visitor) checkReady(id string) {
	v.Helper()
	var rows []string
	v.do("read the workers", chromedp.Evaluate(`[...document.querySelectorAll(".pods tbody tr")].map(e => e.innerText)`, &rows))
	if len(rows) != 3 {
		v.Errorf("%d pods, want a head and two workers: %q", len(rows), rows)
	}
	for _, row := range rows[1:] {
		if !regexp.MustCompile(`(?s)Worker \d.*cn-hangzhou\..*card \d.*8 GiB.*Ready`).MatchString(row) {
			v.Errorf("worker without node, card, slice or state: %q", row)
		}
	}
	service := "rs-" + id + "-head-svc." + v.namespace + ".svc"
	wantAll(v.T, v.text(`section[aria-labelledby="connect"]`),
		`ray.init("ray://`+service, ":10001", "ray job submit --address "+v.url, id+".clusters.localhost", "Open the Ray dashboard")
	wantAll(v.T, v.text(`section[aria-labelledby="audit"]`), "Approved → Starting", "Starting → Ready")
}

func wantAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// TestStoryWithoutJavaScript does the same in a browser that runs no script; only what refreshes itself needs a reload.
func TestStoryWithoutJavaScript(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.start()
	i.leads()
	v := i.visit()
	v.do("run no script", emulation.SetScriptExecutionDisabled(true))
	v.signIn("Mei Lin")
	v.do("open the form", chromedp.Click(`.title a.primary`, chromedp.ByQuery), chromedp.WaitVisible(`#request-form`, chromedp.ByQuery))
	v.fillIn("no-script")
	v.do("preview", chromedp.Click(`button[formaction="/clusters/preview"]`, chromedp.ByQuery),
		chromedp.WaitVisible(`//pre[contains(., "no-script")]`, chromedp.BySearch))
	wantAll(t, v.text(`#request-preview`), `aliyun.com/gpu-mem: "8"`, `num-gpus: "1"`)
	v.do("send it", chromedp.Click(`#request-aside button`, chromedp.ByQuery))
	id := v.requestID()
	i.untilState(id, rayslice.StateReady)
	v.do("reload", chromedp.Reload(), chromedp.WaitVisible(`//h1/span[text()="Ready"]`, chromedp.BySearch))
	v.checkReady(id)
	v.do("stop", chromedp.Click(`#stop`, chromedp.ByQuery), chromedp.WaitVisible(`.confirm`, chromedp.ByQuery), v.picture("no-script-stop"),
		chromedp.Click(`.confirm .danger-solid`, chromedp.ByQuery), chromedp.WaitNotPresent(`.confirm`, chromedp.ByQuery))
	i.untilState(id, rayslice.StateStopped)
	v.do("reload", chromedp.Reload(), chromedp.WaitVisible(`//h1/span[text()="Stopped"]`, chromedp.BySearch))
	i.checkNothingLeft()
}
