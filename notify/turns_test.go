package notify

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

// TestNobodyHoldsUpOthers lets one person's receiver hang with more messages than there are workers: another's come through
// meanwhile, and when it answers again every message has come once.
func TestNobodyHoldsUpOthers(t *testing.T) {
	o := open(t)
	const messages = 12
	var now, most atomic.Int32
	answers := make(chan struct{})
	release := sync.OnceFunc(func() { close(answers) })
	slow := newReceiver(t, func(http.ResponseWriter, *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-answers
		now.Add(-1)
	})
	t.Cleanup(release) // before the receiver closes, which waits for its answers
	quick := newReceiver(t, nil)
	o.choose(o.Ada, rayslice.NotificationSettings{WebhookURL: slow.URL, WebhookForm: rayslice.WebhookSlack})
	o.choose(o.Lea, rayslice.NotificationSettings{WebhookURL: quick.URL, WebhookForm: rayslice.WebhookSlack})
	for range messages {
		o.must(o.store.TryNotification(t.Context(), o.Ada))
	}
	o.run(func(c *Config) { c.Webhook.Timeout, c.turnWait = patience, 10*time.Millisecond })
	o.until("the slow receiver is asked", func() bool { return now.Load() == 1 })
	o.until("everything is in the queue", func() bool { return o.count(`SELECT count(*) FROM river_job WHERE kind = 'webhook'`) == messages })
	o.ask("urgent")
	o.until("the other person's message comes", func() bool { return len(quick.got()) == 1 })
	release()
	o.untilDone()
	if got := len(slow.got()); got != messages || most.Load() != 1 {
		t.Errorf("%d messages came, up to %d at once; want %d, one at a time", got, most.Load(), messages)
	}
}

func TestTurns(t *testing.T) {
	turns := newTurns(time.Second)
	const ada, lea = 1, 2
	if turns.take(ada) != 0 || turns.take(lea) != 0 {
		t.Error("the first of each waits")
	}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		if got := turns.take(ada); got != want {
			t.Errorf("waits %v, want %v", got, want)
		}
	}
	for range 1000 {
		turns.take(ada)
	}
	if got := turns.take(ada); got != maxTurnWait {
		t.Errorf("the last waits %v, want %v", got, maxTurnWait)
	}
	turns.give(ada)
	if turns.take(ada) != 0 {
		t.Error("nobody's turn, and yet it waits")
	}
	if turns.take(lea) == 0 {
		t.Error("who is still at work has a second turn")
	}
	if turns.give(ada); len(turns.of) != 1 {
		t.Errorf("%d people are remembered, want 1", len(turns.of))
	}
}
