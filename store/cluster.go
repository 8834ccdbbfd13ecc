package store

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json" // reading clusters is most of what a list costs, and encoding/json takes twice as long
	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// Cluster returns what was last observed about a request the actor may see; only RequestID is filled when nothing was.
func (s *Store) Cluster(ctx context.Context, actor rayslice.User, id string) (rayslice.Cluster, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			coalesce(c.observed, '{}'),
			coalesce(c.observed_at, '0001-01-01 00:00:00Z')
		FROM requests r
		LEFT JOIN clusters c ON c.request_id = r.id
		WHERE r.id = $1
			AND ($2 OR r.team = ANY ($3))`, id, seesAll(actor), actor.Teams())
	c, err := pgx.CollectExactlyOneRow(rows, scanCluster)
	if err != nil {
		return rayslice.Cluster{}, missing(err, "request")
	}
	c.RequestID = id
	return c, nil
}

func scanCluster(row pgx.CollectableRow) (c rayslice.Cluster, err error) {
	var at time.Time
	var observed []byte
	if err = row.Scan(&observed, &at); err == nil {
		err = json.Unmarshal(observed, &c)
	}
	c.ObservedAt = at.UTC()
	return c, err
}

// Observed is what was last observed about a request, and what the certificates of its workers say of it.
type Observed struct {
	rayslice.Cluster
	Badge rayslice.Badge // of a request that is over: not verified
}

// Observed returns what was last observed about those of the requests that the actor may see and that were observed. Events are
// left out: they are most of what is kept, and no list shows them.
func (s *Store) Observed(ctx context.Context, actor rayslice.User, ids []string) (map[string]Observed, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			k.observed - 'events',
			k.observed_at,
			looks.of_request
		FROM clusters k
		JOIN requests r ON r.id = k.request_id
		LEFT JOIN (`+looks+`) looks ON looks.request_id = r.id
		WHERE k.request_id = ANY ($1)
			AND ($2 OR r.team = ANY ($3))`, ids, seesAll(actor), actor.Teams(), liveStates())
	found, err := pgx.CollectRows(rows, scanObserved)
	observed := make(map[string]Observed, len(found))
	for _, o := range found {
		observed[o.RequestID] = o
	}
	return observed, answer(err)
}

func scanObserved(row pgx.CollectableRow) (o Observed, err error) {
	var at time.Time
	var observed []byte
	var looks [][]string
	if err = row.Scan(&observed, &at, &looks); err == nil {
		err = json.Unmarshal(observed, &o.Cluster)
	}
	o.ObservedAt = at.UTC()
	o.Badge = rayslice.NewBadge(o.Cluster, rayslice.Standing(looked(looks)))
	return o, err
}

// SaveCluster keeps what was observed about one request. It notifies only when something other than ObservedAt changed.
// rayslice.NotFound when there is no such request.
func (s *Store) SaveCluster(ctx context.Context, actor rayslice.User, c rayslice.Cluster) error {
	if !actor.System {
		return errPortalOnly
	}
	at := c.ObservedAt
	c.ObservedAt = time.Time{}
	observed, err := observedJSON(c)
	if err != nil {
		return err
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		var changed bool
		err := tx.QueryRow(ctx, `
			WITH before AS (
				SELECT
					observed
				FROM clusters
				WHERE request_id = $1
			)
			INSERT INTO clusters (
				request_id,
				observed,
				observed_at
			)
			VALUES ($1, $2, $3)
			ON CONFLICT (request_id) DO UPDATE
			SET
				observed = excluded.observed,
				observed_at = excluded.observed_at
			RETURNING observed IS DISTINCT FROM (SELECT observed FROM before)`, c.RequestID, observed, at).Scan(&changed)
		switch {
		case sqlState(err) == codeForeignKey:
			return rayslice.NotFound("request")
		case err != nil || !changed:
			return err
		}
		notify(tx, Change{Kind: KindCluster, ID: c.RequestID})
		return nil
	})
}

// FleetProblems returns what is wrong with Kubernetes as a whole; nil when nothing is known to be.
func (s *Store) FleetProblems(ctx context.Context, actor rayslice.User) ([]rayslice.Reason, error) {
	f, err := s.fleet(ctx, actor, `
		SELECT
			jsonb_build_object('problems', observed -> 'problems'),
			observed_at
		FROM fleet`)
	return f.Problems, err
}

// Fleet returns what was last observed about nodes and pools, as far as the actor may see it; the zero Fleet when nothing was.
// What pods hold of the cards is left out: it is most of what is kept, and most pages need none of it.
func (s *Store) Fleet(ctx context.Context, actor rayslice.User) (rayslice.Fleet, error) {
	return s.fleet(ctx, actor, `
		SELECT
			observed - 'holds',
			observed_at
		FROM fleet`)
}

// FleetCards returns the same with what pods hold of the cards. Other teams' clusters and foreign pods have no names, except
// for admins.
func (s *Store) FleetCards(ctx context.Context, actor rayslice.User) (rayslice.Fleet, error) {
	return s.fleet(ctx, actor, `
		SELECT
			observed,
			observed_at
		FROM fleet`)
}

func (s *Store) fleet(ctx context.Context, actor rayslice.User, query string) (rayslice.Fleet, error) {
	if !actor.System && actor.ID == 0 {
		return rayslice.Fleet{}, rayslice.NotFound("fleet")
	}
	var f rayslice.Fleet
	var at time.Time
	err := s.db.QueryRow(ctx, query).Scan(&f, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return rayslice.Fleet{}, nil
	}
	f.ObservedAt = at.UTC()
	return f.For(actor), answer(err)
}

// SaveFleet keeps what was observed about nodes and pools. It notifies only when something other than ObservedAt changed.
func (s *Store) SaveFleet(ctx context.Context, actor rayslice.User, f rayslice.Fleet) error {
	if !actor.System {
		return errPortalOnly
	}
	at := f.ObservedAt
	f.ObservedAt = time.Time{}
	observed, err := observedJSON(f)
	if err != nil {
		return err
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		var changed bool
		err := tx.QueryRow(ctx, `
			WITH before AS (
				SELECT
					observed
				FROM fleet
			)
			INSERT INTO fleet (
				observed,
				observed_at
			)
			VALUES ($1, $2)
			ON CONFLICT (single) DO UPDATE
			SET
				observed = excluded.observed,
				observed_at = excluded.observed_at
			RETURNING observed IS DISTINCT FROM (SELECT observed FROM before)`, observed, at).Scan(&changed)
		if err != nil || !changed {
			return err
		}
		notify(tx, Change{Kind: KindFleet})
		return nil
	})
}
