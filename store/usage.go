package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// UseTargets returns the clusters whose use is to be found out, in the order of their ids: those that have or are about to
// have pods at work.
func (s *Store) UseTargets(ctx context.Context, actor rayslice.User) ([]rayslice.UseTarget, error) {
	if !actor.System {
		return nil, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, `
		SELECT
			r.id,
			t.namespace,
			coalesce(w.until_at, '0001-01-01 00:00:00Z')
		FROM requests r
		JOIN teams t ON t.name = r.team
		LEFT JOIN use_watches w ON w.request_id = r.id AND w.until_at > now()
		WHERE r.state IN ('provisioning', 'ready', 'attention')
		ORDER BY r.id`)
	targets, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t rayslice.UseTarget, err error) {
		err = row.Scan(&t.RequestID, &t.Namespace, &t.WatchedUntil)
		t.WatchedUntil = t.WatchedUntil.UTC()
		return t, err
	})
	return targets, answer(err)
}

// attendance is how long a replica counts as present after it was last heard of.
const attendance = 15 * time.Second

// Attend notes that a replica is at work, and returns the names of those that were within the last 15 seconds, sorted.
func (s *Store) Attend(ctx context.Context, actor rayslice.User, replica string) ([]string, error) {
	if !actor.System {
		return nil, errPortalOnly
	}
	var present []string
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			INSERT INTO replicas (
				name,
				seen_at
			)
			VALUES ($1, clock_timestamp())
			ON CONFLICT (name) DO UPDATE
			SET
				seen_at = excluded.seen_at`, replica); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			DELETE FROM replicas
			WHERE name IN (
				SELECT
					name
				FROM replicas
				WHERE seen_at < now() - 20 * $1::interval
				FOR UPDATE SKIP LOCKED
			)`, attendance); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, `
			SELECT
				name
			FROM replicas
			WHERE seen_at >= now() - $1::interval
			ORDER BY name COLLATE "C"`, attendance)
		var err error
		present, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return present, err
}

// WatchUse notes that somebody looks at the requests until then, so that their use is asked for more often. Those that the
// actor may not see are left out.
func (s *Store) WatchUse(ctx context.Context, actor rayslice.User, ids []string, until time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	tag, err := s.db.Exec(ctx, `
		INSERT INTO use_watches (
			request_id,
			until_at
		)
		SELECT
			id,
			$2
		FROM requests
		WHERE id = ANY ($1)
			AND ($3 OR team = ANY ($4))
		ORDER BY id
		ON CONFLICT (request_id) DO UPDATE
		SET
			until_at = greatest(use_watches.until_at, excluded.until_at)`, ids, until, seesAll(actor), actor.Teams())
	if err == nil && tag.RowsAffected() == 0 {
		return rayslice.NotFound("request")
	}
	return answer(err)
}

// SaveUse keeps what was found out about the use of clusters: the latest of each, where a question without an answer leaves
// the samples of the one before, and every sample in the history. A sample that is saved twice is kept once, and figures that
// cannot be are left out and counted. All of it is one transaction, which waits for nobody who holds a request or a quota.
func (s *Store) SaveUse(ctx context.Context, actor rayslice.User, uses []rayslice.Use) error {
	if !actor.System {
		return errPortalOnly
	}
	batch := possibleUses(uses)
	if len(batch) == 0 {
		return nil
	}
	return s.claiming(ctx, func() error {
		return s.inTx(ctx, func(tx pgx.Tx) error {
			saved, err := saveLatest(ctx, tx, batch)
			if err != nil {
				return err
			}
			if err := s.addSamples(ctx, tx, batch); err != nil {
				return err
			}
			if len(saved) > 0 {
				notify(tx, Change{Kind: KindUse, IDs: saved})
			}
			return nil
		})
	})
}

// possibleUses returns one use per request, the latest, in the order of the ids, without what Postgres could not hold.
func possibleUses(uses []rayslice.Use) []rayslice.Use {
	sorted := slices.Clone(uses)
	slices.SortStableFunc(sorted, func(a, b rayslice.Use) int {
		return cmp.Or(strings.Compare(a.RequestID, b.RequestID), b.AskedAt.Compare(a.AskedAt))
	})
	sorted = slices.CompactFunc(sorted, func(a, b rayslice.Use) bool { return a.RequestID == b.RequestID })
	for i, u := range sorted {
		samples := make([]rayslice.Sample, len(u.Samples))
		for j, sample := range u.Samples {
			var dropped int
			samples[j], dropped = sample.Possible()
			sorted[i].Dropped += dropped
			samples[j].RequestID = u.RequestID
			samples[j].PodUID, samples[j].Pod, samples[j].GPU = name(sample.PodUID), name(sample.Pod), name(sample.GPU)
		}
		sorted[i].Samples = samples
	}
	return sorted
}

// maxName bounds what is indexed of names that others have chosen, in characters.
const maxName = 253

// name returns a name as Postgres can hold and index it.
func name(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	if runes := []rune(text); len(runes) > maxName {
		return string(runes[:maxName])
	}
	return text
}

// saveLatest keeps the latest of each request and returns the ids of those that have changed.
func saveLatest(ctx context.Context, tx pgx.Tx, batch []rayslice.Use) ([]string, error) {
	n := len(batch)
	ids, sources, dropped := make([]string, n), make([]string, n), make([]int32, n)
	asked, data := make([]time.Time, n), make([]*time.Time, n)
	problems, samples := make([]*string, n), make([]*string, n)
	for i, u := range batch {
		ids[i], sources[i], dropped[i], asked[i] = u.RequestID, string(u.Source), int32(min(u.Dropped, 1<<30)), u.AskedAt
		problem, err := reasonJSON(u.Problem)
		if err != nil {
			return nil, err
		}
		problems[i] = rawText(problem)
		if u.DataAt.IsZero() || !u.Problem.IsZero() && len(u.Samples) == 0 {
			continue // there was no answer: what the one before said stays
		}
		raw, err := observedJSON(u.Samples)
		if err != nil {
			return nil, err
		}
		data[i], samples[i] = &batch[i].DataAt, rawText(raw)
	}
	rows, _ := tx.Query(ctx, `
		INSERT INTO uses (
			request_id,
			asked_at,
			data_at,
			source,
			problem,
			dropped,
			samples
		)
		SELECT
			u.id,
			u.asked_at,
			u.data_at,
			u.source,
			u.problem::jsonb,
			u.dropped,
			coalesce(u.samples, '[]')::jsonb
		FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::text[], $5::text[], $6::int[], $7::text[])
			AS u (id, asked_at, data_at, source, problem, dropped, samples)
		JOIN requests r ON r.id = u.id
		ORDER BY u.id
		ON CONFLICT (request_id) DO UPDATE
		SET
			asked_at = excluded.asked_at,
			data_at = coalesce(excluded.data_at, uses.data_at),
			source = CASE WHEN excluded.data_at IS NULL AND uses.source <> '' THEN uses.source ELSE excluded.source END,
			problem = excluded.problem,
			dropped = excluded.dropped,
			samples = CASE WHEN excluded.data_at IS NULL THEN uses.samples ELSE excluded.samples END
		WHERE uses.asked_at <= excluded.asked_at
		RETURNING request_id`, ids, asked, data, sources, problems, dropped, samples)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func rawText(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	text := string(raw)
	return &text
}

const useColumns = `
			r.id,
			coalesce(u.asked_at, '0001-01-01 00:00:00Z'),
			coalesce(u.data_at, '0001-01-01 00:00:00Z'),
			coalesce(u.source, ''),
			coalesce(u.problem, '{}'),
			coalesce(u.dropped, 0),
			coalesce(u.samples, '[]')`

func scanUse(row pgx.CollectableRow) (u rayslice.Use, err error) {
	err = row.Scan(&u.RequestID, &u.AskedAt, &u.DataAt, &u.Source, &u.Problem, &u.Dropped, &u.Samples)
	u.AskedAt, u.DataAt = u.AskedAt.UTC(), u.DataAt.UTC()
	return u, err
}

// Use returns what was last found out about the use of a cluster the actor may see; only RequestID is filled when nothing
// was ever asked.
func (s *Store) Use(ctx context.Context, actor rayslice.User, id string) (rayslice.Use, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT `+useColumns+`
		FROM requests r
		LEFT JOIN uses u ON u.request_id = r.id
		WHERE r.id = $1
			AND ($2 OR r.team = ANY ($3))`, id, seesAll(actor), actor.Teams())
	u, err := pgx.CollectExactlyOneRow(rows, scanUse)
	if err != nil {
		return rayslice.Use{}, missing(err, "request")
	}
	return u, nil
}

// Uses returns what was last found out about those of the requests that the actor may see and that were asked about.
func (s *Store) Uses(ctx context.Context, actor rayslice.User, ids []string) (map[string]rayslice.Use, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT `+useColumns+`
		FROM requests r
		JOIN uses u ON u.request_id = r.id
		WHERE r.id = ANY ($1)
			AND ($2 OR r.team = ANY ($3))`, ids, seesAll(actor), actor.Teams())
	found, err := pgx.CollectRows(rows, scanUse)
	uses := make(map[string]rayslice.Use, len(found))
	for _, u := range found {
		uses[u.RequestID] = u
	}
	return uses, answer(err)
}

// claiming runs a write to the history, and again after the slots that it lacked were made ready.
func (s *Store) claiming(ctx context.Context, write func() error) error {
	for try := 1; ; try++ {
		err := write()
		var lacking *unclaimed
		if !errors.As(err, &lacking) || try == maxTries {
			return err
		}
		for _, span := range lacking.spans {
			if err := s.claim(ctx, lacking.ring, span); err != nil {
				return err
			}
		}
	}
}
