package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// needLead lets up to gib GiB and a day start without a lead in both teams.
func (p *portal) needLead(gib int) {
	p.t.Helper()
	for _, team := range []string{"vision", "speech"} {
		rules := rayslice.Rules{Auto: rayslice.Charge{GiB: gib}, AutoHours: 24}
		if err := p.store.SetRules(p.t.Context(), p.Root, team, rules); err != nil {
			p.t.Fatal(err)
		}
	}
}

// request reads a request as it is now.
func (p *portal) request(id string) rayslice.Request {
	p.t.Helper()
	r, err := p.store.Request(p.t.Context(), p.Root, id)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// refusals counts what the audit log says was refused.
func (p *portal) refusals(code string) (n int) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), storetest.URL(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(p.t.Context(), `SELECT count(*) FROM audit WHERE action = 'refuse' AND reason ->> 'code' = $1`, code).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

func verdict(v rayslice.Verdict, more ...string) url.Values {
	form := url.Values{"verdict": {string(v)}, "revision": {"1"}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// TestApprovalStory is asking, asking back, changing and approving less, in a browser without JavaScript.
func TestApprovalStory(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(8)
	ada, lea := p.as(p.Ada), p.as(p.Lea)

	form := goodForm()
	preview := ada.post("/clusters/preview", form).want(http.StatusOK).page()
	if got := preview.Find("#next").Text(); !strings.Contains(got, "16 GiB is over the 8 GiB") || !strings.Contains(got, "Lea can decide") {
		t.Errorf("what happens next: %q", got)
	}
	if got := preview.Find("#limit-why").Text(); !strings.Contains(got, "24 GiB") {
		t.Errorf("the limit is explained as %q", got)
	}
	refused := ada.post("/clusters", form).want(http.StatusUnprocessableEntity).page()
	if n := refused.Find("textarea[name=purpose][aria-invalid=true]").Length(); n != 1 {
		t.Errorf("a request for a lead went without a purpose")
	}
	form.Set("purpose", "Ablation for the paper")
	target := ada.post("/clusters", form).want(http.StatusSeeOther).location()
	id := strings.TrimPrefix(target, "/clusters/")
	mine := ada.get(target).want(http.StatusOK).page()
	if got := mine.Find("#going-on").Text(); !strings.Contains(got, "a decision by Lea") || !strings.Contains(got, "over the 8 GiB") {
		t.Errorf("the owner reads %q", got)
	}
	if mine.Find("#decide").Length() != 0 || mine.Find("#change").Length() != 1 {
		t.Errorf("the owner can decide, or cannot change")
	}

	list := lea.get("/approvals").want(http.StatusOK).page()
	if got := list.Find("nav .count").Text(); got != "1" {
		t.Errorf("the badge says %q, want 1", got)
	}
	card := list.Find("section.approval details[open]")
	if got := card.Find("button[value=approve]").Text(); !strings.Contains(got, "Approve 16 GiB until") {
		t.Errorf("the button says %q", got)
	}
	for _, want := range []string{"Ablation for the paper", "16 of 24 GiB", "the first in 30 days", "not known yet", "over the 8 GiB"} {
		if !strings.Contains(card.Text(), want) {
			t.Errorf("the card does not say %q", want)
		}
	}
	if n := lea.get(target).want(http.StatusOK).page().Find("#decide form[action='/approvals/" + id + "']").Length(); n != 1 {
		t.Errorf("%d decision forms on the request's page, want 1", n)
	}

	noReason := lea.post("/approvals/"+id, verdict(rayslice.VerdictReturn, "hours", "3")).want(http.StatusUnprocessableEntity).page()
	if noReason.Find("textarea[name=answer][aria-invalid=true]").Length() != 1 || noReason.Find("input[name=hours][value='3']").Length() != 1 {
		t.Errorf("the form did not come back as typed")
	}
	done := lea.post("/approvals/"+id, verdict(rayslice.VerdictReturn, "answer", "Do you need both?")).want(http.StatusSeeOther).location()
	if got := lea.get(done).want(http.StatusOK).page().Find("#done").Text(); !strings.Contains(got, "Ada is asked") {
		t.Errorf("after asking back: %q", got)
	}

	asked := ada.get(target).want(http.StatusOK).page()
	if got := asked.Find("#reply blockquote").Text(); got != "Do you need both?" {
		t.Errorf("the question is %q", got)
	}
	edit := ada.get(target + "/edit").want(http.StatusOK).page()
	if edit.Find("#request-form[action='"+target+"/edit'] input[name=revision][value='1']").Length() != 1 || edit.Find("input[name='groups[0].workers'][value='2']").Length() != 1 {
		t.Errorf("the form is not filled in")
	}
	if got := edit.Find(".quota .legend .left").Text(); !strings.Contains(got, "8 GiB left") {
		t.Errorf("the request counts twice: %q", got)
	}
	form.Set("revision", "1")
	form.Set("reply", "Yes, for two seeds")
	form.Set("hours", "6")
	ada.post(target+"/edit", form).want(http.StatusSeeOther)

	late := lea.post("/approvals/"+id, verdict(rayslice.VerdictApprove, "answer", "a long answer", "groups[0].workers", "1")).want(http.StatusConflict).page()
	if late.Find("input[name=revision][value='2']").Length() != 1 || late.Find("textarea[name=answer]").Text() != "a long answer" || late.Find("input[name='groups[0].workers'][value='2']").Length() != 1 || late.Find("input[name=hours][value='6']").Length() != 1 {
		t.Errorf("a decision about what has changed lost what was typed, or does not show what is true now")
	}
	if got := late.Find(".talk").Text(); !strings.Contains(got, "Yes, for two seeds") {
		t.Errorf("the talk is %q", got)
	}
	if got := lea.get("/approvals/" + id + "/preview?hours=2&groups%5B0%5D.workers=1").want(http.StatusOK).page(); !strings.Contains(got.Find("button").Text(), "Approve 8 GiB") || !strings.Contains(got.Find("#after-"+id).Text(), "8 of 24 GiB") {
		t.Errorf("the button as the form stands says %q", got.Text())
	}
	again := verdict(rayslice.VerdictApprove, "groups[0].workers", "1", "hours", "4", "answer", "One will do", "back", "1")
	again.Set("revision", "2")
	if got := lea.post("/approvals/"+id, again).want(http.StatusSeeOther).location(); got != target {
		t.Errorf("leads to %s, want back to %s", got, target)
	}
	now := p.request(id)
	if now.State != rayslice.StateApproved || now.Charge.GiB != 8 || now.Draft.Hours != 4 || now.Asked == nil || now.DecidedBy != "Lea" {
		t.Errorf("got %+v", now)
	}
	granted := ada.get(target).want(http.StatusOK).page()
	if got := granted.Find("#granted").Text(); !strings.Contains(got, "2 × 8 GiB of NVIDIA A10 for 6 h → granted 1 × 8 GiB of NVIDIA A10 for 4 h") {
		t.Errorf("the owner reads %q", got)
	}
	if got := granted.Find("#said").Text(); !strings.Contains(got, "Lea") || !strings.Contains(got, "One will do") {
		t.Errorf("the owner reads %q", got)
	}
	decided := lea.get("/approvals?decided=1&q=abl").want(http.StatusOK).page().Find("#decided-" + id).Text()
	for _, want := range []string{"Approved, less", "One will do", "2 × 8 GiB", "granted: 1 × 8 GiB", "Lea"} {
		if !strings.Contains(decided, want) {
			t.Errorf("the decided row lacks %q: %q", want, decided)
		}
	}
	if n := lea.get("/approvals?decided=1&q=nothing").want(http.StatusOK).page().Find("table.decided").Length(); n != 0 {
		t.Errorf("the search finds everything")
	}
}

// TestNobodyDecidesTheirOwn is B113 at every door: the page has no button, and form post, API and API token are refused
// with 403 and an audit row; admins included.
func TestNobodyDecidesTheirOwn(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	storetest.Exec(t, `INSERT INTO roles (user_id, team, role, source) VALUES ($1, 'vision', 'member', 'manual')`, p.Root.ID)
	root, err := p.store.User(t.Context(), rayslice.System, p.Root.ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, who := range map[string]rayslice.User{"a lead": p.Lea, "an admin": root, "a member": p.Ada} {
		r, v := p.create(who, storetest.Draft(1, 4)), p.as(who)
		if got := v.get("/clusters/" + r.ID).want(http.StatusOK).page(); got.Find("button[value=approve]").Length() != 0 {
			t.Errorf("%s has a button for their own", name)
		}
		before := p.refusals("decide_own")
		for _, w := range []rayslice.Verdict{rayslice.VerdictApprove, rayslice.VerdictReject, rayslice.VerdictReturn, "", "other"} {
			v.post("/approvals/"+r.ID, verdict(w)).want(http.StatusForbidden)
		}
		v.postJSON("/api/v1/requests/"+r.ID+"/decision", `{"verdict":"approve","revision":1}`).want(http.StatusForbidden)
		if got := p.refusals("decide_own") - before; got != 6 {
			t.Errorf("%s: %d refusals in the audit log, want 6", name, got)
		}
		v.post("/approvals", url.Values{"verdict": {"approve"}, "ids": {r.ID + "@1"}}).want(http.StatusForbidden)
		if now := p.request(r.ID); now.State != rayslice.StatePending {
			t.Errorf("%s: %s", name, now.State)
		}
	}
	own := p.as(p.Lea).get("/approvals").want(http.StatusOK).page()
	if got := own.Find("section.approval .note.warn").Text(); !strings.Contains(got, "Nobody decides their own request") {
		t.Errorf("the list says %q", got)
	}
}

// TestTokensNeverDecide is B116: a token decides nothing, whoever made it, and B115: nor does somebody without the right.
func TestTokensNeverDecide(t *testing.T) {
	t.Parallel()
	p := open(t)
	lea, ada, none := p.newToken(p.Lea, rayslice.Scopes()...), p.adaToken, p.samToken
	p.needLead(0)
	r := p.create(p.Ada, storetest.Draft(1, 4))
	const body = `{"verdict":"approve","revision":1}`
	for token, want := range map[string]int{lea: http.StatusForbidden, ada: http.StatusForbidden, none: http.StatusNotFound} {
		v := p.token(token)
		v.postJSON("/api/v1/requests/"+r.ID+"/decision", body).want(want)
		v.postJSON("/api/v1/requests/"+r.ID+"/decision", `not json`).want(want)
		v.post("/approvals/"+r.ID, verdict(rayslice.VerdictApprove)).want(want)
		if got := v.get("/approvals").Code; got != http.StatusForbidden {
			t.Errorf("%s reads approvals: %d", token, got)
		}
		v.post("/approvals", url.Values{"verdict": {"approve"}, "ids": {r.ID + "@1"}}).want(want)
	}
	if n := p.refusals("decide_by_token"); n != 8 {
		t.Errorf("%d refusals in the audit log, want 8", n)
	}
	p.as(p.Bob).post("/approvals/"+r.ID, verdict(rayslice.VerdictApprove)).want(http.StatusForbidden)
	p.as(p.Sam).post("/approvals/"+r.ID, verdict(rayslice.VerdictApprove)).want(http.StatusNotFound)
	if now := p.request(r.ID); now.State != rayslice.StatePending {
		t.Errorf("%s, want it pending", now.State)
	}
	if got := p.as(p.Lea).with("Sec-Fetch-Site", "cross-site").post("/approvals/"+r.ID, verdict(rayslice.VerdictApprove)); got.Code != http.StatusForbidden {
		t.Errorf("another site's form: %d", got.Code)
	}
}

// TestDecidingSeveral decides each by itself and says what became of each.
func TestDecidingSeveral(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	draft := func(name string) rayslice.RequestDraft {
		d := storetest.Draft(1, 4)
		d.Name = name
		return d
	}
	good, changed, own := p.create(p.Ada, draft("good")), p.create(p.Bob, draft("changed")), p.create(p.Lea, draft("own"))
	speech := draft("speech")
	speech.Team = "speech"
	theirs := p.create(p.Sam, speech)
	if _, err := p.store.ResendRequest(t.Context(), p.Bob, changed.ID, 1, draft("changed"), ""); err != nil {
		t.Fatal(err)
	}
	lea := p.as(p.Lea)
	list := lea.get("/approvals").want(http.StatusOK).page()
	if got := list.Find("input[name=ids][form=batch]").Length(); got != 2 {
		t.Errorf("%d can be chosen, want the two that are not the lead's own", got)
	}
	for name, form := range map[string]url.Values{
		"nothing chosen": {"verdict": {"approve"}},
		"no verdict":     {"ids": {good.ID + "@1"}},
		"no reason":      {"verdict": {"reject"}, "ids": {good.ID + "@1"}},
		"a question":     {"verdict": {"return"}, "answer": {"why?"}, "ids": {good.ID + "@1"}},
		"no revision":    {"verdict": {"approve"}, "ids": {good.ID}},
		"no id":          {"verdict": {"approve"}, "ids": {"%00@1"}},
	} {
		if got := lea.post("/approvals", form); got.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", name, got.Code)
		}
	}
	form := url.Values{"verdict": {"approve"}, "answer": {"go"}, "ids": {good.ID + "@1", changed.ID + "@1", own.ID + "@1", theirs.ID + "@1", "aaaaaaaaaaaa@1"}}
	got := lea.post("/approvals", form).want(http.StatusOK).page().Find("#outcomes")
	if n := got.Find("li").Length(); n != 3 {
		t.Errorf("%d outcomes, want three: what belongs to others is not spoken of", n)
	}
	for _, want := range []string{"Approved", "has changed since", "Nobody decides their own"} {
		if !strings.Contains(got.Text(), want) {
			t.Errorf("outcomes lack %q: %s", want, got.Text())
		}
	}
	states := []rayslice.State{p.request(good.ID).State, p.request(changed.ID).State, p.request(own.ID).State, p.request(theirs.ID).State}
	if diff := cmp.Diff([]rayslice.State{rayslice.StateApproved, rayslice.StatePending, rayslice.StatePending, rayslice.StatePending}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	again := lea.post("/approvals", url.Values{"verdict": {"reject"}, "answer": {"kept text"}, "ids": {good.ID + "@1"}}).want(http.StatusConflict).page()
	if got := again.Find("#outcomes").Text(); !strings.Contains(got, "by Lea") {
		t.Errorf("a second decision says %q, want who decided", got)
	}
	lea.post("/approvals", url.Values{"verdict": {"approve"}, "ids": {theirs.ID + "@1"}}).want(http.StatusNotFound)
	p.as(p.Root).post("/approvals", url.Values{"verdict": {"reject"}, "answer": {"no"}, "ids": {theirs.ID + "@1", own.ID + "@1"}}).want(http.StatusOK)
}

// TestNobodySeesACardForTheirOwn: a lead's own request shows no decision that would be refused.
func TestNobodySeesACardForTheirOwn(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	own, hers := p.create(p.Lea, storetest.Draft(1, 8)), p.create(p.Ada, storetest.Draft(1, 8))
	for id, want := range map[string]int{own.ID: 0, hers.ID: 1} {
		if n := p.as(p.Lea).get("/clusters/" + id).want(http.StatusOK).page().Find("#decide").Length(); n != want {
			t.Errorf("%d cards, want %d", n, want)
		}
	}
}

// TestSeveralThatDoNotFitTogether: each fits the two cards by itself, and not both.
func TestSeveralThatDoNotFitTogether(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	err := p.store.SaveFleet(t.Context(), rayslice.System, rayslice.Fleet{ObservedAt: time.Now(), Nodes: []rayslice.Node{{Name: "n1", Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 1, CardGiB: 16}}})
	if err != nil {
		t.Fatal(err)
	}
	one, other := p.create(p.Ada, storetest.Draft(1, 8)), p.create(p.Ada, storetest.Draft(1, 8))
	lea := p.as(p.Lea)
	if n := lea.get("/approvals").page().Find("#batch-crowded").Length(); n != 0 {
		t.Error("both fit, and the page warns")
	}
	third := p.create(p.Ada, storetest.Draft(1, 8))
	if text := lea.get("/approvals").page().Find("#batch-crowded").Text(); !strings.Contains(text, "1 worker would wait") {
		t.Errorf("the page says %q", text)
	}
	form := url.Values{"verdict": {"approve"}, "ids": {one.ID + "@1", other.ID + "@1", third.ID + "@1"}}
	if text := lea.post("/approvals", form).want(http.StatusOK).page().Find("#outcomes-crowded").Text(); !strings.Contains(text, "1 worker waits") {
		t.Errorf("the answer says %q", text)
	}
}

// TestHiddenFieldsOfDecisions is T31 for the forms and bodies of this part.
func TestHiddenFieldsOfDecisions(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	r := p.create(p.Ada, storetest.Draft(1, 4))
	hidden := map[string]string{"status": "approved", "state": "approved", "team_id": "speech", "team": "speech", "approved_by": "Ada",
		"decided_by": "Ada", "owner": "1", "owner_id": "1", "id": "aaaaaaaaaaaa", "charge": "0", "price": "0"}
	with := func(v url.Values) url.Values {
		for name, value := range hidden {
			v.Set(name, value)
		}
		return v
	}
	edit := with(goodForm())
	edit.Set("purpose", "x")
	edit.Set("revision", "1")
	p.as(p.Ada).post("/clusters/"+r.ID+"/edit", edit).want(http.StatusSeeOther)
	now := p.request(r.ID)
	if now.State != rayslice.StatePending || now.Team != "vision" || now.Owner.ID != p.Ada.ID || now.Charge.GiB != 16 || now.DecidedBy != "" || now.Revision != 2 {
		t.Errorf("after the edit: %+v", now)
	}
	decision := with(verdict(rayslice.VerdictReturn, "answer", "why?"))
	decision.Set("revision", "2")
	p.as(p.Lea).post("/approvals/"+r.ID, decision).want(http.StatusSeeOther)
	if now = p.request(r.ID); now.State != rayslice.StateReturned || now.DecidedBy != "Lea" || now.Team != "vision" {
		t.Errorf("after the decision: %+v", now)
	}
	reply := with(url.Values{"reply": {"because"}, "revision": {"2"}})
	p.as(p.Ada).post("/clusters/"+r.ID+"/reply", reply).want(http.StatusSeeOther)
	if now = p.request(r.ID); now.State != rayslice.StatePending || now.Team != "vision" || now.Revision != 3 {
		t.Errorf("after the reply: %+v", now)
	}
	for name, value := range hidden {
		if name == "team" {
			continue
		}
		v := p.as(p.Ada).with("Content-Type", "application/json")
		body := fmt.Sprintf(`{"revision":3,%q:%q,%s`, name, value, strings.TrimPrefix(goodBody, "{"))
		v.send(http.MethodPut, "/api/v1/requests/"+r.ID, strings.NewReader(body)).want(http.StatusUnprocessableEntity)
		p.as(p.Lea).postJSON("/api/v1/requests/"+r.ID+"/decision", fmt.Sprintf(`{"verdict":"approve","revision":3,%q:%q}`, name, value)).want(http.StatusUnprocessableEntity)
	}
	if again := p.request(r.ID); !cmp.Equal(now, again) {
		t.Errorf("something changed:\n%s", cmp.Diff(now, again))
	}
}

// TestDecidingByProgram decides through the API with a session, and shows what was decided.
func TestDecidingByProgram(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(8)
	ada, lea := p.token(p.adaToken), p.as(p.Lea)
	var dry struct {
		Decision *api.Foreseen
	}
	body := strings.Replace(goodBody, "{", `{"purpose":"the paper",`, 1)
	ada.postJSON("/api/v1/requests?dry_run=true", body).want(http.StatusOK).decode(&dry)
	if dry.Decision.StartsAtOnce || dry.Decision.Code != rayslice.ReasonNeedsLeadGiB || !cmp.Equal(dry.Decision.Deciders, []string{"Lea"}) || !strings.Contains(dry.Decision.Text, "over the 8 GiB") {
		t.Errorf("a dry run says %+v", dry.Decision)
	}
	small := strings.Replace(goodBody, `"workers":2`, `"workers":1`, 1)
	ada.postJSON("/api/v1/requests?dry_run=true", small).want(http.StatusOK).decode(&dry)
	if !dry.Decision.StartsAtOnce || len(dry.Decision.Deciders) != 0 {
		t.Errorf("a dry run of less says %+v", dry.Decision)
	}
	if got := ada.postJSON("/api/v1/requests", goodBody).want(http.StatusUnprocessableEntity).problem(); len(got.Errors) != 1 || got.Errors[0].Field != "purpose" {
		t.Errorf("without a purpose: %+v", got)
	}
	var r struct {
		ID, State string
		Revision  int
		Asked     *api.Asked
		DecidedBy *string `json:"decided_by"`
		Answer    *string
		Hours     int
	}
	ada.postJSON("/api/v1/requests", body).want(http.StatusCreated).decode(&r)
	if r.State != "pending" || r.Revision != 1 {
		t.Errorf("got %+v", r)
	}
	put := func(body string) answer {
		return ada.with("Content-Type", "application/json").send(http.MethodPut, "/api/v1/requests/"+r.ID, strings.NewReader(body))
	}
	put(strings.Replace(body, "{", `{"revision":7,`, 1)).want(http.StatusConflict)
	put(strings.Replace(body, "{", `{"revision":1,"hours":6,`, 1)).want(http.StatusOK).decode(&r)
	if r.Revision != 2 || r.Hours != 6 {
		t.Errorf("got %+v", r)
	}
	decide := "/api/v1/requests/" + r.ID + "/decision"
	for body, want := range map[string]int{
		`{"verdict":"approve","revision":1}`:                            http.StatusConflict,
		`{"verdict":"approve","revision":2,"hours":7}`:                  http.StatusUnprocessableEntity, // more than was asked for
		`{"verdict":"approve","revision":2,"groups":[{"slice_gib":5}]}`: http.StatusUnprocessableEntity, // no such size
		`{"verdict":"approve","revision":2,"groups":[]}`:                http.StatusUnprocessableEntity,
		`{"verdict":"approve","revision":2,"groups":[{"workers":0}]}`:   http.StatusUnprocessableEntity,
		`{"verdict":"reject","revision":2}`:                             http.StatusUnprocessableEntity,
	} {
		if got := lea.postJSON(decide, body); got.Code != want {
			t.Errorf("%s: %d, want %d", body, got.Code, want)
		}
	}
	lea.post(decide, url.Values{}).want(http.StatusUnsupportedMediaType)
	lea.postJSON(decide, `{"verdict":"approve","revision":2,"hours":2,"groups":[{"workers":1}],"answer":"one"}`).want(http.StatusOK).decode(&r)
	if r.State != "approved" || r.Hours != 2 || r.Asked == nil || r.Asked.Hours != 6 || r.Asked.Charge.GiB != 16 || r.DecidedBy == nil || *r.DecidedBy != "Lea" || *r.Answer != "one" {
		t.Errorf("got %+v", r)
	}
	put(strings.Replace(body, "{", `{"revision":2,`, 1)).want(http.StatusConflict)
	lea.postJSON(decide, `{"verdict":"approve","revision":2}`).want(http.StatusConflict)
	p.as(p.Bob).with("Content-Type", "application/json").send(http.MethodPut, "/api/v1/requests/"+r.ID, strings.NewReader("{}")).want(http.StatusForbidden)
	if n := p.refusals("change_not_owner"); n != 1 {
		t.Errorf("%d refusals of a change, want 1", n)
	}
}

// TestChangingTooLate keeps the form when the request was decided while it was filled in.
func TestChangingTooLate(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	r := p.create(p.Ada, storetest.Draft(1, 4))
	if _, err := p.store.DecideRequest(t.Context(), p.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictReject, Revision: 1, Answer: "no room"}); err != nil {
		t.Fatal(err)
	}
	form := goodForm()
	form.Set("purpose", "a long text about the paper")
	form.Set("revision", "1")
	page := p.as(p.Ada).post("/clusters/"+r.ID+"/edit", form).want(http.StatusConflict).page()
	if got := page.Find("textarea[name=purpose]").Text(); got != "a long text about the paper" {
		t.Errorf("the form came back with %q", got)
	}
	if got := page.Find("#problem").Text(); !strings.Contains(got, "Denied, by Lea") {
		t.Errorf("the reason is %q", got)
	}
	shown := p.as(p.Ada).get("/clusters/" + r.ID).want(http.StatusOK).page()
	if got := shown.Find("#going-on").Text(); !strings.Contains(got, "Denied by Lea: “no room”") || shown.Find("#again").Length() != 1 {
		t.Errorf("the owner reads %q", got)
	}
	p.as(p.Ada).get("/clusters/" + r.ID + "/edit").want(http.StatusConflict)
}

// TestAnotherTeamsApproval is T30 for this part: what is another team's looks like what does not exist.
func TestAnotherTeamsApproval(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	r := p.create(p.Ada, storetest.Draft(1, 4))
	storetest.Exec(t, `INSERT INTO roles (user_id, team, role, source) VALUES ($1, 'speech', 'lead', 'manual')`, p.Sam.ID)
	sam := p.as(p.Sam).with("X-Request-Id", "the-same-id")
	const unknown = "aaaaaaaaaaaa"
	for _, path := range []string{"GET /clusters/*/edit", "POST /clusters/*/edit", "POST /clusters/*/preview", "POST /clusters/*/reply", "POST /approvals/*",
		"GET /approvals/*/preview", "PUT /api/v1/requests/*", "POST /api/v1/requests/*/decision"} {
		method, path, _ := strings.Cut(path, " ")
		look := func(id string) answer {
			return sam.with("Content-Type", "application/x-www-form-urlencoded").send(method, strings.Replace(path, "*", id, 1), strings.NewReader("verdict=approve&revision=1"))
		}
		a, b := look(r.ID), look(unknown)
		if a.Code != http.StatusNotFound || b.Code != http.StatusNotFound || strings.ReplaceAll(a.Body.String(), r.ID, "") != strings.ReplaceAll(b.Body.String(), unknown, "") {
			t.Errorf("%s %s: %d and %d", method, path, a.Code, b.Code)
		}
	}
	if got := sam.get("/approvals").want(http.StatusOK).Body.String(); strings.Contains(got, r.ID) {
		t.Errorf("another team's lead sees the request")
	}
	for query, want := range map[string]int{"team=vision": 422, "team=no-such": 422, "cursor=!": 422, "decided=2": 422, "q=%00": 422, "team=speech": 200, "done=" + r.ID: 200} {
		got := sam.get("/approvals?" + query)
		if got.Code != want || strings.Contains(got.Body.String(), "ablation-7") {
			t.Errorf("?%s: %d, want %d, and nothing of another team", query, got.Code, want)
		}
	}
}

// TestApprovalsFit says whether a request fits the fleet beside what is there, whoever made it.
func TestApprovalsFit(t *testing.T) {
	t.Parallel()
	p := open(t)
	err := p.store.SaveFleet(t.Context(), rayslice.System, rayslice.Fleet{ObservedAt: time.Now(), Nodes: []rayslice.Node{{Name: "n1", Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 2, CardGiB: 22}},
		Holds: []rayslice.Hold{{Foreign: true, Node: "n1", Slice: rayslice.Slice{GiB: 8, Cards: 1}, Placements: []rayslice.Placement{{Card: 0, GiB: 8}}}}})
	if err != nil {
		t.Fatal(err)
	}
	p.needLead(0)
	r := p.create(p.Ada, storetest.Draft(1, 16))
	card := p.as(p.Lea).get("/approvals").want(http.StatusOK).page().Find("section.approval")
	if got := card.Find("summary .badge.ok").Text(); got != "now, on 1 card" {
		t.Errorf("%s fits: %q, want one card", r.ID, got)
	}
}

// TestApprovalsNews tells a page that is open what is new, and leaves its forms alone.
func TestApprovalsNews(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	first, second := p.create(p.Ada, storetest.Draft(1, 4)), p.create(p.Bob, storetest.Draft(1, 4))
	page := p.as(p.Lea).get("/approvals").want(http.StatusOK).page()
	stream, _ := page.Find("[sse-connect]").Attr("sse-connect")
	u, err := url.Parse(stream)
	if err != nil || u.Query().Get("shown") != first.ID+"@1,"+second.ID+"@1" {
		t.Errorf("stream %q", stream)
	}
	if page.Find("#live form").Length() != 0 {
		t.Errorf("a form is inside what the stream replaces")
	}
	if _, err := p.store.DecideRequest(t.Context(), p.Root, first.ID, rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: 1}); err != nil {
		t.Fatal(err)
	}
	third := p.create(p.Ada, storetest.Draft(1, 4))
	rows, err := p.store.Approvals(t.Context(), p.Lea, store.ApprovalFilter{})
	if err != nil || len(rows.Approvals) != 2 || rows.Approvals[1].Request.ID != third.ID {
		t.Fatalf("%+v, %v", rows, err)
	}
	events, err := p.server.approvalRows(t.Context(), rows.Approvals, false)
	if got := news(events, strings.Split(u.Query().Get("shown"), ",")); err != nil || got.Fresh != 1 || got.Changed != 1 {
		t.Errorf("news %+v (%v), want one new and one decided", got, err)
	}
}

// TestNumbersOfARefusal is B067, B068, B074 and B085 where requests wait for a lead: what is held counts up to exactly the
// limit, the charge goes to the named team only, and a refusal has the numbers; it also comes before a missing purpose.
func TestNumbersOfARefusal(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	waits := p.create(p.Ada, storetest.Draft(2, 8))
	form := goodForm()
	page := p.as(p.Bob).post("/clusters", form).want(http.StatusConflict).page()
	if got := page.Find("#problem").Text(); !strings.Contains(got, "8 of 24 GiB left") || !strings.Contains(got, "16 held") {
		t.Errorf("the refusal says %q", got)
	}
	form.Set("groups[0].workers", "1")
	form.Set("purpose", "exactly what is left")
	p.as(p.Bob).post("/clusters", form).want(http.StatusSeeOther)
	quota := func(team string) rayslice.Quota {
		q, err := p.store.Quota(t.Context(), p.Root, team)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	if v, s := quota("vision"), quota("speech"); v.Used.GiB != 24 || v.Held.GiB != 24 || s.Used.GiB != 0 {
		t.Errorf("vision %+v, speech %+v", v, s)
	}
	grow := goodForm()
	grow.Set("purpose", "more")
	grow.Set("revision", "1")
	grow.Set("groups[0].workers", "3")
	if got := p.as(p.Ada).post("/clusters/"+waits.ID+"/edit", grow).want(http.StatusConflict).page(); got.Find("input[name='groups[0].workers'][value='3']").Length() != 1 {
		t.Errorf("the form was lost")
	}
	p.as(p.Lea).post("/approvals/"+waits.ID, verdict(rayslice.VerdictApprove, "groups[0].workers", "1")).want(http.StatusSeeOther)
	if v := quota("vision"); v.Used.GiB != 16 || v.Held.GiB != 8 {
		t.Errorf("after approving less: %+v", v)
	}
}

// TestChangedToNoGPU is B086: a request that is sent again without a GPU has none, and costs nothing.
func TestChangedToNoGPU(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	r := p.create(p.Ada, storetest.Draft(2, 8))
	form := goodForm()
	form.Set("groups[0].size", "cpu")
	form.Set("revision", "1")
	p.as(p.Ada).post("/clusters/"+r.ID+"/edit", form).want(http.StatusSeeOther)
	now := p.request(r.ID)
	if now.State != rayslice.StateApproved || now.Charge != (rayslice.Charge{}) || !now.Draft.Groups[0].IsZero() || now.DecidedBy != "" {
		t.Errorf("got %+v", now)
	}
}

// TestWordsStayWords is T43 and T45 for this part: what people write to each other is text on every page, and one record in
// the audit log.
func TestWordsStayWords(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	const evil = "<script>alert(1)</script>\r\n\x1b[31m\"quoted\""
	draft := storetest.Draft(1, 4)
	draft.Name, draft.Purpose = "<b>bold</b>", "<img src=x onerror=alert(1)>"
	r := p.create(p.Ada, draft)
	ada, lea := p.as(p.Ada), p.as(p.Lea)
	lea.post("/approvals/"+r.ID, verdict(rayslice.VerdictReturn, "answer", evil)).want(http.StatusUnprocessableEntity) // the escape character
	question := strings.ReplaceAll(evil, "\x1b", "")
	lea.post("/approvals/"+r.ID, verdict(rayslice.VerdictReturn, "answer", question)).want(http.StatusSeeOther)
	ada.post("/clusters/"+r.ID+"/reply", url.Values{"reply": {question}, "revision": {"1"}}).want(http.StatusSeeOther)
	for _, v := range []visitor{ada, lea} {
		for _, path := range []string{"/clusters/" + r.ID, "/approvals", "/clusters/" + r.ID + "/edit"} {
			if got := v.get(path); got.Code == http.StatusOK {
				if page := got.page(); page.Find("main script:not([src]), main img, main b b").Length() != 0 || !strings.Contains(page.Text(), "<b>bold</b>") {
					t.Errorf("%s: words became markup", path)
				}
			}
		}
	}
	entries, err := p.store.Audit(t.Context(), p.Ada, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action)
	}
	if got := strings.Join(actions, " "); got != "create return resend refuse" { // the lead looked for the form that changes it
		t.Errorf("the audit log has %q", got)
	}
}

// TestMoreGroupsThanTheForm does not let a form drop worker groups that only the API can make.
func TestMoreGroupsThanTheForm(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	draft := storetest.Draft(1, 4)
	for range 3 {
		g := draft.Groups[0]
		g.Name = ""
		draft.Groups = append(draft.Groups, g)
	}
	draft.Normalize(testCatalogue())
	r := p.create(p.Ada, draft)
	p.as(p.Ada).get("/clusters/" + r.ID + "/edit").want(http.StatusUnprocessableEntity)
	if n := p.as(p.Lea).get("/approvals").want(http.StatusOK).page().Find("section.approval input[inputmode=numeric]").Length(); n != 5 {
		t.Errorf("%d fields, want workers of each of four groups, and hours", n)
	}
}

// TestDecidingTwice is the double click: the second of the same two decisions leads where the first did; another one is
// refused.
func TestDecidingTwice(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.needLead(0)
	lea := p.as(p.Lea)
	for name, form := range map[string]url.Values{
		"approve": verdict(rayslice.VerdictApprove, "answer", "go"),
		"less":    verdict(rayslice.VerdictApprove, "hours", "2"),
		"deny":    verdict(rayslice.VerdictReject, "answer", "no"),
	} {
		r := p.create(p.Ada, storetest.Draft(1, 4))
		first := lea.post("/approvals/"+r.ID, form).want(http.StatusSeeOther).location()
		if second := lea.post("/approvals/"+r.ID, form).want(http.StatusSeeOther).location(); first != second {
			t.Errorf("%s: %s and %s", name, first, second)
		}
		other := verdict(rayslice.VerdictReject, "answer", "after all")
		lea.post("/approvals/"+r.ID, other).want(http.StatusConflict)
		p.as(p.Root).post("/approvals/"+r.ID, form).want(http.StatusConflict)
	}
}
