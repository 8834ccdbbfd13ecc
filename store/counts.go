package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// Counts returns how many requests are in each state, and when the oldest that waits for a decision was sent; the zero time
// when none does. It is for the portal itself.
func (s *Store) Counts(ctx context.Context, actor rayslice.User) (states map[rayslice.State]int, oldest time.Time, err error) {
	if !actor.System {
		return nil, time.Time{}, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, `
		SELECT
			state,
			count(*),
			coalesce(min(sent_at), '0001-01-01 00:00:00Z')
		FROM requests
		GROUP BY state`)
	states = map[rayslice.State]int{}
	var state rayslice.State
	var n int
	var sent time.Time
	_, err = pgx.ForEachRow(rows, []any{&state, &n, &sent}, func() error {
		states[state] = n
		if state == rayslice.StatePending {
			oldest = sent.UTC()
		}
		return nil
	})
	return states, oldest, answer(err)
}
