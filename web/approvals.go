package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// ApprovalsPage lists what waits for somebody's decision, or what was decided.
// Forms: POST /approvals/ID decides one, POST /approvals several at once.
type ApprovalsPage struct {
	Frame
	Pages
	Catalogue rayslice.Catalogue
	Filter    ApprovalsFilter
	Teams     []string // to choose from in the filter
	Rows      []ApprovalRow
	Waiting   int                // requests that this user may decide now, whatever the filter
	Done      *ApprovalRow       // ?done=ID: the request that was just decided
	Outcomes  []Outcome          // what became of several at once; nil = it was not asked for
	Batch     BatchForm          // as it was typed
	BatchBad  *rayslice.Error    // why nothing was decided of several; nil = it was
	Together  rayslice.FitResult // of all that can be decided on the page, at once
	Crowded   rayslice.FitResult // of what was approved at once
	News      ApprovalNews
	Stream    string // address of the event stream; "" = the page does not refresh itself
}

// ApprovalsFilter narrows the approvals. Its fields are the query parameters of GET /approvals.
type ApprovalsFilter struct {
	Decided bool   // ?decided=1
	Team    string // ?team=
	Search  string // ?q= part of a name
}

// ApprovalNews is what has changed since the page was drawn. It is shown beside the forms and never replaces them.
type ApprovalNews struct {
	Fresh   int // requests that wait and are not on the page
	Changed int // those on the page that were decided or changed meanwhile
}

// ApprovalRow is one request with what somebody needs to know to decide it.
type ApprovalRow struct {
	Request rayslice.Request
	Quota   rayslice.Quota        // of its team, the request's own charge included
	Record  rayslice.Record       // of its owner in the team
	Talk    []rayslice.AuditEntry // questions and answers so far, oldest first
	Fit     rayslice.FitResult
	Refusal *rayslice.Error // why this user may not decide it; nil = they may
	Form    DecisionForm
	Problem *rayslice.Error // why the form came back; nil = it did not
	Open    bool            // unfolded
	Back    bool            // after the decision, return to the request's own page
}

// Undecided reports whether this user can decide the request now.
func (r ApprovalRow) Undecided() bool { return r.Refusal == nil && r.Request.State.Open() }

// ApprovalPage is one request and its decision, when it could not be carried out.
type ApprovalPage struct {
	Frame
	Catalogue rayslice.Catalogue
	Row       ApprovalRow
}

// Outcome is what became of one of several decisions.
type Outcome struct {
	ID, Name string
	Problem  *rayslice.Error // nil = it went through
	State    rayslice.State  // now
}

// BatchForm decides several requests at once: POST /approvals with ids (each "ID@REVISION"), verdict and answer.
type BatchForm struct {
	IDs    []string
	Answer string
}

// BatchValue is the value of the check box that chooses a request, as it is now, for a decision about several.
func BatchValue(r rayslice.Request) string { return r.ID + "@" + strconv.Itoa(r.Revision) }

// ParseBatchValue reads a BatchValue; false when it is none.
func ParseBatchValue(value string) (id string, revision int, ok bool) {
	id, number, _ := strings.Cut(value, "@")
	revision, err := strconv.Atoi(number)
	return id, revision, err == nil && id != ""
}

// DecisionForm is the form of a decision as it was typed. The names of its inputs are the paths of rayslice.FieldError.
type DecisionForm struct {
	Revision string
	Hours    string
	Answer   string
	Groups   []TermsForm
}

// TermsForm is what is granted of one worker group.
type TermsForm struct{ Workers, GiB string }

// NewDecisionForm returns the form that grants all that was asked for.
func NewDecisionForm(r rayslice.Request) DecisionForm {
	terms := r.Draft.AsAsked()
	f := DecisionForm{Revision: strconv.Itoa(r.Revision), Hours: strconv.Itoa(terms.Hours)}
	for _, g := range terms.Groups {
		f.Groups = append(f.Groups, TermsForm{strconv.Itoa(g.Workers), strconv.Itoa(g.GiB)})
	}
	return f
}

// ParseDecisionForm reads a posted decision about the request; what is not there is as it was asked for.
func ParseDecisionForm(v url.Values, r rayslice.Request) DecisionForm {
	f := NewDecisionForm(r)
	read := func(name string, into *string) {
		if v.Has(name) {
			*into = strings.TrimSpace(v.Get(name))
		}
	}
	read("revision", &f.Revision)
	read("hours", &f.Hours)
	read("answer", &f.Answer)
	for i := range f.Groups {
		read(path(i, "workers"), &f.Groups[i].Workers)
		read(path(i, "slice_gib"), &f.Groups[i].GiB)
	}
	return f
}

// Decision turns the form into a decision. The error is an *rayslice.Error of KindInvalid that names every bad input.
func (f DecisionForm) Decision(verdict rayslice.Verdict, draft rayslice.RequestDraft) (rayslice.Decision, error) {
	p := &formParser{}
	d := rayslice.Decision{Verdict: verdict, Revision: p.number("revision", f.Revision, 0), Answer: strings.TrimSpace(strings.ReplaceAll(f.Answer, "\r\n", "\n"))}
	if verdict == rayslice.VerdictApprove {
		terms := f.terms(p)
		if asked := draft.AsAsked(); terms.Hours != asked.Hours || !slices.Equal(terms.Groups, asked.Groups) {
			d.Terms = &terms
		}
	}
	if len(p.bad) > 0 {
		return d, rayslice.Invalid(p.bad...)
	}
	return d, d.Validate()
}

func (f DecisionForm) terms(p *formParser) rayslice.Terms {
	terms := rayslice.Terms{Hours: p.number("hours", f.Hours, 0)}
	for i, g := range f.Groups {
		terms.Groups = append(terms.Groups, rayslice.GroupTerms{Workers: p.number(path(i, "workers"), g.Workers, 0), GiB: p.number(path(i, "slice_gib"), g.GiB, 0)})
	}
	return terms
}

// granted returns what approving the form as it stands would grant; what was asked for, where that cannot be told.
func (r ApprovalRow) granted() rayslice.RequestDraft {
	p := &formParser{}
	granted, err := r.Request.Draft.Grant(r.Form.terms(p))
	if err != nil || len(p.bad) > 0 {
		return r.Request.Draft
	}
	return granted
}

// grantedUntil returns when a cluster that is approved now ends.
func (r ApprovalRow) grantedUntil(now time.Time) time.Time {
	return now.Add(time.Duration(r.granted().Hours) * time.Hour)
}

// fieldID returns the id of an input of the row's form; several rows are on a page.
func (r ApprovalRow) fieldID(name string) string { return "r-" + r.Request.ID + "-" + inputID(name) }

func (r ApprovalRow) errors(name string) []rayslice.FieldError {
	if r.Problem == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Problem.Fields), func(f rayslice.FieldError) bool { return f.Field != name })
}

// attributes returns what an input of the row's form has in common with the others.
func (r ApprovalRow) attributes(name, value string) templ.Attributes {
	a := templ.Attributes{"name": name, "id": r.fieldID(name), "value": value}
	if len(r.errors(name)) > 0 {
		a["aria-invalid"], a["aria-describedby"] = "true", r.fieldID(name)+"-error"
	}
	return a
}

// without returns the attributes that lack one: selects and text areas have no value.
func without(attributes templ.Attributes, name string) templ.Attributes {
	delete(attributes, name)
	return attributes
}

// chosen reports whether the request was chosen in a form that came back.
func chosen(f BatchForm, r rayslice.Request) bool { return slices.Contains(f.IDs, BatchValue(r)) }

// grantable returns the sizes that may be granted of a group: what was asked for, and the smaller ones there are.
func grantable(g rayslice.Group, c rayslice.Catalogue) []int {
	sizes := []int{}
	if pool, ok := c.Pool(g.Pool); ok {
		for _, gib := range pool.Sizes {
			if gib < g.GiB {
				sizes = append(sizes, gib)
			}
		}
	}
	return append(sizes, g.GiB)
}

// groupTitle names a group where a form has several.
func groupTitle(l *Localizer, d rayslice.RequestDraft, i int, c rayslice.Catalogue) string {
	one := d
	one.Groups = d.Groups[i : i+1]
	return groupsText(l, one, c)
}

// wish says what is asked for, for how long.
func wish(l *Localizer, d rayslice.RequestDraft, c rayslice.Catalogue) string {
	return l.T("wish", Args{"What": groupsText(l, d, c), "Hours": l.Duration(time.Duration(d.Hours) * time.Hour)})
}

// fitBadgeText says in a few words whether the request finds room now.
func fitBadgeText(l *Localizer, r ApprovalRow) (tone, text string) {
	switch {
	case !r.Fit.Known:
		return "plain", l.T("fits_unknown")
	case r.Fit.Fits && r.Request.Charge == (rayslice.Charge{}):
		return "ok", l.T("fits_without_gpu")
	case r.Fit.Fits:
		return "ok", l.N("fits_now", r.Fit.OnCards)
	}
	if r.Fit.Maybe {
		return "warn", l.T("room_maybe")
	}
	return "warn", l.N("fits_not", r.Fit.Missing)
}

// crowdedText says that several requests find no room together; "" = they do, or nothing is known.
func crowdedText(l *Localizer, key string, fit rayslice.FitResult) string {
	if !fit.Known || fit.Fits || fit.Maybe {
		return ""
	}
	return l.N(key, fit.Missing)
}

// recordText says what the owner had before, and how much of it they really held.
func recordText(l *Localizer, r rayslice.Record) string {
	if r.Grants == 0 {
		return l.T("record_none")
	}
	text := l.N("record_grants", r.Grants)
	if percent, known := r.Percent(); known {
		text += " · " + l.T("record_held", Args{"Percent": percent, "Hours": heldText(l, r)})
	}
	return text
}

func heldText(l *Localizer, r rayslice.Record) string {
	var parts []string
	args := func(held, granted float64) Args {
		return Args{"Held": hoursText(held), "Granted": hoursText(granted)}
	}
	if r.Granted.GiB > 0 {
		parts = append(parts, l.T("gib_hours", args(r.Held.GiB, r.Granted.GiB)))
	}
	if r.Granted.Cards > 0 {
		parts = append(parts, l.T("card_hours", args(r.Held.Cards, r.Granted.Cards)))
	}
	return strings.Join(parts, " + ")
}

// hoursText rounds to whole numbers, and where these would hide all there is to one digit behind the point.
func hoursText(n float64) string {
	if n > 0 && n < 10 {
		return strconv.FormatFloat(max(n, 0.1), 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// decisionLabel is a short label: the fields of a decision stand side by side.
func decisionLabel(l *Localizer, name string) string {
	if strings.HasSuffix(name, ".slice_gib") {
		return l.T("column_slice")
	}
	return fieldName(l, name)
}

// afterMeters returns what the team holds once the form as it stands is approved: what runs, this request, and the others
// that wait.
func afterMeters(l *Localizer, r ApprovalRow) []meter {
	q, was, now := r.Quota, r.Request.Charge, r.granted().Charge()
	var meters []meter
	if was.GiB > 0 || was.Cards == 0 {
		meters = append(meters, afterMeter(l, unitGiB, q.Limit.GiB, q.Used.GiB-q.Held.GiB, now.GiB, q.Held.GiB-was.GiB))
	}
	if was.Cards > 0 {
		meters = append(meters, afterMeter(l, unitCards, q.Limit.Cards, q.Used.Cards-q.Held.Cards, now.Cards, q.Held.Cards-was.Cards))
	}
	return meters
}

func afterMeter(l *Localizer, u unit, limit, running, this, others int) meter {
	running, others = max(0, running), max(0, others)
	m := meter{segments: layOut(limit, part{"used", running}, part{"asked", this}, part{"held", others})}
	m.label = l.T("after_of", Args{"N": running + this, "Limit": amount(l, u, limit)})
	if others > 0 {
		m.label += l.T("after_waiting", Args{"N": others})
	}
	if running+this > limit {
		m.warning = l.T("after_over")
	}
	return m
}

// decisionText says what became of a request, in the list of decided ones.
func decisionText(l *Localizer, r rayslice.Request) (tone, text string) {
	switch {
	case r.State == rayslice.StateRejected:
		return "bad", l.T("decided_rejected")
	case r.State == rayslice.StateCancelled:
		return "plain", l.State(r.State)
	case r.Asked != nil:
		return "ok", l.T("decided_smaller")
	}
	return "ok", l.T("decided_approved")
}

// doneText says what was just decided.
func doneText(l *Localizer, r rayslice.Request) string {
	args := Args{"Name": r.Draft.Name, "What": chargeText(l, r.Charge), "Owner": r.Owner.Name, "Hours": r.Draft.Hours}
	switch {
	case r.State == rayslice.StateReturned:
		return l.T("done_returned", args)
	case r.State == rayslice.StateRejected:
		return l.T("done_rejected", args)
	case r.State.Open():
		return l.T("done_open", args)
	}
	return l.T("done_approved", args)
}

// countText is a count that stops at a hundred.
func countText(n int) string {
	if n >= 100 {
		return "99+"
	}
	return strconv.Itoa(n)
}

// several reports whether there is more than one request to decide at once.
func several(rows []ApprovalRow) bool {
	n := 0
	for _, r := range rows {
		if r.Undecided() {
			n++
		}
	}
	return n > 1
}

// clearApprovals is the address without filter.
func clearApprovals(f ApprovalsFilter) string {
	if f.Decided {
		return "/approvals?decided=1"
	}
	return "/approvals"
}

// talkText says who said what.
func talkText(l *Localizer, e rayslice.AuditEntry) string {
	said, _ := e.Reason.Args["answer"].(string)
	return l.T("talk", Args{"Who": e.Actor, "Said": said})
}

// refusedText says why a decision could not be carried out, with the present truth.
func refusedText(l *Localizer, p ApprovalPage) string { return l.Problem(p.Row.Problem) }

// typed reports whether there is something in the form that is worth keeping in sight.
func (r ApprovalRow) typed() bool { return r.Form.Answer != "" }
