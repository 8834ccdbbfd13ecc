package handlers

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// portal is a Server on a private database with its people.
type portal struct {
	storetest.People
	t      testing.TB
	server *Server
	store  *store.Store
	log    *logBuffer

	adaToken, samToken string // of Ada and Sam, with every scope
}

// testCatalogue offers one pool of each mode; the share pool has not been allowed.
func testCatalogue() rayslice.Catalogue {
	return rayslice.Catalogue{
		Pools: []rayslice.Pool{
			{Name: "a10", Model: "NVIDIA A10", Mode: rayslice.ModeCGPU, CardGiB: 22, CardMiB: 23028, Sizes: []int{4, 8, 16, 22}, MaxCards: 1, NodeSelector: map[string]string{"card": "a10"}},
			{Name: "a10-core", Model: "NVIDIA A10", Mode: rayslice.ModeCoreMem, CardGiB: 22, Sizes: []int{4, 8, 16}, MaxCards: 1},
			{Name: "a10-share", Model: "NVIDIA A10", Mode: rayslice.ModeShare, CardGiB: 22, Sizes: []int{8}, MaxCards: 1},
			{Name: "a100", Model: "NVIDIA A100", Mode: rayslice.ModeWhole, CardGiB: 80, MaxCards: 8},
		},
		Images: []rayslice.Image{{Name: "ray 2.52", Ref: "rayproject/ray:2.52.0-py311", RayVersion: "2.52.0", Python: "3.11"}},
		Limits: rayslice.DefaultLimits(),
	}
}

// renderName is as much of rendering as these tests need: the renderer proper is tested where it lives.
func renderName(r rayslice.Request) (string, error) {
	return fmt.Sprintf("kind: RayCluster\nname: %s\nnamespace: %s\nowner: %s\n", r.ObjectName(), r.Namespace, r.Owner.Name), nil
}

// open starts a portal whose teams have 24 GiB and 2 cards each.
func open(t testing.TB, change ...func(*Config)) *portal {
	t.Helper()
	p := &portal{t: t, store: storetest.New(t), log: &logBuffer{}}
	p.People = storetest.Fill(t, p.store, rayslice.Charge{GiB: 24, Cards: 2})
	p.adaToken, p.samToken = p.newToken(p.Ada, rayslice.Scopes()...), p.newToken(p.Sam, rayslice.Scopes()...)
	sessions, err := pgxpool.New(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sessions.Close)
	config := Config{
		Store: p.store, Sessions: sessions, Catalogue: testCatalogue(), Render: renderName, Lint: testLinter(), Metrics: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewJSONHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Demo:   true, Version: "test", PublicURL: "http://portal.example",
		Reserved:  []string{"rayslice", "kuberay-system"},
		Unlimited: true, // TestLimits has the real ones
	}
	for _, f := range change {
		f(&config)
	}
	if p.server, err = New(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.server.Close)
	return p
}

// newToken makes an API token of a person.
func (p *portal) newToken(u rayslice.User, scopes ...rayslice.Scope) string {
	p.t.Helper()
	draft := rayslice.TokenDraft{Name: "test", Scopes: scopes, Days: 1}
	draft.Normalize()
	secret, _, err := p.store.CreateToken(p.t.Context(), u, draft)
	if err != nil {
		p.t.Fatal(err)
	}
	return secret
}

// logBuffer collects what was logged.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// visitor sends requests as somebody.
type visitor struct {
	p      *portal
	header http.Header
}

// nobody is a browser that has not signed in.
func (p *portal) nobody() visitor {
	return visitor{p, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Accept-Language": {"en"}}}
}

// as signs in through the sign-in form.
func (p *portal) as(u rayslice.User) visitor {
	p.t.Helper()
	v := p.nobody()
	got := v.post("/signin", url.Values{"user": {fmt.Sprint(u.ID)}})
	got.want(http.StatusSeeOther)
	cookies := got.Result().Cookies()
	if len(cookies) != 1 {
		p.t.Fatalf("cookies %v, want the session's", cookies)
	}
	return v.with("Cookie", cookies[0].Name+"="+cookies[0].Value)
}

// token is a program with a bearer token and no cookie.
func (p *portal) token(token string) visitor {
	return visitor{p, http.Header{"Authorization": {"Bearer " + token}}}
}

// with returns the visitor with one header set; "" removes it.
func (v visitor) with(name, value string) visitor {
	v.header = v.header.Clone()
	v.header.Set(name, value)
	if value == "" {
		v.header.Del(name)
	}
	return v
}

func (v visitor) get(path string) answer { return v.send(http.MethodGet, path, nil) }

func (v visitor) post(path string, form url.Values) answer {
	return v.with("Content-Type", "application/x-www-form-urlencoded").send(http.MethodPost, path, strings.NewReader(form.Encode()))
}

func (v visitor) postJSON(path, body string) answer {
	return v.with("Content-Type", "application/json").send(http.MethodPost, path, strings.NewReader(body))
}

func (v visitor) send(method, path string, body io.Reader) answer {
	v.p.t.Helper()
	var sent []byte
	if text, ok := body.(*strings.Reader); ok { // others come piece by piece, and are for refusals
		sent, _ = io.ReadAll(text)
		body = strings.NewReader(string(sent))
	}
	r := httptest.NewRequest(method, "http://portal.example"+path, body)
	r.Header = v.header.Clone()
	a := answer{httptest.NewRecorder(), v.p.t, method + " " + path}
	v.p.server.ServeHTTP(a.ResponseRecorder, r)
	if strings.HasPrefix(path, "/api/v1/") {
		checkSpec(v.p.t, r, sent, a)
	}
	return a
}

// answer is what came back.
type answer struct {
	*httptest.ResponseRecorder
	t    testing.TB
	what string
}

// want fails the test on another status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.Code != status {
		a.t.Fatalf("%s: status %d, want %d\n%s", a.what, a.Code, status, a.Body)
	}
	return a
}

// location returns where a redirect leads.
func (a answer) location() string { return a.Header().Get("Location") }

// page parses HTML.
func (a answer) page() *goquery.Document {
	a.t.Helper()
	if got := a.Header().Get("Content-Type"); got != "text/html; charset=UTF-8" {
		a.t.Fatalf("%s: content type %q, want HTML", a.what, got)
	}
	doc, err := goquery.NewDocumentFromReader(a.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return doc
}

// decode parses JSON.
func (a answer) decode(dst any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body.Bytes(), dst); err != nil {
		a.t.Fatalf("%s: %v\n%s", a.what, err, a.Body)
	}
}

// problem parses problem details.
func (a answer) problem() problem {
	a.t.Helper()
	if got := a.Header().Get("Content-Type"); got != "application/problem+json" {
		a.t.Fatalf("%s: content type %q, want a problem\n%s", a.what, got, a.Body)
	}
	var p problem
	a.decode(&p)
	return p
}

// problem is a problem as a client reads it.
type problem struct {
	Type      string
	Code      string
	Title     string
	Status    int
	Detail    string
	RequestID string `json:"request_id"`
	Errors    []struct{ Field, Code, Detail string }
	Team      string
	Limit     *rayslice.Charge
	Used      *rayslice.Charge
	Held      *rayslice.Charge
	Asked     *rayslice.Charge
	Left      *rayslice.Charge
}

// goodForm is a form that is accepted: two workers of 8 GiB.
func goodForm() url.Values {
	return url.Values{
		"team": {"vision"}, "name": {"ablation-7"}, "hours": {"8"}, "image": {"rayproject/ray:2.52.0-py311"},
		"head.cpu": {"2"}, "head.memory_gib": {"8"},
		"groups[0].size": {"a10:8"}, "groups[0].workers": {"2"}, "groups[0].cpu": {"4"}, "groups[0].memory_gib": {"16"},
		"idempotency_key": {"KEY-OF-THE-FORM"},
	}
}

// goodBody is the same as JSON.
const goodBody = `{"team":"vision","name":"ablation-7","pool":"a10","slice_gib":8,"workers":2}`

// countRequests says how many requests were made in all.
func (p *portal) countRequests() int {
	p.t.Helper()
	found, err := p.store.Requests(p.t.Context(), p.Root, store.RequestFilter{})
	if err != nil {
		p.t.Fatal(err)
	}
	return len(found.Requests)
}

// create makes a request as its owner.
func (p *portal) create(owner rayslice.User, draft rayslice.RequestDraft) rayslice.Request {
	p.t.Helper()
	request, err := p.store.CreateRequest(p.t.Context(), owner, draft, "")
	if err != nil {
		p.t.Fatal(err)
	}
	return request
}
