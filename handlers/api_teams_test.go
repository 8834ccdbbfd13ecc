package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store/storetest"
)

func (v visitor) putJSON(path, body string) answer {
	return v.with("Content-Type", "application/json").send(http.MethodPut, path, strings.NewReader(body))
}

// TestRaiseByProgram asks, grants less, takes back early and sets the base, all as JSON. Every answer is held against the
// specification by visitor.send.
func TestRaiseByProgram(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead, admin := p.as(p.Lea), p.as(p.Root)
	until := time.Now().UTC().Add(9 * 24 * time.Hour).Truncate(time.Second).Format(time.RFC3339)

	var asked api.Raise
	lead.postJSON("/api/v1/teams/vision/raises", `{"gib": 16, "until": "`+until+`", "purpose": "The March paper"}`).want(http.StatusCreated).decode(&asked)
	if asked.State != rayslice.RaisePending || asked.Charge.GiB != 16 || asked.By.Name != "Lea" || asked.Until == nil || asked.Until.Format(time.RFC3339) != until {
		t.Errorf("%+v", asked)
	}
	path := fmt.Sprintf("/api/v1/raises/%d", asked.Id)
	var shown api.Raise
	lead.get(path).want(http.StatusOK).decode(&shown)
	if shown.Purpose != "The March paper" || shown.DecidedAt != nil || shown.Grant != nil {
		t.Errorf("%+v", shown)
	}
	lead.postJSON(path+"/decision", `{"grant": true}`).want(http.StatusForbidden)
	bad := admin.postJSON(path+"/decision", `{"grant": true, "gib": 17}`).want(http.StatusUnprocessableEntity).problem()
	if len(bad.Errors) != 1 || bad.Errors[0].Field != "gib" {
		t.Errorf("more than was asked for: %+v", bad)
	}
	admin.postJSON(path+"/decision", `{"grant": true, "gib": 12, "answer": "Cards are short."}`).want(http.StatusOK).decode(&shown)
	if shown.State != rayslice.RaiseGranted || shown.Grant == nil || shown.Grant.Charge.GiB != 12 || shown.Grant.Until == nil || *shown.Answer != "Cards are short." {
		t.Errorf("granted %+v", shown)
	}
	if p.limit("vision").GiB != 36 {
		t.Errorf("limit %v, want 24 and 12 GiB", p.limit("vision"))
	}
	admin.postJSON(path+"/decision", `{"grant": true}`).want(http.StatusConflict)
	lead.postJSON(path+"/withdraw", ``).want(http.StatusConflict)

	var grants api.GrantPage
	lead.get("/api/v1/teams/vision/grants?limit=1").want(http.StatusOK).decode(&grants)
	if len(grants.Grants) != 1 || grants.Next == nil || grants.Grants[0].Charge.GiB != 12 {
		t.Fatalf("%+v", grants)
	}
	lead.get("/api/v1/teams/vision/grants?cursor=" + *grants.Next).want(http.StatusOK).decode(&grants)
	if len(grants.Grants) != 1 || !grants.Grants[0].Base {
		t.Errorf("the second page: %+v", grants)
	}
	admin.postJSON(fmt.Sprintf("/api/v1/teams/vision/grants/%d/end", shown.Grant.Id), ``).want(http.StatusNoContent)
	var team api.TeamDetails
	admin.putJSON("/api/v1/teams/vision/limit", `{"gib": 40, "cards": 0, "note": "New cards"}`).want(http.StatusOK).decode(&team)
	if want := (rayslice.Charge{GiB: 40}); team.Base != want || team.Quota.Limit != want {
		t.Errorf("base %v and limit %v, want %v", team.Base, team.Quota.Limit, want)
	}
	var raises api.RaisePage
	admin.get("/api/v1/raises?state=granted&team=vision").want(http.StatusOK).decode(&raises)
	if len(raises.Raises) != 1 || raises.Next != nil {
		t.Errorf("%+v", raises)
	}
}

// TestBadBodies names every bad field of what programs send about teams, people and accounts, and changes nothing.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	p := open(t)
	admin := p.as(p.Root)
	raise := p.raise(rayslice.Charge{GiB: 8})
	audited := 0
	storetest.Query(t, &audited, `SELECT count(*) FROM audit`)
	for _, tc := range []struct{ method, path, body, fields string }{
		{"POST", "/teams", `{}`, "name namespace gib cards"},
		{"POST", "/teams", `{"name": "Üben", "namespace": "kube-system", "gib": -1, "cards": 2000000}`, "name namespace gib cards"},
		{"POST", "/teams", `{"name": "vision", "namespace": "team-new", "gib": 1, "cards": 0}`, "name"},
		{"POST", "/teams", `{"name": "new", "namespace": "team-new", "gib": "8", "cards": 0}`, "gib"},
		{"POST", "/teams", `{"name": "new", "namespace": "kuberay-system", "gib": 8, "cards": 0}`, "namespace"},
		{"POST", "/teams", `{"name": "new", "namespace": "team-new", "gib": 8, "Gib": 9, "cards": 0}`, "Gib"},
		{"POST", "/teams", `{"name": "new", "namespace": "team-new", "gib": 8, "gib": 9, "cards": 0}`, "gib"},
		{"POST", "/teams", `[]`, "body"},
		{"PUT", "/teams/vision/rules", `{"auto": {"gib": 8, "cards": 0, "gib": 9}, "auto_hours": 1, "escalate_minutes": 0}`, "auto.gib"},
		{"PUT", "/teams/vision/limit", `{"gib": 8}`, "cards"},
		{"PUT", "/teams/vision/limit", `{"gib": null, "cards": 1.5}`, "cards"},
		{"PUT", "/teams/vision/limit", `{"gib": null, "cards": 1}`, "gib"},
		{"PUT", "/teams/vision/limit", `{"gib": 8, "cards": 0, "limit": 3}`, "limit"},
		{"PUT", "/teams/vision/rules", `{}`, "auto.gib auto.cards auto_hours escalate_minutes"},
		{"PUT", "/teams/vision/rules", `{"auto": {"gib": 8}, "auto_hours": 1, "escalate_minutes": 0}`, "auto.cards"},
		{"PUT", "/teams/vision/rules", `{"auto": {"gib": 8, "cards": 0}, "auto_hours": -1, "escalate_minutes": 99999, "sizes": {"no-such": [8]}}`, "auto_hours escalate_minutes sizes.no-such"},
		{"POST", "/teams/vision/raises", `{"purpose": ""}`, "gib purpose"},
		{"POST", "/teams/vision/raises", `{"gib": 8, "until": "tomorrow", "purpose": "x"}`, "until"},
		{"POST", "/teams/vision/raises", `{"gib": 8, "until": "2020-01-01T00:00:00Z", "purpose": "x"}`, "until"},
		{"POST", fmt.Sprintf("/raises/%d/decision", raise.ID), `{}`, "grant"},
		{"POST", fmt.Sprintf("/raises/%d/decision", raise.ID), `{"grant": false}`, "answer"},
		{"POST", fmt.Sprintf("/raises/%d/decision", raise.ID), `{"grant": true, "until": ""}`, "until"},
		{"POST", "/teams/vision/deputies", `{"user": 1}`, "until"},
		{"POST", "/teams/vision/deputies", fmt.Sprintf(`{"user": %d, "until": "9999-12-31T00:00:00Z"}`, p.Ada.ID), "until"},
		{"POST", fmt.Sprintf("/people/%d/roles", p.Bob.ID), `{"role": "king", "team": "vision"}`, "role"},
		{"POST", fmt.Sprintf("/people/%d/roles", p.Bob.ID), `{"role": "lead"}`, "team"},
		{"POST", fmt.Sprintf("/people/%d/roles/revoke", p.Bob.ID), `{"role": "lead"}`, "source"},
		{"POST", fmt.Sprintf("/people/%d/roles/revoke", p.Bob.ID), `{"role": "king", "source": "heaven"}`, "role source"},
		{"POST", "/account/tokens", `{"name": "x", "days": 91}`, "days"},
		{"POST", "/account/tokens", `{"name": "x", "days": 1, "scopes": ["approve"]}`, "scopes"},
		{"PUT", "/account/notifications", `{"mail": true, "webhook_form": "pigeon", "send": []}`, "webhook_form"},
		{"PUT", "/account/notifications", `{"mail": true, "webhook_form": "generic", "webhook_url": "ftp://x", "send": ["everything"]}`, "send"},
		{"PUT", "/account/notifications", `{"mail": true, "webhook_form": "generic", "webhook_url": "ftp://x", "send": []}`, "webhook_url webhook_secret"},
		{"POST", "/notifications/read", `{}`, "ids"},
		{"POST", "/notifications/read", `{"ids": [1.5]}`, "ids"},
	} {
		got := admin.with("Content-Type", "application/json").send(tc.method, "/api/v1"+tc.path, strings.NewReader(tc.body))
		if got.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s %s: %d\n%s", got.what, tc.body, got.Code, got.Body)
			continue
		}
		var fields []string
		for _, f := range got.problem().Errors {
			fields = append(fields, f.Field)
			if f.Detail == "" || strings.Contains(f.Detail, "field_") {
				t.Errorf("%s %s: field %s says %q", got.what, tc.body, f.Field, f.Detail)
			}
		}
		slices.Sort(fields)
		want := strings.Fields(tc.fields)
		slices.Sort(want)
		if !slices.Equal(fields, want) {
			t.Errorf("%s %s: bad fields %q, want %q", got.what, tc.body, fields, want)
		}
	}
	after := 0
	storetest.Query(t, &after, `SELECT count(*) FROM audit`)
	if after != audited {
		t.Errorf("%d audit rows, want the %d from before", after, audited)
	}
	if p.limit("vision").GiB != 24 {
		t.Errorf("limit %v", p.limit("vision"))
	}
}

// TestTeamByProgram adds a team, sets its rules as they were read, names a deputy and ends them, and reads its log.
func TestTeamByProgram(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead, admin := p.as(p.Lea), p.as(p.Root)
	var team api.TeamDetails
	admin.postJSON("/api/v1/teams", `{"name": "audio", "namespace": "team-audio", "gib": 8, "cards": 1}`).want(http.StatusCreated).decode(&team)
	if team.Base != (rayslice.Charge{GiB: 8, Cards: 1}) || len(team.Members) != 0 {
		t.Errorf("%+v", team)
	}
	var teams api.TeamPage
	admin.get("/api/v1/teams?limit=1").want(http.StatusOK).decode(&teams)
	if len(teams.Teams) != 1 || teams.Teams[0].Name != "audio" || teams.Next == nil {
		t.Fatalf("%+v", teams)
	}
	admin.get("/api/v1/teams?q=VIS").want(http.StatusOK).decode(&teams)
	if len(teams.Teams) != 1 || teams.Teams[0].Name != "vision" || teams.Teams[0].Quota.Limit.GiB != 24 {
		t.Errorf("%+v", teams)
	}
	p.token(p.samToken).get("/api/v1/teams").want(http.StatusOK).decode(&teams)
	if len(teams.Teams) != 1 || teams.Teams[0].Name != "speech" {
		t.Errorf("a member of another team sees %+v", teams)
	}

	var rules rayslice.Rules
	lead.putJSON("/api/v1/teams/vision/rules", `{"auto": {"gib": 8, "cards": 0}, "auto_hours": 4, "member": {"gib": 16, "cards": 0}, "escalate_minutes": 60, "sizes": {"a10": [8]}}`).
		want(http.StatusOK).decode(&rules)
	lead.get("/api/v1/teams/vision").want(http.StatusOK).decode(&team)
	if rules.AutoHours != 4 || team.Rules.Member == nil || team.Rules.Member.GiB != 16 || !slices.Equal(team.Rules.Sizes["a10"], []int{8}) {
		t.Errorf("rules %+v and %+v", rules, team.Rules)
	}

	until := time.Now().UTC().Add(48 * time.Hour).Format(time.RFC3339)
	lead.postJSON("/api/v1/teams/vision/deputies", fmt.Sprintf(`{"user": %d, "until": %q}`, p.Ada.ID, until)).want(http.StatusOK).decode(&team)
	deputy := func() bool {
		return slices.ContainsFunc(team.Members, func(m api.Member) bool {
			return m.Id == p.Ada.ID && slices.ContainsFunc(m.Roles, func(g api.RoleGrant) bool { return g.Source == rayslice.SourceDeputy && g.Until != nil })
		})
	}
	if !deputy() {
		t.Errorf("no deputy in %+v", team.Members)
	}
	lead.postJSON(fmt.Sprintf("/api/v1/teams/vision/deputies/%d/end", p.Ada.ID), ``).want(http.StatusNoContent)
	lead.get("/api/v1/teams/vision").want(http.StatusOK).decode(&team)
	if deputy() {
		t.Errorf("still a deputy: %+v", team.Members)
	}

	var log api.AuditPage
	lead.get("/api/v1/teams/vision/audit?limit=2").want(http.StatusOK).decode(&log)
	if len(log.Entries) != 2 || log.Entries[0].Action != "end_deputy" || log.Entries[1].Action != "name_deputy" || log.Next == nil {
		t.Fatalf("%+v", log)
	}
	lead.get("/api/v1/teams/vision/audit?cursor=" + *log.Next + "&action=set_rules").want(http.StatusOK).decode(&log)
	if len(log.Entries) != 1 || log.Entries[0].Action != "set_rules" || log.Next != nil {
		t.Fatalf("%+v", log)
	}
	if before, _ := log.Entries[0].Details["before"].(map[string]any); before["auto_hours"] == nil {
		t.Errorf("the rules as they were are not in %+v", log.Entries[0].Details)
	}
	admin.get("/api/v1/audit?team=audio").want(http.StatusOK).decode(&log)
	if len(log.Entries) != 1 || log.Entries[0].Action != "create_team" {
		t.Errorf("%+v", log)
	}
	for _, query := range []string{"cursor=x", "limit=0", "from=today", "to=2026-13-01", "from=2026-03-02&to=2026-03-01"} {
		lead.get("/api/v1/teams/vision/audit?" + query).want(http.StatusUnprocessableEntity)
		p.as(p.Ada).get("/api/v1/teams/vision/audit?" + query).want(http.StatusForbidden)
	}

	var use api.TeamUse
	lead.get("/api/v1/teams/vision/usage").want(http.StatusOK).decode(&use)
	if hours := use.To.Sub(use.From).Hours(); hours != 7*24 || len(use.Points) != 7*24+1 {
		t.Errorf("%v hours in %d points", hours, len(use.Points))
	}
	lead.get("/api/v1/teams/vision/usage?from=2026-01-01T00:00:00Z&to=2026-09-01T00:00:00Z").want(http.StatusUnprocessableEntity)
	lead.get("/api/v1/teams/vision/usage?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z").want(http.StatusUnprocessableEntity)
}

// TestApprovalsByProgram shows a lead what waits with its numbers, and lets them decide it.
func TestApprovalsByProgram(t *testing.T) {
	t.Parallel()
	p := open(t)
	lead := p.as(p.Lea)
	lead.putJSON("/api/v1/teams/vision/rules", `{"auto": {"gib": 0, "cards": 0}, "auto_hours": 0, "escalate_minutes": 60}`).want(http.StatusOK)
	ada := p.token(p.adaToken)
	first := struct{ ID string }{}
	ada.postJSON("/api/v1/requests", strings.Replace(goodBody, "{", `{"purpose": "ablation",`, 1)).want(http.StatusCreated).decode(&first)
	ada.postJSON("/api/v1/requests", strings.Replace(goodBody, `{"team":"vision","name":"ablation-7"`, `{"team":"vision","name":"second","purpose":"more"`, 1)).want(http.StatusConflict)
	var waiting api.ApprovalPage
	lead.get("/api/v1/approvals").want(http.StatusOK).decode(&waiting)
	if len(waiting.Approvals) != 1 {
		t.Fatalf("%+v", waiting)
	}
	a := waiting.Approvals[0]
	if a.Request.Id != first.ID || a.Quota == nil || a.Quota.Used.GiB != 16 || a.Record == nil || a.Refusal != nil || a.Request.Purpose != "ablation" {
		t.Errorf("%+v", a)
	}
	var one api.Approval
	lead.get("/api/v1/approvals/" + first.ID).want(http.StatusOK).decode(&one)
	lead.postJSON("/api/v1/requests/"+first.ID+"/decision", fmt.Sprintf(`{"verdict": "approve", "revision": %d}`, one.Request.Revision)).want(http.StatusOK)
	lead.get("/api/v1/approvals?decided=1&q=ABLATION").want(http.StatusOK).decode(&waiting)
	if len(waiting.Approvals) != 1 || waiting.Approvals[0].Quota != nil || waiting.Approvals[0].Fit != nil {
		t.Errorf("decided: %+v", waiting)
	}
	for _, query := range []string{"decided=2", "limit=x", "cursor=%00", "team=no-such"} {
		lead.get("/api/v1/approvals?" + query).want(http.StatusUnprocessableEntity)
	}
}
