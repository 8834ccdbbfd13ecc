package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// ring is one level of the usage history: a table with a partition for each of its slots. The rows of a span of time lie in
// slot span mod slots, and use_slots says which span's rows a slot holds. Whoever writes holds that row FOR SHARE; whoever
// empties the slot holds it FOR UPDATE, so no slot is emptied while its span is written, however many replicas there are.
type ring struct {
	table string
	span  time.Duration
	slots int64
}

var (
	rawRing    = ring{"use_raw", 3 * time.Hour, 8}
	minuteRing = ring{"use_minutes", 4 * 24 * time.Hour, 10}
	hourRing   = ring{"use_hours", 28 * 24 * time.Hour, 14}
)

// spanOf returns the number of the span that a moment lies in.
func (r ring) spanOf(at time.Time) int64 { return at.Unix() / int64(r.span.Seconds()) }

// slot returns where the rows of a span lie.
func (r ring) slot(span int64) int16 { return int16(span % r.slots) }

// partition returns the table that holds the rows of a span.
func (r ring) partition(span int64) string { return fmt.Sprintf("%s_%d", r.table, r.slot(span)) }

// slotsOf returns where the rows of a stretch of time lie.
func (r ring) slotsOf(from, to time.Time) []int16 {
	var all []int16
	for span := r.spanOf(from); span <= r.spanOf(to) && int64(len(all)) < r.slots; span++ {
		all = append(all, r.slot(span))
	}
	return all
}

// unclaimed says that slots of a ring still hold the rows of earlier spans.
type unclaimed struct {
	ring  ring
	spans []int64
}

// Error is never shown: claiming makes the slots ready.
func (u *unclaimed) Error() string { return "store: slots of " + u.ring.table + " are not ready" }

// hold keeps the slots of the spans from being emptied until tx ends, and returns the spans that may be written. A slot that
// holds a later span keeps it: rows that come so late are lost. When a slot is to be made ready first, hold fails with
// *unclaimed.
func (r ring) hold(ctx context.Context, tx pgx.Tx, spans []int64) ([]int64, error) {
	slots := make([]int16, len(spans))
	for i, span := range spans {
		slots[i] = r.slot(span)
	}
	rows, _ := tx.Query(ctx, `
		SELECT
			slot,
			span
		FROM use_slots
		WHERE ring = $1 AND slot = ANY ($2)
		ORDER BY slot
		FOR SHARE`, r.table, slots)
	held := map[int16]int64{}
	var slot int16
	var span int64
	if _, err := pgx.ForEachRow(rows, []any{&slot, &span}, func() error { held[slot] = span; return nil }); err != nil {
		return nil, err
	}
	lacking := &unclaimed{ring: r}
	var ready []int64
	for _, span := range spans {
		switch now := held[r.slot(span)]; {
		case now == span:
			ready = append(ready, span)
		case now < span:
			lacking.spans = append(lacking.spans, span)
		}
	}
	if len(lacking.spans) > 0 {
		return nil, lacking
	}
	return ready, nil
}

// claim empties the slot of a span, unless it holds that span or a later one already, and notes whose it is now.
func (s *Store) claim(ctx context.Context, r ring, span int64) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		var held int64
		err := tx.QueryRow(ctx, `
			SELECT
				span
			FROM use_slots
			WHERE ring = $1 AND slot = $2
			FOR UPDATE`, r.table, r.slot(span)).Scan(&held)
		if err != nil || held >= span {
			return err
		}
		return r.empty(ctx, tx, span, span)
	})
}

// empty removes the rows of the slot that a span lies in, which tx has locked, and notes what it holds from now on.
func (r ring) empty(ctx context.Context, tx pgx.Tx, span, holds int64) error {
	if _, err := tx.Exec(ctx, `TRUNCATE `+r.partition(span)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		UPDATE use_slots
		SET
			span = $3
		WHERE ring = $1 AND slot = $2`, r.table, r.slot(span), holds)
	return err
}

// forget empties the slots whose spans ended before the given moment, and returns how many.
func (s *Store) forget(ctx context.Context, r ring, before time.Time) (int, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			span
		FROM use_slots
		WHERE ring = $1 AND span >= 0 AND span < $2`, r.table, r.spanOf(before))
	old, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	for _, span := range old {
		err := s.inTx(ctx, func(tx pgx.Tx) error {
			var held int64
			err := tx.QueryRow(ctx, `
				SELECT
					span
				FROM use_slots
				WHERE ring = $1 AND slot = $2
				FOR UPDATE`, r.table, r.slot(span)).Scan(&held)
			if err != nil || held != span { // somebody else was here
				return err
			}
			return r.empty(ctx, tx, span, -1)
		})
		if err != nil {
			return 0, err
		}
	}
	return len(old), answer(err)
}

// clockSlack is how far the clocks of replicas and database may be apart. What claims to be later is not kept: it would
// empty a slot before its time.
const clockSlack = time.Minute

// addSamples adds the batch's samples to the history.
func (s *Store) addSamples(ctx context.Context, tx pgx.Tx, batch []rayslice.Use) error {
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return err
	}
	var kept []rayslice.Sample
	var spans []int64
	for _, u := range batch {
		for _, sample := range u.Samples {
			if sample.At.Before(now.Add(-s.keepUse.Raw)) || sample.At.After(now.Add(clockSlack)) {
				continue
			}
			kept = append(kept, sample)
			if span := rawRing.spanOf(sample.At); !slices.Contains(spans, span) {
				spans = append(spans, span)
			}
		}
	}
	ready, err := rawRing.hold(ctx, tx, spans)
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(sample rayslice.Sample) bool { return !slices.Contains(ready, rawRing.spanOf(sample.At)) })
	if len(kept) == 0 {
		return nil
	}
	return insertSamples(ctx, tx, kept)
}

func insertSamples(ctx context.Context, tx pgx.Tx, samples []rayslice.Sample) error {
	n := len(samples)
	requests, uids, pods, gpus := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	at, slots := make([]time.Time, n), make([]int16, n)
	used, limits, percents := make([]*int, n), make([]*int, n), make([]*float64, n)
	memoryGrades, grades := make([]*string, n), make([]*string, n)
	for i, x := range samples {
		requests[i], uids[i], pods[i], gpus[i] = x.RequestID, x.PodUID, x.Pod, x.GPU
		at[i], slots[i] = x.At, rawRing.slot(rawRing.spanOf(x.At))
		used[i], limits[i], percents[i] = x.UsedMiB, x.LimitMiB, x.Percent
		memoryGrades[i], grades[i] = gradeText(x.MemoryGrade), gradeText(x.Grade)
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO use_series (
			request_id,
			pod_uid,
			pod,
			gpu
		)
		SELECT DISTINCT ON (request_id, pod_uid, gpu)
			request_id,
			pod_uid,
			pod,
			gpu
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS x (request_id, pod_uid, pod, gpu)
		JOIN requests r ON r.id = request_id
		WHERE NOT EXISTS (
			SELECT
			FROM use_series s
			WHERE s.request_id = x.request_id AND s.pod_uid = x.pod_uid AND s.gpu = x.gpu
		)
		ORDER BY request_id, pod_uid, gpu
		ON CONFLICT DO NOTHING`, requests, uids, pods, gpus); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO use_raw (
			slot,
			series,
			at,
			used_mib,
			limit_mib,
			memory_grade,
			percent,
			grade
		)
		SELECT
			x.slot,
			s.id,
			x.at,
			x.used_mib,
			x.limit_mib,
			x.memory_grade,
			x.percent,
			x.grade
		FROM unnest($1::text[], $2::text[], $3::text[], $4::smallint[], $5::timestamptz[], $6::int[], $7::int[], $8::use_grade[], $9::float8[], $10::use_grade[])
			AS x (request_id, pod_uid, gpu, slot, at, used_mib, limit_mib, memory_grade, percent, grade)
		JOIN use_series s USING (request_id, pod_uid, gpu)
		ORDER BY s.id
		ON CONFLICT DO NOTHING`, requests, uids, gpus, slots, at, used, limits, memoryGrades, percents, grades)
	return err
}

// gradeText returns the grade, or nil for one that says nothing.
func gradeText(g rayslice.Grade) *string {
	if g != rayslice.GradeProcess && g != rayslice.GradeSlice && g != rayslice.GradeCard {
		return nil
	}
	text := string(g)
	return &text
}
