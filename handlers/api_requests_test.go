package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestAPIStory creates, shows, lists and stops a request as a notebook does: a token and no cookie (B127).
func TestAPIStory(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.token(p.adaToken)

	created := ada.postJSON("/api/v1/requests", goodBody).want(http.StatusCreated)
	var got map[string]any
	created.decode(&got)
	timeless(t, got)
	id, _ := got["id"].(string)
	if created.Header().Get("Location") != "/api/v1/requests/"+id {
		t.Errorf("Location %q of request %q", created.Header().Get("Location"), id)
	}
	want := map[string]any{
		"id": id, "team": "vision", "name": "ablation-7", "purpose": "", "hours": 8.0, "state": "approved",
		"revision": 1.0, "asked": nil, "decided_by": nil, "answer": nil, "sent_at": got["created_at"],
		"reason": got["reason"],
		"owner":  map[string]any{"name": "Ada", "email": "ada@example.org"},
		"charge": map[string]any{"gib": 16.0, "cards": 0.0},
		"head":   map[string]any{"cpu": 2.0, "memory_gib": 8.0},
		"groups": []any{map[string]any{"name": "a10-8g", "pool": "a10", "slice_gib": 8.0, "core_percent": 0.0, "per_pod": 1.0,
			"workers": 2.0, "min_workers": 2.0, "max_workers": 2.0, "cpu": 4.0, "memory_gib": 16.0, "spread": false}},
		"image": "rayproject/ray:2.52.0-py311", "ray_version": "2.52.0", "python_version": "3.11", "env": map[string]any{}, "pull_secrets": []any{}, "unverified": false,
		"created_at": got["created_at"], "ends_at": got["ends_at"], "ready_at": nil, "stopped_at": nil,
		"object":  map[string]any{"namespace": "team-vision", "name": "rs-" + id},
		"cluster": nil, "observed_at": nil, "dashboard_url": nil, "verification": nil, "pending": got["pending"],
	}
	if pending, _ := got["pending"].(map[string]any); pending["stage"] != "create" || len(pending["conditions"].([]any)) != 0 {
		t.Errorf("pending %v", pending)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if _, err := time.Parse(time.RFC3339, fmt.Sprint(got["created_at"])); err != nil {
		t.Errorf("created_at: %v", err)
	}

	var shown map[string]any
	ada.get("/api/v1/requests/" + id).want(http.StatusOK).decode(&shown)
	timeless(t, shown)
	if diff := cmp.Diff(got, shown); diff != "" {
		t.Errorf("shown (-created +shown):\n%s", diff)
	}
	var list struct {
		Requests []map[string]any
		Next     *string
	}
	ada.get("/api/v1/requests?team=vision&state=approved&q=ablation&limit=5").want(http.StatusOK).decode(&list)
	for _, listed := range list.Requests {
		timeless(t, listed)
	}
	if diff := cmp.Diff([]map[string]any{shown}, list.Requests); diff != "" || list.Next != nil {
		t.Errorf("list, next %v (-want +got):\n%s", list.Next, diff)
	}

	var stopped map[string]any
	ada.send(http.MethodPost, "/api/v1/requests/"+id+"/stop", nil).want(http.StatusOK).decode(&stopped)
	if stopped["state"] != "stopping" {
		t.Errorf("state %v after stop, want stopping", stopped["state"])
	}
	ada.send(http.MethodPost, "/api/v1/requests/"+id+"/stop", nil).want(http.StatusOK) // stopping twice is stopping once
}

// timeless takes the sentence that says how long a request has waited out of its JSON, after a look at it.
func timeless(t *testing.T, request map[string]any) {
	t.Helper()
	pending, _ := request["pending"].(map[string]any)
	if text, _ := pending["text"].(string); !strings.Contains(text, " now") {
		t.Errorf("the sentence is %q", text)
	}
	delete(pending, "text")
}

// TestAPIPending says what a request waits for: stage, conditions with what to do, attempts; in the caller's language.
func TestAPIPending(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(2, 8))
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	const message = "0/6 nodes are available: 6 Insufficient <script>."
	waits := rayslice.Worker{Name: "w1", CreatedAt: at, Problem: rayslice.Reason{Code: rayslice.ReasonUnschedulable, Detail: message}}
	cluster := rayslice.Cluster{RequestID: request.ID, ObservedAt: at, Exists: true, Ours: true, Head: &rayslice.Worker{Name: "h", Ready: true}, Workers: []rayslice.Worker{waits},
		Events: []rayslice.Event{{At: at.Add(time.Minute), First: at, Warning: true, Object: "Pod/w1", Reason: "FailedScheduling", Message: message, Count: 4}}}
	if err := p.store.SaveCluster(t.Context(), rayslice.System, cluster); err != nil {
		t.Fatal(err)
	}
	if err := p.store.Move(t.Context(), rayslice.System, request.ID, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, "uid"); err != nil {
		t.Fatal(err)
	}
	var got struct{ Pending *pendingJSON }
	p.token(p.adaToken).get("/api/v1/requests/" + request.ID).want(http.StatusOK).decode(&got)
	if got.Pending == nil || !strings.HasPrefix(got.Pending.Text, "Waits for its workers; 0 of 2 are ready, for ") {
		t.Fatalf("pending %+v", got.Pending)
	}
	got.Pending.Text = ""
	want := &pendingJSON{Stage: rayslice.StageWorkers, Since: &at,
		Conditions: []conditionJSON{{Code: rayslice.ReasonRoomOther, Text: "Not enough of another resource, <script> (nodes: 6).", Detail: said("6 Insufficient <script>"), Pods: 1,
			Next: "It starts by itself when there is room. To have it sooner, stop it and ask for fewer or smaller slices, or for another pool.", Who: new(rayslice.PartyOwner)}},
		Attempts: []attemptJSON{{Reason: "FailedScheduling", Kind: "Pod", Objects: 1, Count: 4, First: at, Last: at.Add(time.Minute), Warning: true, Message: message}}}
	if diff := cmp.Diff(want, got.Pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

// TestAPIObservedCluster shows what Kubernetes reported, and null for what it did not.
func TestAPIObservedCluster(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.create(p.Ada, storetest.Draft(2, 8))
	observed := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	cluster := rayslice.Cluster{RequestID: request.ID, ObservedAt: observed, Exists: true, Ours: true,
		Workers: []rayslice.Worker{{Name: "w1", Ready: true}, {Name: "w2"}}}
	type summary struct {
		Cluster    *api.Cluster
		ObservedAt *time.Time `json:"observed_at"`
	}
	look := func() (s summary) {
		if err := p.store.SaveCluster(t.Context(), rayslice.System, cluster); err != nil {
			t.Fatal(err)
		}
		p.token(p.adaToken).get("/api/v1/requests/" + request.ID).want(http.StatusOK).decode(&s)
		return s
	}
	if diff := cmp.Diff(summary{&api.Cluster{WorkersReady: 1, WorkersWanted: 2, Drift: []rayslice.Drift{}}, &observed}, look()); diff != "" {
		t.Errorf("without a head (-want +got):\n%s", diff)
	}
	cluster.Head, cluster.HeadAnswers, cluster.Service = &rayslice.Worker{Name: "h", Ready: true}, true, "rs-x-head-svc.team-vision.svc"
	cluster.Drift = []rayslice.Drift{{Field: "spec.workerGroupSpecs[0].replicas", Approved: "2", Observed: "4", Manager: "kubectl-edit"}}
	want := &api.Connect{
		Client: "ray://rs-x-head-svc.team-vision.svc:10001", Dashboard: "http://rs-x-head-svc.team-vision.svc:8265",
		JobSubmit: "ray job submit --address http://rs-x-head-svc.team-vision.svc:8265 --working-dir . -- python train.py",
	}
	if diff := cmp.Diff(summary{&api.Cluster{HeadReady: true, WorkersReady: 1, WorkersWanted: 2, Connect: want, Drift: cluster.Drift}, &observed}, look()); diff != "" {
		t.Errorf("with a head (-want +got):\n%s", diff)
	}
}

// TestAPIVerificationBadge has the same badge for one request and in the list, and null while nothing is known.
func TestAPIVerificationBadge(t *testing.T) {
	t.Parallel()
	p := open(t)
	request := p.running()
	type badge struct{ Verification *api.Badge }
	look := func(what string, want *api.Badge) {
		t.Helper()
		var one badge
		var list struct{ Requests []badge }
		p.token(p.adaToken).get("/api/v1/requests/" + request.ID).want(http.StatusOK).decode(&one)
		p.token(p.adaToken).get("/api/v1/requests").want(http.StatusOK).decode(&list)
		if diff := cmp.Diff([]badge{{want}, {want}}, append(list.Requests, one)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	look("nobody has looked", nil)
	storetest.Exec(t, `INSERT INTO verifications (run, request_id, pods) VALUES ('run', $1, '{uid-a}')`, request.ID)
	look("while it is verified", nil)
	enforced := rayslice.Certificate{At: time.Now(), Target: rayslice.Target{Pod: "worker-a", PodUID: "uid-a"}, Judgement: rayslice.Judgement{Enforcement: rayslice.Enforced}}
	if err := p.store.FinishVerification(t.Context(), rayslice.System, "run", rayslice.Reason{}, []rayslice.Certificate{enforced}); err != nil {
		t.Fatal(err)
	}
	look("afterwards", &api.Badge{Enforcement: rayslice.Enforced, Workers: 1, Enforced: 1})
	storetest.Exec(t, `UPDATE certificates SET node = 'another'`)
	look("on another node", &api.Badge{Enforcement: rayslice.OutOfDate, Workers: 1})
	storetest.Exec(t, `UPDATE requests SET state = 'stopped' WHERE id = $1`, request.ID)
	look("once it is over", nil)
}

// TestAPIWayIn names the way through the portal where there is one: in the list, for one request and on its page alike.
func TestAPIWayIn(t *testing.T) {
	t.Parallel()
	const inside = "rs-ID-head-svc.team-vision.svc"
	for domain, want := range map[string]api.Connect{
		"": {Dashboard: "http://" + inside + ":8265", JobSubmit: "ray job submit --address http://" + inside + ":8265 --working-dir . -- python train.py"},
		"clusters.example": {Dashboard: "http://ID.clusters.example",
			JobSubmit: `ray job submit --address http://ID.clusters.example --headers "{\"Authorization\": \"Bearer $RAYSLICE_TOKEN\"}" --working-dir . -- python train.py`},
		"clusters.localhost": {Dashboard: "http://ID.clusters.localhost",
			JobSubmit: `ray job submit --address http://portal.example --headers "{\"Host\": \"ID.clusters.localhost\", \"Authorization\": \"Bearer $RAYSLICE_TOKEN\"}" --working-dir . -- python train.py`},
	} {
		p := open(t, func(config *Config) { config.ClustersDomain = domain })
		request := p.create(p.Ada, storetest.Draft(1, 8))
		p.run(request)
		var one api.Request
		var list api.RequestPage
		p.token(p.adaToken).get("/api/v1/requests/" + request.ID).want(http.StatusOK).decode(&one)
		p.token(p.adaToken).get("/api/v1/requests").want(http.StatusOK).decode(&list)
		want.Client = "ray://" + inside + ":10001"
		for what, got := range map[string]api.Request{"one": one, "list": list.Requests[0]} {
			connect := *got.Cluster.Connect
			connect.Client, connect.Dashboard, connect.JobSubmit = hideID(connect.Client, request), hideID(connect.Dashboard, request), hideID(connect.JobSubmit, request)
			if diff := cmp.Diff(want, connect); diff != "" {
				t.Errorf("%q, %s (-want +got):\n%s", domain, what, diff)
			}
			if through := got.DashboardUrl != nil; through != (domain != "") || through && *got.DashboardUrl != got.Cluster.Connect.Dashboard {
				t.Errorf("%q, %s: dashboard_url %v", domain, what, got.DashboardUrl)
			}
		}
		line := p.as(p.Ada).get("/clusters/" + request.ID).want(http.StatusOK).page().Find("#connect-job").Text()
		if got := strings.ReplaceAll(line, " \\\n  ", " "); got != one.Cluster.Connect.JobSubmit {
			t.Errorf("%q: the page says\n%s\nand the API\n%s", domain, got, one.Cluster.Connect.JobSubmit)
		}
	}
}

func hideID(text string, request rayslice.Request) string {
	return strings.ReplaceAll(text, request.ID, "ID")
}

// TestAPIRefusals sends bad bodies and expects the status, the field and its code, and nothing written.
func TestAPIRefusals(t *testing.T) {
	t.Parallel()
	p := open(t)
	body := func(field string) string { // goodBody with one field replaced or added
		name, _, _ := strings.Cut(field, ":")
		rest := ""
		for _, f := range []string{`"team":"vision"`, `"name":"ablation-7"`, `"pool":"a10"`, `"slice_gib":8`, `"workers":2`} {
			if !strings.HasPrefix(f, name+":") {
				rest += "," + f
			}
		}
		return "{" + field + rest + "}"
	}
	tests := map[string]struct {
		body      string
		wantField string
		wantCode  string
	}{
		"B011 chooses a card":       {body(`"env":{"CUDA_VISIBLE_DEVICES":"3"}`), "env.CUDA_VISIBLE_DEVICES", rayslice.CodeReservedName},
		"B019 10G":                  {body(`"slice_gib":"10G"`), "slice_gib", rayslice.CodeType},
		"B019 8.5":                  {body(`"slice_gib":8.5`), "slice_gib", rayslice.CodeType},
		"B019 0":                    {body(`"slice_gib":0`), "groups[0].slice_gib", rayslice.CodeSizeNotOffered},
		"B019 -1":                   {body(`"slice_gib":-1`), "groups[0].slice_gib", rayslice.CodeSizeNotOffered},
		"B019 1e3":                  {body(`"slice_gib":1e3`), "slice_gib", rayslice.CodeType},
		"B019 a blank before it":    {body(`"slice_gib":" 8"`), "slice_gib", rayslice.CodeType},
		"B026 more than a card":     {body(`"slice_gib":24`), "groups[0].slice_gib", rayslice.CodeTooLargeForCard},
		"B037 33 percent":           {body(`"pool":"a10-core","core_percent":33`), "groups[0].core_percent", rayslice.CodeCoreStep},
		"B038 share is closed":      {body(`"pool":"a10-share"`), "groups[0].pool", rayslice.CodePoolClosed},
		"B041 two half cards":       {body(`"per_pod":2`), "groups[0].per_pod", rayslice.CodeCardsRange},
		"B052 percent on cgpu":      {body(`"core_percent":10`), "groups[0].core_percent", rayslice.CodeCoreNotHere},
		"B094 small head":           {body(`"head":{"memory_gib":1}`), "head.memory_gib", rayslice.CodeHeadMemoryFloor},
		"B097 801 workers":          {body(`"workers":801`), "groups[0].workers", rayslice.CodeRange},
		"B104 unknown team":         {body(`"team":"no-such"`), "team", rayslice.CodeTeamUnknown},
		"T30 somebody else's team":  {body(`"team":"speech"`), "team", rayslice.CodeTeamUnknown},
		"T25 other digits":          {body(`"slice_gib":"٨"`), "slice_gib", rayslice.CodeType},
		"T25 NUL behind the number": {body(`"slice_gib":"8\u0000"`), "slice_gib", rayslice.CodeType},
		"T25 overflow":              {body(`"slice_gib":9223372036854775808`), "slice_gib", rayslice.CodeType},
		"T25 workers 0":             {body(`"workers":0`), "groups[0].workers", rayslice.CodeRange},
		"T25 size × workers":        {body(`"workers":9223372036854775807`), "groups[0].workers", rayslice.CodeRange},
		"T26 NUL in the name":       {body(`"name":"a\u0000b"`), "name", rayslice.CodeCharacters},
		"T31 status":                {body(`"status":"approved"`), "status", rayslice.CodeUnknownField},
		"T31 approved_by":           {body(`"approved_by":"ada"`), "approved_by", rayslice.CodeUnknownField},
		"not JSON":                  {`team=vision`, "body", rayslice.CodeNotJSON},
		"empty":                     {``, "body", rayslice.CodeNotJSON},
		"two objects":               {goodBody + goodBody, "body", rayslice.CodeNotJSON},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/api/v1/requests", "/api/v1/requests?dry_run=true"} {
				got := p.token(p.adaToken).postJSON(path, tc.body).want(http.StatusUnprocessableEntity).problem()
				if len(got.Errors) != 1 || got.Errors[0].Field != tc.wantField || got.Errors[0].Code != tc.wantCode || got.Errors[0].Detail == "" {
					t.Errorf("%s: got %+v, want only %s %s with a detail", path, got.Errors, tc.wantField, tc.wantCode)
				}
				if got.Type != "urn:rayslice:problem:invalid_fields" || got.Status != http.StatusUnprocessableEntity || got.RequestID == "" {
					t.Errorf("%s: got %+v", path, got)
				}
			}
		})
	}
	if n := p.countRequests(); n != 0 {
		t.Errorf("%d requests were written", n)
	}
}

// TestAPIBodies refuses what is not JSON by its type, and what is too long.
func TestAPIBodies(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.token(p.adaToken)
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ";"} {
		got := ada.with("Content-Type", contentType).send(http.MethodPost, "/api/v1/requests", strings.NewReader(goodBody)).want(http.StatusUnsupportedMediaType).problem()
		if got.Code != "unsupported_media_type" {
			t.Errorf("%q: code %s", contentType, got.Code)
		}
	}
	ada.with("Content-Type", "application/json; charset=utf-8").send(http.MethodPost, "/api/v1/requests?dry_run=true", strings.NewReader(goodBody)).want(http.StatusOK)

	long := strings.Repeat(" ", maxBody) + goodBody
	if got := ada.postJSON("/api/v1/requests", long).want(http.StatusRequestEntityTooLarge).problem(); got.Code != "too_large" {
		t.Errorf("code %s", got.Code)
	}
	undeclared := struct{ *strings.Reader }{strings.NewReader(long)} // a reader whose length net/http cannot know
	ada.with("Content-Type", "application/json").send(http.MethodPost, "/api/v1/requests", undeclared).want(http.StatusRequestEntityTooLarge)
	p.as(p.Ada).with("Content-Type", "application/x-www-form-urlencoded").
		send(http.MethodPost, "/clusters", struct{ *strings.Reader }{strings.NewReader("name=" + long)}).want(http.StatusRequestEntityTooLarge).page()
	if n := p.countRequests(); n != 0 {
		t.Errorf("%d requests were written", n)
	}
}

// TestDryRun says what a request would cost and apply, and writes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.token(p.adaToken)
	var got api.DryRun
	ada.postJSON("/api/v1/requests?dry_run=true", goodBody).want(http.StatusOK).decode(&got)
	want := api.DryRun{
		Yaml:   "kind: RayCluster\nname: rs-" + previewID + "\nnamespace: team-vision\nowner: Ada\n",
		Charge: rayslice.Charge{GiB: 16}, WouldFitQuota: true,
		Quota:    api.Quota{Team: "vision", Limit: rayslice.Charge{GiB: 24, Cards: 2}, Left: rayslice.Charge{GiB: 24, Cards: 2}},
		Decision: &api.Foreseen{StartsAtOnce: true, Code: rayslice.ReasonAutoApproved, Text: "Within the team's quota: approved at once.", Deciders: []string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ada.postJSON("/api/v1/requests?dry_run=true", strings.Replace(goodBody, `"workers":2`, `"workers":4`, 1)).want(http.StatusOK).decode(&got)
	if got.WouldFitQuota || got.Charge.GiB != 32 || got.Decision != nil {
		t.Errorf("32 of 24 GiB: charge %v, fits %v, decision %v", got.Charge, got.WouldFitQuota, got.Decision)
	}
	for query, field := range map[string]string{"dry_run=yes": "dry_run", "dry_run=": "dry_run", "dry_run=false&dry_run=true": "dry_run", "dryrun=true": "dryrun"} {
		if e := ada.postJSON("/api/v1/requests?"+query, goodBody).want(http.StatusUnprocessableEntity).problem().Errors; len(e) != 1 || e[0].Field != field {
			t.Errorf("%s: %+v", query, e)
		}
	}
	if n := p.countRequests(); n != 0 {
		t.Errorf("%d requests were written", n)
	}
	entries, err := p.store.Quotas(t.Context(), p.Ada)
	if err != nil || entries[0].Used != (rayslice.Charge{}) {
		t.Errorf("quota %v (%v), want nothing used", entries, err)
	}
}

// TestDryRunWithoutPurpose says that a lead would be asked, and what is missing for that; sending it says why as well.
func TestDryRunWithoutPurpose(t *testing.T) {
	t.Parallel()
	p := open(t)
	if err := p.store.SetRules(t.Context(), p.Lea, "vision", rayslice.Rules{Auto: rayslice.Charge{GiB: 8}, AutoHours: 24}); err != nil {
		t.Fatal(err)
	}
	ada := p.token(p.adaToken)
	body := strings.Replace(goodBody, `"team":`, `"purpose":"","team":`, 1)
	var got api.DryRun
	ada.postJSON("/api/v1/requests?dry_run=true", body).want(http.StatusOK).decode(&got)
	if d := got.Decision; d == nil || d.StartsAtOnce || d.Code != rayslice.ReasonNeedsLeadGiB || !d.NeedsPurpose || !strings.Contains(d.Note, "what it is for") || len(d.Deciders) == 0 {
		t.Errorf("%+v", got.Decision)
	}
	errors := ada.postJSON("/api/v1/requests", body).want(http.StatusUnprocessableEntity).problem().Errors
	if len(errors) != 1 || errors[0].Field != "purpose" || errors[0].Code != rayslice.CodePurposeNeeded || !strings.Contains(errors[0].Detail, "16 GiB") {
		t.Errorf("%+v", errors)
	}
}

// TestAPIOverQuota gives the numbers as members.
func TestAPIOverQuota(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.create(p.Bob, storetest.Draft(2, 8))
	got := p.token(p.adaToken).postJSON("/api/v1/requests", goodBody).want(http.StatusConflict).problem()
	want := problem{
		Type: "urn:rayslice:problem:over_quota", Code: "over_quota", Title: "Conflict", Status: http.StatusConflict, Detail: got.Detail, RequestID: got.RequestID,
		Team: "vision", Limit: &rayslice.Charge{GiB: 24, Cards: 2}, Used: &rayslice.Charge{GiB: 16}, Held: &rayslice.Charge{},
		Asked: &rayslice.Charge{GiB: 16}, Left: &rayslice.Charge{GiB: 8, Cards: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ada := p.token(p.adaToken).with("Accept-Language", "zh-CN")
	if chinese := ada.postJSON("/api/v1/requests", goodBody).want(http.StatusConflict); chinese.problem().Detail == got.Detail || chinese.Header().Get("Content-Language") != "zh-CN" {
		t.Errorf("the detail is the same in Chinese: %q", got.Detail)
	}
}

// TestIdempotencyKey is T04.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.token(p.adaToken).with("Idempotency-Key", "notebook-cell-7")
	var first, second api.Request
	ada.postJSON("/api/v1/requests", goodBody).want(http.StatusCreated).decode(&first)
	ada.postJSON("/api/v1/requests", goodBody).want(http.StatusCreated).decode(&second)
	if first.Id != second.Id {
		t.Errorf("%s and %s, want one request", first.Id, second.Id)
	}
	other := strings.Replace(goodBody, "ablation-7", "other", 1)
	if got := ada.postJSON("/api/v1/requests", other).want(http.StatusUnprocessableEntity).problem(); got.Code != codeKeyReused {
		t.Errorf("code %s, want %s", got.Code, codeKeyReused)
	}
	sam := p.token(p.samToken).with("Idempotency-Key", "notebook-cell-7")
	sam.postJSON("/api/v1/requests", strings.Replace(goodBody, "vision", "speech", 1)).want(http.StatusCreated)
	if n := p.countRequests(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	for _, key := range []string{"", "with blank", "tab\there", "schlüssel", strings.Repeat("k", 256)} {
		v := p.token(p.adaToken)
		v.header.Set("Idempotency-Key", key)
		got := v.postJSON("/api/v1/requests", goodBody).want(http.StatusUnprocessableEntity).problem()
		if len(got.Errors) != 1 || got.Errors[0].Field != "Idempotency-Key" {
			t.Errorf("%q: %+v", key, got.Errors)
		}
	}
}

// TestAPIPages follows the cursor through the list.
func TestAPIPages(t *testing.T) {
	t.Parallel()
	p := open(t)
	draft := storetest.Draft(1, 8)
	draft.Groups[0].Slice = rayslice.Slice{}
	want := map[string]bool{}
	for range 5 {
		want[p.create(p.Ada, draft).ID] = true
	}
	path, pages := "/api/v1/requests?limit=2", 0
	for ; path != ""; pages++ {
		var got api.RequestPage
		p.token(p.adaToken).get(path).want(http.StatusOK).decode(&got)
		for _, r := range got.Requests {
			if !want[r.Id] {
				t.Errorf("%s came twice or unasked", r.Id)
			}
			delete(want, r.Id)
		}
		path = ""
		if got.Next != nil {
			path = "/api/v1/requests?limit=2&cursor=" + *got.Next
		}
	}
	if pages != 3 || len(want) != 0 {
		t.Errorf("%d pages, %d requests missing", pages, len(want))
	}
	var strangers api.RequestPage
	p.token(p.samToken).get("/api/v1/requests").want(http.StatusOK).decode(&strangers)
	if len(strangers.Requests) != 0 || strangers.Requests == nil {
		t.Errorf("a stranger sees %v, want an empty list", strangers.Requests)
	}
	if found, err := p.store.Requests(t.Context(), p.Sam, store.RequestFilter{}); err != nil || len(found.Requests) != 0 {
		t.Errorf("the store shows a stranger %v (%v)", found, err)
	}
}
