package store_test

import (
	"fmt"
	"testing"

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
