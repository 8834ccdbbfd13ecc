package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

// What a stretch of the history is read from: the finest level that is kept for so long and does not mean too many rows.
const (
	rawStretch    = 2 * time.Hour
	minuteStretch = 50 * time.Hour
)

// UseHistory returns the use of a cluster the actor may see between two moments, one point per step and share of a card, in
// the order of time. A step about which nothing was read has no point, and a figure that was not known in a step is nil.
// Steps are no finer than what is still kept: as read for some hours, then minutes, then hours.
func (s *Store) UseHistory(ctx context.Context, actor rayslice.User, id string, from, to time.Time, step time.Duration) ([]rayslice.UsePoint, error) {
	if _, err := s.Request(ctx, actor, id); err != nil {
		return nil, err
	}
	age, stretch := time.Since(from), to.Sub(from)
	r, finest, rows := hourRing, time.Hour, rolledRows
	switch {
	case age <= s.keepUse.Raw && stretch <= rawStretch:
		r, finest, rows = rawRing, time.Second, rawRows
	case age <= s.keepUse.Minutes && stretch <= minuteStretch:
		r, finest = minuteRing, time.Minute
	}
	found, _ := s.db.Query(ctx, `
		SELECT
			date_bin($5, h.at, 'epoch'),
			s.pod_uid,
			s.pod,
			s.gpu,
			sum(h.samples),
			sum(h.used_sum)::float8 / nullif(sum(h.used_known), 0),
			max(h.used_peak),
			(array_agg(h.limit_mib ORDER BY h.at DESC) FILTER (WHERE h.limit_mib IS NOT NULL))[1],
			coalesce(max(h.memory_grade)::text, ''),
			sum(h.percent_sum) / nullif(sum(h.percent_known), 0),
			coalesce(max(h.grade)::text, '')
		FROM use_series s
		JOIN `+rows(r.table)+` h ON h.series = s.id
		WHERE s.request_id = $1
			AND h.slot = ANY ($2)
			AND h.at >= $3
			AND h.at < $4
		GROUP BY 1, s.id
		ORDER BY 1, s.pod, s.gpu, s.id`, id, r.slotsOf(from, to), from, to, max(step, finest))
	points, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (p rayslice.UsePoint, err error) {
		err = row.Scan(&p.At, &p.PodUID, &p.Pod, &p.GPU, &p.Samples, &p.UsedMiB, &p.PeakMiB, &p.LimitMiB, &p.MemoryGrade, &p.Percent, &p.Grade)
		p.At = p.At.UTC()
		return p, err
	})
	return points, answer(err)
}

func rolledRows(table string) string { return table }

// rawRows are readings in the form of rolled-up rows.
func rawRows(table string) string {
	return `(
			SELECT
				slot,
				series,
				at,
				1 AS samples,
				(used_mib IS NOT NULL)::int AS used_known,
				coalesce(used_mib, 0) AS used_sum,
				used_mib AS used_peak,
				limit_mib,
				CASE WHEN used_mib IS NOT NULL THEN memory_grade END AS memory_grade,
				(percent IS NOT NULL)::int AS percent_known,
				coalesce(percent, 0) AS percent_sum,
				CASE WHEN percent IS NOT NULL THEN grade END AS grade
			FROM ` + table + `
		)`
}
