package handlers

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
)

// TestAccount makes a token, shows its secret once, uses it and revokes it.
func TestAccount(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	form := url.Values{"name": {" notebook "}, "team": {"vision"}, "days": {"7"}, "scope": {"request"}}
	made := ada.post("/account/tokens", form).want(http.StatusCreated)
	secret := made.page().Find("#secret").Text()
	if !rayslice.CheckToken(secret) || made.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("secret %q, %v", secret, made.Header())
	}
	p.token(secret).postJSON("/api/v1/requests", goodBody).want(http.StatusCreated)
	account := ada.get("/account").want(http.StatusOK)
	if strings.Contains(account.Body.String(), secret) || strings.Contains(p.log.String(), secret) {
		t.Error("the secret is shown again")
	}
	page := account.page()
	if got := page.Find("table.tokens tbody th").First().Text(); !strings.Contains(got, "notebook") || !strings.Contains(got, rayslice.PublicPrefix(secret)) {
		t.Errorf("the list says %q", got)
	}
	if got := page.Find(".grants li").Text(); !strings.Contains(got, "Member · vision") {
		t.Errorf("roles %q", got)
	}
	ask, _ := page.Find("table.tokens .act a").First().Attr("href")
	revoke, ok := ada.get(ask).want(http.StatusOK).page().Find("section.confirm form").Attr("action")
	if !ok {
		t.Fatal("nothing asks once more")
	}
	p.as(p.Bob).post(revoke, nil).want(http.StatusNotFound)
	ada.post(revoke, nil).want(http.StatusSeeOther)
	p.token(secret).get("/api/v1/requests").want(http.StatusUnauthorized)
	ada.post("/account/tokens/x/revoke", nil).want(http.StatusNotFound)
}

// TestTokenFormComesBack fills in what was typed, with what is wrong.
func TestTokenFormComesBack(t *testing.T) {
	t.Parallel()
	p := open(t)
	for name, form := range map[string]url.Values{
		"no name":           {"days": {"7"}},
		"too long":          {"name": {"x"}, "days": {"91"}},
		"no number":         {"name": {"x"}, "days": {"soon"}},
		"another's team":    {"name": {"x"}, "days": {"7"}, "team": {"speech"}},
		"a control letter":  {"name": {"x\x00y"}, "days": {"7"}},
		"not even a number": {"name": {"x"}},
	} {
		page := p.as(p.Ada).post("/account/tokens", form).want(http.StatusUnprocessableEntity).page()
		if page.Find("ul.error li").Length() != 1 || page.Find("#token-name").AttrOr("value", "") != form.Get("name") && name != "a control letter" {
			t.Errorf("%s: %s", name, page.Find("form[action='/account/tokens']").Text())
		}
	}
}

// TestSignOutEverywhere ends every session of a person and no other's; tokens stay.
func TestSignOutEverywhere(t *testing.T) {
	t.Parallel()
	p := open(t)
	here, there, bob := p.as(p.Ada), p.as(p.Ada), p.as(p.Bob)
	here.post("/account/sessions/end", nil).want(http.StatusSeeOther)
	here.get("/clusters").want(http.StatusSeeOther)
	there.get("/clusters").want(http.StatusSeeOther)
	bob.get("/clusters").want(http.StatusOK)
	p.token(p.adaToken).get("/api/v1/requests").want(http.StatusOK)
	p.as(p.Ada).get("/clusters").want(http.StatusOK)
}

// TestPeoplePages lets an admin find somebody, give and take roles, and says what cannot be done.
func TestPeoplePages(t *testing.T) {
	t.Parallel()
	p := open(t)
	root := p.as(p.Root)
	list := root.get("/admin/people?q=ADA&team=vision&role=member").want(http.StatusOK).page()
	link, _ := list.Find("table.people tbody a").Attr("href")
	if want := fmt.Sprintf("/admin/people/%d", p.Ada.ID); link != want || list.Find("tbody tr").Length() != 1 || list.Find("#q").AttrOr("value", "") != "ADA" {
		t.Fatalf("found %q", link)
	}
	next, _ := root.get("/admin/people?limit=2&q=example.org").want(http.StatusOK).page().Find("nav.row a").Attr("href")
	second := root.get(next).want(http.StatusOK).page()
	if n := second.Find("tbody tr").Length(); n != 2 || second.Find("#q").AttrOr("value", "") != "example.org" {
		t.Errorf("the second page %q has %d people", next, n)
	}
	for _, bad := range []string{"?role=king", "?cursor=x", "?team=no%00such", "?limit=0"} {
		root.get("/admin/people" + bad).want(http.StatusUnprocessableEntity)
	}
	root.post(link+"/roles", url.Values{"role": {"lead"}, "team": {"speech"}}).want(http.StatusSeeOther)
	back := root.post(link+"/roles", url.Values{"role": {"lead"}}).want(http.StatusUnprocessableEntity).page()
	if back.Find("#give-role option[selected]").AttrOr("value", "") != "lead" || back.Find("ul.error").Length() != 1 {
		t.Error("the refused form is not as it was filled in")
	}
	person := root.get(link + "?confirm=lead-manual-speech").want(http.StatusOK).page()
	if person.Find("section.confirm input[name=source]").AttrOr("value", "") != "manual" {
		t.Errorf("asks %q", person.Find("section.confirm").Text())
	}
	root.post(link+"/roles/revoke", url.Values{"role": {"lead"}, "team": {"speech"}, "source": {"manual"}}).want(http.StatusSeeOther)
	if got := root.get(link).want(http.StatusOK).page().Find(".grants").Text(); strings.Contains(got, "speech") {
		t.Errorf("roles %q", got)
	}
	revoke, ok := root.get(link).want(http.StatusOK).page().Find(`form[action*="/tokens/"]`).Attr("action")
	if !ok {
		t.Fatal("the person's token is not shown")
	}
	root.post(revoke, nil).want(http.StatusSeeOther)
	p.token(p.adaToken).get("/api/v1/requests").want(http.StatusUnauthorized)
	own := fmt.Sprintf("/admin/people/%d", p.Root.ID)
	if got := root.post(own+"/disable", nil).want(http.StatusConflict).page().Find("#problem").Text(); !strings.Contains(got, "administrator") {
		t.Errorf("says %q", got)
	}
	root.post(link+"/roles/revoke", url.Values{"role": {"member"}, "team": {"vision"}, "source": {"oidc"}}).want(http.StatusConflict)
}

// TestAccountIsInPerson keeps an API token, which may be for one team only, from what its owner has and hears elsewhere.
func TestAccountIsInPerson(t *testing.T) {
	t.Parallel()
	p := open(t)
	settings := rayslice.DefaultNotificationSettings()
	settings.WebhookURL, settings.WebhookForm = "https://hooks.example/SECRET", rayslice.WebhookDingTalk
	if err := p.store.SetNotificationSettings(t.Context(), p.Ada, settings); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"/account", "/notifications", "/account/notifications"} {
		p.as(p.Ada).get(path).want(http.StatusOK)
		if got := p.token(p.adaToken).get(path).want(http.StatusForbidden).problem(); got.Code != "not_by_token" || got.Detail == "" {
			t.Errorf("%s: got %+v", path, got)
		}
		if n := p.refusals("not_by_token"); n != i+1 {
			t.Errorf("%s: %d refusals in the audit log", path, n)
		}
	}
}
