package k8s

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/rayslice/rayslice"
)

type podName struct{ namespace, name string }

// A snapshot is what all series said about all pods at one moment.
type snapshot struct {
	taken time.Time
	cards map[podName][]gauged // sorted by card
}

// cardOfPod is one card as one pod has it.
type cardOfPod struct {
	podName
	gpu string
}

// A reading is the value of one figure.
type reading struct {
	value float64
	at    time.Time
	grade rayslice.Grade
}

// figureSeries are the series of one figure, and what they said.
type figureSeries struct {
	series   []Series
	readings map[cardOfPod]reading
}

// snapshotBuilder turns series into a snapshot. It is pure.
type snapshotBuilder struct {
	names        SeriesNames
	taken        time.Time
	figures      []*figureSeries
	unattributed int // series that name no pod

	used, limit, free, percent *figureSeries
}

func newSnapshotBuilder(names SeriesNames, taken time.Time) *snapshotBuilder {
	b := &snapshotBuilder{names: names, taken: taken.UTC()}
	figure := func(series []Series) *figureSeries {
		f := &figureSeries{series: series, readings: map[cardOfPod]reading{}}
		b.figures = append(b.figures, f)
		return f
	}
	b.used, b.limit, b.free, b.percent = figure(names.Used), figure(names.Limit), figure(names.Free), figure(names.Percent)
	return b
}

// sameScrape is how far apart the values of one scrape may lie.
const sameScrape = time.Second

// add takes over what one series says, where a better one has not said it.
func (b *snapshotBuilder) add(figure *figureSeries, series Series, matrix model.Matrix) {
	points := map[cardOfPod][]model.SamplePair{}
	for _, stream := range matrix {
		of, ok := b.owner(stream.Metric)
		if !ok {
			b.unattributed++ // whose it is cannot be known (NVIDIA/dcgm-exporter#151)
			continue
		}
		if n := len(stream.Values); n > 0 && !math.IsNaN(float64(stream.Values[n-1].Value)) {
			points[of] = append(points[of], stream.Values[n-1])
		}
	}
	for of, values := range points {
		if _, better := figure.readings[of]; !better {
			figure.readings[of] = series.reading(values)
		}
	}
}

// owner returns whose card a series is about.
func (b *snapshotBuilder) owner(labels model.Metric) (cardOfPod, bool) {
	of := cardOfPod{podName{labelOf(labels, b.names.Namespace), labelOf(labels, b.names.Pod)}, cutText(clean(labelOf(labels, b.names.GPU)), maxCardNames)}
	return of, of.namespace != "" && of.name != ""
}

// labelOf returns a label of the exporter's. Prometheus renames those that it also gives to the exporter itself.
func labelOf(labels model.Metric, name string) string {
	return string(cmp.Or(labels[model.LabelName("exported_"+name)], labels[model.LabelName(name)]))
}

// reading adds up the processes or containers of the newest scrape; of a card's own figure the newest counts.
func (s Series) reading(values []model.SamplePair) reading {
	newest := slices.MaxFunc(values, func(a, b model.SamplePair) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	r := reading{value: float64(newest.Value), at: newest.Timestamp.Time().UTC(), grade: s.Grade}
	if s.Grade != rayslice.GradeCard {
		r.value = 0
		for _, v := range values {
			if newest.Timestamp.Sub(v.Timestamp) <= sameScrape {
				r.value += float64(v.Value)
			}
		}
	}
	r.value *= cmp.Or(s.Factor, 1)
	return r
}

// build puts the figures of each card of each pod together.
func (b *snapshotBuilder) build() snapshot {
	b.markShared()
	s := snapshot{taken: b.taken, cards: map[podName][]gauged{}}
	keys := map[cardOfPod]bool{}
	for _, f := range b.figures {
		for of := range f.readings {
			keys[of] = true
		}
	}
	for of := range keys {
		s.cards[of.podName] = append(s.cards[of.podName], b.gauge(of))
	}
	for _, cards := range s.cards {
		slices.SortFunc(cards, func(a, b gauged) int { return cmp.Compare(a.gpu, b.gpu) })
	}
	return s
}

func (b *snapshotBuilder) gauge(of cardOfPod) gauged {
	g := gauged{gpu: of.gpu}
	newer := func(r reading) *float64 {
		if r.at.After(g.at) {
			g.at = r.at
		}
		return &r.value
	}
	used, known := b.used.readings[of]
	if known {
		g.UsedMiB, g.memoryGrade = newer(used), used.grade
	}
	if limit, ok := b.limit.readings[of]; ok {
		g.LimitMiB = newer(limit)
	} else if free, ok := b.free.readings[of]; ok && known && free.grade == used.grade {
		all := used.value + *newer(free)
		g.LimitMiB = &all
	}
	if percent, ok := b.percent.readings[of]; ok {
		g.Percent, g.grade = newer(percent), percent.grade
	}
	return g
}

// markShared finds utilisations that are said to be a slice's but are the card's: several pods have the very same one
// (NVIDIA/dcgm-exporter#587). Sums over processes may be the same by chance.
func (b *snapshotBuilder) markShared() {
	byCard := map[string][]cardOfPod{}
	for of, r := range b.percent.readings {
		if of.gpu != "" && r.grade == rayslice.GradeSlice {
			byCard[of.gpu] = append(byCard[of.gpu], of)
		}
	}
	for sharers := range maps.Values(byCard) {
		first := b.percent.readings[sharers[0]].value
		different := func(of cardOfPod) bool { return b.percent.readings[of].value != first }
		if len(sharers) < 2 || first == 0 || slices.ContainsFunc(sharers, different) {
			continue
		}
		for _, of := range sharers {
			r := b.percent.readings[of]
			r.grade = rayslice.GradeCard
			b.percent.readings[of] = r
		}
	}
}
