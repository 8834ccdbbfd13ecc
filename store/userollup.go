package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// Steps of the roll-ups. Rows that come late are looked for once more within lateRows; the hours are renewed every
// hourEvery, the present one with what there is of it.
const (
	lateRows     = 5 * time.Minute
	minuteLag    = 5 * time.Second // of a minute's last readings
	minuteChunk  = time.Hour
	hourChunk    = 24 * time.Hour
	hourEvery    = 10 * time.Minute
	seriesMargin = 24 * time.Hour
)

// sweepUse rolls the usage history up and forgets what is older than it is kept. It returns how many rows it wrote and how
// many slots it emptied. Doing it twice is doing it once.
func (s *Store) sweepUse(ctx context.Context) (rolled, emptied int, err error) {
	var now time.Time
	if err := s.db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return 0, 0, answer(err)
	}
	minutes := rollUp{from: rawRing, into: minuteRing, sql: minutesSQL, every: time.Minute, unit: time.Minute, chunk: minuteChunk,
		oldest: now.Add(-s.keepUse.Raw).Truncate(time.Minute).Add(time.Minute), latest: now.Add(-minuteLag).Truncate(time.Minute)}
	hours := rollUp{from: minuteRing, into: hourRing, sql: hoursSQL, every: hourEvery, unit: time.Hour, chunk: hourChunk,
		oldest: now.Add(-s.keepUse.Minutes).Truncate(time.Hour).Add(time.Hour), latest: minutes.latest}
	for _, part := range []rollUp{minutes, hours} {
		n, err := s.roll(ctx, part)
		if rolled += n; err != nil {
			return rolled, 0, err
		}
	}
	for _, part := range []struct {
		ring ring
		keep time.Duration
	}{{rawRing, s.keepUse.Raw}, {minuteRing, s.keepUse.Minutes}, {hourRing, s.keepUse.Hours}} {
		n, err := s.forget(ctx, part.ring, now.Add(-part.keep))
		if emptied += n; err != nil {
			return rolled, emptied, err
		}
	}
	return rolled, emptied, s.forgetUse(ctx)
}

// rollUp is how one level of the history becomes the next.
type rollUp struct {
	from, into     ring
	sql            string        // of rows with $1 slots, $2 ≤ at < $3
	every          time.Duration // least time to roll up
	unit           time.Duration // what one row stands for
	chunk          time.Duration // most time in one transaction
	oldest, latest time.Time     // bounds of what can be rolled up
}

// errElsewhere says that another replica rolls up.
var errElsewhere = errors.New("store: another replica is at it")

// roll brings one roll-up up to its latest, each chunk in a transaction of its own.
func (s *Store) roll(ctx context.Context, r rollUp) (total int, err error) {
	for more := true; more; {
		var n int
		err := s.claiming(ctx, func() error {
			return s.inTx(ctx, func(tx pgx.Tx) error {
				var err error
				n, more, err = r.step(ctx, tx)
				return err
			})
		})
		if errors.Is(err, errElsewhere) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// step rolls one chunk up and reports whether there is another. Whole units are written anew from all of their rows, so that
// it does not matter how often.
func (r rollUp) step(ctx context.Context, tx pgx.Tx) (n int, more bool, err error) {
	var done time.Time
	err = tx.QueryRow(ctx, `
		SELECT
			until_at
		FROM use_rolled
		WHERE ring = $1
		FOR UPDATE SKIP LOCKED`, r.into.table).Scan(&done)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, errElsewhere
	}
	if err != nil || r.latest.Sub(done) < r.every {
		return 0, false, err
	}
	from := done.Add(-lateRows).Truncate(r.unit)
	if from.Before(r.oldest) {
		from = r.oldest
	}
	to := r.latest
	if more = to.Sub(from) > r.chunk+lateRows+r.unit; more {
		to = from.Add(r.chunk + lateRows).Truncate(r.unit)
	}
	var spans []int64
	for span := r.into.spanOf(from); span <= r.into.spanOf(to); span++ {
		spans = append(spans, span)
	}
	if _, err := r.into.hold(ctx, tx, spans); err != nil {
		return 0, false, err
	}
	tag, err := tx.Exec(ctx, r.sql, r.from.slotsOf(from, to), from, to, int64(r.into.span.Seconds()), r.into.slots)
	if err != nil {
		return 0, false, err
	}
	_, err = tx.Exec(ctx, `
		UPDATE use_rolled
		SET
			until_at = $2
		WHERE ring = $1`, r.into.table, to)
	return int(tag.RowsAffected()), more, err
}

// The mean of a step is the sum of what was known by how often it was known: unknown is not zero.
const minutesSQL = `
		INSERT INTO use_minutes (
			slot,
			series,
			at,
			samples,
			used_known,
			used_sum,
			used_peak,
			limit_mib,
			memory_grade,
			percent_known,
			percent_sum,
			percent_peak,
			grade
		)
		SELECT
			extract(epoch FROM date_trunc('minute', at))::bigint / $4 % $5,
			series,
			date_trunc('minute', at),
			count(*),
			count(used_mib),
			coalesce(sum(used_mib), 0),
			max(used_mib),
			(array_agg(limit_mib ORDER BY at DESC) FILTER (WHERE limit_mib IS NOT NULL))[1],
			max(memory_grade) FILTER (WHERE used_mib IS NOT NULL),
			count(percent),
			coalesce(sum(percent), 0),
			max(percent),
			max(grade) FILTER (WHERE percent IS NOT NULL)
		FROM use_raw
		WHERE slot = ANY ($1) AND at >= $2 AND at < $3
		GROUP BY series, date_trunc('minute', at)
		ON CONFLICT (slot, series, at) DO UPDATE
		SET
			samples = excluded.samples,
			used_known = excluded.used_known,
			used_sum = excluded.used_sum,
			used_peak = excluded.used_peak,
			limit_mib = excluded.limit_mib,
			memory_grade = excluded.memory_grade,
			percent_known = excluded.percent_known,
			percent_sum = excluded.percent_sum,
			percent_peak = excluded.percent_peak,
			grade = excluded.grade
		WHERE use_minutes.samples IS DISTINCT FROM excluded.samples`

const hoursSQL = `
		INSERT INTO use_hours (
			slot,
			series,
			at,
			samples,
			used_known,
			used_sum,
			used_peak,
			limit_mib,
			memory_grade,
			percent_known,
			percent_sum,
			percent_peak,
			grade,
			minutes
		)
		SELECT
			extract(epoch FROM date_trunc('hour', at, 'UTC'))::bigint / $4 % $5,
			series,
			date_trunc('hour', at, 'UTC'),
			sum(samples),
			sum(used_known),
			sum(used_sum),
			max(used_peak),
			(array_agg(limit_mib ORDER BY at DESC) FILTER (WHERE limit_mib IS NOT NULL))[1],
			max(memory_grade),
			sum(percent_known),
			sum(percent_sum),
			max(percent_peak),
			max(grade),
			coalesce(bit_or(1::bigint << extract(minute FROM at)::int) FILTER (WHERE used_known > 0), 0)
		FROM use_minutes
		WHERE slot = ANY ($1) AND at >= $2 AND at < $3
		GROUP BY series, date_trunc('hour', at, 'UTC')
		ON CONFLICT (slot, series, at) DO UPDATE
		SET
			samples = excluded.samples,
			used_known = excluded.used_known,
			used_sum = excluded.used_sum,
			used_peak = excluded.used_peak,
			limit_mib = excluded.limit_mib,
			memory_grade = excluded.memory_grade,
			percent_known = excluded.percent_known,
			percent_sum = excluded.percent_sum,
			percent_peak = excluded.percent_peak,
			grade = excluded.grade,
			minutes = excluded.minutes
		WHERE use_hours.samples IS DISTINCT FROM excluded.samples`

// forgetUse forgets what is no longer of use: watches that are over, and of clusters that ended, the latest reading and the
// names of series whose rows are gone.
func (s *Store) forgetUse(ctx context.Context) error {
	if _, err := s.inBatches(ctx, rayslice.System, func(ctx context.Context, tx pgx.Tx, _ rayslice.User) (int, error) {
		tag, err := tx.Exec(ctx, `
			DELETE FROM use_watches
			WHERE request_id IN (
				SELECT
					request_id
				FROM use_watches
				WHERE until_at < now() - interval '1 minute'
				LIMIT $1
				FOR UPDATE SKIP LOCKED
			)`, sweepBatch)
		return int(tag.RowsAffected()), err
	}); err != nil {
		return err
	}
	_, err := s.inBatches(ctx, rayslice.System, func(ctx context.Context, tx pgx.Tx, _ rayslice.User) (int, error) {
		tag, err := tx.Exec(ctx, `
			DELETE FROM use_series
			WHERE id IN (
				SELECT
					s.id
				FROM use_series s
				JOIN requests r ON r.id = s.request_id
				WHERE r.state IN ('stopped', 'rejected', 'cancelled') AND r.state_since < now() - $1::interval
				LIMIT $2
				FOR UPDATE OF s SKIP LOCKED
			)`, s.keepUse.Hours+seriesMargin, sweepBatch)
		return int(tag.RowsAffected()), err
	})
	return err
}
