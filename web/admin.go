package web

import (
	"net/url"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// AdminPage is what an admin should look at.
type AdminPage struct {
	Frame
	Raises    []rayslice.Raise // that wait, the oldest last; the first few
	MoreRaise bool             // there are more than Raises
	Late      []rayslice.Request
	MoreLate  bool
	Drifts    []QuotaDrift
	Orphans   []rayslice.Orphan    // clusters with our label and no request
	Unmanaged []rayslice.Unmanaged // what holds GPUs in teams' namespaces without the portal
	AuditOpen bool                 // the portal's database role could change the audit log
}

// QuotaDrift is a team whose used quota is not the sum of its charges.
type QuotaDrift struct {
	Team         string
	Used, Ledger rayslice.Charge
}

// AdminTeamsPage lists the teams and adds one.
// Form: POST /admin/teams with name, namespace, gib and cards.
type AdminTeamsPage struct {
	Frame
	Search string // ?q= part of a name or namespace
	Rows   []AdminTeamRow
	Pages  Pages
	Form   Form
}

// AdminTeamRow is one team of the list.
type AdminTeamRow struct {
	Team  rayslice.Team
	Quota rayslice.Quota
}

// AdminRaisesPage lists what leads ask for.
type AdminRaisesPage struct {
	Frame
	State  string // ?state=; "" = all
	Team   string // ?team=
	Teams  []string
	Raises []rayslice.Raise
	Pages  Pages
}

// AdminRaisePage is one raise and its decision.
// Form: POST /admin/raises/ID with verdict (grant or deny), gib, cards, until (a day) and answer.
type AdminRaisePage struct {
	Frame
	Raise rayslice.Raise
	Quota rayslice.Quota
	Form  Form
	May   *rayslice.Error // why this user may not decide; nil = they may
}

// Verdicts of a raise's form.
const (
	RaiseGrant = "grant"
	RaiseDeny  = "deny"
)

// ParseTeam reads the form that adds a team.
func ParseTeam(values url.Values) (rayslice.TeamDraft, error) {
	r := formReader{values: values}
	d := rayslice.TeamDraft{Name: r.text("name"), Namespace: r.text("namespace"), Limit: r.charge("")}
	return d, rayslice.Invalid(r.bad...)
}

// ParseRaiseDecision reads the form that decides a raise.
func ParseRaiseDecision(values url.Values) (rayslice.RaiseDecision, error) {
	r := formReader{values: values}
	d := rayslice.RaiseDecision{Grant: values.Get("verdict") == RaiseGrant, Answer: r.text("answer")}
	if !d.Grant && values.Get("verdict") != RaiseDeny {
		r.bad = append(r.bad, rayslice.FieldError{Field: "verdict", Code: rayslice.CodeRequired})
	}
	if d.Grant {
		d.Charge, d.Until = r.charge(""), r.day("until")
	}
	return d, rayslice.Invalid(r.bad...)
}

// RaiseDecisionValues returns the form that decides a raise as it begins: with all of what was asked for.
func RaiseDecisionValues(r rayslice.Raise) url.Values {
	return url.Values{"gib": {digits(r.Charge.GiB)}, "cards": {digits(r.Charge.Cards)}, "until": {dayText(r.Until)}}
}

// adminTab is one part of the admin's pages.
type adminTab struct{ href, label, current string }

func adminTabs(f Frame) []adminTab {
	tabs := []adminTab{
		{href: "/admin", label: f.Locale.T("admin_overview")},
		{href: "/admin/teams", label: f.Locale.T("admin_teams")},
		{href: "/admin/people", label: f.Locale.T("admin_people")},
		{href: "/admin/raises", label: f.Locale.T("admin_raises")},
		{href: "/admin/audit", label: f.Locale.T("audit_title")},
	}
	path, _, _ := strings.Cut(f.Path, "?")
	for i, tab := range tabs {
		tabs[i].current = "false"
		if path == tab.href || (tab.href != "/admin" && strings.HasPrefix(path, tab.href+"/")) {
			tabs[i].current = "page"
		}
	}
	return tabs
}

// raisedLimit is a team's limit if all of what was asked for were granted.
func raisedLimit(p AdminRaisePage) rayslice.Charge { return p.Quota.Limit.Add(p.Raise.Charge) }

// lastRaiseDay is the last day a decision may choose; "" = any within a year.
func lastRaiseDay(p AdminRaisePage) string {
	if p.Raise.Until.IsZero() {
		return dayText(p.Now.Add(rayslice.MaxRaise - 24*time.Hour))
	}
	return dayText(p.Raise.Until)
}
