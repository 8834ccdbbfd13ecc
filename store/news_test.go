package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// strict makes a lead of the team vision decide everything.
func strict(t *testing.T, s *store.Store, lead rayslice.User) {
	t.Helper()
	if err := s.SetRules(t.Context(), lead, "vision", rayslice.Rules{}); err != nil {
		t.Fatal(err)
	}
}

// outbox returns the news that waits to be spread, oldest first, and forgets it.
func outbox(t *testing.T) []rayslice.News {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, _ := conn.Query(t.Context(), `
		WITH gone AS (DELETE FROM river_job WHERE kind = 'news' RETURNING id, args)
		SELECT args FROM gone ORDER BY id`)
	raw, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
	if err != nil {
		t.Fatal(err)
	}
	var all []rayslice.News
	for _, r := range raw {
		var n rayslice.News
		if err := json.Unmarshal(r, &n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// wantNews checks what waits to be spread, but for its time.
func wantNews(t *testing.T, what string, want ...rayslice.News) {
	t.Helper()
	if diff := cmp.Diff(want, outbox(t), cmpopts.IgnoreFields(rayslice.News{}, "At"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestWhatStartsAtOnceIsNoNews(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	mustMove(t, s, r.ID, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.StateReady)
	mustStop(t, s, people.Ada, r.ID)
	if n := count(t, `SELECT count(*) FROM river_job`); n != 0 {
		t.Errorf("%d jobs, want none", n)
	}
}

// TestNewsOfARequest walks through what people are told, and what they did themselves is not among it.
func TestNewsOfARequest(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	strict(t, s, people.Lea)
	r := mustCreate(t, s, people.Ada, storetest.Draft(2, 8))
	news := func(code rayslice.NewsKind, by rayslice.User, args map[string]any) rayslice.News {
		n := rayslice.News{Code: code, Team: "vision", RequestID: r.ID, For: people.Ada.ID, By: by.ID, Args: map[string]any{"name": "ablation-7"}}
		for name, value := range args {
			n.Args[name] = value
		}
		return n
	}
	waiting := news(rayslice.NewsWaiting, people.Ada, map[string]any{"who": "Ada"})
	waiting.For, waiting.Reason = 0, r.Reason
	wantNews(t, "asked", waiting)

	must := func(_ rayslice.Request, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.DecideRequest(t.Context(), people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictReturn, Revision: 1, Answer: "Why two?"}))
	wantNews(t, "asked back", news(rayslice.NewsReturned, people.Lea, map[string]any{"who": "Lea", "answer": "Why two?"}))
	must(s.ResendRequest(t.Context(), people.Ada, r.ID, 1, storetest.Draft(2, 8), "For the sweep"))
	wantNews(t, "sent again", waiting)
	terms := r.Draft.AsAsked()
	terms.Groups[0].Workers = 1
	must(s.DecideRequest(t.Context(), people.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: 2, Terms: &terms, Answer: "One will do"}))
	wantNews(t, "approved in part", news(rayslice.NewsSmaller, people.Lea, map[string]any{"who": "Lea", "answer": "One will do"}))

	move := func(from, to rayslice.State, reason rayslice.Reason) {
		t.Helper()
		if err := s.Move(t.Context(), rayslice.System, r.ID, from, to, reason, ""); err != nil {
			t.Fatal(err)
		}
	}
	move(rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{})
	move(rayslice.StateProvisioning, rayslice.StateReady, rayslice.Reason{})
	wantNews(t, "ready", news(rayslice.NewsReady, rayslice.System, nil))
	lost := rayslice.Reason{Code: rayslice.ReasonHeadLost, Detail: "text with\x00NUL"}
	move(rayslice.StateReady, rayslice.StateAttention, lost)
	attention := news(rayslice.NewsAttention, rayslice.System, nil)
	attention.Reason = rayslice.Reason{Code: rayslice.ReasonHeadLost, Detail: "text with\uFFFDNUL"}
	if got := count(t, `SELECT count(*) FROM river_job WHERE kind = 'news'`); got != 1 {
		t.Errorf("%d news of attention, want 1", got)
	}
	move(rayslice.StateAttention, rayslice.StateReady, rayslice.Reason{})
	move(rayslice.StateReady, rayslice.StateAttention, lost)
	wantNews(t, "attention, twice in a short time; ready again is none", attention)

	must(s.StopRequest(t.Context(), people.Root, r.ID))
	wantNews(t, "stopped by an admin", news(rayslice.NewsStopped, people.Root, map[string]any{"who": "Root"}))
	move(rayslice.StateStopping, rayslice.StateStopped, rayslice.Reason{})
	wantNews(t, "gone")
}

func TestNewsOfOtherEndings(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 100})
	strict(t, s, people.Lea)
	decide := func(v rayslice.Verdict) func(id string) error {
		return func(id string) error {
			_, err := s.DecideRequest(t.Context(), people.Lea, id, rayslice.Decision{Verdict: v, Revision: 1, Answer: "because"})
			return err
		}
	}
	move := func(from, to rayslice.State, reason string) func(id string) error {
		return func(id string) error {
			storetest.Exec(t, `UPDATE requests SET state = $2 WHERE id = $1`, id, from)
			return s.Move(t.Context(), rayslice.System, id, from, to, rayslice.Reason{Code: reason}, "")
		}
	}
	stop := func(who rayslice.User) func(id string) error {
		return func(id string) error { _, err := s.StopRequest(t.Context(), who, id); return err }
	}
	for name, tc := range map[string]struct {
		do   func(id string) error
		want rayslice.NewsKind // "" = nobody is told
	}{
		"approved as asked":           {decide(rayslice.VerdictApprove), rayslice.NewsApproved},
		"rejected":                    {decide(rayslice.VerdictReject), rayslice.NewsRejected},
		"taken back by its owner":     {stop(people.Ada), ""},
		"taken back by a lead":        {stop(people.Lea), rayslice.NewsStopped},
		"taken back by the portal":    {move(rayslice.StateReturned, rayslice.StateCancelled, rayslice.ReasonUnanswered), rayslice.NewsCancelled},
		"its time was over":           {move(rayslice.StateReady, rayslice.StateStopping, rayslice.ReasonExpired), rayslice.NewsExpired},
		"deleted outside the portal":  {move(rayslice.StateReady, rayslice.StateStopping, rayslice.ReasonGoneOutside), rayslice.NewsStopped},
		"another reason of attention": {move(rayslice.StateAttention, rayslice.StateAttention, rayslice.ReasonHeadLost), ""},
	} {
		r := mustCreate(t, s, people.Ada, storetest.Draft(1, 4))
		storetest.Exec(t, `DELETE FROM river_job`)
		if err := tc.do(r.ID); err != nil {
			t.Fatal(err)
		}
		var got []rayslice.NewsKind
		for _, n := range outbox(t) {
			got = append(got, n.Code)
		}
		var want []rayslice.NewsKind
		if tc.want != "" {
			want = append(want, tc.want)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRolledBackIsNoNews shows that news and what it tells of are there together or not at all.
func TestRolledBackIsNoNews(t *testing.T) {
	outside := storetest.New(t)
	people := storetest.Fill(t, outside, rayslice.Charge{GiB: 20})
	strict(t, outside, people.Lea)
	pool, err := pgxpool.New(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	undo := errors.New("undo")
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		mustCreate(t, store.New(tx), people.Ada, storetest.Draft(1, 8))
		var inside int
		if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM river_job`).Scan(&inside); err != nil || inside != 1 {
			t.Errorf("%d jobs inside the transaction, %v; want 1", inside, err)
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	_, err = outside.CreateRequest(t.Context(), people.Ada, storetest.Draft(1, 24), "")
	wantKind(t, err, rayslice.KindOverQuota)
	if n := count(t, `SELECT count(*) FROM river_job`); n != 0 {
		t.Errorf("%d jobs are left, want none", n)
	}
}

func TestWhoIsTold(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	id := func(users ...rayslice.User) (ids []int64) {
		for _, u := range users {
			ids = append(ids, u.ID)
		}
		return ids
	}
	for i, tc := range []struct {
		what    string
		prepare string
		news    rayslice.News
		want    []int64
	}{
		{"leads of the team", `SELECT 1`, rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", By: people.Ada.ID}, id(people.Lea)},
		{"a deputy too", `INSERT INTO roles (user_id, team, role, source, until_at) SELECT id, 'vision', 'lead', 'deputy', now() + interval '1 hour' FROM users WHERE name = 'Bob'`,
			rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", By: people.Ada.ID}, id(people.Bob, people.Lea)},
		{"not a lead who asks", `SELECT 1`, rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", By: people.Lea.ID}, id(people.Bob)},
		{"not a deputy whose time is over", `UPDATE roles SET until_at = now() - interval '1 second' WHERE source = 'deputy'`,
			rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", By: people.Ada.ID}, id(people.Lea)},
		{"admins where only the asking lead leads", `SELECT 1`, rayslice.News{Code: rayslice.NewsWaiting, Team: "vision", By: people.Lea.ID}, id(people.Root)},
		{"admins where nobody leads", `SELECT 1`, rayslice.News{Code: rayslice.NewsWaiting, Team: "speech", By: people.Sam.ID}, id(people.Root)},
		{"admins", `SELECT 1`, rayslice.News{Code: rayslice.NewsEscalated, Team: "vision"}, id(people.Root)},
		{"one person", `SELECT 1`, rayslice.News{Code: rayslice.NewsReady, For: people.Ada.ID}, id(people.Ada)},
		{"nobody who is disabled", `UPDATE users SET disabled = true WHERE name = 'Ada'`, rayslice.News{Code: rayslice.NewsReady, For: people.Ada.ID}, nil},
		{"nobody who is gone", `SELECT 1`, rayslice.News{Code: rayslice.NewsReady, For: 99999}, nil},
	} {
		storetest.Exec(t, tc.prepare)
		tc.news.At = time.Now()
		for range 2 { // the second time as after a crash
			if _, err := s.Spread(t.Context(), rayslice.System, int64(i+1), tc.news); err != nil {
				t.Fatal(err)
			}
		}
		if got := told(t, int64(i+1)); !cmp.Equal(got, tc.want) {
			t.Errorf("%s: told %v, want %v", tc.what, got, tc.want)
		}
	}
	_, err := s.Spread(t.Context(), people.Root, 100, rayslice.News{})
	wantKind(t, err, rayslice.KindForbidden)
}

// told returns who has a notice of the news.
func told(t *testing.T, newsID int64) []int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, _ := conn.Query(t.Context(), `SELECT user_id FROM notices WHERE news_id = $1 ORDER BY user_id`, newsID)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) == 0 {
		return nil
	}
	return ids
}

func TestNoticesOfOnePerson(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	for i := range 5 {
		for j, who := range []rayslice.User{people.Ada, people.Bob} {
			news := rayslice.News{Code: rayslice.NewsEscalated, At: time.Now(), For: who.ID, Team: "vision", RequestID: "aaaaaaaaaaaa", Args: map[string]any{"minutes": 240}}
			if _, err := s.Spread(t.Context(), rayslice.System, int64(10*i+j), news); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, err := s.Notices(t.Context(), people.Ada, store.NoticeFilter{Limit: 3})
	if err != nil || len(first.Notices) != 3 || first.Next == 0 {
		t.Fatalf("first page: %v, %v", first, err)
	}
	if n := first.Notices[0]; n.Args["minutes"] != 240 || n.Link != "/clusters/aaaaaaaaaaaa" || !n.ReadAt.IsZero() {
		t.Errorf("got %+v", n)
	}
	rest, err := s.Notices(t.Context(), people.Ada, store.NoticeFilter{Limit: 3, Before: first.Next})
	if err != nil || len(rest.Notices) != 2 || rest.Next != 0 || rest.Notices[0].ID >= first.Next {
		t.Errorf("second page: %v, %v", rest, err)
	}
	wantUnread := func(who rayslice.User, want int) {
		t.Helper()
		n, err := s.Unread(t.Context(), who)
		page, listErr := s.Notices(t.Context(), who, store.NoticeFilter{Unread: true})
		if err != nil || listErr != nil || n != want || len(page.Notices) != want {
			t.Errorf("%s has %d unread (%v), %d in the list (%v); want %d", who.Name, n, err, len(page.Notices), listErr, want)
		}
	}
	wantUnread(people.Ada, 5)
	read := func(who rayslice.User, upTo int64, ids ...int64) {
		t.Helper()
		if err := s.ReadNotices(t.Context(), who, ids, upTo); err != nil {
			t.Fatal(err)
		}
	}
	read(people.Bob, 0, first.Notices[0].ID) // Ada's
	wantUnread(people.Ada, 5)
	read(people.Ada, 0, first.Notices[0].ID)
	wantUnread(people.Ada, 4)
	read(people.Ada, first.Notices[1].ID)
	wantUnread(people.Ada, 0)
	wantUnread(people.Bob, 5)
	if n, err := s.CleanNotices(t.Context(), rayslice.System, time.Now().Add(time.Minute)); err != nil || n != 10 {
		t.Errorf("cleaned %d, %v; want 10", n, err)
	}
}

func TestNotificationSettings(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	if got, err := s.NotificationSettings(t.Context(), people.Ada); err != nil || !cmp.Equal(got, rayslice.DefaultNotificationSettings()) {
		t.Errorf("before the first choice: %v, %v", got, err)
	}
	want := rayslice.NotificationSettings{WebhookURL: "https://hooks.example.org/x", WebhookForm: rayslice.WebhookFeishu, WebhookSecret: "secret", Muted: []rayslice.NewsKind{rayslice.NewsReady}}
	if err := s.SetNotificationSettings(t.Context(), people.Ada, want); err != nil {
		t.Fatal(err)
	}
	if got, err := s.NotificationSettings(t.Context(), people.Ada); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := s.NotificationSettings(t.Context(), people.Bob); err != nil || !got.Mail {
		t.Errorf("Bob's: %v, %v", got, err)
	}
	wantWebhooksRecorded(t, s, people, want)
	token := people.Ada.ByToken(1, "", rayslice.Scopes())
	wantKind(t, s.SetNotificationSettings(t.Context(), token, want), rayslice.KindForbidden)
	wantKind(t, s.TryNotification(t.Context(), token), rayslice.KindForbidden)
	wantKind(t, s.ReadNotices(t.Context(), token, nil, 1), rayslice.KindForbidden)
	wantKind(t, s.SetLanguage(t.Context(), token, "en"), rayslice.KindForbidden)
}

// wantWebhooksRecorded expects that the audit log says where somebody's messages go, and nothing that would let others write.
func wantWebhooksRecorded(t *testing.T, s *store.Store, people storetest.People, set rayslice.NotificationSettings) {
	t.Helper()
	for _, address := range []string{set.WebhookURL, "https://other.example.org:8443/bot/s3cret?key=s3cret", ""} {
		set.WebhookURL = address
		set.Mail = !set.Mail
		for range 2 { // the second changes nothing
			if err := s.SetNotificationSettings(t.Context(), people.Ada, set); err != nil {
				t.Fatal(err)
			}
		}
	}
	page, err := s.AuditLog(t.Context(), people.Root, store.AuditFilter{Action: "set_webhook"})
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	for _, e := range page.Entries {
		got = append(got, e.Actor, e.Reason.Code, e.Reason.Args["host"])
	}
	if want := []any{"Ada", "webhook_removed", nil, "Ada", "webhook_set", "other.example.org:8443", "Ada", "webhook_set", "hooks.example.org"}; !cmp.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
	if n := count(t, `SELECT count(*) FROM audit WHERE audit::text LIKE '%s3cret%' OR audit::text LIKE '%/x%'`); n != 0 {
		t.Errorf("%d entries hold more than the host", n)
	}
}

// TestTellEndings tells of what ends soon once, and of what lives shortly not at all.
func TestTellEndings(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 100})
	storetest.Exec(t, `
		INSERT INTO tokens (user_id, name, prefix, hash, scopes, created_at, ends_at)
		SELECT $1::bigint, name, name, decode(md5(name), 'hex'), ARRAY['read'], now() - age, now() + rest
		FROM (VALUES
			('soon', interval '50 days', interval '2 days'),
			('later', interval '50 days', interval '4 days'),
			('short', interval '1 day', interval '1 day'),
			('over', interval '50 days', interval '-1 day')
		) t (name, age, rest)`, people.Ada.ID)
	for _, r := range []struct {
		name string
		sql  string
	}{
		{"soon", `decided_at = now() - interval '7 hours', ends_at = now() + interval '59 minutes'`},
		{"later", `decided_at = now() - interval '6 hours', ends_at = now() + interval '61 minutes'`},
		{"short", `decided_at = now() - interval '30 minutes', ends_at = now() + interval '30 minutes'`},
		{"stopped", `state = 'stopped', decided_at = now() - interval '7 hours', ends_at = now() + interval '30 minutes'`},
	} {
		draft := storetest.Draft(1, 4)
		draft.Name = r.name
		storetest.Exec(t, `UPDATE requests SET `+r.sql+` WHERE id = $1`, mustCreate(t, s, people.Ada, draft).ID)
	}
	if n, err := s.TellEndings(t.Context(), rayslice.System); err != nil || n != 2 {
		t.Errorf("told of %d, %v; want 2", n, err)
	}
	var got []string
	for _, n := range outbox(t) {
		got = append(got, string(n.Code)+" "+n.Args["name"].(string))
		if _, err := time.Parse(time.RFC3339, n.Args["ends"].(string)); err != nil || n.For != people.Ada.ID {
			t.Errorf("got %+v (%v)", n, err)
		}
	}
	if diff := cmp.Diff([]string{"ending soon", "token_ends soon"}, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if n, err := s.TellEndings(t.Context(), rayslice.System); err != nil || n != 0 {
		t.Errorf("told again of %d, %v", n, err)
	}
}
