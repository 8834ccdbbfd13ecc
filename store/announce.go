package store

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// notify announces the change to every listener once tx has been committed.
func notify(tx pgx.Tx, c Change) {
	t := tx.(*transaction) // every transaction is made by attempt
	t.changes = append(t.changes, c)
}

// announcer tells listeners about committed changes. It does so after the transaction: NOTIFY inside one takes a lock of
// the whole server until its COMMIT is on disk, so that all commits would wait for each other (PreCommit_Notify in
// PostgreSQL's async.c). Changes that come while a statement is under way share the next one.
type announcer struct {
	db      DB
	mu      sync.Mutex
	waiting []string
	sending bool
	senders sync.WaitGroup
}

// announceWait bounds one statement; announceTries is how often it is tried. What is lost then is found by whoever looks
// at everything now and then, and by listeners, who have lost their connection as well.
const (
	announceWait  = 5 * time.Second
	announceTries = 3
)

// maxIDs is how many ids one payload carries: Postgres takes less than 8000 bytes, and an id is twelve letters in quotes.
const maxIDs = 400

const announceSQL = `SELECT pg_notify($1, payload) FROM unnest($2::text[]) payload`

// announce sends the changes of a committed transaction, without waiting where there is a pool.
func (s *Store) announce(ctx context.Context, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	var payloads []string
	for _, c := range inPayloads(changes) {
		payload, err := json.Marshal(c)
		if err != nil {
			return err
		}
		payloads = append(payloads, string(payload))
	}
	if s.pool == nil { // inside the caller's transaction, whose COMMIT sends it
		_, err := s.db.Exec(ctx, announceSQL, channel, payloads)
		return err
	}
	s.announcer.add(payloads)
	return nil
}

// inPayloads splits changes that name more requests than a payload can.
func inPayloads(changes []Change) []Change {
	var all []Change
	for _, c := range changes {
		for ids := c.IDs; len(ids) > maxIDs; ids = c.IDs {
			c.IDs = ids[:maxIDs]
			all = append(all, c)
			c.IDs = ids[maxIDs:]
		}
		all = append(all, c)
	}
	return all
}

func (a *announcer) add(payloads []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, payloads...)
	if !a.sending {
		a.sending = true
		a.senders.Go(a.send)
	}
}

// send sends until nothing waits any more.
func (a *announcer) send() {
	for {
		a.mu.Lock()
		batch := a.waiting
		a.waiting = nil
		a.sending = len(batch) > 0
		a.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		a.try(batch)
	}
}

func (a *announcer) try(batch []string) {
	ctx, cancel := context.WithTimeout(context.Background(), announceWait)
	defer cancel()
	for try := 1; try <= announceTries && ctx.Err() == nil; try++ {
		if _, err := a.db.Exec(ctx, announceSQL, channel, batch); err == nil {
			return
		}
		pause(ctx, try)
	}
}
