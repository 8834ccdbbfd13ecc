package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// raise asks for more quota as the lead of vision.
func (p *portal) raise(c rayslice.Charge) rayslice.Raise {
	p.t.Helper()
	r, err := p.store.AskRaise(p.t.Context(), p.Lea, rayslice.RaiseDraft{Team: "vision", Charge: c, Purpose: "The March paper"})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// base returns the id of a team's base limit.
func (p *portal) base(team string) int64 {
	p.t.Helper()
	grants, err := p.store.Grants(p.t.Context(), rayslice.System, team)
	if err != nil || len(grants) == 0 {
		p.t.Fatal(grants, err)
	}
	return grants[0].ID
}

func (p *portal) limit(team string) rayslice.Charge {
	p.t.Helper()
	q, err := p.store.Quota(p.t.Context(), rayslice.System, team)
	if err != nil {
		p.t.Fatal(err)
	}
	return q.Limit
}

func day(days int) string { return time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) }

// TestARaiseThroughThePages asks, grants less, shows how the limit came about, and takes it back early.
func TestARaiseThroughThePages(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead, admin := p.as(p.Lea), p.as(p.Root)
	lead.post("/teams/vision/raises", url.Values{"gib": {"16"}, "until": {day(9)}, "purpose": {"The March paper"}}).want(http.StatusSeeOther)
	found, err := p.store.Raises(t.Context(), p.Root, store.RaiseFilter{})
	if err != nil || len(found.Raises) != 1 {
		t.Fatal(found, err)
	}
	if until := found.Raises[0].Until.Format(time.DateTime); until != day(9)+" 23:59:59" {
		t.Errorf("until %s, want the end of the day in UTC", until)
	}
	link := admin.get("/admin").want(http.StatusOK).page().Find(`section[aria-labelledby=admin-raises] tbody a.btn`)
	address := link.AttrOr("href", "")
	form := admin.get(address).want(http.StatusOK).page().Find(`form[action="` + address + `"]`)
	if form.Find("input[name=gib]").AttrOr("value", "") != "16" || form.Find("input[name=until]").AttrOr("value", "") != day(9) {
		t.Error("the form does not begin with what was asked for")
	}
	rejected := admin.post(address, url.Values{"verdict": {"grant"}, "gib": {"17"}, "cards": {"0"}, "until": {day(9)}}).want(http.StatusUnprocessableEntity).page()
	if rejected.Find("input[name=gib][aria-invalid=true]").AttrOr("value", "") != "17" {
		t.Error("the form did not come back filled in")
	}
	admin.post(address, url.Values{"verdict": {"grant"}, "gib": {"8"}, "cards": {"0"}, "until": {day(5)}, "answer": {"half"}}).want(http.StatusSeeOther)
	admin.post(address, url.Values{"verdict": {"deny"}, "answer": {"no"}}).want(http.StatusConflict)
	if got := p.limit("vision"); got.GiB != 32 {
		t.Errorf("limit %v", got)
	}
	page := p.as(p.Ada).get("/teams/vision").want(http.StatusOK).page()
	if text := page.Find("table.grants").Text(); !strings.Contains(text, "8 GiB") || !strings.Contains(text, "Root") || !strings.Contains(text, "The March paper") {
		t.Errorf("how the limit came about: %s", text)
	}
	if page.Find("form[action*=limit], form[action*=raises], a[href*=confirm]").Length() != 0 {
		t.Error("a member is offered what a lead or an admin does")
	}
	end := admin.get("/teams/vision").page().Find("table.grants a[href*=confirm]").AttrOr("href", "")
	question := admin.get(end).want(http.StatusOK).page().Find("section.confirm")
	if !strings.Contains(question.Text(), "24 GiB") {
		t.Errorf("the question does not say what will happen: %s", question.Text())
	}
	action, _ := question.Find("form").Attr("action")
	admin.post(action, nil).want(http.StatusSeeOther)
	if got := p.limit("vision"); got.GiB != 24 {
		t.Errorf("limit %v", got)
	}
}

func TestRulesThroughThePages(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead := p.as(p.Lea)
	rules := url.Values{"auto.gib": {"8"}, "auto.cards": {"0"}, "auto_hours": {"24"}, "max_hours": {"48"}, "escalate_minutes": {"60"}, "sizes.a10": {"4", "8"}, "sizes.a10-core": {"4", "8", "16"},
		"image_prefixes": {"rayproject/\r\n\r\nregistry.example.org/vision/ "}}
	lead.post("/teams/vision/rules", rules).want(http.StatusSeeOther)
	got, err := p.store.Rules(t.Context(), p.Ada, "vision")
	if err != nil || got.Auto.GiB != 8 || got.Member != nil || got.EscalateMinutes != 60 || len(got.ImagePrefixes) != 2 || len(got.Sizes["a10"]) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, narrowed := got.Sizes["a10-core"]; narrowed || len(got.Sizes["a10-share"]) != 0 {
		t.Errorf("sizes %v: all of a pool is no narrowing, none closes it", got.Sizes)
	}
	form := lead.get("/teams/vision/rules").want(http.StatusOK).page()
	if n := form.Find(`input[name="sizes.a10"][checked]`).Length(); n != 2 {
		t.Errorf("%d sizes are chosen", n)
	}
	said := p.as(p.Ada).get("/teams/vision").page().Find("section[aria-labelledby=team-rules]").Text()
	for _, want := range []string{"8 GiB", "24 h", "2 d", "1 h", "4, 8 GiB", "rayproject/", "a10-share: not for this team"} {
		if !strings.Contains(said, want) {
			t.Errorf("the rules do not say %q: %s", want, said)
		}
	}
}

// TestB076RulesAboutNothing: a rule that names what does not exist is refused with what does.
func TestB076RulesAboutNothing(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead := p.as(p.Lea)
	for name, want := range map[string]string{"sizes.h100": "a10, a10-core", "sizes.a100": "a10, a10-core", "sizes.a10": "4, 8, 16, 22"} {
		got := lead.post("/teams/vision/rules", url.Values{name: {"5"}}).want(http.StatusUnprocessableEntity)
		if !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: the answer does not name %s", name, want)
		}
	}
	lead.post("/teams/vision/rules", url.Values{"sizes.a10": {"x"}}).want(http.StatusUnprocessableEntity)
	if got, _ := p.store.Rules(t.Context(), p.Ada, "vision"); got.Sizes != nil {
		t.Errorf("rules were set: %+v", got)
	}
}

// TestRulesNarrowTheForm: what the rules do not offer is neither shown nor accepted, in the form and in the API.
func TestRulesNarrowTheForm(t *testing.T) {
	t.Parallel()
	p := open(t)
	rules := rayslice.DefaultRules().Under(rayslice.Charge{GiB: 24, Cards: 2})
	rules.Sizes, rules.MaxHours = map[string][]int{"a10": {4}}, 4
	if err := p.store.SetRules(t.Context(), p.Lea, "vision", rules); err != nil {
		t.Fatal(err)
	}
	ada := p.as(p.Ada)
	form := ada.get("/clusters/new?team=vision").want(http.StatusOK).page()
	if form.Find(`input[value="a10:4"]`).Length() != 1 || form.Find(`input[value="a10:8"]`).Length() != 0 || form.Find("input[name=hours]").AttrOr("value", "") != "4" {
		t.Error("the form offers what the rules do not")
	}
	ada.post("/clusters", goodForm()).want(http.StatusUnprocessableEntity)
	ada.post("/clusters/preview", goodForm()).want(http.StatusUnprocessableEntity)
	problem := p.token(p.adaToken).postJSON("/api/v1/requests?dry_run=true", goodBody).want(http.StatusUnprocessableEntity).problem()
	for _, e := range problem.Errors {
		if e.Field != "hours" && !strings.Contains(e.Detail, "4 GiB") {
			t.Errorf("%+v", e)
		}
	}
	theirs := goodForm()
	theirs.Set("team", "speech")
	p.as(p.Sam).post("/clusters", theirs).want(http.StatusSeeOther) // rules are a team's own
}

func TestDeputiesThroughThePages(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead := p.as(p.Lea)
	deputy := func(id string, until string) answer {
		return lead.post("/teams/vision/deputies", url.Values{"user": {id}, "until": {until}})
	}
	ada := itoa(p.Ada.ID)
	for what, got := range map[string]answer{
		"nobody": deputy("", day(3)), "a stranger": deputy(itoa(p.Sam.ID), day(3)), "no day": deputy(ada, ""), "yesterday": deputy(ada, day(-1)), "next year": deputy(ada, day(365)), "no day at all": deputy(ada, "soon"),
	} {
		if got.Code != http.StatusUnprocessableEntity || got.page().Find("#deputy-problem").Length() != 1 {
			t.Errorf("%s: %d", what, got.Code)
		}
	}
	deputy(ada, day(3)).want(http.StatusSeeOther)
	p.as(p.Ada).get("/teams/vision/rules").want(http.StatusOK)
	end := lead.get("/teams/vision?confirm=deputy-"+ada).page().Find("section.confirm form").AttrOr("action", "")
	lead.post(end, nil).want(http.StatusSeeOther)
	p.as(p.Ada).get("/teams/vision/rules").want(http.StatusForbidden)
}

// TestT31HiddenFieldsOfTeams posts fields that the forms do not have; none has an effect.
func TestT31HiddenFieldsOfTeams(t *testing.T) {
	t.Parallel()
	p := open(t)
	hidden := url.Values{"team": {"speech"}, "state": {"granted"}, "decided_by": {"Root"}, "grant": {"true"}, "verdict": {"grant"}, "id": {"1"}, "base": {"true"}, "granted_by": {"Root"}, "asked_by": {itoa(p.Root.ID)}}
	post := func(v visitor, path string, form url.Values) answer {
		for name, value := range hidden {
			if !form.Has(name) {
				form[name] = value
			}
		}
		return v.post(path+"?gib=999&team=speech", form)
	}
	post(p.as(p.Lea), "/teams/vision/raises", url.Values{"gib": {"8"}, "purpose": {"more"}}).want(http.StatusSeeOther)
	found, err := p.store.Raises(t.Context(), p.Root, store.RaiseFilter{})
	if err != nil || len(found.Raises) != 1 || found.Raises[0].Team != "vision" || found.Raises[0].State != rayslice.RaisePending || found.Raises[0].By.ID != p.Lea.ID || found.Raises[0].Charge.GiB != 8 {
		t.Errorf("%+v, %v", found, err)
	}
	post(p.as(p.Lea), "/teams/vision/limit", url.Values{"gib": {"99"}, "admin": {"true"}}).want(http.StatusForbidden)
	post(p.as(p.Lea), "/teams/vision/rules", url.Values{"auto.gib": {"1"}, "auto.cards": {"0"}, "auto_hours": {"1"}, "escalate_minutes": {"0"}, "limit.gib": {"99"}}).want(http.StatusSeeOther)
	post(p.as(p.Root), "/admin/teams", url.Values{"name": {"robotics"}, "namespace": {"team-robotics"}, "gib": {"0"}, "cards": {"0"}, "used_gib": {"9"}}).want(http.StatusSeeOther)
	if p.limit("vision").GiB != 24 || p.limit("speech").GiB != 24 || p.limit("robotics").GiB != 0 {
		t.Errorf("limits %v %v %v", p.limit("vision"), p.limit("speech"), p.limit("robotics"))
	}
}

func TestAdminTeams(t *testing.T) {
	t.Parallel()
	p := open(t)
	admin := p.as(p.Root)
	admin.post("/admin/teams", url.Values{"name": {"robotics"}, "namespace": {"team-robotics"}, "gib": {"8"}, "cards": {"0"}}).want(http.StatusSeeOther)
	for field, form := range map[string]url.Values{
		"name":      {"name": {"robotics"}, "namespace": {"other"}, "gib": {"8"}, "cards": {"0"}},
		"namespace": {"name": {"robots"}, "namespace": {"kube-system"}, "gib": {"8"}, "cards": {"0"}},
		"gib":       {"name": {"robots"}, "namespace": {"other"}, "gib": {"a few"}, "cards": {"0"}},
		"cards":     {"name": {"robots"}, "namespace": {"other"}, "gib": {"8"}},
	} {
		page := admin.post("/admin/teams", form).want(http.StatusUnprocessableEntity).page()
		if got := page.Find("aside input[aria-invalid=true]"); got.Length() != 1 || got.AttrOr("name", "") != field {
			t.Errorf("%s: %d inputs are marked", field, got.Length())
		}
	}
	if rows := admin.get("/admin/teams?q=ROBOT").page().Find("table.teams tbody tr"); rows.Length() != 1 {
		t.Errorf("%d teams match", rows.Length())
	}
	storetest.Exec(t, `INSERT INTO teams SELECT 'many-' || lpad(i::text, 3, '0'), 'many-' || i FROM generate_series(1, 60) i`)
	first := admin.get("/admin/teams?q=many").page()
	next, _ := first.Find("nav.paging a").Last().Attr("href")
	if n := first.Find("table.teams tbody tr").Length(); n != listLength || !strings.Contains(next, "q=many") {
		t.Errorf("%d rows, next %q", n, next)
	}
	if n := admin.get(next).page().Find("table.teams tbody tr").Length(); n != 10 {
		t.Errorf("%d rows on the second page", n)
	}
	admin.post("/teams/vision/limit", url.Values{"gib": {"4"}, "cards": {"0"}, "note": {"summer"}, "confirm": {"limit"}}).want(http.StatusSeeOther)
	if got := p.limit("vision"); got != (rayslice.Charge{GiB: 4}) {
		t.Errorf("limit %v", got)
	}
	rejected := admin.post("/teams/vision/limit", url.Values{"gib": {"-1"}}).want(http.StatusUnprocessableEntity).page()
	if rejected.Find("#limit-gib").AttrOr("value", "") != "-1" {
		t.Error("the limit's form did not come back filled in")
	}
}

// TestAdminOverview shows drift, late requests and a role that could change the audit log.
func TestAdminOverview(t *testing.T) {
	t.Parallel()
	p := open(t)
	if err := p.store.SetRules(t.Context(), p.Lea, "vision", rayslice.Rules{EscalateMinutes: 1}); err != nil {
		t.Fatal(err)
	}
	r := p.create(p.Ada, storetest.Draft(1, 8))
	storetest.Exec(t, `UPDATE requests SET sent_at = sent_at - interval '2 minutes'`)
	storetest.Exec(t, `UPDATE quotas SET used_gib = 9 WHERE team = 'vision'`)
	if _, err := p.store.Sweep(t.Context(), rayslice.System); err != nil {
		t.Fatal(err)
	}
	page := p.as(p.Root).get("/admin").want(http.StatusOK).page()
	if page.Find(`section[aria-labelledby=admin-late] a[href="/clusters/`+r.ID+`"]`).Length() != 1 {
		t.Error("a late request is not shown")
	}
	if text := page.Find("section[aria-labelledby=admin-drift] tbody tr").Text(); !strings.Contains(text, "9 GiB") || !strings.Contains(text, "8 GiB") {
		t.Errorf("drift says %q", text)
	}
	if page.Find(".note.warn").FilterFunction(func(_ int, s *goquerySelection) bool { return strings.Contains(s.Text(), "audit log") }).Length() != 1 {
		t.Error("nothing warns of a role that could change the audit log")
	}
}

// TestAdminSeesWhatIsNotOurs is B082: the overview lists what holds GPUs without a request, and says where teams are not
// guarded; other people's pages name no namespace of another team.
func TestAdminSeesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	p := open(t)
	err := p.store.SaveFleet(t.Context(), rayslice.System, rayslice.Fleet{
		ObservedAt: time.Now(),
		Guards:     []rayslice.Reason{{Code: "unguarded_rights", Args: map[string]any{"namespaces": "team-speech"}}},
		Unmanaged: []rayslice.Unmanaged{
			{Team: "vision", Namespace: "team-vision", Object: "RayCluster/job-x7k2p", Pods: 2, Charge: rayslice.Charge{GiB: 16}, CreatedAt: time.Now()},
		},
		Orphans: []rayslice.Orphan{{Namespace: "team-vision", Name: "rs-orphanorphan", RequestID: "orphanorphan", CreatedAt: time.Now()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	page := p.as(p.Root).get("/admin").want(http.StatusOK).page()
	rows := page.Find("section[aria-labelledby=admin-strangers] tbody tr")
	if first := rows.First().Text(); rows.Length() != 2 || !strings.Contains(first, "RayCluster/job-x7k2p") || !strings.Contains(first, "16 GiB") {
		t.Errorf("%d rows, the first says %q", rows.Length(), first)
	}
	if note := page.Find(".note.bad").Text(); !strings.Contains(note, "team-speech") {
		t.Errorf("the note says %q", note)
	}
	if text := p.as(p.Ada).get("/clusters").want(http.StatusOK).page().Text(); strings.Contains(text, "team-speech") {
		t.Error("a member reads another team's namespace")
	}
}
