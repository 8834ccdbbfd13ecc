package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// CreatePending makes a request that waits for a decision, which no exported method does yet.
func (s *Store) CreatePending(ctx context.Context, actor rayslice.User, draft rayslice.RequestDraft) (string, error) {
	id := rayslice.NewRequestID()
	return id, s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := insertRequest(ctx, tx, actor, draft, id); err != nil {
			return err
		}
		return charge(ctx, tx, id, draft.Team, draft.Charge())
	})
}
