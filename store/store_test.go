package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

func mustCreate(t testing.TB, s *store.Store, actor rayslice.User, draft rayslice.RequestDraft) rayslice.Request {
	t.Helper()
	r, err := s.CreateRequest(t.Context(), actor, draft, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustMove takes a request from state to state, without any reason.
func mustDecide(t testing.TB, s *store.Store, actor rayslice.User, id string, d rayslice.Decision) rayslice.Request {
	t.Helper()
	r, err := s.DecideRequest(t.Context(), actor, id, d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func approveRevision(revision int) rayslice.Decision {
	return rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: revision}
}

func mustMove(t testing.TB, s *store.Store, id string, states ...rayslice.State) {
	t.Helper()
	for i, to := range states[1:] {
		if err := s.Move(t.Context(), rayslice.System, id, states[i], to, rayslice.Reason{}, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// mustStop stops a request and confirms that its pods are gone.
func mustStop(t testing.TB, s *store.Store, actor rayslice.User, id string) {
	t.Helper()
	if err := stop(t.Context(), s, actor, id); err != nil {
		t.Fatal(err)
	}
}

func stop(ctx context.Context, s *store.Store, actor rayslice.User, id string) error {
	if _, err := s.StopRequest(ctx, actor, id); err != nil {
		return err
	}
	return s.Move(ctx, rayslice.System, id, rayslice.StateStopping, rayslice.StateStopped, rayslice.Reason{}, "")
}

// wantUsed checks what the team vision has used, and that the ledger says the same.
func wantUsed(t testing.TB, s *store.Store, want rayslice.Charge) {
	t.Helper()
	q, err := s.Quota(t.Context(), rayslice.System, "vision")
	if err != nil || q.Used != want {
		t.Errorf("used %v (%v), want %v", q.Used, err, want)
	}
	drift, err := s.QuotaDrift(t.Context(), rayslice.System)
	if err != nil || len(drift) > 0 {
		t.Errorf("drift %v, %v", drift, err)
	}
}

func wantKind(t testing.TB, err error, want rayslice.Kind) {
	t.Helper()
	_ = refusal(t, err, want)
}

// refusal returns the error as one of ours, of the wanted kind.
func refusal(t testing.TB, err error, want rayslice.Kind) *rayslice.Error {
	t.Helper()
	var e *rayslice.Error
	if !errors.As(err, &e) || e.Kind != want {
		t.Fatalf("got %v, want kind %s", err, want)
	}
	return e
}

func wantField(t testing.TB, err error, field, code string) {
	t.Helper()
	e := refusal(t, err, rayslice.KindInvalid)
	if len(e.Fields) != 1 || e.Fields[0].Field != field || e.Fields[0].Code != code {
		t.Errorf("got %v, want %s %s", err, field, code)
	}
}

// TestInsideTransaction shows that a Store on a transaction leaves nothing behind when that is rolled back.
func TestInsideTransaction(t *testing.T) {
	outside := storetest.New(t)
	people := storetest.Fill(t, outside, rayslice.Charge{GiB: 20})
	pool, err := pgxpool.New(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	undo := errors.New("undo")
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		inside := store.New(tx)
		r := mustCreate(t, inside, people.Ada, storetest.Draft(1, 8))
		_, err := inside.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 16), "")
		wantKind(t, err, rayslice.KindOverQuota)
		mustStop(t, inside, people.Ada, r.ID)
		wantUsed(t, inside, rayslice.Charge{})
		if err := inside.Listen(t.Context(), func(store.Change) {}); err == nil {
			t.Error("Listen inside a transaction did not refuse")
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	page, err := outside.Requests(t.Context(), people.Root, store.RequestFilter{})
	if err != nil || len(page.Requests) != 0 {
		t.Errorf("left behind: %v, %v", page, err)
	}
}

func TestUnreachableDatabaseIsUnavailable(t *testing.T) {
	s := storetest.Open(t, "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	wantKind(t, s.Ping(t.Context()), rayslice.KindUnavailable)
	_, err := s.User(t.Context(), rayslice.System, 1)
	wantKind(t, err, rayslice.KindUnavailable)
	wantKind(t, s.Move(t.Context(), rayslice.System, "x", rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, ""), rayslice.KindUnavailable)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Ping(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's own error", err)
	}
}

func TestUserAndTeams(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	lea, err := s.User(t.Context(), rayslice.System, people.Lea.ID)
	if err != nil || lea.Name != "Lea" || lea.Roles["vision"] != rayslice.RoleLead {
		t.Errorf("got %v, %v", lea, err)
	}
	_, err = s.User(t.Context(), rayslice.System, 999)
	wantKind(t, err, rayslice.KindNotFound)
	storetest.Exec(t, `UPDATE users SET disabled = true WHERE id = $1`, people.Bob.ID)
	_, err = s.User(t.Context(), rayslice.System, people.Bob.ID)
	wantKind(t, err, rayslice.KindForbidden)
	if personas, err := s.Personas(t.Context(), rayslice.System); err != nil || len(personas) != 4 {
		t.Errorf("personas with a disabled one: %v, %v", personas, err)
	}
	for actor, want := range map[*rayslice.User]int{&people.Ada: 1, &people.Root: 2} {
		teams, err := s.Teams(t.Context(), *actor)
		if err != nil || len(teams) != want {
			t.Errorf("%s sees %v, %v", actor.Name, teams, err)
		}
		quotas, err := s.Quotas(t.Context(), *actor)
		if err != nil || len(quotas) != want {
			t.Errorf("%s sees %v, %v", actor.Name, quotas, err)
		}
	}
	team, err := s.Team(t.Context(), people.Ada, "vision")
	if err != nil || team.Namespace != "team-vision" {
		t.Errorf("got %v, %v", team, err)
	}
	_, err = s.Team(t.Context(), people.Root, "no-such")
	wantKind(t, err, rayslice.KindNotFound)
	_, err = s.Quota(t.Context(), people.Root, "no-such")
	wantKind(t, err, rayslice.KindNotFound)
}

// TestOthersAreNotFound asks for everything of the team vision as somebody of another team.
func TestOthersAreNotFound(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	if err := s.SaveCluster(t.Context(), rayslice.System, rayslice.Cluster{RequestID: r.ID}); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	ask := map[string]func(id, team string) error{
		"Request":     func(id, _ string) error { _, err := s.Request(ctx, people.Sam, id); return err },
		"Cluster":     func(id, _ string) error { _, err := s.Cluster(ctx, people.Sam, id); return err },
		"Audit":       func(id, _ string) error { _, err := s.Audit(ctx, people.Sam, id); return err },
		"StopRequest": func(id, _ string) error { _, err := s.StopRequest(ctx, people.Sam, id); return err },
		"Team":        func(_, team string) error { _, err := s.Team(ctx, people.Sam, team); return err },
		"Quota":       func(_, team string) error { _, err := s.Quota(ctx, people.Sam, team); return err },
		"Requests": func(_, team string) error {
			_, err := s.Requests(ctx, people.Sam, store.RequestFilter{Team: team})
			return err
		},
	}
	for name, call := range ask {
		others, unknown := call(r.ID, "vision"), call("aaaaaaaaaaaa", "no-such-team")
		wantKind(t, others, rayslice.KindNotFound)
		if others.Error() != unknown.Error() {
			t.Errorf("%s: %v for another team's, %v for what does not exist", name, others, unknown)
		}
	}
	page, err := s.Requests(ctx, people.Sam, store.RequestFilter{})
	if err != nil || len(page.Requests) != 0 {
		t.Errorf("list shows %v, %v", page, err)
	}
	observed, err := s.Observed(ctx, people.Sam, []string{r.ID})
	if err != nil || len(observed) != 0 {
		t.Errorf("clusters show %v, %v", observed, err)
	}
	_, err = s.CreateRequest(ctx, people.Sam, storetest.Draft(1, 1), "")
	wantField(t, err, "team", rayslice.CodeTeamUnknown)
	_, err = s.CreateRequest(ctx, people.Root, storetest.Draft(1, 1), "")
	wantField(t, err, "team", rayslice.CodeTeamUnknown)
	wantUsed(t, s, rayslice.Charge{GiB: 8})
}

// TestTextPostgresCannotHold sends NUL and broken UTF-8 everywhere: an answer that names the fault, or recorded without.
func TestTextPostgresCannotHold(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	ctx := t.Context()
	bad := storetest.Draft(1, 1)
	bad.Name = "a\x00b"
	_, err := s.CreateRequest(ctx, people.Ada, bad, "")
	wantField(t, err, "body", rayslice.CodeCharacters)
	bad = storetest.Draft(1, 1)
	bad.Env = map[string]string{"A": "\x00"}
	_, err = s.CreateRequest(ctx, people.Ada, bad, "")
	wantField(t, err, "body", rayslice.CodeCharacters)
	for _, key := range []string{"\x00", "\xff"} {
		_, err = s.CreateRequest(ctx, people.Ada, storetest.Draft(1, 1), key)
		wantField(t, err, "Idempotency-Key", rayslice.CodeCharacters)
	}
	_, err = s.Requests(ctx, people.Ada, store.RequestFilter{Search: "\xff"})
	wantField(t, err, "body", rayslice.CodeCharacters)
	for _, id := range []string{"", "\x00", "\xff", "'", "rs-unknown"} {
		_, err = s.Request(ctx, people.Ada, id)
		wantKind(t, err, rayslice.KindNotFound)
		_, err = s.StopRequest(ctx, people.Ada, id)
		wantKind(t, err, rayslice.KindNotFound)
	}
	wantUsed(t, s, rayslice.Charge{})

	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	detail := "line\x00end \\u0000 \"\\\x00"
	if err := s.Move(ctx, rayslice.System, r.ID, rayslice.StateApproved, rayslice.StateAttention, rayslice.Reason{Code: rayslice.ReasonStuck, Detail: detail}, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveCluster(ctx, rayslice.System, rayslice.Cluster{RequestID: r.ID, Events: []rayslice.Event{{Message: detail}}}); err != nil {
		t.Fatal(err)
	}
	const want = "line\ufffdend \\u0000 \"\\\ufffd"
	if r, err = s.Request(ctx, people.Ada, r.ID); err != nil || r.Reason.Detail != want {
		t.Errorf("got %q, %v", r.Reason.Detail, err)
	}
	if c, err := s.Cluster(ctx, people.Ada, r.ID); err != nil || c.Events[0].Message != want {
		t.Errorf("got %v, %v", c, err)
	}
}

// count runs a query that counts on the test's database.
func count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// try runs SQL on the test's database as its owner.
func try(t testing.TB, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), sql)
	return err
}
