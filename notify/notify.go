// Package notify takes news from the outbox and tells people: in the portal, by mail and by webhook, as each has chosen.
// It works the jobs that store put into river's tables, so that whatever a receiver does, no request waits for it.
package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/rayslice/rayslice"
)

// Config is what a Notifier needs. Every field without "optional" must be set.
type Config struct {
	Pool       *pgxpool.Pool // one connection of it listens all the time
	Store      Store
	Mail       Mail    // optional: the zero Mail sends none
	Webhook    Webhook // optional: the zero Webhook lets none into private networks
	Text       func(language string, n rayslice.Notice) Text
	BaseURL    string                          // where people reach the portal, without a slash at its end
	Sweep      func(ctx context.Context) error // optional: the portal's own work that is due by time; called every half minute by one replica
	Logger     *slog.Logger
	Registerer prometheus.Registerer // optional

	retry     river.ClientRetryPolicy // for tests; nil = river's
	impatient bool                    // for tests: no random pause before periodic work begins
	turnWait  time.Duration           // for tests; 0 = turnWait
}

// Store is what the Notifier keeps and asks in Postgres.
type Store interface {
	Spread(ctx context.Context, actor rayslice.User, newsID int64, n rayslice.News) (int, error)
	Letter(ctx context.Context, actor rayslice.User, noticeID int64) (rayslice.Letter, error)
	Mailed(ctx context.Context, actor rayslice.User, noticeID int64) error
	Posted(ctx context.Context, actor rayslice.User, noticeID int64) error
	NotPosted(ctx context.Context, actor rayslice.User, noticeID int64, why rayslice.Reason) error
	TellEndings(ctx context.Context, actor rayslice.User) (int, error)
	TellIdle(ctx context.Context, actor rayslice.User) (int, error)
	CleanNotices(ctx context.Context, actor rayslice.User, before time.Time) (int, error)
}

// Text is a notice in the words of its person's language.
type Text struct {
	Title string // one line
	Body  string // more about it; "" = the title says all
	Open  string // words of the link to the portal
	Why   string // why this comes, and that it can be turned off at the address that follows
}

// Notifier tells people. Run it on any number of replicas: each job is worked by one of them.
type Notifier struct {
	config  Config
	mailer  *mailer
	poster  *poster
	turns   *turns // at the webhooks' workers
	metrics *metrics
}

// New returns a Notifier that does nothing until it is run. It fails on a mail server or sender that cannot be one.
func New(config Config) (*Notifier, error) {
	n := &Notifier{config: config, poster: newPoster(config.Webhook), turns: newTurns(cmp.Or(config.turnWait, turnWait))}
	var err error
	if n.mailer, err = newMailer(config.Mail, config.BaseURL); err != nil {
		return nil, err
	}
	if n.metrics, err = newMetrics(config.Registerer, config.Pool); err != nil {
		return nil, err
	}
	return n, nil
}

// Bounds of the work.
const (
	softStop   = 5 * time.Second // for what is being sent when the portal stops
	jobTimeout = time.Minute     // one job
	keepJobs   = time.Hour       // that are done; failed ones are kept for a week
	startAgain = 5 * time.Second // when the database was away at the start
)

// Run works until ctx ends, then finishes what is being sent, and returns ctx's error. A database that is away is
// tried again.
func (n *Notifier) Run(ctx context.Context) error {
	for {
		client, err := n.client()
		if err != nil {
			return err
		}
		// Not with ctx: that it ends begins a stop, and the stop has its own limit.
		err = client.Start(context.WithoutCancel(ctx))
		if err == nil {
			<-ctx.Done()
			_ = client.Stop(context.WithoutCancel(ctx)) // fails only when its context ends, and this one does not
			return ctx.Err()
		}
		n.config.Logger.LogAttrs(ctx, slog.LevelWarn, "notifications wait for the database", slog.String("error", err.Error()))
		timer := time.NewTimer(startAgain)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// client returns the worker of every queue. It never reindexes, which needs the tables' owner.
func (n *Notifier) client() (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &newsWorker{n: n})
	river.AddWorker(workers, &mailWorker{n: n})
	river.AddWorker(workers, &webhookWorker{n: n})
	river.AddWorker(workers, &dueWorker{n: n})
	river.AddWorker(workers, &idleWorker{n: n})
	river.AddWorker(workers, &cleanWorker{n: n})
	client, err := river.NewClient(riverpgxv5.New(n.config.Pool), &river.Config{
		Queues: map[string]river.QueueConfig{
			queueNews:    {MaxWorkers: 2},
			queueMail:    {MaxWorkers: 2},
			queueWebhook: {MaxWorkers: 8},
			queueDue:     {MaxWorkers: 1, FetchPollInterval: dueEvery / 2},
		},
		Workers:                     workers,
		PeriodicJobs:                periodicJobs(),
		CompletedJobRetentionPeriod: keepJobs,
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        5 * jobTimeout,
		SoftStopTimeout:             softStop,
		ReindexerSchedule:           river.NeverSchedule(),
		RetryPolicy:                 n.config.retry,
		TestOnly:                    n.config.impatient,
		Logger:                      slog.New(warnings{n.config.Logger.Handler()}),
	})
	if err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	return client, nil
}

// Queues, as store fills them. Work that is due by time has its own, so that a backlog of news does not delay it.
const (
	queueNews    = river.QueueDefault
	queueMail    = "mail"
	queueWebhook = "webhook"
	queueDue     = "due"
)

// newsWorker spreads news to the people it is for.
type newsWorker struct {
	river.WorkerDefaults[rayslice.News]
	n *Notifier
}

// Work spreads one piece of news. Run again, it tells nobody twice.
func (w *newsWorker) Work(ctx context.Context, job *river.Job[rayslice.News]) error {
	_, err := w.n.config.Store.Spread(ctx, rayslice.System, job.ID, job.Args)
	return err
}

// letter returns a notice to be sent; false when it is gone or its person may not be told any more.
func (n *Notifier) letter(ctx context.Context, noticeID int64) (rayslice.Letter, bool, error) {
	letter, err := n.config.Store.Letter(ctx, rayslice.System, noticeID)
	if rayslice.KindOf(err) == rayslice.KindNotFound {
		return letter, false, nil
	}
	return letter, err == nil && !letter.User.Disabled && !letter.Settings.Mutes(letter.Notice.Code), err
}

// message is a notice in its person's words, with addresses that can be opened.
type message struct {
	notice   rayslice.Notice
	language string
	text     Text
	url      string // of what it is about
	settings string // where it can be turned off
}

func (n *Notifier) message(l rayslice.Letter) message {
	m := message{notice: l.Notice, language: l.Language, text: n.config.Text(l.Language, l.Notice), settings: n.config.BaseURL + "/account/notifications"}
	m.url = n.config.BaseURL + l.Notice.Link
	if l.Notice.Link == "" {
		m.url += "/notifications"
	}
	return m
}

// permanent is a refusal that another try would not change.
type permanent struct{ err error }

// Error says what was refused.
func (p permanent) Error() string { return p.err.Error() }

// Unwrap returns the refusal.
func (p permanent) Unwrap() error { return p.err }

// settle counts and logs how a sending ended, and tells river whether another try makes sense.
func (n *Notifier) settle(ctx context.Context, channel string, noticeID int64, err error) error {
	if err == nil {
		n.metrics.sent.WithLabelValues(channel, "sent").Inc()
		return nil
	}
	outcome, result := "failed", err
	if errors.As(err, new(permanent)) {
		outcome, result = "refused", river.JobCancel(err)
	}
	n.metrics.sent.WithLabelValues(channel, outcome).Inc()
	n.config.Logger.LogAttrs(ctx, slog.LevelWarn, "a notification was not sent", slog.String("channel", channel),
		slog.Int64("notice", noticeID), slog.Bool("tried_again", outcome == "failed"), slog.String("error", err.Error()))
	return result
}

// warnings passes on what is worth a warning: river counts its jobs aloud.
type warnings struct{ slog.Handler }

// Enabled reports whether a line of the level is written.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs keeps to warnings.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup keeps to warnings.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// resolverOf returns r, or the system's.
func resolverOf(r *net.Resolver) *net.Resolver {
	if r == nil {
		return net.DefaultResolver
	}
	return r
}
