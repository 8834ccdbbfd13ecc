package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// A Drift is a team whose used quota is not the sum of its ledger.
type Drift struct {
	Team   string
	Used   rayslice.Charge // what the quota row says
	Ledger rayslice.Charge // sum of the charges that are not released
}

// Quota returns the quota of one team the actor may see.
func (s *Store) Quota(ctx context.Context, actor rayslice.User, team string) (rayslice.Quota, error) {
	if !actor.CanSee(team) {
		return rayslice.Quota{}, rayslice.NotFound("team")
	}
	q, err := quota(ctx, s.db, team)
	return q, missing(err, "team")
}

// Quotas returns the quotas of the actor's teams by team name; all of them for an admin.
func (s *Store) Quotas(ctx context.Context, actor rayslice.User) ([]rayslice.Quota, error) {
	quotas, err := quotas(ctx, s.db, seesAll(actor), actor.Teams())
	return quotas, answer(err)
}

func quota(ctx context.Context, db DB, team string) (rayslice.Quota, error) {
	found, err := quotas(ctx, db, false, []string{team})
	if err == nil && len(found) == 0 {
		err = pgx.ErrNoRows
	}
	if err != nil {
		return rayslice.Quota{}, err
	}
	return found[0], nil
}

// quotas reads limits as they are now, also where a grant has ended and nobody has written the limit anew yet: a read
// changes nothing.
func quotas(ctx context.Context, db DB, all bool, teams []string) ([]rayslice.Quota, error) {
	rows, _ := db.Query(ctx, `
		SELECT
			q.team,
			CASE WHEN q.limit_until <= clock_timestamp() THEN live.gib ELSE q.limit_gib END,
			CASE WHEN q.limit_until <= clock_timestamp() THEN live.cards ELSE q.limit_cards END,
			q.used_gib,
			q.used_cards,
			coalesce(held.gib, 0),
			coalesce(held.cards, 0)
		FROM quotas q
		LEFT JOIN LATERAL (
			SELECT
				coalesce(sum(gib), 0)::bigint AS gib,
				coalesce(sum(cards), 0)::bigint AS cards
			FROM grants
			WHERE q.limit_until <= clock_timestamp()
				AND team = q.team
				AND ended_at IS NULL
				AND (until_at IS NULL OR until_at > clock_timestamp())
		) live ON true
		LEFT JOIN (
			SELECT
				r.team,
				sum(c.gib)::bigint AS gib,
				sum(c.cards)::bigint AS cards
			FROM requests r
			JOIN charges c ON c.request_id = r.id AND c.released_at IS NULL
			WHERE r.state IN ('pending', 'returned')
				AND ($1 OR r.team = ANY ($2))
				AND ($1 OR c.team = ANY ($2))
			GROUP BY r.team
		) held ON held.team = q.team
		WHERE $1 OR q.team = ANY ($2)
		ORDER BY q.team`, all, teams)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (q rayslice.Quota, err error) {
		err = row.Scan(&q.Team, &q.Limit.GiB, &q.Limit.Cards, &q.Used.GiB, &q.Used.Cards, &q.Held.GiB, &q.Held.Cards)
		return q, err
	})
}

// NamespaceLimits returns what each team's namespace may hold, by namespace. Limits are as they are now, also where a grant
// has ended and nobody has written the limit anew yet.
func (s *Store) NamespaceLimits(ctx context.Context, actor rayslice.User) ([]rayslice.NamespaceLimit, error) {
	if !actor.System {
		return nil, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, `
		SELECT
			t.name,
			t.namespace,
			greatest(q.used_gib, CASE WHEN q.limit_until <= now() THEN live.gib ELSE q.limit_gib END),
			greatest(q.used_cards, CASE WHEN q.limit_until <= now() THEN live.cards ELSE q.limit_cards END)
		FROM teams t
		JOIN quotas q ON q.team = t.name
		LEFT JOIN LATERAL (
			SELECT
				coalesce(sum(gib), 0)::bigint AS gib,
				coalesce(sum(cards), 0)::bigint AS cards
			FROM grants
			WHERE q.limit_until <= now()
				AND team = q.team
				AND ended_at IS NULL
				AND (until_at IS NULL OR until_at > now())
		) live ON true
		ORDER BY t.namespace`)
	limits, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l rayslice.NamespaceLimit, err error) {
		err = row.Scan(&l.Team, &l.Namespace, &l.Charge.GiB, &l.Charge.Cards)
		return l, err
	})
	return limits, answer(err)
}

// QuotaDrift recomputes what is used from the ledger and returns the teams the actor may see for which the two differ.
func (s *Store) QuotaDrift(ctx context.Context, actor rayslice.User) ([]Drift, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			q.team,
			q.used_gib,
			q.used_cards,
			coalesce(live.gib, 0),
			coalesce(live.cards, 0)
		FROM quotas q
		LEFT JOIN (
			SELECT
				team,
				sum(gib)::bigint AS gib,
				sum(cards)::bigint AS cards
			FROM charges
			WHERE released_at IS NULL
			GROUP BY team
		) live ON live.team = q.team
		WHERE ($1 OR q.team = ANY ($2))
			AND (q.used_gib, q.used_cards) IS DISTINCT FROM (coalesce(live.gib, 0), coalesce(live.cards, 0))
		ORDER BY q.team`, seesAll(actor), actor.Teams())
	drifts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Drift, err error) {
		err = row.Scan(&d.Team, &d.Used.GiB, &d.Used.Cards, &d.Ledger.GiB, &d.Ledger.Cards)
		return d, err
	})
	return drifts, answer(err)
}

// errReleased is a fault of ours: what is still undecided is charged.
var errReleased = errors.New("store: the charge has been released already")

// recharge changes what an undecided request is charged by the difference, which may be negative, or refuses with the
// numbers. Giving back always succeeds, also where the limit was lowered below what is used.
func recharge(ctx context.Context, tx pgx.Tx, r rayslice.Request, to rayslice.Charge) error {
	if r.Released {
		return errReleased
	}
	more := rayslice.Charge{GiB: to.GiB - r.Charge.GiB, Cards: to.Cards - r.Charge.Cards}
	if more == (rayslice.Charge{}) {
		return nil
	}
	for {
		tag, err := tx.Exec(ctx, `
		WITH charged AS (
			UPDATE quotas
			SET
				used_gib = greatest(0, used_gib + $1::bigint),
				used_cards = greatest(0, used_cards + $2::bigint)
			WHERE team = $3
				AND (limit_until IS NULL OR limit_until > clock_timestamp() OR ($1::bigint <= 0 AND $2::bigint <= 0))
				AND ($1::bigint <= 0 OR used_gib + $1 <= limit_gib)
				AND ($2::bigint <= 0 OR used_cards + $2 <= limit_cards)
			RETURNING team
		)
		UPDATE charges c
		SET
			gib = c.gib + $1,
			cards = c.cards + $2
		FROM charged
		WHERE c.request_id = $4 AND c.released_at IS NULL`, more.GiB, more.Cards, r.Team, r.ID)
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		if err := whyNotTaken(ctx, tx, r.Team, more); err != nil {
			return err
		}
	}
}

// whyNotTaken says why a conditional UPDATE of the team's quota has changed no row: the numbers, as they are now; nil when
// they allow it by now. A limit that was due to shrink is written anew first. Asking for nothing of a kind fits even when
// its limit was lowered below what is used, as in rayslice.Quota.Allow.
func whyNotTaken(ctx context.Context, tx pgx.Tx, team string, n rayslice.Charge) error {
	if err := refreshLimit(ctx, tx, team, true); err != nil { // a grant may have ended since
		return err
	}
	now, err := quota(ctx, tx, team)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return rayslice.Quota{Team: team}.OverQuota(n) // a team without a quota may hold nothing
	case err != nil:
		return err
	case !now.Allow(n):
		return now.OverQuota(n)
	}
	return nil
}

// release gives the request's charge back, once. It does not fail when used has drifted below the charge: a release that
// cannot be done would hold quota for ever, and QuotaDrift shows the drift.
func release(ctx context.Context, tx pgx.Tx, requestID string) error {
	_, err := tx.Exec(ctx, `
		WITH released AS (
			UPDATE charges
			SET
				released_at = now()
			WHERE request_id = $1 AND released_at IS NULL
			RETURNING
				team,
				gib,
				cards
		)
		UPDATE quotas q
		SET
			used_gib = greatest(0, q.used_gib - released.gib),
			used_cards = greatest(0, q.used_cards - released.cards)
		FROM released
		WHERE q.team = released.team`, requestID)
	return err
}
