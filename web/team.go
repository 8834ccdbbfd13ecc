package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// TeamPage shows a team: quota and how it came about, rules, people, clusters, and raises.
// Forms: POST /teams/NAME/raises, /deputies and /limit; the buttons that end something ask once more.
type TeamPage struct {
	Frame
	Team       rayslice.Team
	Quota      rayslice.Quota
	Rows       []ClusterRow // live requests of the team
	More       bool         // there are more than Rows
	Catalogue  rayslice.Catalogue
	Rules      rayslice.Rules
	Members    []TeamMember
	Grants     []rayslice.Grant // one page of what the limit is and was made of, the latest first
	GrantPages Pages
	Raises     []rayslice.Raise // one page, the latest first
	RaisePages Pages
	Raise      Form             // gib, cards, until (a day), purpose
	Deputy     Form             // user (id), until (a day)
	Base       rayslice.Charge  // the base limit that holds now
	Limit      Form             // gib, cards, note; for admins
	Lowered    *rayslice.Charge // the base limit that an admin has to confirm; nil = none
	Confirm    string           // ?confirm= which question is asked, without JavaScript
	Use        rayslice.TeamUse // of the last week
}

// TeamMember is a person of a team with every reason why they are one.
type TeamMember struct {
	User   rayslice.User
	Grants []rayslice.RoleGrant
}

// ParseRaise reads the form that asks for more quota.
func ParseRaise(team string, values url.Values) (rayslice.RaiseDraft, error) {
	r := formReader{values: values}
	d := rayslice.RaiseDraft{Team: team, Charge: r.more(), Until: r.day("until"), Purpose: r.text("purpose")}
	return d, rayslice.Invalid(r.bad...)
}

// more reads how much more somebody asks for: an empty input asks for none of it.
func (r *formReader) more() rayslice.Charge {
	return rayslice.Charge{GiB: r.number("gib", 0), Cards: r.number("cards", 0)}
}

// ParseLimit reads the form that sets a team's base limit.
func ParseLimit(values url.Values) (limit rayslice.Charge, note string, err error) {
	r := formReader{values: values}
	limit, note = r.charge(""), r.text("note")
	return limit, note, rayslice.Invalid(r.bad...)
}

// ParseDeputy reads the form that names a deputy.
func ParseDeputy(values url.Values) (user int64, until time.Time, err error) {
	r := formReader{values: values}
	user, until = int64(r.number("user", 0)), r.day("until")
	if user == 0 && len(r.bad) == 0 {
		r.bad = append(r.bad, rayslice.FieldError{Field: "user", Code: rayslice.CodeRequired})
	}
	if r.text("until") == "" {
		r.bad = append(r.bad, rayslice.FieldError{Field: "until", Code: rayslice.CodeRequired})
	}
	return user, until, rayslice.Invalid(r.bad...)
}

// LimitValues returns the form that sets a team's base limit as it begins: with the one that holds now.
func LimitValues(base rayslice.Charge) url.Values {
	return url.Values{"gib": {digits(base.GiB)}, "cards": {digits(base.Cards)}}
}

func (p TeamPage) path(rest ...string) string {
	return "/teams/" + strings.Join(append([]string{url.PathEscape(p.Team.Name)}, rest...), "/")
}

func (p TeamPage) canLead() bool  { return p.User.CanLead(p.Team.Name) }
func (p TeamPage) canAdmin() bool { return p.User.CanAdmin() }

// confirmations are the questions this user may be asked on the page.
func (p TeamPage) confirmations() []Confirmation {
	var all []Confirmation
	add := func(id, heading, text, button string, action ...string) {
		all = append(all, Confirmation{
			ID: id, Link: p.path() + "?confirm=" + id, Back: p.path(), Action: p.path(action...),
			Heading: heading, Text: text, Button: button, Keep: p.Locale.T("confirm_keep"),
		})
	}
	if p.Lowered != nil {
		all = append(all, p.lowering(*p.Lowered))
	}
	for _, r := range p.Raises {
		if p.canLead() && r.State == rayslice.RaisePending {
			add(fmt.Sprintf("withdraw-%d", r.ID), p.Locale.T("withdraw_heading", Args{"Amount": chargeText(p.Locale, r.Charge)}), p.Locale.T("withdraw_text"),
				p.Locale.T("withdraw_button"), "raises", strconv.FormatInt(r.ID, 10), "withdraw")
		}
	}
	for _, g := range p.Grants {
		if p.canAdmin() && !g.Base && g.Holds(p.Now) {
			add(fmt.Sprintf("grant-%d", g.ID), p.Locale.T("end_grant_heading", Args{"Amount": chargeText(p.Locale, g.Charge)}), p.endGrantText(g),
				p.Locale.T("end_grant_button"), "grants", strconv.FormatInt(g.ID, 10), "end")
		}
	}
	for _, d := range p.deputies() {
		if p.canLead() {
			add(fmt.Sprintf("deputy-%d", d.User.ID), p.Locale.T("end_deputy_heading", Args{"Name": oneLine(d.User.Name)}), p.Locale.T("end_deputy_text"),
				p.Locale.T("end_deputy_button"), "deputies", strconv.FormatInt(d.User.ID, 10), "end")
		}
	}
	return all
}

// LowersLimit reports whether a new base limit would be one to ask about: below what is in use, or nothing where there was
// something.
func (p TeamPage) LowersLimit(base rayslice.Charge) bool {
	limit, used := p.limitWith(base), p.Quota.Used
	return limit.GiB < used.GiB || limit.Cards < used.Cards || limit.GiB == 0 && p.Quota.Limit.GiB > 0 || limit.Cards == 0 && p.Quota.Limit.Cards > 0
}

// limitWith is the team's limit with another base: raises stay on top of it.
func (p TeamPage) limitWith(base rayslice.Charge) rayslice.Charge {
	return rayslice.Charge{GiB: p.Quota.Limit.GiB - p.Base.GiB + base.GiB, Cards: p.Quota.Limit.Cards - p.Base.Cards + base.Cards}
}

// lowering asks whether a base limit is to be as low as that.
func (p TeamPage) lowering(base rayslice.Charge) Confirmation {
	limit, used := p.limitWith(base), p.Quota.Used
	text := p.Locale.T("end_grant_text", Args{"GiB": limit.GiB, "Cards": limit.Cards})
	if limit.GiB == 0 || limit.Cards == 0 {
		text += " " + p.Locale.T("limit_nothing")
	}
	if limit.GiB < used.GiB || limit.Cards < used.Cards {
		text += " " + p.Locale.T("limit_in_use", Args{"Amount": limitAmount(p.Locale, used)})
	}
	return Confirmation{
		ID: "limit", Back: p.path(), Action: p.path("limit"), Heading: p.Locale.T("limit_ask", Args{"Team": p.Team.Name}), Text: text,
		Button: p.Locale.T("limit_button"), Keep: p.Locale.T("confirm_keep"),
		Hidden: [][2]string{{"gib", digits(base.GiB)}, {"cards", digits(base.Cards)}, {"note", p.Limit.Get("note")}, {"confirm", "limit"}},
	}
}

// endGrantText says what the limit is afterwards, and that nothing is stopped where more is in use.
func (p TeamPage) endGrantText(g rayslice.Grant) string {
	left := rayslice.Charge{GiB: p.Quota.Limit.GiB - g.Charge.GiB, Cards: p.Quota.Limit.Cards - g.Charge.Cards}
	text := p.Locale.T("end_grant_text", Args{"GiB": left.GiB, "Cards": left.Cards})
	if p.Quota.Used.GiB > left.GiB || p.Quota.Used.Cards > left.Cards {
		text += " " + p.Locale.T("limit_below_use")
	}
	return text
}

func (p TeamPage) confirmation(kind string, id int64) Confirmation {
	c, _ := asked(p.confirmations(), fmt.Sprintf("%s-%d", kind, id))
	return c
}

// deputies are the members who stand in for a lead now.
func (p TeamPage) deputies() []TeamMember {
	return slices.DeleteFunc(slices.Clone(p.Members), func(m TeamMember) bool { return m.deputyUntil().IsZero() })
}

func (m TeamMember) deputyUntil() time.Time {
	for _, g := range m.Grants {
		if g.Source == rayslice.SourceDeputy {
			return g.Until
		}
	}
	return time.Time{}
}

// candidates are the members who may become a deputy of the visitor.
func (p TeamPage) candidates() []TeamMember {
	return slices.DeleteFunc(slices.Clone(p.Members), func(m TeamMember) bool { return m.User.ID == p.User.ID || m.User.Disabled || m.leads() })
}

// leads reports whether somebody leads the team in their own right.
func (m TeamMember) leads() bool {
	return slices.ContainsFunc(m.Grants, func(g rayslice.RoleGrant) bool {
		return g.Role == rayslice.RoleLead && g.Source != rayslice.SourceDeputy
	})
}

// maxMembers is how many people a team's page shows before it folds the rest away.
const maxMembers = 12

// sorted are the members with those who decide first.
func (p TeamPage) sorted() []TeamMember {
	weight := func(m TeamMember) int {
		switch {
		case m.leads():
			return 0
		case !m.deputyUntil().IsZero():
			return 1
		}
		return 2
	}
	return slices.SortedStableFunc(slices.Values(p.Members), func(a, b TeamMember) int { return weight(a) - weight(b) })
}

func firstMembers(all []TeamMember) []TeamMember { return all[:min(len(all), maxMembers)] }

func moreMembers(all []TeamMember) []TeamMember { return all[min(len(all), maxMembers):] }

// role is what somebody is in the team: a deputy is shown as the member they are, with the deputy's badge beside it.
func (m TeamMember) role() rayslice.Role {
	if m.leads() {
		return rayslice.RoleLead
	}
	return rayslice.RoleMember
}

// limitPartText says what a grant is.
func limitPartText(l *Localizer, g rayslice.Grant) string {
	if g.Base {
		return l.T("grant_base")
	}
	return l.T("grant_raise")
}

// limitAmount is an amount of a limit: GiB and cards, both also where one is nothing.
func limitAmount(l *Localizer, c rayslice.Charge) string {
	if c == (rayslice.Charge{}) {
		return amount(l, unitGiB, 0)
	}
	return chargeText(l, c)
}

func grantTone(g rayslice.Grant, now time.Time) string {
	if g.Holds(now) {
		return "ok"
	}
	return "plain"
}

func grantState(l *Localizer, g rayslice.Grant, now time.Time) string {
	if g.Holds(now) {
		return l.T("grant_holds")
	}
	return l.T("grant_over")
}

func raiseTone(s rayslice.RaiseState) string {
	switch s {
	case rayslice.RaisePending:
		return "warn"
	case rayslice.RaiseGranted:
		return "ok"
	case rayslice.RaiseDenied:
		return "bad"
	}
	return "plain"
}

// raiseStates are the states of a raise in the order they come.
func raiseStates() []rayslice.RaiseState {
	return []rayslice.RaiseState{rayslice.RaisePending, rayslice.RaiseGranted, rayslice.RaiseDenied, rayslice.RaiseWithdrawn}
}

// raiseOutcome says what became of a raise beyond its state; "" = nothing to say.
func raiseOutcome(l *Localizer, r rayslice.Raise) string {
	if r.Grant == nil || (r.Grant.Charge == r.Charge && r.Grant.Until.Equal(r.Until)) {
		return ""
	}
	if r.Grant.Until.IsZero() {
		return l.T("raise_granted_part", Args{"Amount": chargeText(l, r.Grant.Charge)})
	}
	return l.T("raise_granted_until", Args{"Amount": chargeText(l, r.Grant.Charge), "Until": dayText(r.Grant.Until)})
}
