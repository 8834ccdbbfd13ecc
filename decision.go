package rayslice

import (
	"slices"
	"strconv"
	"strings"
)

// Verdict is what a lead says about a request.
type Verdict string

// The verdicts.
const (
	VerdictApprove Verdict = "approve"
	VerdictReturn  Verdict = "return" // ask back; Answer is the question
	VerdictReject  Verdict = "reject"
)

// MaxAnswerLength bounds what a lead or an owner may write to the other, in characters.
const MaxAnswerLength = 1000

// A Decision is what a lead decides about one revision of a request.
type Decision struct {
	Verdict  Verdict
	Revision int    // of the request as the lead saw it; another one by now is a conflict
	Terms    *Terms // what is granted of it; nil = all. Only with VerdictApprove
	Answer   string // required for VerdictReturn and VerdictReject
}

// Terms are what a lead grants of what was asked: less, for a shorter time, or the same.
type Terms struct {
	Hours  int          // lifetime from approval
	Groups []GroupTerms // one per group of the draft, in its order
}

// GroupTerms are what is granted of one worker group.
type GroupTerms struct {
	Workers int // most workers it may have
	GiB     int // GiB of a slice; 0 for whole cards and groups without a GPU
}

// AsAsked returns the terms that grant all of the draft.
func (d RequestDraft) AsAsked() Terms {
	t := Terms{Hours: d.Hours}
	for _, g := range d.Groups {
		t.Groups = append(t.Groups, GroupTerms{g.MaxWorkers, g.GiB})
	}
	return t
}

// Grant returns the part of the draft that the terms grant; more than was asked for is refused by field. A lead who
// wants to give more asks back. The names of groups stay.
func (d RequestDraft) Grant(t Terms) (RequestDraft, error) {
	v := &validation{}
	v.within("hours", t.Hours, 1, d.Hours)
	if len(t.Groups) != len(d.Groups) {
		v.bad("groups", CodeRange, map[string]any{"min": len(d.Groups), "max": len(d.Groups)})
		return d, Invalid(v.fields...)
	}
	granted := d
	granted.Hours, granted.Groups = t.Hours, append([]Group(nil), d.Groups...)
	for i, asked := range d.Groups {
		terms, g := t.Groups[i], &granted.Groups[i]
		v.within(groupField(i)+".workers", terms.Workers, 1, asked.MaxWorkers)
		least := min(1, asked.GiB)
		v.within(groupField(i)+".slice_gib", terms.GiB, least, asked.GiB)
		g.GiB = terms.GiB
		g.MaxWorkers = terms.Workers
		g.Workers, g.MinWorkers = min(asked.Workers, terms.Workers), min(asked.MinWorkers, terms.Workers)
	}
	return granted, Invalid(v.fields...)
}

// CheckTerms refuses slices that the catalogue does not offer; those that were asked for stay allowed.
func (d RequestDraft) CheckTerms(t Terms, c Catalogue) error {
	v := &validation{}
	for i, g := range d.Groups[:min(len(d.Groups), len(t.Groups))] {
		pool, known := c.Pool(g.Pool)
		if gib := t.Groups[i].GiB; known && gib > 0 && gib < g.GiB && !pool.Offers(gib) {
			v.bad(groupField(i)+".slice_gib", CodeSizeNotOffered, map[string]any{"sizes": joinInts(pool.Sizes)})
		}
	}
	return Invalid(v.fields...)
}

// Validate names every bad field of the decision; nil when there is none.
func (d Decision) Validate() error {
	v := &validation{}
	switch d.Verdict {
	case VerdictApprove, VerdictReturn, VerdictReject:
	default:
		v.bad("verdict", CodeRequired, nil)
	}
	v.text("answer", d.Answer, MaxAnswerLength, d.Verdict != VerdictApprove)
	if d.Terms != nil && d.Verdict != VerdictApprove {
		v.bad("terms", CodeUnknownField, nil)
	}
	return Invalid(v.fields...)
}

// MadeOf reports whether the request is what the decision makes of it: sent twice, it counts once.
func (d Decision) MadeOf(r Request) bool {
	if r.Revision != d.Revision || r.Answer != d.Answer {
		return false
	}
	switch d.Verdict {
	case VerdictReject:
		return r.State == StateRejected
	case VerdictApprove:
		granted := r.Draft.AsAsked()
		return !r.EndsAt.IsZero() && (d.Terms == nil || d.Terms.Hours == granted.Hours && slices.Equal(d.Terms.Groups, granted.Groups))
	}
	return false
}

// State returns the state the verdict leads to.
func (v Verdict) State() State {
	switch v {
	case VerdictApprove:
		return StateApproved
	case VerdictReturn:
		return StateReturned
	}
	return StateRejected
}

// Reason returns why the request is then what it is, in the name of who decided.
func (d Decision) Reason(who string) Reason {
	code := map[Verdict]string{VerdictApprove: ReasonApproved, VerdictReturn: ReasonAskedBack, VerdictReject: ReasonRejected}[d.Verdict]
	r := Reason{Code: code, Args: map[string]any{"who": who}}
	if answer := strings.TrimSpace(d.Answer); answer != "" {
		r.Args["answer"] = answer
	}
	return r
}

func groupField(i int) string { return "groups[" + strconv.Itoa(i) + "]" }
