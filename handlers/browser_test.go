package handlers

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rayslice/rayslice/web/browsertest"
)

// TestSignInInBrowser goes through the provider and out again in a real browser: its cookies, its redirects, its policy.
func TestSignInInBrowser(t *testing.T) {
	browser := browsertest.New(t)
	var said browsertest.Complaints
	if err := said.Watch(browser); err != nil {
		t.Fatal(err)
	}
	i := newIDP(t)
	web := httptest.NewUnstartedServer(nil)
	address := "http://" + web.Listener.Addr().String()
	p := openWith(t, i, func(c *Config) { c.PublicURL = address })
	web.Config.Handler = p.server
	web.Start()
	t.Cleanup(func() {
		p.server.Close() // first: Close of the HTTP server waits for streams
		web.Close()
	})
	ctx, cancel := context.WithTimeout(browser, time.Minute)
	defer cancel()
	var who, where, secret, end string
	err := chromedp.Run(ctx,
		chromedp.Navigate(address+"/teams/vision"),
		chromedp.Click(`main a[href^="/signin/oidc"]`, chromedp.ByQuery),
		chromedp.Text(`.who`, &who, chromedp.ByQuery), chromedp.Location(&where),
		chromedp.Click(`.who`, chromedp.ByQuery),
		chromedp.SendKeys(`#token-name`, "notebook", chromedp.ByQuery),
		chromedp.Click(`form[action="/account/tokens"] button`, chromedp.ByQuery),
		chromedp.Text(`#secret`, &secret, chromedp.ByQuery),
		chromedp.Click(`a[data-dialog="confirm-sessions"]`, chromedp.ByQuery),
		chromedp.WaitVisible(`#confirm-sessions[open]`, chromedp.ByQuery),
		chromedp.Click(`#confirm-sessions .danger-solid`, chromedp.ByQuery),
		chromedp.WaitVisible(`main a[href^="/signin/oidc"]`, chromedp.ByQuery), chromedp.Location(&end),
	)
	if err != nil {
		t.Fatal(err)
	}
	if who != "Zoe" || where != address+"/teams/vision" || end != address+"/signin" {
		t.Errorf("%s at %s, in the end at %s", who, where, end)
	}
	p.token(secret).get("/api/v1/requests").want(200)
	for _, line := range said.Take() {
		t.Errorf("the browser says %s", line)
	}
}
