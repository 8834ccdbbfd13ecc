package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// errPortalOnly refuses people what only the portal itself does.
var errPortalOnly = rayslice.Forbidden("portal_only")

// Work returns one request for the reconciler, whatever its team.
func (s *Store) Work(ctx context.Context, actor rayslice.User, id string) (rayslice.Request, error) {
	if !actor.System {
		return rayslice.Request{}, errPortalOnly
	}
	r, err := request(ctx, s.db, id)
	return r, missing(err, "request")
}

// LiveRequests returns the ids the reconciler must look at, in the order they were decided: those whose state is live, and
// those that ended within the last hour, which may have left something behind.
func (s *Store) LiveRequests(ctx context.Context, actor rayslice.User) ([]string, error) {
	if !actor.System {
		return nil, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, `
		SELECT
			id
		FROM requests
		WHERE state = ANY ($1)
			OR (state IN ('rejected', 'cancelled', 'stopped') AND state_since > now() - interval '1 hour')
		ORDER BY
			decided_at,
			id`, liveStates())
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, answer(err)
}

func liveStates() []string {
	return stateNames(slices.DeleteFunc(rayslice.States(), func(s rayslice.State) bool { return !s.Live() }))
}

// KnownRequests reports which of the ids are requests, in whatever state; the others are orphans.
func (s *Store) KnownRequests(ctx context.Context, actor rayslice.User, ids []string) (map[string]bool, error) {
	if !actor.System {
		return nil, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, `
		SELECT
			id
		FROM requests
		WHERE id = ANY ($1)`, ids)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	known := make(map[string]bool, len(found))
	for _, id := range found {
		known[id] = true
	}
	return known, answer(err)
}
