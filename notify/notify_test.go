package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"go.uber.org/goleak"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
	"github.com/rayslice/rayslice/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = time.Minute

const baseURL = "https://portal.example"

// office is a portal whose team vision lets a lead decide everything, with a mail server.
type office struct {
	storetest.People
	*testing.T
	store *store.Store
	pool  *pgxpool.Pool
	mail  *mailServer
	log   *logBuffer
}

func open(t *testing.T) *office {
	t.Helper()
	o := &office{T: t, store: storetest.New(t), mail: newMailServer(t), log: &logBuffer{}}
	o.People = storetest.Fill(t, o.store, rayslice.Charge{GiB: 200})
	o.must(o.store.SetRules(t.Context(), o.Lea, "vision", rayslice.Rules{}))
	var err error
	o.pool, err = pgxpool.New(t.Context(), storetest.URL(t))
	o.must(err)
	t.Cleanup(o.pool.Close)
	return o
}

func (o *office) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

// impatient tries again at once.
type impatient struct{}

func (impatient) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(10 * time.Millisecond) }

func (o *office) notifier(change ...func(*Config)) *Notifier {
	o.Helper()
	allow, err := ParseAllow("127.0.0.1")
	o.must(err)
	config := Config{
		Pool: o.pool, Store: o.store, Mail: o.mail.settings(), Webhook: Webhook{Allow: allow, Timeout: 2 * time.Second}, BaseURL: baseURL,
		Logger: slog.New(slog.NewJSONHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: prometheus.NewRegistry(),
		Text: func(language string, n rayslice.Notice) Text {
			l := web.NewLocalizer(language)
			return Text{Title: l.NoticeTitle(n), Body: l.NoticeBody(n), Open: l.NoticeOpen(), Why: l.NoticeWhy()}
		},
		retry: impatient{}, impatient: true,
	}
	for _, f := range change {
		f(&config)
	}
	n, err := New(config)
	o.must(err)
	return n
}

// run runs a notifier until the test ends, or stop is called.
func (o *office) run(change ...func(*Config)) (stop func()) {
	o.Helper()
	n := o.notifier(change...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			o.Errorf("Run ended with %v", err)
		}
	})
	o.Cleanup(stop)
	return stop
}

// ask makes a request that waits for Lea.
func (o *office) ask(name string) rayslice.Request {
	o.Helper()
	draft := storetest.Draft(1, 4)
	draft.Name = name
	r, err := o.store.CreateRequest(o.Context(), o.Ada, draft, "")
	o.must(err)
	return r
}

func (o *office) approve(r rayslice.Request) {
	o.Helper()
	_, err := o.store.DecideRequest(o.Context(), o.Lea, r.ID, rayslice.Decision{Verdict: rayslice.VerdictApprove, Revision: r.Revision})
	o.must(err)
}

func (o *office) choose(who rayslice.User, settings rayslice.NotificationSettings) {
	o.Helper()
	o.must(settings.Validate())
	o.must(o.store.SetNotificationSettings(o.Context(), who, settings))
}

func (o *office) count(sql string, args ...any) (n int) {
	o.Helper()
	o.must(o.pool.QueryRow(o.Context(), sql, args...).Scan(&n))
	return n
}

// until polls until ok, and fails the test when that takes too long.
func (o *office) until(what string, ok func() bool) {
	o.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			o.Fatalf("not within %v: %s\n%s", patience, what, o.log)
		}
	}
}

// untilDone waits until nothing is left to be sent.
func (o *office) untilDone() {
	o.Helper()
	o.until("the outbox is empty", func() bool { return waiting(o.pool) == 0 })
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

// receiver is a webhook's other end.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	posts []post
}

// post is what a receiver got.
type post struct {
	header http.Header
	query  map[string][]string
	body   string
}

// newReceiver answers as answer says, by default with 200 and nothing.
func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var body strings.Builder
		buffer := make([]byte, 1<<16)
		for {
			n, err := q.Body.Read(buffer)
			body.Write(buffer[:n])
			if err != nil {
				break
			}
		}
		r.mu.Lock()
		r.posts = append(r.posts, post{q.Header.Clone(), q.URL.Query(), body.String()})
		r.mu.Unlock()
		if answer != nil {
			answer(w, q)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]post(nil), r.posts...)
}

// TestPeopleAreTold goes the whole way: a request waits, its lead is told by mail and webhook, decides, and its owner is
// told in their language.
func TestPeopleAreTold(t *testing.T) {
	o := open(t)
	hook := newReceiver(t, nil)
	o.choose(o.Lea, rayslice.NotificationSettings{Mail: true, WebhookURL: hook.URL + "/lea", WebhookForm: rayslice.WebhookGeneric, WebhookSecret: "sixteen characters"})
	o.must(o.store.SetLanguage(t.Context(), o.Ada, "zh-CN"))
	o.run()
	r := o.ask("消融 7")
	o.until("Lea is told", func() bool { return len(o.mail.got()) == 1 && len(hook.got()) == 1 })
	letter := o.mail.got()[0]
	if letter.to != "lea@example.org" || letter.subject(t) != "Ada asks for “消融 7” in team vision" ||
		!strings.Contains(letter.plain(t), baseURL+"/clusters/"+r.ID) || !strings.Contains(letter.plain(t), "Needs a lead") {
		t.Errorf("Lea got %s %q\n%s", letter.to, letter.subject(t), letter.plain(t))
	}
	var said generic
	o.must(json.Unmarshal([]byte(hook.got()[0].body), &said))
	if said.Kind != "waiting" || said.RequestID != r.ID || said.Team != "vision" || said.URL != baseURL+"/clusters/"+r.ID {
		t.Errorf("the webhook got %+v", said)
	}
	o.approve(r)
	o.until("Ada is told", func() bool { return len(o.mail.got()) == 2 })
	if letter = o.mail.got()[1]; letter.to != "ada@example.org" || letter.subject(t) != "Lea 批准了“消融 7”" {
		t.Errorf("Ada got %s %q", letter.to, letter.subject(t))
	}
	page, err := o.store.Notices(t.Context(), o.Ada, store.NoticeFilter{})
	if err != nil || len(page.Notices) != 1 || page.Notices[0].Code != rayslice.NewsApproved {
		t.Errorf("in Ada's list: %v, %v", page, err)
	}
	o.untilDone()
	if len(o.mail.got()) != 2 || len(hook.got()) != 1 {
		t.Errorf("%d mails and %d posts, want 2 and 1", len(o.mail.got()), len(hook.got()))
	}
}

func TestWhoWantsNoneGetsNone(t *testing.T) {
	for name, settings := range map[string]rayslice.NotificationSettings{
		"no mail":                    {WebhookForm: rayslice.WebhookGeneric},
		"mail, but not of this kind": {Mail: true, WebhookForm: rayslice.WebhookGeneric, Muted: []rayslice.NewsKind{rayslice.NewsWaiting}},
	} {
		t.Run(name, func(t *testing.T) {
			o := open(t)
			o.choose(o.Lea, settings)
			o.run()
			o.ask("quiet")
			o.until("Lea is told in the portal", func() bool {
				n, err := o.store.Unread(t.Context(), o.Lea)
				return err == nil && n == 1
			})
			o.untilDone()
			if got := o.mail.got(); len(got) != 0 {
				t.Errorf("%d mails, want none", len(got))
			}
		})
	}
}

// TestMailTurnedOffMeanwhile turns mail off while the server takes none.
func TestMailTurnedOffMeanwhile(t *testing.T) {
	o := open(t)
	tried := make(chan struct{}, 100)
	o.mail.answer(func(string) error { tried <- struct{}{}; return later })
	o.run()
	o.ask("changed my mind")
	<-tried
	o.choose(o.Lea, rayslice.NotificationSettings{WebhookForm: rayslice.WebhookGeneric})
	o.mail.answer(nil)
	o.untilDone()
	if got := o.mail.got(); len(got) != 0 {
		t.Errorf("%d mails, want none", len(got))
	}
}

// TestADeadReceiverBlocksNoDecision holds a webhook and a mail open while people decide.
func TestADeadReceiverBlocksNoDecision(t *testing.T) {
	o := open(t)
	release := make(chan struct{})
	hanging := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	inMail := make(chan struct{}, 100)
	o.mail.answer(func(string) error { inMail <- struct{}{}; <-release; return nil })
	defer o.mail.answer(nil)
	o.choose(o.Lea, rayslice.NotificationSettings{Mail: true, WebhookURL: hanging.URL, WebhookForm: rayslice.WebhookSlack})
	o.run(func(c *Config) { c.Webhook.Timeout, c.Mail.Timeout = patience, patience })
	first := o.ask("first")
	<-inMail
	o.until("the webhook hangs", func() bool { return len(hanging.got()) == 1 })
	o.approve(first)
	second := o.ask("second")
	o.approve(second)
	for _, r := range []rayslice.Request{first, second} {
		now, err := o.store.Work(t.Context(), rayslice.System, r.ID)
		if err != nil || now.State != rayslice.StateApproved {
			t.Errorf("%s is %s, %v; want it approved while receivers hang", r.ID, now.State, err)
		}
	}
	o.until("Ada sees both in the portal", func() bool {
		n, err := o.store.Unread(t.Context(), o.Ada)
		return err == nil && n == 2
	})
	close(release)
}

// TestTwoReplicasTellOnce runs two notifiers on one database.
func TestTwoReplicasTellOnce(t *testing.T) {
	o := open(t)
	hook := newReceiver(t, nil)
	o.choose(o.Lea, rayslice.NotificationSettings{Mail: true, WebhookURL: hook.URL, WebhookForm: rayslice.WebhookSlack})
	o.run()
	o.run()
	const requests = 15
	for i := range requests {
		o.ask(fmt.Sprintf("number-%d", i))
	}
	o.untilDone()
	if mails, posts := len(o.mail.got()), len(hook.got()); mails != requests || posts != requests {
		t.Errorf("%d mails and %d posts, want %d of each", mails, posts, requests)
	}
}

// TestKilledBetweenSteps works each job as often as a portal that is killed after every step would.
func TestKilledBetweenSteps(t *testing.T) {
	o := open(t)
	hook := newReceiver(t, nil)
	o.choose(o.Lea, rayslice.NotificationSettings{Mail: true, WebhookURL: hook.URL, WebhookForm: rayslice.WebhookSlack})
	o.ask("again and again")
	n := o.notifier()
	news := rayslice.News{Code: rayslice.NewsWaiting, At: time.Now(), Team: "vision", By: o.Ada.ID, Args: map[string]any{"name": "x", "who": "Ada"}}
	for range 3 {
		o.must((&newsWorker{n: n}).Work(t.Context(), &river.Job[rayslice.News]{JobRow: &rivertype.JobRow{ID: 77}, Args: news}))
	}
	if notices, jobs := o.count(`SELECT count(*) FROM notices`), o.count(`SELECT count(*) FROM river_job WHERE kind IN ('mail', 'webhook')`); notices != 1 || jobs != 2 {
		t.Fatalf("%d notices and %d jobs, want 1 and 2", notices, jobs)
	}
	id := int64(o.count(`SELECT id FROM notices`))
	for range 3 {
		o.must((&mailWorker{n: n}).Work(t.Context(), &river.Job[rayslice.Mailing]{JobRow: &rivertype.JobRow{}, Args: rayslice.Mailing{NoticeID: id}}))
		o.must((&webhookWorker{n: n}).Work(t.Context(), &river.Job[rayslice.Posting]{JobRow: &rivertype.JobRow{}, Args: rayslice.Posting{NoticeID: id}}))
	}
	if mails, posts := len(o.mail.got()), len(hook.got()); mails != 1 || posts != 1 {
		t.Errorf("%d mails and %d posts, want one of each", mails, posts)
	}
	gone := &river.Job[rayslice.Mailing]{JobRow: &rivertype.JobRow{}, Args: rayslice.Mailing{NoticeID: 99999}}
	if err := (&mailWorker{n: n}).Work(t.Context(), gone); err != nil {
		t.Errorf("a notice that was cleaned away: %v", err)
	}
}

// TestTriedAgain has mail server and receiver refuse for now, twice each.
func TestTriedAgain(t *testing.T) {
	o := open(t)
	var mu sync.Mutex
	mails, posts := 0, 0
	o.mail.answer(func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if mails++; mails <= 2 {
			return later
		}
		return nil
	})
	hook := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if posts++; posts <= 2 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	o.choose(o.Lea, rayslice.NotificationSettings{Mail: true, WebhookURL: hook.URL, WebhookForm: rayslice.WebhookSlack})
	o.run()
	o.ask("busy")
	o.until("both came through", func() bool { return len(o.mail.got()) == 1 && len(hook.got()) == 3 })
	o.untilDone()
	if len(o.mail.got()) != 1 || len(hook.got()) != 3 {
		t.Errorf("%d mails and %d tries to post, want 1 and 3", len(o.mail.got()), len(hook.got()))
	}
}

// TestRefusedForGoodIsNotTriedAgain counts the tries, and looks for secrets in the log and in what river keeps.
func TestRefusedForGoodIsNotTriedAgain(t *testing.T) {
	o := open(t)
	tries := make(chan struct{}, 100)
	o.mail.answer(func(string) error { tries <- struct{}{}; return never })
	hook := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	o.choose(o.Lea, rayslice.NotificationSettings{Mail: true, WebhookURL: hook.URL + "/hidden-path?access_token=hidden-token", WebhookForm: rayslice.WebhookDingTalk, WebhookSecret: "hidden-secret"})
	o.run()
	o.ask("unwelcome")
	o.until("both are given up", func() bool {
		return o.count(`SELECT count(*) FROM river_job WHERE state = 'cancelled'`) == 2
	})
	if len(tries) != 1 || len(hook.got()) != 1 {
		t.Errorf("%d mails and %d posts were tried, want one of each", len(tries), len(hook.got()))
	}
	hook.Close()
	o.ask("dead by now")
	o.until("it is tried", func() bool {
		return o.count(`SELECT count(*) FROM river_job WHERE kind = 'webhook' AND attempt > 2`) == 1
	})
	var kept string
	o.must(o.pool.QueryRow(t.Context(), `SELECT string_agg(river_job::text, ' ') FROM river_job`).Scan(&kept))
	for _, place := range []string{o.log.String(), kept} {
		if strings.Contains(place, "hidden-") {
			t.Errorf("a secret is in\n%s", place)
		}
	}
}

// TestWorkThatIsDueByTime is done without being asked for.
func TestWorkThatIsDueByTime(t *testing.T) {
	o := open(t)
	swept := make(chan struct{}, 100)
	o.must(o.store.SetRules(t.Context(), o.Lea, "vision", rayslice.DefaultRules()))
	r := o.ask("ends soon")
	storetest.Exec(t, `UPDATE requests SET decided_at = now() - interval '7 hours', ends_at = now() + interval '50 minutes' WHERE id = $1`, r.ID)
	storetest.Exec(t, `INSERT INTO notices (user_id, news_id, at, code) VALUES ($1, 1000000, now() - interval '91 days', 'ready')`, o.Ada.ID)
	o.run(func(c *Config) {
		c.Sweep = func(context.Context) error { swept <- struct{}{}; return errors.New("one failing part") }
	})
	<-swept
	o.until("Ada hears of the end", func() bool { return len(o.mail.got()) == 1 })
	if got := o.mail.got()[0].subject(t); got != "“ends soon” ends soon" {
		t.Errorf("subject %q", got)
	}
	o.until("the old notice is gone", func() bool { return o.count(`SELECT count(*) FROM notices WHERE news_id = 1000000`) == 0 })
}

// TestATestMessage goes every way that is chosen.
func TestATestMessage(t *testing.T) {
	o := open(t)
	hook := newReceiver(t, nil)
	o.choose(o.Bob, rayslice.NotificationSettings{Mail: true, WebhookURL: hook.URL, WebhookForm: rayslice.WebhookSlack, Muted: rayslice.NewsKinds()})
	o.run()
	o.must(o.store.TryNotification(t.Context(), o.Bob))
	o.until("it arrives", func() bool { return len(o.mail.got()) == 1 && len(hook.got()) == 1 })
	if n, err := o.store.Unread(t.Context(), o.Bob); err != nil || n != 1 {
		t.Errorf("%d in the portal, %v", n, err)
	}
}

// TestStoppingLosesNothing stops a notifier before it tells, and lets the next one do it.
func TestStoppingLosesNothing(t *testing.T) {
	o := open(t)
	stop := o.run()
	o.ask("first")
	o.untilDone()
	stop()
	o.ask("second")
	o.run()
	o.untilDone()
	if got := len(o.mail.got()); got != 2 {
		t.Errorf("%d mails, want 2", got)
	}
}
