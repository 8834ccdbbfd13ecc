package store

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// Refuse records that err refuses the actor by right, with what it is about (Subject, Team, RequestID) as far as that is
// known, and passes err on. Any other error, and nil, it only passes on. It is for whoever refuses what the Store was not
// asked for; what a method of the Store refuses is recorded already.
func (s *Store) Refuse(ctx context.Context, actor rayslice.User, about rayslice.AuditEntry, err error) error {
	var refusal *rayslice.Error
	if errors.As(err, &refusal) && refusal.Kind == rayslice.KindForbidden {
		return s.refuse(ctx, actor, about, refusal)
	}
	return err
}

// forbid records a refusal of rights and returns it.
func (s *Store) forbid(ctx context.Context, actor rayslice.User, about rayslice.AuditEntry, code string) error {
	return s.Refuse(ctx, actor, about, rayslice.Forbidden(code))
}

// refuse records that the actor was refused and why, and returns the refusal. Each try to do something has its entry; of
// looking at what is not theirs, as a page that loads itself again does, one in a minute has.
func (s *Store) refuse(ctx context.Context, actor rayslice.User, e rayslice.AuditEntry, refusal *rayslice.Error) error {
	same := repeat{actor.ID, actor.TokenID, refusal.Code, e.Action, e.Subject, e.Team, e.RequestID}
	e.Reason = rayslice.Reason{Code: refusal.Code, Args: refusal.Args}
	if e.Action != "" {
		e.Reason.Args = map[string]any{rayslice.ArgTried: e.Action}
		maps.Copy(e.Reason.Args, refusal.Args)
	}
	looking := e.Action == "" && (e.Subject == "" || strings.HasPrefix(e.Subject, "GET "))
	e.Action = "refuse"
	if looking && !s.repeats.first(same, time.Now()) {
		return refusal
	}
	return s.recordRefusal(ctx, actor, e, refusal, same)
}

// RefuseOnHost is Refuse for what is sent to a cluster's own host: of the same refusal of somebody there one in a minute is
// recorded, whatever the address. Those are the cluster's, without end, and a program tries on and on.
func (s *Store) RefuseOnHost(ctx context.Context, actor rayslice.User, about rayslice.AuditEntry, refusal *rayslice.Error) error {
	same := repeat{actor: actor.ID, token: actor.TokenID, code: refusal.Code, tried: "host", requestID: about.RequestID}
	if !s.repeats.first(same, time.Now()) {
		return refusal
	}
	about.Action, about.Reason = "refuse", rayslice.Reason{Code: refusal.Code, Args: refusal.Args}
	return s.recordRefusal(ctx, actor, about, refusal, same)
}

func (s *Store) recordRefusal(ctx context.Context, actor rayslice.User, e rayslice.AuditEntry, refusal *rayslice.Error, same repeat) error {
	if err := s.inTx(ctx, func(tx pgx.Tx) error { return audit(ctx, tx, actor, e) }); err != nil {
		s.repeats.forget(same)
		return err
	}
	return refusal
}

// repeat is what makes one refusal the same as another.
type repeat struct {
	actor, token                          int64
	code, tried, subject, team, requestID string
}

const (
	repeatAfter = time.Minute // until the same refusal is recorded again
	maxRepeats  = 10_000      // refusals remembered; of more, the latest
)

// repeats remembers the refusals that were recorded lately, so that asking again and again for what one may not have
// cannot fill the audit log. Each replica has its own.
type repeats struct {
	mu   sync.Mutex
	last *simplelru.LRU[repeat, time.Time]
}

func newRepeats() *repeats {
	last, err := simplelru.NewLRU[repeat, time.Time](maxRepeats, nil)
	if err != nil {
		panic(err) // the size is above 0
	}
	return &repeats{last: last}
}

// first reports whether x is to be recorded now, and remembers that it was.
func (r *repeats) first(x repeat, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.last.Peek(x); ok && now.Sub(at) < repeatAfter {
		return false
	}
	r.last.Add(x, now)
	return true
}

func (r *repeats) forget(x repeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.Remove(x)
}
