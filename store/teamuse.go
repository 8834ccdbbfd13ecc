package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// TeamUse returns what a team the actor may see has made of the memory it holds, hour by hour from the hour of from up to
// to, and which of its clusters have been idle for long. Figures of whole cards, which nobody can part among the slices on
// them, are left out and counted; whole cards themselves are not in it.
func (s *Store) TeamUse(ctx context.Context, actor rayslice.User, team string, from, to time.Time) (rayslice.TeamUse, error) {
	use := rayslice.TeamUse{Team: team}
	if !actor.CanSee(team) {
		return use, rayslice.NotFound("team")
	}
	var err error
	if use.Points, err = s.teamHours(ctx, team, from.Truncate(time.Hour), to); err != nil {
		return use, err
	}
	use.Idle, err = idleHolders(ctx, s.db, team)
	return use, err
}

// teamHours joins what the ledger says was held with what is known to have been used. A worker that replaced another within
// an hour counts for its part of it: each cluster's mean is over the minutes in which anything of it was known.
func (s *Store) teamHours(ctx context.Context, team string, from, to time.Time) ([]rayslice.TeamUsePoint, error) {
	rows, _ := s.db.Query(ctx, `
		WITH hours AS (
			SELECT
				at
			FROM generate_series($2::timestamptz, $3::timestamptz - interval '1 microsecond', interval '1 hour') AS h (at)
		), held AS (
			SELECT
				h.at,
				sum(c.gib * extract(epoch FROM least(coalesce(c.released_at, $3), h.at + interval '1 hour', $3) - greatest(r.decided_at, h.at))
					/ extract(epoch FROM least(h.at + interval '1 hour', $3) - h.at)) AS gib
			FROM hours h
			JOIN charges c ON c.team = $1 AND c.gib > 0 AND coalesce(c.released_at, $3) > h.at
			JOIN requests r ON r.id = c.request_id AND r.decided_at < least(h.at + interval '1 hour', $3)
				AND r.state NOT IN ('rejected', 'cancelled', 'pending', 'returned')
			GROUP BY h.at
		), clusters AS (
			SELECT
				u.at,
				s.request_id,
				sum(u.used_sum::float8 / u.used_known * bit_count(u.minutes::bit(64))) FILTER (WHERE u.used_known > 0 AND u.memory_grade <> 'card')
					/ nullif(bit_count((bit_or(u.minutes) FILTER (WHERE u.used_known > 0 AND u.memory_grade <> 'card'))::bit(64)), 0) AS used_mib,
				count(*) FILTER (WHERE u.used_known > 0 AND u.memory_grade <> 'card') AS known,
				count(*) FILTER (WHERE u.used_known = 0 OR u.memory_grade IS NULL OR u.memory_grade = 'card') AS unknown
			FROM use_hours u
			JOIN use_series s ON s.id = u.series
			JOIN charges c ON c.request_id = s.request_id AND c.team = $1 AND c.gib > 0
			WHERE u.slot = ANY ($4) AND u.at >= $2 AND u.at < $3
			GROUP BY u.at, s.request_id
		), used AS (
			SELECT
				at,
				sum(used_mib) AS used_mib,
				sum(known) AS known,
				sum(unknown) AS unknown
			FROM clusters
			GROUP BY at
		)
		SELECT
			h.at,
			coalesce(held.gib, 0)::float8,
			used.used_mib / 1024,
			coalesce(used.known, 0)::int,
			coalesce(used.unknown, 0)::int
		FROM hours h
		LEFT JOIN held ON held.at = h.at
		LEFT JOIN used ON used.at = h.at
		ORDER BY h.at`, team, from, to, hourRing.slotsOf(from, to))
	points, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p rayslice.TeamUsePoint, err error) {
		err = row.Scan(&p.At, &p.GrantedGiB, &p.UsedGiB, &p.Known, &p.Unknown)
		p.At = p.At.UTC()
		return p, err
	})
	return points, answer(err)
}

// readyForLong selects the clusters of team $1 (” = of each) that have been ready for $2, with how many of their workers have a slice.
const readyForLong = `
	SELECT
		r.id,
		r.name,
		o.name AS owner,
		c.gib,
		c.cards,
		r.ready_at,
		(
			SELECT
				count(*)
			FROM clusters k, jsonb_array_elements(coalesce(nullif(k.observed -> 'workers', 'null'), '[]')) AS w
			WHERE k.request_id = r.id AND w -> 'slice' ->> 'pool' <> ''
		) AS workers
	FROM requests r
	JOIN users o ON o.id = r.owner_id
	JOIN charges c ON c.request_id = r.id
	WHERE ($1 = '' OR r.team = $1) AND r.state = 'ready' AND r.ready_at <= now() - $2::interval`

// readyMinutes selects the minutes of the last $3, in the slots $7, of what runs now in the clusters that ready has: whether the slice
// idled, by $5 percent and $6 MiB, and whether more than $4 before are unknown.
const readyMinutes = `
	SELECT
		ready.id,
		s.pod_uid,
		u.series,
		u.at,
		(u.percent_known = u.samples AND u.percent_peak <= $5)
			OR (u.used_known = u.samples AND u.memory_grade <> 'card' AND u.used_peak <= $6) AS idle,
		u.at - lag(u.at) OVER (PARTITION BY u.series ORDER BY u.at) > $4::interval AS gap
	FROM ready
	JOIN use_series s ON s.request_id = ready.id
	JOIN use_minutes u ON u.series = s.id
	JOIN clusters k ON k.request_id = ready.id
		AND k.observed -> 'workers' @> jsonb_build_array(jsonb_build_object('uid', s.pod_uid))
	WHERE u.slot = ANY ($7) AND u.at >= now() - $3::interval`

// idleHolders returns the ready clusters of a team ("" = of each) that have been idle for long, the longest first. A slice idles while its
// utilisation is next to nothing, be it its own or its whole card's, or its memory is; and only while that is known without a
// gap. A cluster idles when each of its workers with a slice does.
func idleHolders(ctx context.Context, db DB, team string) ([]rayslice.IdleHolder, error) {
	now := time.Now()
	rows, _ := db.Query(ctx, `
		WITH ready AS (`+readyForLong+`
		), minutes AS (`+readyMinutes+`
		), series AS (
			SELECT
				id,
				pod_uid,
				coalesce(
					(max(at) FILTER (WHERE idle IS NOT TRUE)) + interval '1 minute',
					min(at)
				) AS quiet,
				max(at) FILTER (WHERE gap) AS gapped,
				max(at) AS last
			FROM minutes
			GROUP BY id, pod_uid, series
		), holders AS (
			SELECT
				id,
				count(DISTINCT pod_uid) AS seen,
				max(greatest(quiet, gapped)) AS since,
				min(last) AS last
			FROM series
			GROUP BY id
		)
		SELECT
			ready.id,
			ready.name,
			ready.owner,
			ready.gib,
			ready.cards,
			greatest(holders.since, ready.ready_at)
		FROM ready
		JOIN holders USING (id)
		WHERE holders.seen = ready.workers
			AND greatest(holders.since, ready.ready_at) <= now() - $2::interval
			AND holders.last >= now() - $4::interval
		ORDER BY 6, 1`, team, rayslice.IdleAfter, rayslice.IdleLook, rayslice.IdleGap, rayslice.IdlePercent, rayslice.IdleMiB,
		minuteRing.slotsOf(now.Add(-rayslice.IdleLook), now))
	idle, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h rayslice.IdleHolder, err error) {
		err = row.Scan(&h.RequestID, &h.Name, &h.Owner, &h.Charge.GiB, &h.Charge.Cards, &h.Since)
		h.Since = h.Since.UTC()
		return h, err
	})
	return idle, answer(err)
}
