package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// maxBatch is how many requests may be decided in one go.
const maxBatch = 100

// demoTokenID stands for a demo token, which has no row of its own.
const demoTokenID = -1

// decider is who decides: somebody signed in. Whatever comes with a token is the token's, and the store refuses it.
func decider(c echo.Context) rayslice.User {
	actor := user(c)
	if visitOf(c).identity.bearer != "" && actor.TokenID == 0 {
		return actor.ByToken(demoTokenID, "", rayslice.Scopes())
	}
	return actor
}

// showApprovals lists what waits for the visitor, or what was decided.
func (s *Server) showApprovals(c echo.Context) error {
	p, err := s.approvalsPage(c, c.QueryParams())
	if err != nil {
		return err
	}
	if id := c.QueryParam("done"); requestIDFormat.MatchString(id) {
		if done, err := s.config.Store.Request(c.Request().Context(), user(c), id); err == nil {
			p.Done = &web.ApprovalRow{Request: done}
		}
	}
	return page(c, http.StatusOK, web.ApprovalsView(p))
}

// streamApprovals keeps the page's summary fresh; the forms are never touched.
func (s *Server) streamApprovals(c echo.Context) error {
	wants := func(change store.Change) marks {
		if change.Kind != store.KindRequest {
			return 0
		}
		return markState
	}
	return s.stream(c, view{wants: wants, rest: s.timing.listRest, parts: []part{{web.EventLive, markState, drawn(c, func() (templ.Component, error) {
		query := c.QueryParams()
		p, err := s.approvalsPage(c, query)
		p.News = news(p.Rows, strings.Split(query.Get("shown"), ","))
		p.Path = withQuery("/approvals", without(without(query, "shown"), "cursor"))
		return web.ApprovalsLive(p), err
	})}}})
}

// news compares what waits now with what a page shows.
func news(rows []web.ApprovalRow, shown []string) web.ApprovalNews {
	var n web.ApprovalNews
	now := map[string]rayslice.Request{}
	for _, row := range rows {
		now[row.Request.ID] = row.Request
		if !slices.ContainsFunc(shown, func(v string) bool { id, _, _ := web.ParseBatchValue(v); return id == row.Request.ID }) {
			n.Fresh++
		}
	}
	for _, v := range shown {
		id, revision, ok := web.ParseBatchValue(v)
		if r, waits := now[id]; ok && (!waits || r.Revision != revision) {
			n.Changed++
		}
	}
	return n
}

// approvalsPage reads the page as the address asks for it.
func (s *Server) approvalsPage(c echo.Context, query url.Values) (web.ApprovalsPage, error) {
	ctx, actor := c.Request().Context(), decider(c)
	filter, err := readApprovals(actor, query)
	if err != nil {
		return web.ApprovalsPage{}, err
	}
	found, err := s.approvals(ctx, actor, filter)
	if err != nil {
		return web.ApprovalsPage{}, err
	}
	frame, err := s.liveFrame(c)
	if err != nil {
		return web.ApprovalsPage{}, err
	}
	p := web.ApprovalsPage{
		Frame: frame, Catalogue: s.config.Catalogue, Waiting: frame.Waiting, Teams: actor.LeadTeams(),
		Filter: web.ApprovalsFilter{Decided: filter.Decided, Team: filter.Team, Search: filter.Search},
	}
	if p.Rows, err = s.approvalRows(ctx, found.Approvals, filter.Decided); err != nil {
		return p, err
	}
	if drafts := undecided(p.Rows); len(drafts) > 1 {
		now, err := s.snapshot(ctx)
		if err != nil {
			return p, err
		}
		p.Together = fitTogether(drafts, now.room)
	}
	if actor.Admin {
		teams, err := s.config.Store.Teams(ctx, actor)
		if err != nil {
			return p, err
		}
		p.Teams = nil
		for _, t := range teams {
			p.Teams = append(p.Teams, t.Name)
		}
	}
	addressApprovals(&p, without(query, "done"), found.Next)
	return p, nil
}

// approvals reads one page of approvals. A cursor is called by the name that visitors know it by.
func (s *Server) approvals(ctx context.Context, actor rayslice.User, filter store.ApprovalFilter) (store.ApprovalPage, error) {
	found, err := s.config.Store.Approvals(ctx, actor, filter)
	if rayslice.KindOf(err) == rayslice.KindInvalid {
		err = rayslice.Invalid(rayslice.FieldError{Field: "cursor", Code: rayslice.CodeCharacters})
	}
	return found, err
}

// addressApprovals fills in where the page's links lead.
func addressApprovals(p *web.ApprovalsPage, query url.Values, next string) {
	p.Pages = pages("/approvals", query, "cursor", next)
	if !p.Filter.Decided {
		shown := make([]string, len(p.Rows))
		for i, row := range p.Rows {
			shown[i] = web.BatchValue(row.Request)
		}
		stream := without(query, "shown")
		stream.Set("shown", strings.Join(shown, ","))
		p.Stream = withQuery("/approvals/events", stream)
	}
}

// readApprovals reads how the list is narrowed and names every bad parameter.
func readApprovals(actor rayslice.User, query url.Values) (store.ApprovalFilter, error) {
	r := &filterReader{query: query}
	f := store.ApprovalFilter{Team: r.team(actor), Decided: r.flag("decided"), Search: r.search(), After: r.cursor()}
	f.Limit = r.limit(store.DefaultApprovals)
	if f.Decided {
		f.Limit = r.limit(listLength)
	}
	return f, rayslice.Invalid(r.bad...)
}

// approvalRows joins approvals with whether they fit the fleet now. The first that can be decided is unfolded.
func (s *Server) approvalRows(ctx context.Context, approvals []store.Approval, decided bool) ([]web.ApprovalRow, error) {
	var room rayslice.Room
	if len(approvals) > 0 && !decided {
		now, err := s.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		room = now.room
	}
	rows := make([]web.ApprovalRow, len(approvals))
	open := false
	for i, a := range approvals {
		rows[i] = approvalRow(a, room)
		if !open && rows[i].Undecided() && a.Request.State == rayslice.StatePending {
			rows[i].Open, open = true, true
		}
	}
	return rows, nil
}

// undecided returns the drafts that the visitor can decide now.
func undecided(rows []web.ApprovalRow) []rayslice.RequestDraft {
	var drafts []rayslice.RequestDraft
	for _, row := range rows {
		if row.Undecided() {
			drafts = append(drafts, row.Request.Draft)
		}
	}
	return drafts
}

// fitTogether says whether several drafts find room at the same time: each may fit by itself, and not all of them. One
// alone says nothing.
func fitTogether(drafts []rayslice.RequestDraft, room rayslice.Room) rayslice.FitResult {
	if len(drafts) < 2 {
		return rayslice.FitResult{}
	}
	var all rayslice.RequestDraft
	for _, d := range drafts {
		all.Groups = append(all.Groups, d.Groups...)
	}
	return rayslice.Fit(all, room)
}

func approvalRow(a store.Approval, room rayslice.Room) web.ApprovalRow {
	row := web.ApprovalRow{Request: a.Request, Quota: a.Quota, Record: a.Record, Talk: a.Talk,
		Fit: rayslice.Fit(a.Request.Draft, room), Form: web.NewDecisionForm(a.Request)}
	var refusal *rayslice.Error
	if errors.As(a.Refusal, &refusal) {
		row.Refusal = refusal
	}
	return row
}

// previewDecision shows what the button would do and what the team would hold then, and writes nothing.
func (s *Server) previewDecision(c echo.Context) error {
	row, err := s.leadsApproval(c)
	if err != nil {
		return err
	}
	row.Form = web.ParseDecisionForm(c.QueryParams(), row.Request)
	return page(c, http.StatusOK, web.DecisionPreview(s.frame(c), row))
}

// leadsApproval is oneApproval for those who lead the request's team, and nobody else.
func (s *Server) leadsApproval(c echo.Context) (web.ApprovalRow, error) {
	row, err := s.oneApproval(c)
	if actor := decider(c); err == nil && !actor.CanLead(row.Request.Team) {
		err = s.config.Store.Refuse(c.Request().Context(), actor, about(c, row.Request), rayslice.Forbidden("decide_not_lead"))
	}
	return row, err
}

// oneApproval reads the request in the path with what somebody needs to know to decide it.
func (s *Server) oneApproval(c echo.Context) (web.ApprovalRow, error) {
	ctx := c.Request().Context()
	id, err := requestID(c)
	if err != nil {
		return web.ApprovalRow{}, err
	}
	approval, err := s.config.Store.Approval(ctx, decider(c), id)
	if err != nil {
		return web.ApprovalRow{}, err
	}
	now, err := s.snapshot(ctx)
	if err != nil {
		return web.ApprovalRow{}, err
	}
	row := approvalRow(approval, now.room)
	row.Open = true
	return row, nil
}

// decideRequest carries out what a lead has decided. What cannot be carried out comes back with what is true now and what
// was typed.
func (s *Server) decideRequest(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	row, err := s.oneApproval(c)
	if err != nil {
		return err
	}
	form := web.ParseDecisionForm(values, row.Request)
	decision, invalid := form.Decision(rayslice.Verdict(values.Get("verdict")), row.Request.Draft)
	if invalid == nil && decision.Terms != nil {
		invalid = row.Request.Draft.CheckTerms(*decision.Terms, s.config.Catalogue)
	}
	if invalid != nil && row.Refusal == nil && row.Request.State.Open() {
		return s.refuseDecision(c, form, invalid)
	}
	decided, err := s.config.Store.DecideRequest(c.Request().Context(), decider(c), row.Request.ID, decision)
	if err != nil {
		return s.refuseDecision(c, form, err)
	}
	if values.Get("back") != "" {
		return c.Redirect(http.StatusSeeOther, "/clusters/"+decided.ID)
	}
	return c.Redirect(http.StatusSeeOther, "/approvals?done="+decided.ID)
}

// refuseDecision answers with the request as it is now and the form as it was typed. It then carries the present revision:
// whoever sends it again has seen what changed. Errors that the page cannot show are passed on.
func (s *Server) refuseDecision(c echo.Context, form web.DecisionForm, cause error) error {
	status, problem := explain(cause)
	shown := problem.Kind == rayslice.KindInvalid || problem.Kind == rayslice.KindConflict || problem.Kind == rayslice.KindForbidden && problem.Code == "decide_own"
	if !shown {
		return cause
	}
	row, err := s.oneApproval(c)
	if err != nil {
		return err
	}
	frame, err := s.liveFrame(c)
	if err != nil {
		return err
	}
	usual := web.NewDecisionForm(row.Request)
	if problem.Kind == rayslice.KindConflict { // what was typed was about something else; what was said stays
		usual.Answer = form.Answer
		form = usual
	}
	visitOf(c).failure, row.Form, row.Problem = cause, form, problem
	row.Back = c.Request().PostForm.Get("back") != ""
	return page(c, status, web.ApprovalView(web.ApprovalPage{Frame: frame, Catalogue: s.config.Catalogue, Row: row}))
}

// decideSeveral decides each of the chosen requests by itself, as it was asked for, and says what became of each.
func (s *Server) decideSeveral(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	form := web.BatchForm{IDs: values["ids"], Answer: values.Get("answer")}
	d := rayslice.Decision{Verdict: rayslice.Verdict(values.Get("verdict")), Answer: strings.TrimSpace(form.Answer)}
	chosen, err := readBatch(form, d)
	if err != nil {
		return s.answerBatch(c, form, nil, rayslice.FitResult{}, err)
	}
	now, err := s.snapshot(c.Request().Context()) // before their own pods are there
	if err != nil {
		return err
	}
	outcomes, approved := make([]web.Outcome, 0, len(chosen)), []rayslice.RequestDraft{}
	for _, one := range chosen {
		d.Revision = one.revision
		outcome, draft := s.decideOne(c, one.id, d)
		if outcomes = append(outcomes, outcome); outcome.State == rayslice.StateApproved {
			approved = append(approved, draft)
		}
	}
	outcomes = slices.DeleteFunc(outcomes, func(o web.Outcome) bool { return o.ID == "" })
	if len(outcomes) == 0 {
		return rayslice.NotFound("request")
	}
	return s.answerBatch(c, form, outcomes, fitTogether(approved, now.room), nil)
}

// choice is one request of several, as it was when it was chosen.
type choice struct {
	id       string
	revision int
}

// readBatch checks the decision about several requests.
func readBatch(form web.BatchForm, d rayslice.Decision) ([]choice, error) {
	var chosen []choice
	var bad []rayslice.FieldError
	for _, value := range form.IDs {
		id, revision, ok := web.ParseBatchValue(value)
		if !ok || !requestIDFormat.MatchString(id) {
			bad = append(bad, rayslice.FieldError{Field: "ids", Code: rayslice.CodeCharacters})
			break
		}
		chosen = append(chosen, choice{id, revision})
	}
	switch {
	case len(form.IDs) == 0:
		bad = append(bad, rayslice.FieldError{Field: "ids", Code: codeNothingChosen})
	case len(form.IDs) > maxBatch:
		bad = append(bad, rayslice.FieldError{Field: "ids", Code: rayslice.CodeRange, Args: map[string]any{"min": 1, "max": maxBatch}})
	}
	if d.Verdict == rayslice.VerdictReturn { // one question cannot be about several requests
		d.Verdict = ""
	}
	var invalid *rayslice.Error
	if errors.As(d.Validate(), &invalid) {
		bad = append(bad, invalid.Fields...)
	}
	return chosen, rayslice.Invalid(bad...)
}

// codeNothingChosen is the field code of a decision about several that names none.
const codeNothingChosen = "nothing_chosen"

// decideOne decides one of several. A request that the visitor may not know of is left out.
func (s *Server) decideOne(c echo.Context, id string, d rayslice.Decision) (web.Outcome, rayslice.RequestDraft) {
	ctx, actor := c.Request().Context(), decider(c)
	request, err := s.config.Store.Request(ctx, actor, id)
	if rayslice.KindOf(err) == rayslice.KindNotFound {
		return web.Outcome{}, rayslice.RequestDraft{}
	}
	outcome := web.Outcome{ID: id, Name: request.Draft.Name}
	if err == nil {
		request, err = s.config.Store.DecideRequest(ctx, actor, id, d)
	}
	if err != nil {
		_, outcome.Problem = explain(err)
		return outcome, request.Draft
	}
	outcome.State = request.State
	return outcome, request.Draft
}

// answerBatch shows the list with what became of the chosen requests. It is a conflict when none went through.
func (s *Server) answerBatch(c echo.Context, form web.BatchForm, outcomes []web.Outcome, crowded rayslice.FitResult, invalid error) error {
	p, err := s.approvalsPage(c, url.Values{})
	if err != nil {
		return err
	}
	status := http.StatusOK
	p.Path, p.Outcomes, p.Crowded = "/approvals", outcomes, crowded
	if invalid != nil {
		status, p.BatchBad = explain(invalid)
		p.Batch = form
		visitOf(c).failure = invalid
	}
	refused := slices.DeleteFunc(slices.Clone(outcomes), func(o web.Outcome) bool { return o.Problem == nil })
	if len(refused) > 0 {
		p.Batch = form
		if len(refused) == len(outcomes) {
			status = statusOf[refused[0].Problem.Kind]
		}
	}
	return page(c, status, web.ApprovalsView(p))
}
