package handlers

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestOptions says what may be asked for, as the team's rules and the nodes narrow it, and only to who may ask.
func TestOptions(t *testing.T) {
	t.Parallel()
	p := open(t)
	rules := rayslice.Rules{Auto: rayslice.Charge{GiB: 8}, AutoHours: 24, MaxHours: 48, Sizes: map[string][]int{"a10": {4, 8}}}
	if err := p.store.SetRules(t.Context(), p.Lea, "vision", rules); err != nil {
		t.Fatal(err)
	}
	fleet := rayslice.Fleet{Pools: []rayslice.PoolStatus{{Pool: "a100", Blocked: rayslice.Reason{Code: "mixed_units"}}}}
	if err := p.store.SaveFleet(t.Context(), rayslice.System, fleet); err != nil {
		t.Fatal(err)
	}
	p.create(p.Bob, storetest.Draft(1, 8))
	options := func(v visitor) (o api.Options) {
		v.get("/api/v1/options").want(http.StatusOK).decode(&o)
		return o
	}
	got := options(p.token(p.adaToken))
	if len(got.Teams) != 1 || got.Defaults.Hours != rayslice.DefaultHours {
		t.Fatalf("%+v", got)
	}
	team := got.Teams[0]
	want := api.Quota{Team: "vision", Limit: rayslice.Charge{GiB: 24, Cards: 2}, Used: rayslice.Charge{GiB: 8}, Left: rayslice.Charge{GiB: 16, Cards: 2}}
	if diff := cmp.Diff(want, team.Quota); diff != "" || team.Limits.MaxHours != 48 || team.StartsAtOnce.Charge.GiB != 8 || team.StartsAtOnce.Hours != 24 {
		t.Errorf("limits %+v, at once %+v, quota (-want +got):\n%s", team.Limits, team.StartsAtOnce, diff)
	}
	type pool struct {
		Name  string
		Sizes []int
		Whole bool
		Open  bool
	}
	var pools []pool
	for _, p := range team.Pools {
		if p.Open != (p.Closed == nil) {
			t.Errorf("%s is open: %t, and closed: %+v", p.Name, p.Open, p.Closed)
		}
		pools = append(pools, pool{p.Name, p.Sizes, p.Whole, p.Open})
	}
	wantPools := []pool{{"a10", []int{4, 8}, false, true}, {"a10-core", []int{4, 8, 16}, false, true}, {"a100", []int{}, true, false}}
	if diff := cmp.Diff(wantPools, pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	if m := team.Images[0]; m.RayVersion != "2.52.0" || m.PythonVersion == nil || *m.PythonVersion != "3.11" {
		t.Errorf("image %+v", m)
	}
	if o := options(p.as(p.Root)); len(o.Teams) != 0 {
		t.Errorf("an admin who asks nowhere is offered %+v", o.Teams)
	}
}

// TestAPIReply answers a lead, and says what is missing.
func TestAPIReply(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	request := p.create(p.Ada, storetest.Draft(1, 8))
	ada, path := p.token(p.adaToken), "/api/v1/requests/"+request.ID
	decide := p.as(p.Lea).with("Sec-Fetch-Site", "same-origin")
	var now api.Request
	decide.postJSON(path+"/decision", `{"verdict": "return", "revision": 1, "answer": "What for?"}`).want(http.StatusOK).decode(&now)
	if now.State != rayslice.StateReturned || now.Answer == nil || *now.Answer != "What for?" {
		t.Fatalf("%+v", now)
	}
	for body, field := range map[string]string{
		`{"reply": "Figure 3"}`: "revision", `{"reply": " ", "revision": 1}`: "reply", `{"reply": 3, "revision": 1}`: "reply",
		`{"reply": "Figure 3", "revision": 1, "approved": true}`: "approved", `{}x`: "body",
	} {
		if e := ada.postJSON(path+"/reply", body).want(http.StatusUnprocessableEntity).problem().Errors; e[0].Field != field && e[len(e)-1].Field != field {
			t.Errorf("%s: %+v", body, e)
		}
	}
	ada.postJSON(path+"/reply", `{"reply": "Figure 3", "revision": 1}`).want(http.StatusOK).decode(&now)
	if now.State != rayslice.StatePending {
		t.Errorf("state %s, want pending", now.State)
	}
	var audit api.AuditList
	ada.get(path + "/audit").want(http.StatusOK).decode(&audit)
	if len(audit.Entries) != 3 || audit.Entries[0].Action != "create" || audit.Entries[1].Actor != "Lea" || audit.Entries[2].Via == nil {
		t.Errorf("%+v", audit.Entries)
	}
}
