package web

import (
	"slices"
	"strconv"
	"time"

	"github.com/rayslice/rayslice"
)

// AccountPage is what somebody sees of their own account.
// Forms: POST /account/tokens with name, team, scope (repeated) and days; POST /account/tokens/ID/revoke;
// POST /account/sessions/end.
type AccountPage struct {
	Frame
	Grants  []rayslice.RoleGrant // why they have their roles
	Tokens  []rayslice.Token
	Form    rayslice.TokenDraft
	Problem *rayslice.Error // why the form came back; nil = it did not
	Secret  string          // of the token that was made just now; it is shown this once
	Confirm string          // ?confirm=: "sessions", or the id of a token to revoke
}

// NewTokenDraft returns the form as a newcomer finds it.
func NewTokenDraft() rayslice.TokenDraft {
	return rayslice.TokenDraft{Scopes: []rayslice.Scope{rayslice.ScopeRead, rayslice.ScopeRequest}, Days: 30}
}

// tokenDays are the lengths that the form offers.
func tokenDays() []int { return []int{1, 7, 30, rayslice.MaxTokenDays} }

// wantsScope reports whether a scope's box is ticked.
func wantsScope(d rayslice.TokenDraft, s rayslice.Scope) bool { return slices.Contains(d.Scopes, s) }

// scopeText returns what a scope lets a program do.
func scopeText(l *Localizer, s rayslice.Scope) string {
	switch s {
	case rayslice.ScopeRequest:
		return l.T("scope_request")
	case rayslice.ScopeStop:
		return l.T("scope_stop")
	}
	return l.T("scope_read")
}

// tokenState returns what a token is now, and its colour.
func tokenState(l *Localizer, t rayslice.Token, now time.Time) (text, tone string) {
	switch {
	case !t.RevokedAt.IsZero():
		return l.T("token_revoked"), "plain"
	case !t.Live(now):
		return l.T("token_over"), "plain"
	case t.EndsAt.Sub(now) < 7*24*time.Hour:
		return l.T("token_ends_soon"), "warn"
	}
	return l.T("token_works"), "ok"
}

// sourceText returns why somebody has a role.
func sourceText(l *Localizer, g rayslice.RoleGrant) string {
	switch {
	case g.Source == rayslice.SourceOIDC:
		return l.T("role_by_group")
	case g.Source == rayslice.SourceConfig:
		return l.T("role_by_config")
	case g.Source == rayslice.SourceDeputy:
		return l.T("role_by_deputy", Args{"Who": g.By, "Day": g.Until.Format(time.DateOnly)})
	case g.Source == rayslice.SourceManual:
		return l.T("role_by_hand", Args{"Who": g.By})
	}
	return l.T("role_by_file")
}

// roleText returns a role in words, e.g. "Lead · vision".
func roleText(l *Localizer, g rayslice.RoleGrant) string {
	if g.Role == rayslice.RoleAdmin {
		return l.T("role_admin")
	}
	return l.T("role_in_team", Args{"Role": l.T("role_" + string(g.Role)), "Team": g.Team})
}

// wrong returns what is wrong with one field of a form.
func wrong(problem *rayslice.Error, name string) []rayslice.FieldError {
	if problem == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(problem.Fields), func(f rayslice.FieldError) bool { return f.Field != name })
}

// invalid is the value of aria-invalid.
func invalid(problem *rayslice.Error, name string) string {
	return strconv.FormatBool(len(wrong(problem, name)) > 0)
}

// confirmation asks once more before something is done, and says what will happen.
type confirmation struct {
	id      string // unique on the page
	open    bool   // asked for in the address: the page without JavaScript
	heading string
	text    string
	button  string
	action  string // where the form goes
	back    string // where to go instead
	hidden  [][2]string
}
