package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store"
)

// TestPeopleByProgram gives and takes a role, keeps somebody out and lets them in again, and revokes a token.
func TestPeopleByProgram(t *testing.T) {
	t.Parallel()
	p := open(t)
	admin := p.as(p.Root)
	var people api.PersonPage
	admin.get("/api/v1/people?q=bob").want(http.StatusOK).decode(&people)
	if len(people.People) != 1 || people.People[0].Id != p.Bob.ID || people.People[0].Provider != nil {
		t.Fatalf("%+v", people)
	}
	bob := fmt.Sprintf("/api/v1/people/%d", p.Bob.ID)
	leads := func(person api.PersonDetails) bool {
		return slices.ContainsFunc(person.Roles, func(g api.RoleGrant) bool { return g.Role == rayslice.RoleLead && g.Source == rayslice.SourceManual })
	}
	var person api.PersonDetails
	admin.postJSON(bob+"/roles", `{"role": "lead", "team": "vision"}`).want(http.StatusOK).decode(&person)
	if !leads(person) {
		t.Errorf("%+v", person)
	}
	admin.postJSON(bob+"/roles", `{"role": "lead", "team": "vision"}`).want(http.StatusConflict)
	admin.postJSON(bob+"/roles", `{"role": "admin", "team": "vision"}`).want(http.StatusUnprocessableEntity)
	admin.postJSON(bob+"/roles/revoke", `{"role": "lead", "team": "vision", "source": "manual"}`).want(http.StatusOK).decode(&person)
	if leads(person) {
		t.Errorf("%+v", person)
	}

	token := p.newToken(p.Bob, rayslice.ScopeRead)
	admin.postJSON(bob+"/disable", ``).want(http.StatusOK).decode(&person)
	if !person.Disabled || len(person.Tokens) != 1 {
		t.Fatalf("%+v", person)
	}
	if got := p.token(token).get("/api/v1/account"); got.Code == http.StatusOK {
		t.Errorf("who is kept out reads their account: %s", got.Body)
	}
	admin.postJSON(bob+"/enable", ``).want(http.StatusOK)
	p.token(token).get("/api/v1/account").want(http.StatusOK)
	admin.postJSON(fmt.Sprintf("%s/tokens/%d/revoke", bob, person.Tokens[0].Id), ``).want(http.StatusNoContent)
	p.token(token).get("/api/v1/account").want(http.StatusUnauthorized)
	signedIn := p.as(p.Bob)
	admin.postJSON(bob+"/sessions/end", ``).want(http.StatusNoContent)
	signedIn.get("/api/v1/account").want(http.StatusUnauthorized)
	admin.postJSON(fmt.Sprintf("/api/v1/people/%d/disable", p.Root.ID), ``).want(http.StatusConflict) // the last admin

	var work api.Admin
	p.raise(rayslice.Charge{GiB: 8})
	admin.get("/api/v1/admin").want(http.StatusOK).decode(&work)
	if work.Raises != 1 || len(work.Late)+len(work.Drifts)+len(work.Orphans) != 0 {
		t.Errorf("%+v", work)
	}
}

// TestAccountByProgram makes a token in person, uses it, and revokes it; a token makes none and sees no other.
func TestAccountByProgram(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead := p.as(p.Lea)
	var made api.NewToken
	lead.postJSON("/api/v1/account/tokens", `{"name": "nightly", "days": 7, "scopes": ["stop"], "team": "vision"}`).want(http.StatusCreated).decode(&made)
	if !rayslice.CheckToken(made.Secret) || !slices.Equal(made.Token.Scopes, []rayslice.Scope{rayslice.ScopeRead, rayslice.ScopeStop}) || made.Token.UsedAt != nil {
		t.Errorf("%+v", made)
	}
	program := p.token(made.Secret)
	var who api.Account
	program.get("/api/v1/account").want(http.StatusOK).decode(&who)
	if who.Id != p.Lea.ID || who.Roles["vision"] != rayslice.RoleMember || who.Scopes == nil || len(*who.Scopes) != 2 || who.Admin {
		t.Errorf("a lead's token says %+v", who)
	}
	lead.get("/api/v1/account").want(http.StatusOK).decode(&who)
	if who.Roles["vision"] != rayslice.RoleLead || who.Scopes != nil {
		t.Errorf("a lead is %+v", who)
	}
	for _, path := range []string{"/account/tokens", "/notifications", "/account/notifications", "/approvals", "/teams/vision/audit"} {
		program.get("/api/v1" + path).want(http.StatusForbidden)
	}
	program.postJSON("/api/v1/account/tokens", `{"name": "another", "days": 7}`).want(http.StatusForbidden)
	var tokens api.TokenList
	got := lead.get("/api/v1/account/tokens").want(http.StatusOK)
	got.decode(&tokens)
	if len(tokens.Tokens) != 1 || tokens.Tokens[0].Name != "nightly" || strings.Contains(got.Body.String(), made.Secret) {
		t.Errorf("%s", got.Body)
	}
	lead.postJSON(fmt.Sprintf("/api/v1/account/tokens/%d/revoke", made.Token.Id), ``).want(http.StatusNoContent)
	program.get("/api/v1/account").want(http.StatusUnauthorized)

	other := p.as(p.Lea)
	lead.postJSON("/api/v1/account/sessions/end", ``).want(http.StatusNoContent)
	other.get("/api/v1/account").want(http.StatusUnauthorized)
}

// TestNotificationsByProgram reads what a lead was told, and sets how; the webhook's secret goes in and never out.
func TestNotificationsByProgram(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead := p.as(p.Lea)
	var settings api.NotificationSettings
	const secret = "sixteen-characters"
	got := lead.putJSON("/api/v1/account/notifications", `{"mail": false, "webhook_url": "https://hooks.example.org/x", "webhook_form": "generic", "webhook_secret": "`+secret+`", "send": ["waiting"]}`).want(http.StatusOK)
	got.decode(&settings)
	if settings.Mail || !settings.HasSecret || !slices.Equal(settings.Send, []rayslice.NewsKind{rayslice.NewsWaiting}) || strings.Contains(got.Body.String(), secret) {
		t.Errorf("%s", got.Body)
	}
	lead.putJSON("/api/v1/account/notifications", `{"mail": true, "webhook_url": "https://hooks.example.org/x", "webhook_form": "generic", "send": []}`).want(http.StatusOK).decode(&settings)
	if !settings.HasSecret || len(settings.Send) != 0 || !settings.Mail {
		t.Errorf("the secret is gone: %+v", settings)
	}
	lead.putJSON("/api/v1/account/notifications", `{"mail": true, "webhook_form": "generic", "send": []}`).want(http.StatusOK).decode(&settings)
	if settings.HasSecret || settings.WebhookUrl != nil {
		t.Errorf("without an address there is a secret: %+v", settings)
	}

	for i := range int64(3) {
		p.tell(i, p.Lea, rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", RequestID: "aaaaaaaaaaaa", Args: map[string]any{"name": fmt.Sprint("x", i), "who": "Ada"}})
	}
	told, err := p.store.Notices(t.Context(), p.Lea, store.NoticeFilter{})
	if err != nil || len(told.Notices) != 3 {
		t.Fatal(told, err)
	}
	notices := []int64{told.Notices[2].ID, told.Notices[1].ID, told.Notices[0].ID} // the oldest first
	var page api.NoticePage
	lead.get("/api/v1/notifications?limit=2").want(http.StatusOK).decode(&page)
	if len(page.Notices) != 2 || page.Next == nil || page.Notices[0].Id != notices[2] || page.Notices[0].Title == "" || page.Notices[0].ReadAt != nil {
		t.Fatalf("%+v", page)
	}
	lead.get("/api/v1/notifications?cursor=" + *page.Next).want(http.StatusOK).decode(&page)
	if len(page.Notices) != 1 || page.Notices[0].Id != notices[0] {
		t.Errorf("%+v", page)
	}
	lead.postJSON("/api/v1/notifications/read", fmt.Sprintf(`{"ids": [%d]}`, notices[1])).want(http.StatusNoContent)
	lead.get("/api/v1/notifications?unread=1").want(http.StatusOK).decode(&page)
	if len(page.Notices) != 2 {
		t.Errorf("%+v", page)
	}
	lead.postJSON("/api/v1/notifications/read", fmt.Sprintf(`{"up_to": %d}`, notices[2])).want(http.StatusNoContent)
	lead.get("/api/v1/notifications?unread=1").want(http.StatusOK).decode(&page)
	if len(page.Notices) != 0 {
		t.Errorf("%+v", page)
	}
	for _, query := range []string{"unread=yes", "cursor=0", "cursor=x", "limit=1000"} {
		lead.get("/api/v1/notifications?" + query).want(http.StatusUnprocessableEntity)
	}
}
