package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestAReplyIsNeverLost answers a lead in two tabs: the second hears that it came too late, and keeps its text. Sending the
// very same answer twice is once.
func TestAReplyIsNeverLost(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	ada := p.as(p.Ada)
	asked := func() rayslice.Request {
		r := p.create(p.Ada, storetest.Draft(1, 4))
		r, err := p.store.DecideRequest(t.Context(), p.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictReturn, Revision: r.Revision, Answer: "why?"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	reply := func(r rayslice.Request, text string) answer {
		return ada.post("/clusters/"+r.ID+"/reply", url.Values{"revision": {itoa(int64(r.Revision))}, "reply": {text}})
	}
	lost := func(what string, got answer, says string) {
		t.Helper()
		note := got.want(http.StatusConflict).page().Find("#problem")
		if !strings.Contains(note.Text(), says) || note.Find("textarea[readonly]").Text() != "second" {
			t.Errorf("%s: %s", what, note.Text())
		}
	}
	r := asked()
	reply(r, "first").want(http.StatusSeeOther)
	reply(r, "first").want(http.StatusSeeOther)
	lost("answered in another tab", reply(r, "second"), "answered already")
	edit := goodForm()
	edit.Set("revision", itoa(int64(r.Revision)))
	edit.Set("reply", "second")
	again := ada.post("/clusters/"+r.ID+"/edit", edit).want(http.StatusConflict).page()
	if again.Find("textarea[name=reply]").Text() != "second" {
		t.Error("the form that changes the request lost the answer")
	}
	decided := asked()
	if _, err := p.store.DecideRequest(t.Context(), p.Lea, decided.ID, rayslice.Decision{Verdict: rayslice.VerdictReject, Revision: decided.Revision, Answer: "no"}); err != nil {
		t.Fatal(err)
	}
	lost("decided meanwhile", reply(decided, "second"), "decided already")
}

// TestGivingARoleSaysWhatIsWrong for each way to choose role and team.
func TestGivingARoleSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	p := open(t)
	root, path := p.as(p.Root), "/admin/people/"+itoa(p.Ada.ID)
	give := func(role rayslice.Role, team string) answer {
		return root.post(path+"/roles", url.Values{"role": {string(role)}, "team": {team}})
	}
	for what, tc := range map[string]struct {
		role       rayslice.Role
		team, says string
	}{
		"an admin of a team":   {rayslice.RoleAdmin, "vision", "choose no team"},
		"a lead of nothing":    {rayslice.RoleLead, "", "Choose the team"},
		"a member of nothing":  {rayslice.RoleMember, "", "Choose the team"},
		"a member of no team":  {rayslice.RoleMember, "no-such", "no such team"},
		"nothing of something": {"", "vision", "Fill this in"},
	} {
		page := give(tc.role, tc.team).want(http.StatusUnprocessableEntity).page()
		if said := page.Find("form[aria-labelledby=give] .error").Text(); !strings.Contains(said, tc.says) {
			t.Errorf("%s: %q", what, said)
		}
	}
	done := give(rayslice.RoleLead, "speech").want(http.StatusSeeOther).location()
	if said := root.get(done).want(http.StatusOK).page().Find("#done[role=status]").Text(); said != "The role is given." {
		t.Errorf("done: %q", said)
	}
	if said := give(rayslice.RoleLead, "speech").want(http.StatusConflict).page().Find("#problem").Text(); !strings.Contains(said, "Ada has this role already") {
		t.Errorf("given twice: %q", said)
	}
}

// TestFormsSayWhatTheyDid follows each form of teams, raises and people to the page that says so, in both languages.
func TestFormsSayWhatTheyDid(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead, admin := p.as(p.Lea), p.as(p.Root)
	raise, other := p.raise(rayslice.Charge{GiB: 8}), p.raise(rayslice.Charge{GiB: 4})
	person := "/admin/people/" + itoa(p.Bob.ID)
	for _, tc := range []struct {
		by     visitor
		path   string
		values url.Values
	}{
		{admin, "/teams/vision/limit", url.Values{"gib": {"32"}, "cards": {"2"}}},
		{lead, "/teams/vision/raises", url.Values{"gib": {"2"}, "purpose": {"more"}}},
		{lead, "/teams/vision/raises/" + itoa(other.ID) + "/withdraw", nil},
		{admin, "/admin/raises/" + itoa(raise.ID), url.Values{"verdict": {"grant"}, "gib": {"8"}, "cards": {"0"}, "until": {day(3)}}},
		{lead, "/teams/vision/deputies", url.Values{"user": {itoa(p.Ada.ID)}, "until": {day(3)}}},
		{lead, "/teams/vision/deputies/" + itoa(p.Ada.ID) + "/end", nil},
		{admin, person + "/roles", url.Values{"role": {"lead"}, "team": {"speech"}}},
		{admin, person + "/roles/revoke", url.Values{"role": {"lead"}, "team": {"speech"}, "source": {"manual"}}},
		{admin, person + "/disable", nil},
		{admin, person + "/enable", nil},
		{admin, person + "/sessions/end", nil},
	} {
		done := tc.by.post(tc.path, tc.values).want(http.StatusSeeOther).location()
		for _, language := range []string{"en", "zh-CN"} {
			if said := tc.by.with("Accept-Language", language).get(done).want(http.StatusOK).page().Find("#done[role=status]").Text(); said == "" {
				t.Errorf("%s: %s says nothing in %s", tc.path, done, language)
			}
		}
	}
	if n := admin.get("/teams/vision?done=<b>nothing").want(http.StatusOK).page().Find("#done").Length(); n != 0 {
		t.Error("a word that nobody has named is said")
	}
}

// TestEveryPageCounts: whatever page somebody is on, the bell and the navigation have their numbers.
func TestEveryPageCounts(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	r, raise := p.create(p.Ada, storetest.Draft(1, 4)), p.raise(rayslice.Charge{GiB: 8})
	p.tell(1, p.Root, rayslice.News{Code: rayslice.NewsRaiseAsked, Team: "vision", Args: map[string]any{"who": "Lea", "gib": 8, "cards": 0}})
	path := strings.NewReplacer(":id", r.ID, ":user", itoa(p.Bob.ID), ":name", "vision", ":raise", itoa(raise.ID))
	for _, route := range p.server.echo.Routes() {
		address := path.Replace(route.Path)
		if route.Method != http.MethodGet || strings.HasPrefix(address, "/sign") || strings.HasSuffix(address, "/events") {
			continue
		}
		got := p.as(p.Root).get(address)
		if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `class="bell"`) {
			continue
		}
		page := got.page()
		if n := page.Find(".bell .count").Text(); n != "1" {
			t.Errorf("%s: the bell says %q", address, n)
		}
		if n := strings.TrimSpace(page.Find(`header nav a[href="/approvals"] .count`).Text()); n != "1" {
			t.Errorf("%s: %q requests wait", address, n)
		}
		if n := strings.TrimSpace(page.Find(`header nav a[href="/admin"] .count`).Text()); n != "1" {
			t.Errorf("%s: %q raises wait", address, n)
		}
	}
}
