package store

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/rayslice/rayslice"
)

// attentionRest is how long a cluster that comes and goes is not told of again.
const attentionRest = 15 * time.Minute

// nodeRest is how long a node that does not enforce its slices is not told of again.
const nodeRest = 24 * time.Hour

// Queues of the outbox: a receiver that hangs holds up its own kind only.
const (
	QueueNews    = river.QueueDefault
	QueueMail    = "mail"
	QueueWebhook = "webhook"
)

// Tries before a message is given up. River waits longer after each: the fourth power of the number of tries, in
// seconds, so ten tries last four hours and twelve eleven.
const (
	triesMail    = 12
	triesWebhook = 10
)

// outbox inserts jobs and works none.
var outbox = newOutbox()

func newOutbox() *river.Client[pgx.Tx] {
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err) // the settings are constant
	}
	return client
}

// tell puts a piece of news into the outbox: it is spread when tx commits, and never when it does not. Nobody is told
// what they did themselves.
func tell(ctx context.Context, tx pgx.Tx, n rayslice.News) error {
	if n.For != 0 && n.For == n.By {
		return nil
	}
	if n.At.IsZero() {
		n.At = time.Now().UTC()
	}
	n.Args, n.Reason = withoutNUL(n.Args), rayslice.Reason{Code: n.Reason.Code, Args: withoutNUL(n.Reason.Args), Detail: scrub(n.Reason.Detail)}
	options := &river.InsertOpts{Queue: QueueNews}
	switch n.Code {
	case rayslice.NewsAttention:
		options.UniqueOpts = river.UniqueOpts{ByArgs: true, ByPeriod: attentionRest}
	case rayslice.NewsNotEnforced:
		options.UniqueOpts = river.UniqueOpts{ByArgs: true, ByPeriod: nodeRest}
	}
	_, err := outbox.InsertTx(ctx, tx, n, options)
	return err
}

// withoutNUL returns args as jsonb can hold them: text from Kubernetes may have what jsonb has not, and that must not keep
// a request from moving.
func withoutNUL(args map[string]any) map[string]any {
	clean := maps.Clone(args)
	for name, value := range args {
		if text, ok := value.(string); ok {
			clean[name] = scrub(text)
		}
	}
	return clean
}

func scrub(text string) string { return strings.ReplaceAll(text, "\x00", "\uFFFD") }

// tellWaiting tells the team's leads that a request waits.
func tellWaiting(ctx context.Context, tx pgx.Tx, id string, m moved, why rayslice.Reason) error {
	return tell(ctx, tx, rayslice.News{Code: rayslice.NewsWaiting, Team: m.team, RequestID: id, By: m.ownerID, Reason: why,
		Args: map[string]any{"name": m.name, "who": m.owner}})
}

// tellMove tells a request's owner what became of it, where that is news to them.
func tellMove(ctx context.Context, tx pgx.Tx, actor rayslice.User, c change, m moved) error {
	code := newsOf(actor, c, m)
	if code == "" {
		return nil
	}
	n := rayslice.News{Code: code, Team: m.team, RequestID: c.id, For: m.ownerID, By: actor.ID, Args: map[string]any{"name": m.name}}
	switch {
	case c.decidedBy != "":
		n.Args["who"], n.Args["answer"] = c.decidedBy, c.answer
	case !actor.System:
		n.Args["who"] = actor.Name
	default:
		n.Reason = c.reason
	}
	return tell(ctx, tx, n)
}

// newsOf returns what kind of news a move is for the request's owner; "" = none. A request that starts at once is none.
func newsOf(actor rayslice.User, c change, m moved) rayslice.NewsKind {
	if c.from == c.to && c.decidedBy == "" { // a second question is news, another reason is not
		return ""
	}
	switch c.to {
	case rayslice.StateReturned:
		return rayslice.NewsReturned
	case rayslice.StateApproved:
		return newsOfApproval(c, m)
	case rayslice.StateRejected:
		return rayslice.NewsRejected
	case rayslice.StateCancelled:
		if !actor.System {
			return rayslice.NewsStopped
		}
		return rayslice.NewsCancelled
	case rayslice.StateReady:
		if m.decidedBy != "" && m.firstReady {
			return rayslice.NewsReady
		}
	case rayslice.StateAttention:
		return rayslice.NewsAttention
	case rayslice.StateStopping:
		if c.reason.Code == rayslice.ReasonExpired {
			return rayslice.NewsExpired
		}
		return rayslice.NewsStopped
	}
	return ""
}

func newsOfApproval(c change, m moved) rayslice.NewsKind {
	switch {
	case c.decidedBy == "":
		return ""
	case m.smaller:
		return rayslice.NewsSmaller
	}
	return rayslice.NewsApproved
}
