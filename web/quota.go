package web

import (
	"strconv"

	"github.com/rayslice/rayslice"
)

// unit is what a quota is counted in.
type unit string

const (
	unitGiB   unit = "gib"
	unitCards unit = "cards"
)

// amount returns n of a unit in words: "16 GiB", "2 cards".
func amount(l *Localizer, u unit, n int) string {
	if u == unitCards {
		return l.N("amount_cards", n)
	}
	return l.T("amount_gib", Args{"N": n})
}

// meter is one bar of a quota: GiB of slices, or whole cards.
type meter struct {
	label    string // the bar in words
	segments []segment
	legend   []legendPart
	warning  string // why the request does not fit; "" = it does, or there is none
}

type segment struct{ class, x, width string }

type legendPart struct{ class, text string }

// quotaMeters returns the bars of a quota: always GiB, and cards where the team has or asks for some.
func quotaMeters(l *Localizer, q rayslice.Quota, asked rayslice.Charge) []meter {
	meters := []meter{newMeter(l, unitGiB, q.Limit.GiB, q.Used.GiB, q.Held.GiB, asked.GiB)}
	if q.Limit.Cards > 0 || q.Used.Cards > 0 || asked.Cards > 0 {
		meters = append(meters, newMeter(l, unitCards, q.Limit.Cards, q.Used.Cards, q.Held.Cards, asked.Cards))
	}
	return meters
}

func newMeter(l *Localizer, u unit, limit, used, held, asked int) meter {
	left := max(0, limit-used)
	m := meter{segments: stack(limit, used-held, held, asked)}
	say := func(class, text string) { m.legend = append(m.legend, legendPart{class, text}) }
	say("used", l.T("quota_used", Args{"Amount": amount(l, u, used-held)}))
	if held > 0 {
		say("held", l.T("quota_held", Args{"Amount": amount(l, u, held)}))
	}
	if asked > 0 {
		say("asked", l.T("quota_asked", Args{"Amount": amount(l, u, asked)}))
	}
	if used > limit {
		say("over", l.T("quota_above", Args{"Amount": amount(l, u, used-limit)}))
	} else {
		say("left", l.T("quota_left", Args{"Amount": amount(l, u, max(0, left-asked))}))
	}
	say("limit", l.T("quota_limit", Args{"Amount": amount(l, u, limit)}))
	switch {
	case asked > left && limit == 0:
		m.warning = l.T("quota_nothing_" + string(u))
	case asked > left:
		m.warning = l.T("quota_over", Args{"Over": amount(l, u, asked-left), "Left": amount(l, u, left)})
	}
	for i, part := range m.legend {
		if i > 0 {
			m.label += ", "
		}
		m.label += part.text
	}
	return m
}

// stack lays used, held and asked end to end, in percent of the limit, cut at the end of the bar.
// What is used beyond the limit is the bar's end: the bar is then as long as the use.
func stack(limit, used, held, asked int) []segment {
	if above := used + held - limit; above > 0 {
		return layOut(used+held, part{"used", min(used, limit)}, part{"held", max(0, min(held, limit-used))}, part{"over", above})
	}
	class := "asked"
	if used+held+asked > limit {
		class = "over"
	}
	return layOut(limit, part{"used", used}, part{"held", held}, part{class, asked})
}

// part is a share of a bar.
type part struct {
	class string
	n     int
}

// layOut lays parts end to end, in percent of the limit, cut at the end of the bar.
func layOut(limit int, parts ...part) []segment {
	whole := limit
	if limit == 0 {
		for _, p := range parts {
			whole += p.n
		}
	}
	whole = max(whole, 1)
	var segments []segment
	at := 0.0
	for _, p := range parts {
		width := min(float64(p.n)*100/float64(whole), 100-at)
		if width <= 0 {
			continue
		}
		segments = append(segments, segment{p.class, percent(at), percent(width)})
		at += width
	}
	return segments
}

func percent(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }
