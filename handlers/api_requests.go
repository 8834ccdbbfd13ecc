package handlers

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// CreateRequest asks for a cluster, or with ?dry_run=true says what would be asked for.
func (p program) CreateRequest(ctx context.Context, asked api.CreateRequestRequestObject) (api.CreateRequestResponseObject, error) {
	c := echoOf(ctx)
	key, err := idempotencyKey(c.Request())
	if err != nil {
		return nil, err
	}
	dryRun, err := readDryRun(c.QueryParams())
	if err != nil {
		return nil, err
	}
	draft, err := p.readDraft(c, asked.Body)
	if err != nil {
		return nil, err
	}
	if dryRun {
		return p.dryRun(c, draft)
	}
	request, err := p.config.Store.CreateRequest(ctx, user(c), draft, key)
	if err != nil {
		return nil, err
	}
	one := oneRequest(p.requestOf(c, request, store.Observed{}, nil))
	if key != "" { // it may be from before, and much been observed since
		if one, err = p.observed(c, request); err != nil {
			return nil, err
		}
	}
	return api.CreateRequest201JSONResponse{Body: one.Body, Headers: api.CreateRequest201ResponseHeaders{
		ETag: one.Headers.ETag, Location: "/api/v1/requests/" + request.ID,
	}}, nil
}

// readDraft reads the body, completes it and checks it.
func (s *Server) readDraft(c echo.Context, body *api.Body) (rayslice.RequestDraft, error) {
	if err := wantJSON(c); err != nil {
		return rayslice.RequestDraft{}, err
	}
	draft, err := rayslice.DecodeDraft(bytes.NewReader(body.JSON))
	if err != nil {
		return draft, err
	}
	fleet, err := s.config.Store.Fleet(c.Request().Context(), user(c))
	if err != nil {
		return draft, err
	}
	return draft, s.check(c.Request().Context(), user(c), &draft, fleet)
}

// wantJSON refuses a body of another content type.
func wantJSON(c echo.Context) error {
	if mediaType(c.Request()) != echo.MIMEApplicationJSON {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", map[string]any{"want": echo.MIMEApplicationJSON}, nil)
	}
	return nil
}

// idempotencyKey returns the Idempotency-Key header: 1 to 255 visible ASCII characters, or "" when there is none.
func idempotencyKey(r *http.Request) (string, error) {
	const name = "Idempotency-Key"
	keys := r.Header.Values(name)
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1:
		return "", rayslice.Invalid(rayslice.FieldError{Field: name, Code: rayslice.CodeDuplicate, Args: map[string]any{"value": name}})
	case len(keys[0]) > 255:
		return "", rayslice.Invalid(rayslice.FieldError{Field: name, Code: rayslice.CodeTooLong, Args: map[string]any{"max": 255}})
	case !saneKey.MatchString(keys[0]):
		return "", rayslice.Invalid(rayslice.FieldError{Field: name, Code: rayslice.CodeCharacters})
	}
	return keys[0], nil
}

// readDryRun refuses what is neither yes nor no: somebody who meant a dry run must not get a cluster.
func readDryRun(query url.Values) (bool, error) {
	switch text := query.Get("dry_run"); {
	case !query.Has("dry_run"), text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, rayslice.Invalid(rayslice.FieldError{Field: "dry_run", Code: rayslice.CodeType, Args: map[string]any{"want": "bool", "got": "text"}})
}

func (p program) dryRun(c echo.Context, draft rayslice.RequestDraft) (api.CreateRequestResponseObject, error) {
	ctx, actor := c.Request().Context(), user(c)
	yaml, err := p.preview(ctx, actor, draft)
	if err != nil {
		return nil, err
	}
	quota, err := p.config.Store.Quota(ctx, actor, draft.Team)
	if err != nil {
		return nil, err
	}
	decision, err := p.foreseen(c, draft, quota)
	if err != nil {
		return nil, err
	}
	return api.CreateRequest200JSONResponse{
		Decision: decision,
		Yaml:     yaml, Charge: draft.Charge(), WouldFitQuota: quota.Allow(draft.Charge()), Quota: quotaNumbers(quota),
	}, nil
}

func quotaNumbers(q rayslice.Quota) api.Quota {
	return api.Quota{Team: q.Team, Limit: q.Limit, Used: q.Used, Held: q.Held, Left: q.Left()}
}

// foreseen says what would follow from sending the draft, and whether it lacks the purpose that a lead decides by; nil when
// it does not fit the quota, as nobody decides about that.
func (s *Server) foreseen(c echo.Context, draft rayslice.RequestDraft, quota rayslice.Quota) (*api.Foreseen, error) {
	ctx, actor := c.Request().Context(), user(c)
	why, err := s.config.Store.WouldDecide(ctx, actor, draft)
	if err != nil || !quota.Allow(draft.Charge()) {
		return nil, err
	}
	d := &api.Foreseen{StartsAtOnce: why.Code == rayslice.ReasonAutoApproved, Code: why.Code, Text: visitOf(c).locale.Reason(why), Deciders: []string{}}
	if d.StartsAtOnce {
		return d, nil
	}
	if err := draft.CheckPurpose(why); err != nil {
		_, problem := explain(err)
		d.NeedsPurpose, d.Note = true, visitOf(c).locale.Field(problem.Fields[0])
	}
	d.Deciders, err = s.config.Store.Deciders(ctx, actor, draft.Team, actor.ID)
	return d, err
}

// ResendRequest changes what the caller's waiting request asks for and sends it again.
func (p program) ResendRequest(ctx context.Context, asked api.ResendRequestRequestObject) (api.ResendRequestResponseObject, error) {
	c := echoOf(ctx)
	request, err := p.changeable(c)
	if err != nil {
		return nil, err
	}
	if err := wantJSON(c); err != nil {
		return nil, err
	}
	again, err := rayslice.DecodeResend(bytes.NewReader(asked.Body.JSON))
	if err != nil {
		return nil, err
	}
	fleet, err := p.config.Store.Fleet(ctx, user(c))
	if err != nil {
		return nil, err
	}
	if err := p.check(ctx, user(c), &again.Draft, fleet); err != nil {
		return nil, err
	}
	request, err = p.config.Store.ResendRequest(ctx, user(c), request.ID, again.Revision, again.Draft, again.Reply)
	if err != nil {
		return nil, err
	}
	one, err := p.observed(c, request)
	return api.ResendRequest200JSONResponse{OneRequestJSONResponse: one}, err
}

// ReplyToLead answers a lead's question and sends the request again as it is.
func (p program) ReplyToLead(ctx context.Context, asked api.ReplyToLeadRequestObject) (api.ReplyToLeadResponseObject, error) {
	c := echoOf(ctx)
	request, err := p.changeable(c)
	if err != nil {
		return nil, err
	}
	if err := wantJSON(c); err != nil {
		return nil, err
	}
	reply, err := rayslice.DecodeReply(bytes.NewReader(asked.Body.JSON))
	if err != nil {
		return nil, err
	}
	if !request.State.Open() {
		return nil, decidedAlready(request)
	}
	request, err = p.config.Store.ResendRequest(ctx, user(c), request.ID, reply.Revision, request.Draft, reply.Reply)
	if err != nil {
		return nil, err
	}
	one, err := p.observed(c, request)
	return api.ReplyToLead200JSONResponse{OneRequestJSONResponse: one}, err
}

// DecideRequest carries out what somebody signed in has decided. A token is refused whatever it sends.
func (p program) DecideRequest(ctx context.Context, asked api.DecideRequestRequestObject) (api.DecideRequestResponseObject, error) {
	c := echoOf(ctx)
	actor := decider(c)
	id, err := requestID(c)
	if err != nil {
		return nil, err
	}
	request, err := p.config.Store.Request(ctx, actor, id)
	if err != nil {
		return nil, err
	}
	var decision rayslice.Decision
	if actor.MayDecide(request) == nil { // else the store refuses, and records it
		if decision, err = p.readDecision(c, asked.Body, request.Draft); err != nil {
			return nil, err
		}
	}
	decided, err := p.config.Store.DecideRequest(ctx, actor, id, decision)
	if err != nil {
		return nil, err
	}
	one, err := p.observed(c, decided)
	return api.DecideRequest200JSONResponse{OneRequestJSONResponse: one}, err
}

func (s *Server) readDecision(c echo.Context, body *api.Body, draft rayslice.RequestDraft) (rayslice.Decision, error) {
	if err := wantJSON(c); err != nil {
		return rayslice.Decision{}, err
	}
	decision, err := rayslice.DecodeDecision(bytes.NewReader(body.JSON), draft)
	if err != nil || decision.Terms == nil {
		return decision, err
	}
	return decision, draft.CheckTerms(*decision.Terms, s.config.Catalogue)
}

// ListRequests lists the requests the caller may see, newest first.
func (p program) ListRequests(ctx context.Context, _ api.ListRequestsRequestObject) (api.ListRequestsResponseObject, error) {
	c := echoOf(ctx)
	filter, err := readFilter(user(c), c.QueryParams(), listLength)
	if err != nil {
		return nil, err
	}
	found, err := p.requests(ctx, user(c), filter)
	if err != nil {
		return nil, err
	}
	answer := api.ListRequests200JSONResponse{Next: said(found.Next)}
	answer.Requests, err = p.requestsOf(c, found.Requests)
	return answer, err
}

// requestsOf returns requests as programs see them, with what is known of their clusters.
func (s *Server) requestsOf(c echo.Context, requests []rayslice.Request) ([]api.Request, error) {
	observed, err := s.config.Store.Observed(c.Request().Context(), user(c), idsOf(requests))
	if err != nil {
		return nil, err
	}
	problems, err := s.problems(c, requests...)
	if err != nil {
		return nil, err
	}
	all := make([]api.Request, len(requests))
	for i, r := range requests {
		all[i] = s.requestOf(c, r, observed[r.ID], problems)
	}
	return all, nil
}

// problems returns what is wrong with Kubernetes as a whole, where one of the requests may wait for it.
func (s *Server) problems(c echo.Context, requests ...rayslice.Request) ([]rayslice.Reason, error) {
	if !slices.ContainsFunc(requests, func(r rayslice.Request) bool { return r.State.Live() && r.State != rayslice.StateReady }) {
		return nil, nil
	}
	return s.config.Store.FleetProblems(c.Request().Context(), user(c))
}

// StopRequest stops a cluster. Stopping twice is stopping once.
func (p program) StopRequest(ctx context.Context, _ api.StopRequestRequestObject) (api.StopRequestResponseObject, error) {
	c := echoOf(ctx)
	id, err := requestID(c)
	if err != nil {
		return nil, err
	}
	request, err := p.config.Store.StopRequest(ctx, user(c), id)
	if err != nil {
		return nil, err
	}
	one, err := p.observed(c, request)
	return api.StopRequest200JSONResponse{OneRequestJSONResponse: one}, err
}

// ShowRequestAudit lists what happened to one request, oldest first.
func (p program) ShowRequestAudit(ctx context.Context, _ api.ShowRequestAuditRequestObject) (api.ShowRequestAuditResponseObject, error) {
	c := echoOf(ctx)
	id, err := requestID(c)
	if err != nil {
		return nil, err
	}
	entries, err := p.config.Store.Audit(ctx, user(c), id)
	if err != nil {
		return nil, err
	}
	return api.ShowRequestAudit200JSONResponse{Entries: entriesOf(c, entries)}, nil
}

func entryOf(c echo.Context, e rayslice.AuditEntry) api.AuditEntry {
	return api.AuditEntry{
		At: e.At, Actor: e.Actor, Via: said(e.Via), Action: e.Action, Subject: said(e.Subject), RequestId: said(e.RequestID), Team: said(e.Team),
		From: said(string(e.From)), To: said(string(e.To)), Reason: reasonOf(c, e.Reason),
		Details: orNothing(e.Reason.Args),
	}
}

// observed joins a request with what Kubernetes reported about it.
func (p program) observed(c echo.Context, request rayslice.Request) (api.OneRequestJSONResponse, error) {
	body, err := p.details(c, request)
	return oneRequest(body), err
}

func oneRequest(body api.Request) api.OneRequestJSONResponse {
	return api.OneRequestJSONResponse{Body: body, Headers: api.OneRequestResponseHeaders{ETag: etagOf(body)}}
}

// details returns a request as programs see it, with what is known of its cluster.
func (s *Server) details(c echo.Context, request rayslice.Request) (api.Request, error) {
	ctx, actor := c.Request().Context(), user(c)
	var observed store.Observed
	var err error
	if observed.Cluster, err = s.config.Store.Cluster(ctx, actor, request.ID); err != nil {
		return api.Request{}, err
	}
	if request.State.Live() {
		if observed.Badge, err = s.config.Store.Badge(ctx, actor, observed.Cluster); err != nil {
			return api.Request{}, err
		}
	}
	problems, err := s.problems(c, request)
	return s.requestOf(c, request, observed, problems), err
}

// requestOf is a request as programs see it; problems are those of Kubernetes as a whole. What is not known, or has not happened, is null and never zero.
func (s *Server) requestOf(c echo.Context, r rayslice.Request, observed store.Observed, problems []rayslice.Reason) api.Request {
	cluster := observed.Cluster
	now := s.now()
	image, _ := s.config.Catalogue.Image(r.Draft.Image)
	j := api.Request{
		Id: r.ID, Team: r.Team, Name: r.Draft.Name, Purpose: r.Draft.Purpose, Hours: r.Draft.Hours, State: r.State, Revision: r.Revision,
		Owner: api.Owner{Name: r.Owner.Name, Email: r.Owner.Email}, Charge: r.Charge, Head: r.Draft.Head, Groups: r.Draft.Groups,
		Image: r.Draft.Image, RayVersion: r.Draft.RayVersion, PythonVersion: said(image.Python), Env: orNothing(r.Draft.Env),
		PullSecrets: append([]string{}, r.Draft.PullSecrets...), Unverified: r.Draft.Unverified,
		SentAt: r.SentAt, DecidedBy: said(r.DecidedBy), Answer: said(r.Answer), Reason: reasonOf(c, r.Reason),
		CreatedAt: r.CreatedAt, EndsAt: known(r.EndsAt), ReadyAt: known(r.ReadyAt), StoppedAt: known(r.StoppedAt),
		Object: api.ObjectName{Namespace: r.Namespace, Name: r.ObjectName()}, Cluster: s.clusterOf(c, r, cluster), ObservedAt: known(cluster.ObservedAt),
		Pending:      toPendingJSON(visitOf(c).locale, rayslice.Explain(r, cluster, problems, now), now),
		Verification: badgeOf(observed.Badge), DashboardUrl: said(s.wayTo(c, r).Host),
	}
	if r.Asked != nil {
		j.Asked = &api.Asked{Hours: r.Asked.Hours, Groups: r.Asked.Groups, Charge: r.Asked.Charge()}
	}
	return j
}

// clusterOf sums up what Kubernetes reported; nil when nothing was observed yet.
func (s *Server) clusterOf(c echo.Context, r rayslice.Request, cluster rayslice.Cluster) *api.Cluster {
	if cluster.ObservedAt.IsZero() {
		return nil
	}
	return &api.Cluster{
		HeadReady:    cluster.Head != nil && cluster.Head.Ready && cluster.HeadAnswers,
		WorkersReady: cluster.ReadyWorkers(), WorkersWanted: r.Draft.MinWorkers(), RayVersion: said(cluster.RayVersion),
		Connect: connect(cluster.Service, s.wayTo(c, r)), Drift: append([]rayslice.Drift{}, cluster.Drift...),
	}
}

// badgeOf returns nil for a cluster of which no worker was verified.
func badgeOf(badge rayslice.Badge) *api.Badge {
	if badge.Enforcement == "" {
		return nil
	}
	return &badge
}

// reasonJSON says why something is as it is, as a code for programs and a sentence in the caller's language.
type reasonJSON = api.Reason

// connect returns where a cluster can be reached, through the portal as far as there is a way; nil while it has no address.
func connect(service string, way web.Way) *api.Connect {
	if service == "" {
		return nil
	}
	a := web.AddressesOf(service, way)
	return &api.Connect{Client: a.Client, Dashboard: a.Dashboard, JobSubmit: strings.Join(a.JobSubmit, " ")}
}

// known returns nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// said returns nil for the empty text.
func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func orNothing[T any](m map[string]T) map[string]T {
	if m == nil {
		return map[string]T{}
	}
	return m
}
