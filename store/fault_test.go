package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// injector raises an SQLSTATE in the test's database the first few times a statement runs. A sequence counts, because it
// alone survives a rollback.
const injector = `
	CREATE SEQUENCE injected;
	CREATE FUNCTION inject() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF nextval('injected') <= TG_ARGV[1]::int THEN
			RAISE EXCEPTION 'injected' USING ERRCODE = TG_ARGV[0];
		END IF;
		RETURN NULL;
	END
	$$;`

// inject makes the next n runs of one statement fail; what is like "INSERT ON requests". Only the latest injection holds.
func inject(t *testing.T, what, sqlState string, n int) {
	t.Helper()
	create := "CREATE TRIGGER inject AFTER " + what + " FOR EACH STATEMENT"
	if what == atCommit {
		create = "CREATE CONSTRAINT TRIGGER inject AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
	}
	stopInjecting(t)
	storetest.Exec(t, fmt.Sprintf("%s EXECUTE FUNCTION inject('%s', '%d')", create, sqlState, n))
}

func stopInjecting(t *testing.T) {
	t.Helper()
	storetest.Exec(t, `
		DROP TRIGGER IF EXISTS inject ON requests;
		DROP TRIGGER IF EXISTS inject ON audit;
		DROP TRIGGER IF EXISTS inject ON quotas;
		DROP TRIGGER IF EXISTS inject ON charges;
		DROP TRIGGER IF EXISTS inject ON idempotency_keys;
		ALTER SEQUENCE injected RESTART`)
}

const atCommit = "COMMIT"

// TestT17AbortedTransactionsAreTriedAgain is also B073: every statement of charge and release is aborted four times and
// still does its work once; aborted five times it does nothing, says so, and works the next time.
func TestT17AbortedTransactionsAreTriedAgain(t *testing.T) {
	for _, sqlState := range []string{"40001", "40P01", "55P03"} {
		t.Run(sqlState, func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
			storetest.Exec(t, injector)
			for _, what := range []string{"INSERT ON idempotency_keys", "INSERT ON requests", "INSERT ON audit", "UPDATE ON quotas", "INSERT ON charges", atCommit} {
				chargeInjected(t, s, people.Ada, what, sqlState)
			}
			for _, what := range []string{"UPDATE ON requests", "INSERT ON audit", "UPDATE ON charges", "UPDATE ON quotas", atCommit} {
				releaseInjected(t, s, people.Ada, what, sqlState)
			}
			wantAuditChains(t)
		})
	}
}

func chargeInjected(t *testing.T, s *store.Store, ada rayslice.User, what, sqlState string) {
	t.Helper()
	create := func() (rayslice.Request, error) {
		return s.CreateRequest(t.Context(), ada, storetest.Draft(1, 8), rayslice.NewRequestID())
	}
	inject(t, what, sqlState, 5)
	_, err := create()
	wantBusy(t, what, err)
	wantUsed(t, s, rayslice.Charge{})
	inject(t, what, sqlState, 4)
	r, err := create()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	wantUsed(t, s, rayslice.Charge{GiB: 8})
	stopInjecting(t)
	mustStop(t, s, ada, r.ID)
}

func releaseInjected(t *testing.T, s *store.Store, ada rayslice.User, what, sqlState string) {
	t.Helper()
	stopInjecting(t)
	r := mustCreate(t, s, ada, storetest.Draft(1, 8))
	if _, err := s.StopRequest(t.Context(), ada, r.ID); err != nil {
		t.Fatal(err)
	}
	confirm := func() error {
		return s.Move(t.Context(), rayslice.System, r.ID, rayslice.StateStopping, rayslice.StateStopped, rayslice.Reason{}, "")
	}
	inject(t, what, sqlState, 5)
	wantBusy(t, what, confirm())
	wantUsed(t, s, rayslice.Charge{GiB: 8})
	inject(t, what, sqlState, 4)
	if err := confirm(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	wantUsed(t, s, rayslice.Charge{})
}

func wantBusy(t *testing.T, where string, err error) {
	t.Helper()
	if e := refusal(t, err, rayslice.KindUnavailable); e.Code != "database_busy" {
		t.Errorf("%s: got %v, want database_busy", where, err)
	}
}

// TestOtherErrorsAreNotTriedAgain injects an error that trying again cannot mend.
func TestOtherErrorsAreNotTriedAgain(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	storetest.Exec(t, injector)
	inject(t, "INSERT ON charges", "XX000", 1)
	_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 8), "")
	if err == nil || rayslice.KindOf(err) != "" {
		t.Errorf("got %v, want an internal error", err)
	}
	wantUsed(t, s, rayslice.Charge{})
}

// TestT19ConnectionCutInCommit cuts the connection exactly in COMMIT: before Postgres hears of it, after it has been done,
// and with the COMMIT arriving only when the call is already being tried again.
func TestT19ConnectionCutInCommit(t *testing.T) {
	direct := storetest.New(t)
	people := storetest.Fill(t, direct, rayslice.Charge{GiB: 8}) // room for one: a second charge would be refused
	url := storetest.URL(t)
	for _, how := range []cutting{cutBefore, cutAfter, cutBetween} {
		for _, key := range []string{"", "key of " + string(how)} {
			t.Run(fmt.Sprintf("%s, key %q", how, key), func(t *testing.T) {
				proxy := newCommitProxy(t, url, how)
				s := storetest.Open(t, proxy.url)
				proxy.arm()
				r, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 8), key)
				if err != nil {
					t.Fatal(err)
				}
				wantCut(t, proxy)
				wantUsed(t, direct, rayslice.Charge{GiB: 8})
				proxy.arm()
				stopped, err := s.StopRequest(t.Context(), people.Ada, r.ID)
				if err != nil || stopped.State != rayslice.StateStopping {
					t.Fatalf("stop: %v, %v", stopped, err)
				}
				wantCut(t, proxy)
				proxy.arm()
				err = s.Move(t.Context(), rayslice.System, r.ID, rayslice.StateStopping, rayslice.StateStopped, rayslice.Reason{}, "")
				if err != nil && rayslice.KindOf(err) != rayslice.KindConflict {
					t.Fatalf("move: %v", err)
				}
				wantCut(t, proxy)
				wantUsed(t, direct, rayslice.Charge{})
				wantLife(t, direct, r.ID)
			})
		}
	}
}

func wantCut(t *testing.T, p *commitProxy) {
	t.Helper()
	if !p.cut.Load() {
		t.Error("the connection was not cut")
	}
}

// wantLife checks that each step was taken once.
func wantLife(t *testing.T, s *store.Store, id string) {
	t.Helper()
	entries, err := s.Audit(t.Context(), rayslice.System, id)
	if err != nil {
		t.Fatal(err)
	}
	var got []rayslice.State
	for _, e := range entries {
		got = append(got, e.To)
	}
	want := []rayslice.State{rayslice.StatePending, rayslice.StateApproved, rayslice.StateStopping, rayslice.StateStopped}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("went through %v, want %v", got, want)
	}
}

// TestT22DiskFull lets Postgres say that its disk is full wherever a transaction writes: nothing changes without its audit
// entry, people hear that the database is away, and all works again as soon as there is room, without a restart. The
// error is raised by a trigger: a disk that is really full needs a server of its own.
func TestT22DiskFull(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 24})
	storetest.Exec(t, injector)
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	raise := mustAsk(t, s, people.Lea, rayslice.Charge{GiB: 8}, time.Time{})
	work := map[string]func() error{
		"ask": func() error {
			_, err := s.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 4), "")
			return err
		},
		"stop":      func() error { _, err := s.StopRequest(t.Context(), people.Ada, r.ID); return err },
		"set limit": func() error { return s.SetLimit(t.Context(), people.Root, "vision", rayslice.Charge{GiB: 16}, "") },
		"grant": func() error {
			_, err := s.DecideRaise(t.Context(), people.Root, raise.ID, rayslice.RaiseDecision{Grant: true, Charge: raise.Charge})
			return err
		},
		"refuse": func() error { return s.SetLimit(t.Context(), people.Lea, "vision", rayslice.Charge{}, "") },
	}
	state := func() string {
		return fmt.Sprint(count(t, `SELECT count(*) FROM audit`), count(t, `SELECT count(*) FROM requests`), count(t, `SELECT count(*) FROM grants`),
			count(t, `SELECT count(*) FROM requests WHERE state = 'stopping'`), count(t, `SELECT count(*) FROM raises WHERE state <> 'pending'`))
	}
	for _, what := range []string{"INSERT ON audit", atCommit} {
		inject(t, what, "53100", 1000)
		before := state()
		for name, do := range work {
			if e := refusal(t, do(), rayslice.KindUnavailable); e.Code != "database_unavailable" {
				t.Errorf("%s: %v", name, e)
			}
			if after := state(); after != before {
				t.Errorf("%s left something behind: %s, before %s", name, after, before)
			}
		}
	}
	stopInjecting(t)
	for name, do := range work {
		if err := do(); err != nil && rayslice.KindOf(err) != rayslice.KindForbidden {
			t.Errorf("%s, with room again: %v", name, err)
		}
	}
	wantAuditChains(t)
}

// TestB068EachTeamIsChargedForItself: somebody in two teams asks in one, and only that one's numbers count and are told.
func TestB068EachTeamIsChargedForItself(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 8})
	storetest.Exec(t, `INSERT INTO roles (user_id, team, role, source) VALUES ($1, 'speech', 'member', 'manual')`, people.Ada.ID)
	if err := s.SetLimit(t.Context(), people.Root, "speech", rayslice.Charge{GiB: 16}, ""); err != nil {
		t.Fatal(err)
	}
	ada, err := s.User(t.Context(), rayslice.System, people.Ada.ID)
	if err != nil {
		t.Fatal(err)
	}
	draft := storetest.Draft(5, 4)
	draft.Team = "speech"
	_, err = s.CreateRequest(t.Context(), ada, draft, "")
	if e := refusal(t, err, rayslice.KindOverQuota); e.Args["team"] != "speech" || e.Args["limit_gib"] != 16 || e.Args["asked_gib"] != 20 {
		t.Errorf("refused with %v", e.Args)
	}
	draft = storetest.Draft(4, 4)
	draft.Team = "speech"
	mustCreate(t, s, ada, draft)
	wantUsed(t, s, rayslice.Charge{}) // of vision
}

// TestACutCommitRepeatsNothing cuts the connection in the COMMIT of everything people change about people: it is done, recorded
// and told once.
func TestACutCommitRepeatsNothing(t *testing.T) {
	for _, how := range []cutting{cutBefore, cutAfter} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			direct := storetest.New(t)
			p := storetest.Fill(t, direct, rayslice.Charge{GiB: 8})
			_, token := mustToken(t, direct, p.Ada, rayslice.TokenDraft{Name: "old", Scopes: []rayslice.Scope{rayslice.ScopeRead}, Days: 1})
			proxy := newCommitProxy(t, storetest.URL(t), how)
			s := storetest.Open(t, proxy.url)
			ctx := t.Context()
			hook := rayslice.NotificationSettings{WebhookURL: "https://hooks.example.org/x", WebhookForm: rayslice.WebhookSlack}
			manual := rayslice.RoleGrant{UserID: p.Bob.ID, Team: "vision", Role: rayslice.RoleLead, Source: rayslice.SourceManual}
			for _, step := range []struct {
				name          string
				do            func() error
				entries, told int
			}{
				{"name a deputy", func() error { return s.NameDeputy(ctx, p.Lea, "vision", p.Bob.ID, inDays(5)) }, 1, 1},
				{"end a deputy", func() error { return s.EndDeputy(ctx, p.Lea, "vision", p.Bob.ID) }, 1, 1},
				{"give a role", func() error { return s.GrantRole(ctx, p.Root, p.Bob.ID, "vision", rayslice.RoleLead) }, 1, 1},
				{"take a role", func() error { return s.RevokeRole(ctx, p.Root, manual) }, 1, 1},
				{"sign out", func() error { return s.EndSessions(ctx, p.Root, p.Bob.ID) }, 1, 0},
				{"disable", func() error { return s.SetDisabled(ctx, p.Root, p.Bob.ID, true) }, 1, 0},
				{"set a webhook", func() error { return s.SetNotificationSettings(ctx, p.Ada, hook) }, 1, 0},
				{"try a message", func() error { return s.TryNotification(ctx, p.Ada) }, 0, 1},
				{"revoke a token", func() error { return s.RevokeToken(ctx, p.Root, p.Ada.ID, token.ID) }, 1, 0},
			} {
				outbox(t)
				entries, epoch := count(t, `SELECT count(*) FROM audit`), count(t, `SELECT session_epoch FROM users WHERE id = $1`, p.Bob.ID)
				proxy.arm()
				if err := step.do(); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				wantCut(t, proxy)
				if n := count(t, `SELECT count(*) FROM audit`) - entries; n != step.entries {
					t.Errorf("%s: %d entries, want %d", step.name, n, step.entries)
				}
				if n := len(outbox(t)); n != step.told {
					t.Errorf("%s: told %d times, want %d", step.name, n, step.told)
				}
				if n := count(t, `SELECT session_epoch FROM users WHERE id = $1`, p.Bob.ID); n > epoch+1 {
					t.Errorf("%s: sessions ended %d times", step.name, n-epoch)
				}
			}
		})
	}
}
