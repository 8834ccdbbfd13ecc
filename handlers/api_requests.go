package handlers

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
)

// requestJSON is a request as programs see it. What is not known, or has not happened, is null and never zero.
type requestJSON struct {
	ID          string            `json:"id"`
	Team        string            `json:"team"`
	Name        string            `json:"name"`
	Purpose     string            `json:"purpose"`
	Hours       int               `json:"hours"`
	State       rayslice.State    `json:"state"`
	Revision    int               `json:"revision"`   // grows whenever what is asked for changes; a decision and a change name it
	Asked       *askedJSON        `json:"asked"`      // as asked, where less was granted; null = all of it was
	DecidedBy   *string           `json:"decided_by"` // who approved, asked back or rejected; null = nobody in person
	Answer      *string           `json:"answer"`     // what that person said
	SentAt      time.Time         `json:"sent_at"`    // when it was last sent for a decision
	Reason      *reasonJSON       `json:"reason"`
	Owner       ownerJSON         `json:"owner"`
	Charge      rayslice.Charge   `json:"charge"`
	Head        rayslice.Head     `json:"head"`
	Groups      []rayslice.Group  `json:"groups"`
	Image       string            `json:"image"`
	RayVersion  string            `json:"ray_version"`
	Env         map[string]string `json:"env"`
	PullSecrets []string          `json:"pull_secrets"`
	CreatedAt   time.Time         `json:"created_at"`
	EndsAt      *time.Time        `json:"ends_at"`
	ReadyAt     *time.Time        `json:"ready_at"`
	StoppedAt   *time.Time        `json:"stopped_at"`
	Object      objectJSON        `json:"object"`
	Cluster     *clusterJSON      `json:"cluster"`     // null = nothing was observed yet
	ObservedAt  *time.Time        `json:"observed_at"` // of cluster
	Pending     *pendingJSON      `json:"pending"`     // what it waits for; null = it is ready, or over
}

// askedJSON is the part of a request that a lead may have cut.
type askedJSON struct {
	Hours  int              `json:"hours"`
	Groups []rayslice.Group `json:"groups"`
	Charge rayslice.Charge  `json:"charge"`
}

// decisionJSON says what would follow from sending a request.
type decisionJSON struct {
	StartsAtOnce bool     `json:"starts_at_once"`
	Code         string   `json:"code"`
	Text         string   `json:"text"`
	Deciders     []string `json:"deciders"`       // names of those who would be asked; empty = nobody has to be
	NeedsPurpose bool     `json:"needs_purpose"`  // sending it is refused until it says what it is for
	Note         string   `json:"note,omitempty"` // what is still missing, as a sentence
}

// reasonJSON says why the state is what it is, as a code for programs and a sentence in the caller's language.
type reasonJSON struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

type ownerJSON struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// objectJSON names the RayCluster in Kubernetes.
type objectJSON struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// clusterJSON sums up what Kubernetes reported.
type clusterJSON struct {
	HeadReady     bool             `json:"head_ready"`     // the head pod is ready and Ray answers on it
	WorkersReady  int              `json:"workers_ready"`  // worker pods that run and are ready
	WorkersWanted int              `json:"workers_wanted"` // how many must be ready before the cluster is
	Connect       *connectJSON     `json:"connect"`        // null = no address yet
	Drift         []rayslice.Drift `json:"drift"`          // where Kubernetes differs from what was approved; shown, not undone
}

// connectJSON says where the cluster can be reached from inside Kubernetes.
type connectJSON struct {
	Client    string `json:"client"`     // for ray.init
	Dashboard string `json:"dashboard"`  // address of the dashboard and the jobs API
	JobSubmit string `json:"job_submit"` // a command to begin with
}

// requestPageJSON is one page of a list.
type requestPageJSON struct {
	Requests []requestJSON `json:"requests"`
	Next     *string       `json:"next"` // ?cursor= of the next page; null = this is the last one
}

// dryRunJSON is what a request would cost and apply.
type dryRunJSON struct {
	YAML          string          `json:"yaml"`
	Charge        rayslice.Charge `json:"charge"`
	Quota         quotaJSON       `json:"quota"`
	WouldFitQuota bool            `json:"would_fit_quota"`
	Decision      *decisionJSON   `json:"decision"` // null = it does not fit the quota, and would be refused
}

type quotaJSON struct {
	Team  string          `json:"team"`
	Limit rayslice.Charge `json:"limit"`
	Used  rayslice.Charge `json:"used"`
	Held  rayslice.Charge `json:"held"`
	Left  rayslice.Charge `json:"left"`
}

// apiCreateRequest asks for a cluster, or with ?dry_run=true says what would be asked for.
func (s *Server) apiCreateRequest(c echo.Context) error {
	key, err := idempotencyKey(c.Request())
	if err != nil {
		return err
	}
	dryRun, err := readDryRun(c.QueryParams())
	if err != nil {
		return err
	}
	draft, err := s.readDraft(c)
	if err != nil {
		return err
	}
	if dryRun {
		return s.apiDryRun(c, draft)
	}
	request, err := s.config.Store.CreateRequest(c.Request().Context(), user(c), draft, key)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/api/v1/requests/"+request.ID)
	return c.JSON(http.StatusCreated, s.toJSON(c, request, rayslice.Cluster{}, nil)) // nothing has been observed yet
}

// readDraft reads the body, completes it and checks it.
func (s *Server) readDraft(c echo.Context) (rayslice.RequestDraft, error) {
	if err := wantJSON(c); err != nil {
		return rayslice.RequestDraft{}, err
	}
	draft, err := rayslice.DecodeDraft(c.Request().Body)
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

// readDryRun refuses what is neither yes nor no, and every other name: somebody who meant a dry run must not get a
// cluster.
func readDryRun(query url.Values) (bool, error) {
	for name := range query {
		if name != "dry_run" {
			return false, rayslice.Invalid(rayslice.FieldError{Field: name, Code: rayslice.CodeUnknownField})
		}
	}
	values, asked := query["dry_run"]
	if !asked {
		return false, nil
	}
	if len(values) == 1 && (values[0] == "true" || values[0] == "false") {
		return values[0] == "true", nil
	}
	return false, rayslice.Invalid(rayslice.FieldError{Field: "dry_run", Code: rayslice.CodeType, Args: map[string]any{"want": "bool", "got": "text"}})
}

func (s *Server) apiDryRun(c echo.Context, draft rayslice.RequestDraft) error {
	ctx, actor := c.Request().Context(), user(c)
	yaml, err := s.preview(ctx, actor, draft)
	if err != nil {
		return err
	}
	quota, err := s.config.Store.Quota(ctx, actor, draft.Team)
	if err != nil {
		return err
	}
	decision, err := s.foreseen(c, draft, quota)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, dryRunJSON{
		Decision: decision,
		YAML:     yaml, Charge: draft.Charge(), WouldFitQuota: quota.Allow(draft.Charge()),
		Quota: quotaJSON{Team: quota.Team, Limit: quota.Limit, Used: quota.Used, Held: quota.Held, Left: quota.Left()},
	})
}

// foreseen says what would follow from sending the draft, and whether it lacks the purpose that a lead decides by; nil when
// it does not fit the quota, as nobody decides about that.
func (s *Server) foreseen(c echo.Context, draft rayslice.RequestDraft, quota rayslice.Quota) (*decisionJSON, error) {
	ctx, actor := c.Request().Context(), user(c)
	why, err := s.config.Store.WouldDecide(ctx, actor, draft)
	if err != nil || !quota.Allow(draft.Charge()) {
		return nil, err
	}
	d := &decisionJSON{StartsAtOnce: why.Code == rayslice.ReasonAutoApproved, Code: why.Code, Text: visitOf(c).locale.Reason(why), Deciders: []string{}}
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

// apiResendRequest changes what the caller's waiting request asks for and sends it again.
func (s *Server) apiResendRequest(c echo.Context) error {
	request, err := s.changeable(c)
	if err != nil {
		return err
	}
	if err := wantJSON(c); err != nil {
		return err
	}
	again, err := rayslice.DecodeResend(c.Request().Body)
	if err != nil {
		return err
	}
	fleet, err := s.config.Store.Fleet(c.Request().Context(), user(c))
	if err != nil {
		return err
	}
	if err := s.check(c.Request().Context(), user(c), &again.Draft, fleet); err != nil {
		return err
	}
	request, err = s.config.Store.ResendRequest(c.Request().Context(), user(c), request.ID, again.Revision, again.Draft, again.Reply)
	if err != nil {
		return err
	}
	return s.answerRequest(c, http.StatusOK, request)
}

// apiDecideRequest carries out what somebody signed in has decided. A token is refused whatever it sends.
func (s *Server) apiDecideRequest(c echo.Context) error {
	ctx, actor := c.Request().Context(), decider(c)
	id, err := requestID(c)
	if err != nil {
		return err
	}
	request, err := s.config.Store.Request(ctx, actor, id)
	if err != nil {
		return err
	}
	var decision rayslice.Decision
	if actor.MayDecide(request) == nil { // else the store refuses, and records it
		if err := wantJSON(c); err != nil {
			return err
		}
		if decision, err = rayslice.DecodeDecision(c.Request().Body, request.Draft); err != nil {
			return err
		}
		if decision.Terms != nil {
			if err := request.Draft.CheckTerms(*decision.Terms, s.config.Catalogue); err != nil {
				return err
			}
		}
	}
	decided, err := s.config.Store.DecideRequest(ctx, actor, id, decision)
	if err != nil {
		return err
	}
	return s.answerRequest(c, http.StatusOK, decided)
}

// apiRequests lists the requests the caller may see, newest first.
func (s *Server) apiRequests(c echo.Context) error {
	ctx, actor := c.Request().Context(), user(c)
	filter, err := readFilter(actor, c.QueryParams(), listLength)
	if err != nil {
		return err
	}
	found, err := s.requests(ctx, actor, filter)
	if err != nil {
		return err
	}
	rows, err := s.rows(ctx, actor, found.Requests)
	if err != nil {
		return err
	}
	fleet, err := s.config.Store.Fleet(ctx, actor)
	if err != nil {
		return err
	}
	answer := requestPageJSON{Requests: make([]requestJSON, len(rows))}
	for i, row := range rows {
		answer.Requests[i] = s.toJSON(c, row.Request, row.Cluster, fleet.Problems)
	}
	if found.Next != "" {
		answer.Next = &found.Next
	}
	return c.JSON(http.StatusOK, answer)
}

// apiRequest shows one request.
func (s *Server) apiRequest(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	request, err := s.config.Store.Request(c.Request().Context(), user(c), id)
	if err != nil {
		return err
	}
	return s.answerRequest(c, http.StatusOK, request)
}

// apiStopRequest stops a cluster. Stopping twice is stopping once.
func (s *Server) apiStopRequest(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	request, err := s.config.Store.StopRequest(c.Request().Context(), user(c), id)
	if err != nil {
		return err
	}
	return s.answerRequest(c, http.StatusOK, request)
}

func (s *Server) answerRequest(c echo.Context, status int, request rayslice.Request) error {
	details, err := s.details(c, request)
	if err != nil {
		return err
	}
	return c.JSON(status, details)
}

// details returns a request as programs see it, with what is known of its cluster.
func (s *Server) details(c echo.Context, request rayslice.Request) (requestJSON, error) {
	ctx, actor := c.Request().Context(), user(c)
	cluster, err := s.config.Store.Cluster(ctx, actor, request.ID)
	if err != nil {
		return requestJSON{}, err
	}
	fleet, err := s.config.Store.Fleet(ctx, actor)
	return s.toJSON(c, request, cluster, fleet.Problems), err
}

// toJSON puts a request into JSON; problems are those of Kubernetes as a whole.
func (s *Server) toJSON(c echo.Context, r rayslice.Request, cluster rayslice.Cluster, problems []rayslice.Reason) requestJSON {
	j := requestJSON{
		ID: r.ID, Team: r.Team, Name: r.Draft.Name, Purpose: r.Draft.Purpose, Hours: r.Draft.Hours, State: r.State,
		Owner: ownerJSON{r.Owner.Name, r.Owner.Email}, Charge: r.Charge, Head: r.Draft.Head, Groups: r.Draft.Groups,
		Image: r.Draft.Image, RayVersion: r.Draft.RayVersion, Env: orEmpty(r.Draft.Env), PullSecrets: append([]string{}, r.Draft.PullSecrets...),
		CreatedAt: r.CreatedAt, EndsAt: known(r.EndsAt), ReadyAt: known(r.ReadyAt), StoppedAt: known(r.StoppedAt),
		Object: objectJSON{r.Namespace, r.ObjectName()}, ObservedAt: known(cluster.ObservedAt),
	}
	j.Revision, j.SentAt, j.DecidedBy, j.Answer = r.Revision, r.SentAt, said(r.DecidedBy), said(r.Answer)
	if r.Asked != nil {
		j.Asked = &askedJSON{Hours: r.Asked.Hours, Groups: r.Asked.Groups, Charge: r.Asked.Charge()}
	}
	if !r.Reason.IsZero() {
		j.Reason = &reasonJSON{r.Reason.Code, visitOf(c).locale.Reason(r.Reason)}
	}
	now := s.now()
	j.Pending = toPendingJSON(visitOf(c).locale, rayslice.Explain(r, cluster, problems, now), now)
	if !cluster.ObservedAt.IsZero() {
		j.Cluster = &clusterJSON{
			HeadReady:    cluster.Head != nil && cluster.Head.Ready && cluster.HeadAnswers,
			WorkersReady: cluster.ReadyWorkers(), WorkersWanted: r.Draft.MinWorkers(), Connect: connect(cluster.Service),
			Drift: append([]rayslice.Drift{}, cluster.Drift...),
		}
	}
	return j
}

func connect(service string) *connectJSON {
	if service == "" {
		return nil
	}
	dashboard := "http://" + service + ":8265"
	return &connectJSON{
		Client: "ray://" + service + ":10001", Dashboard: dashboard,
		JobSubmit: "ray job submit --address " + dashboard + " -- python script.py",
	}
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

func orEmpty(env map[string]string) map[string]string {
	if env == nil {
		return map[string]string{}
	}
	return env
}
