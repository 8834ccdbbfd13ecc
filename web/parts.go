package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rayslice/rayslice"
)

// maxDetail is how many characters of raw text from Kubernetes a page shows.
const maxDetail = 600

// stateTone returns the class that colours a state.
func stateTone(s rayslice.State) string {
	switch s {
	case rayslice.StateReady:
		return "ok"
	case rayslice.StateAttention, rayslice.StateRejected:
		return "bad"
	case rayslice.StatePending, rayslice.StateReturned, rayslice.StateStopping:
		return "warn"
	case rayslice.StateApproved, rayslice.StateProvisioning:
		return "busy"
	}
	return "plain"
}

// clockText returns the time of day, with the date when it is another day than now, in now's time zone.
func clockText(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// distance returns how far apart two moments are.
func distance(t, now time.Time) time.Duration { return t.Sub(now).Abs() }

// cut shortens s to n characters and marks the cut.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + " …"
}

// yamlLine is one line of YAML.
type yamlLine struct{ code, comment string }

// yamlLines splits YAML into lines and their comments. It is for the eye only: a # inside quotes is left alone.
func yamlLines(text string) []yamlLine {
	var lines []yamlLine
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		at := commentAt(line)
		lines = append(lines, yamlLine{code: line[:at], comment: line[at:]})
	}
	return lines
}

func commentAt(line string) int {
	quote := byte(0)
	for i := range len(line) {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case c == '#' && (i == 0 || line[i-1] == ' '):
			return i
		}
	}
	return len(line)
}

// sizeText returns one worker's GPU in a few words, e.g. "8 GiB a10"; the pool's model instead of its name when the
// catalogue knows it.
func sizeText(l *Localizer, s rayslice.Slice, c rayslice.Catalogue) string {
	model := s.Pool
	if p, ok := c.Pool(s.Pool); ok {
		model = p.Model
	}
	args := Args{"GiB": s.GiB, "Cards": s.Cards, "Model": model, "Core": s.CorePercent}
	switch {
	case s.IsZero():
		return l.T("size_cpu")
	case s.Whole():
		return l.N("size_whole", s.Cards, args)
	case s.CorePercent > 0:
		return l.T("size_core", args)
	case s.Cards > 1:
		return l.T("size_cards", args)
	}
	return l.T("size_slice", args)
}

// groupsText returns what a draft asks for, e.g. "2 × 8 GiB of NVIDIA A10 + 1–4 × no GPU".
func groupsText(l *Localizer, d rayslice.RequestDraft, c rayslice.Catalogue) string {
	parts := make([]string, 0, len(d.Groups))
	for _, g := range d.Groups {
		count := strconv.Itoa(g.Workers)
		if g.MinWorkers != g.MaxWorkers {
			count = fmt.Sprintf("%d–%d", g.MinWorkers, g.MaxWorkers)
		}
		parts = append(parts, count+" × "+sizeText(l, g.Slice, c))
	}
	return strings.Join(parts, " + ")
}

// chargeText returns a charge in words, e.g. "16 GiB", "2 cards", "16 GiB and 2 cards"; nothing is "no GPU".
func chargeText(l *Localizer, c rayslice.Charge) string {
	switch {
	case c.GiB > 0 && c.Cards > 0:
		return l.T("charge_both", Args{"GiB": amount(l, unitGiB, c.GiB), "Cards": amount(l, unitCards, c.Cards)})
	case c.Cards > 0:
		return amount(l, unitCards, c.Cards)
	case c.GiB > 0:
		return amount(l, unitGiB, c.GiB)
	}
	return l.T("size_cpu")
}
