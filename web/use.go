package web

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rayslice/rayslice"
)

// EventUse is the name of the server-sent event whose data is a fresh UseLive or UseRows: use changes every few seconds, and
// the rest of the page does not.
const EventUse = "use"

// UseStaleAfter is the age from which a page says that there is no data: three looks of the slow kind did not come.
const UseStaleAfter = 95 * time.Second

// UseHistory is what a page shows of the past use of one cluster.
type UseHistory struct {
	Range  string // "hour", "day" or "week", the ?range= of the page
	From   time.Time
	To     time.Time
	Step   time.Duration
	Points []rayslice.UsePoint // in the order of time
}

// UseRanges are the stretches of time a page can show, the shortest first.
func UseRanges() []string { return []string{"hour", "day", "week"} }

// UseStretch returns how long a range is and in which steps it is shown; false when there is no such range.
func UseStretch(name string) (length, step time.Duration, ok bool) {
	switch name {
	case "hour":
		return time.Hour, time.Minute, true
	case "day":
		return 24 * time.Hour, 10 * time.Minute, true
	case "week":
		return 7 * 24 * time.Hour, time.Hour, true
	}
	return 0, 0, false
}

// useRow is the share of one card that one worker has.
type useRow struct {
	id     string
	pod    podRow
	sample *rayslice.Sample // nil = nothing known
	number int              // of the card among the worker's, from 1
	cards  int              // of the worker
	shares int              // workers of this cluster that the same figure is for
	read   bool             // the sources have said something of the cluster
}

// useRows returns a row per share of a card: those of the workers that hold a slice now, known or not.
func useRows(c rayslice.Cluster, u rayslice.Use) []useRow {
	byPod, sharers := map[string][]rayslice.Sample{}, map[string]int{}
	for _, s := range u.Samples {
		byPod[s.PodUID] = append(byPod[s.PodUID], s)
		if s.MemoryGrade == rayslice.GradeCard && s.GPU != "" {
			sharers[s.GPU]++
		}
	}
	var rows []useRow
	for i, w := range c.Workers {
		if w.Slice.IsZero() {
			continue
		}
		pod := podRow{Worker: w, number: i + 1}
		samples := byPod[w.UID]
		if len(samples) == 0 {
			rows = append(rows, useRow{id: fmt.Sprintf("use-%s", w.Name), pod: pod, number: 1, cards: 1, read: !u.DataAt.IsZero()})
		}
		for n := range samples {
			rows = append(rows, useRow{id: fmt.Sprintf("use-%s-%d", w.Name, n), pod: pod, sample: &samples[n], number: n + 1, cards: len(samples), shares: sharers[samples[n].GPU]})
		}
	}
	return rows
}

func firstUseRows(rows []useRow) []useRow { return rows[:min(len(rows), maxPods)] }

// stale reports whether what is shown is too old to be called the present.
func stale(u rayslice.Use, now time.Time) bool {
	return !u.DataAt.IsZero() && now.Sub(u.DataAt) >= UseStaleAfter
}

// useNote says why there is nothing new; "" when there is.
func useNote(l *Localizer, p RequestPage) string {
	switch {
	case !p.Request.State.Live() || p.Request.State == rayslice.StateApproved || p.Request.State == rayslice.StateStopping:
		if p.Request.State.Final() {
			return l.T("use_over")
		}
		return l.T("use_later")
	case p.Use.DataAt.IsZero() && !p.Use.Problem.IsZero():
		return l.T("use_never") + " " + l.Reason(p.Use.Problem)
	case p.Use.DataAt.IsZero():
		return l.T("use_never")
	case !stale(p.Use, p.Now):
		return ""
	case !p.Use.Problem.IsZero():
		return l.Reason(p.Use.Problem)
	}
	return l.T("use_old")
}

// showsUse reports whether a request has, had or will have slices whose use can be shown.
func showsUse(r rayslice.Request) bool {
	return r.State != rayslice.StateRejected && r.State != rayslice.StateCancelled &&
		slices.ContainsFunc(r.Draft.Groups, func(g rayslice.Group) bool { return !g.Slice.IsZero() })
}

// running reports whether bars of the present can be shown.
func running(s rayslice.State) bool {
	return s == rayslice.StateProvisioning || s == rayslice.StateReady || s == rayslice.StateAttention
}

func gibText(mib float64) string { return strconv.FormatFloat(mib/1024, 'f', 1, 64) }

// memoryText says how much of a slice's memory is in use.
func memoryText(l *Localizer, s *rayslice.Sample) string {
	switch {
	case s == nil || s.UsedMiB == nil:
		return l.T("use_unknown")
	case s.LimitMiB == nil:
		return l.T("use_no_limit", Args{"Used": gibText(float64(*s.UsedMiB))})
	}
	return l.T("use_of", Args{"Used": gibText(float64(*s.UsedMiB)), "Limit": gibText(float64(*s.LimitMiB))})
}

// memoryAside says what else is to be known about the figure; "" = nothing.
func memoryAside(l *Localizer, row useRow) string {
	s := row.sample
	switch {
	case s == nil && !row.read:
		return "" // the note above says that there is nothing yet
	case s == nil:
		return l.T("use_none_here")
	case s.MemoryGrade != rayslice.GradeCard:
		return ""
	case row.pod.Slice.Whole():
		return l.T("use_whole")
	case row.shares > 1:
		return l.N("use_card_shared", row.shares)
	}
	return l.T("use_card")
}

// percentText says how busy a slice or its card is.
func percentText(l *Localizer, s *rayslice.Sample) string {
	if s == nil || s.Percent == nil {
		return l.T("use_unknown")
	}
	return l.T("use_percent", Args{"Percent": strconv.FormatFloat(*s.Percent, 'f', 0, 64)})
}

func percentAside(l *Localizer, row useRow) string {
	if row.sample == nil || row.sample.Percent == nil {
		return ""
	}
	if row.sample.Grade == rayslice.GradeCard && !row.pod.Slice.Whole() {
		return l.T("use_percent_card")
	}
	return ""
}

// useBar is a bar of memory: its width in percent, or not known.
type useBar struct {
	known bool
	width string
	class string // of the filled part
}

func barOf(used, limit *int, card, old bool) useBar {
	if used == nil || limit == nil || *limit <= 0 {
		return useBar{}
	}
	share := min(100, 100*float64(*used)/float64(*limit))
	b := useBar{known: true, width: strconv.FormatFloat(share, 'f', 1, 64), class: "mem"}
	switch {
	case old:
		b.class = "old"
	case card:
		b.class = "card"
	case share >= 95:
		b.class = "full"
	}
	return b
}

func (row useRow) bar(old bool) useBar {
	if row.sample == nil {
		return useBar{}
	}
	return barOf(row.sample.UsedMiB, row.sample.LimitMiB, row.sample.MemoryGrade == rayslice.GradeCard && !row.pod.Slice.Whole(), old)
}

// useSum is what a list shows of one cluster: the slices whose own use is known, added up.
type useSum struct {
	used, limit   int // MiB
	known, others int // shares of cards that are in it, and that are not
}

func sumOf(row ClusterRow) useSum {
	var sum useSum
	for _, r := range useRows(row.Cluster, row.Use) {
		whole := r.pod.Slice.Whole()
		if s := r.sample; s != nil && s.UsedMiB != nil && s.LimitMiB != nil && (s.MemoryGrade != rayslice.GradeCard || whole) {
			sum.used, sum.limit, sum.known = sum.used+*s.UsedMiB, sum.limit+*s.LimitMiB, sum.known+1
			continue
		}
		sum.others++
	}
	return sum
}

// sumText says what a list says beside its small bar.
func sumText(l *Localizer, row ClusterRow, now time.Time) string {
	sum := sumOf(row)
	switch {
	case stale(row.Use, now):
		return l.T("use_since", Args{"Age": l.Duration(now.Sub(row.Use.DataAt))})
	case sum.known == 0:
		return l.T("use_sum_unknown")
	}
	text := l.T("use_of", Args{"Used": gibText(float64(sum.used)), "Limit": gibText(float64(sum.limit))})
	if sum.others > 0 {
		text += " · " + l.N("use_sum_others", sum.others)
	}
	return text
}

// maxUseColumns is how many shares of cards the table of a history shows side by side.
const maxUseColumns = 8

// useSeries is one share of a card over time.
type useSeries struct {
	label  string
	points map[time.Time]rayslice.UsePoint
}

// series returns the shares of cards of a history in the order of their pods' names.
func (h UseHistory) series() []useSeries {
	byKey := map[string]*useSeries{}
	for _, p := range h.Points {
		key := p.Pod + "\x00" + p.PodUID + "\x00" + p.GPU
		if byKey[key] == nil {
			byKey[key] = &useSeries{label: tail(p.Pod, 18), points: map[time.Time]rayslice.UsePoint{}}
		}
		byKey[key].points[p.At] = p
	}
	var all []useSeries
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all = append(all, *byKey[key])
	}
	return all
}

func firstSeries(all []useSeries) []useSeries { return all[:min(len(all), maxUseColumns)] }

// times returns the steps of a history, the latest first.
func (h UseHistory) times() []time.Time {
	var all []time.Time
	if h.Step <= 0 {
		return nil
	}
	for at := h.To.Truncate(h.Step); !at.Before(h.From); at = at.Add(-h.Step) {
		all = append(all, at.UTC())
	}
	return all
}

// cell says what a series was at a moment; "–" is a gap.
func (s useSeries) cell(l *Localizer, at time.Time) string {
	p, ok := s.points[at]
	if !ok || p.UsedMiB == nil {
		return "–"
	}
	text := l.T("use_gib", Args{"GiB": gibText(*p.UsedMiB)})
	if p.Percent != nil {
		text += " · " + l.T("use_percent", Args{"Percent": strconv.FormatFloat(*p.Percent, 'f', 0, 64)})
	}
	return text
}

// historyGrades says what the figures of a history are about; "" = the slices themselves.
func historyGrades(l *Localizer, h UseHistory) string {
	card := func(grade func(rayslice.UsePoint) rayslice.Grade) bool {
		return slices.ContainsFunc(h.Points, func(p rayslice.UsePoint) bool { return grade(p) == rayslice.GradeCard })
	}
	text := ""
	if card(func(p rayslice.UsePoint) rayslice.Grade { return p.MemoryGrade }) {
		text = l.T("use_history_card")
	}
	if card(func(p rayslice.UsePoint) rayslice.Grade { return p.Grade }) {
		text += " " + l.T("use_history_percent")
	}
	return text
}

// useSource says where the figures come from.
func useSource(l *Localizer, u rayslice.Use) string {
	switch u.Source {
	case rayslice.UseFromRay, rayslice.UseFromPrometheus:
		return l.T("use_from_" + string(u.Source))
	}
	return ""
}

// miniBar is the bar of a list's row.
func miniBar(row ClusterRow, now time.Time) useBar {
	sum := sumOf(row)
	if sum.known == 0 {
		return useBar{}
	}
	return barOf(&sum.used, &sum.limit, false, stale(row.Use, now))
}

// nothingHeld reports whether a team has held nothing in the time shown.
func nothingHeld(u rayslice.TeamUse) bool {
	return !slices.ContainsFunc(u.Points, func(p rayslice.TeamUsePoint) bool { return p.GrantedGiB > 0 || p.UsedGiB != nil })
}

// leftOut is how many slices the latest hour that knows of any has left out.
func leftOut(u rayslice.TeamUse) int {
	for _, p := range slices.Backward(u.Points) {
		if p.Known+p.Unknown > 0 {
			return p.Unknown
		}
	}
	return 0
}

// mostOf is the top of the chart, in GiB.
func mostOf(u rayslice.TeamUse) float64 {
	most := 1.0
	for _, p := range u.Points {
		most = max(most, p.GrantedGiB)
		if p.UsedGiB != nil {
			most = max(most, *p.UsedGiB)
		}
	}
	return most
}

func heightOf(u rayslice.TeamUse, gib float64) string {
	return strconv.FormatFloat(100*gib/mostOf(u), 'f', 1, 64)
}

func topOf(u rayslice.TeamUse, gib float64) string {
	return strconv.FormatFloat(100-100*gib/mostOf(u), 'f', 1, 64)
}

func latestFirst(points []rayslice.TeamUsePoint) []rayslice.TeamUsePoint {
	points = slices.Clone(points)
	slices.Reverse(points)
	return points
}

func usedText(l *Localizer, p rayslice.TeamUsePoint) string {
	if p.UsedGiB == nil {
		return l.T("use_unknown")
	}
	return l.T("use_gib", Args{"GiB": gibText(*p.UsedGiB * 1024)})
}

// teamUseLabel says in words what the chart shows.
func teamUseLabel(l *Localizer, u rayslice.TeamUse) string {
	last := u.Points[len(u.Points)-1]
	return l.T("team_use_label", Args{"Granted": gibText(last.GrantedGiB * 1024), "Used": usedText(l, last)})
}
