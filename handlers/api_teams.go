package handlers

import (
	"context"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/web"
)

// ListTeams lists the teams the caller may see.
func (p program) ListTeams(ctx context.Context, _ api.ListTeamsRequestObject) (api.ListTeamsResponseObject, error) {
	found, err := p.teams(ctx, user(echoOf(ctx)), echoOf(ctx).QueryParams())
	if err != nil {
		return nil, err
	}
	return api.ListTeams200JSONResponse{Teams: each(found.rows, teamOf), Next: said(found.next)}, nil
}

func teamOf(row web.AdminTeamRow) api.Team {
	return api.Team{Name: row.Team.Name, Namespace: row.Team.Namespace, Quota: quotaNumbers(row.Quota)}
}

// CreateTeam adds a team.
func (p program) CreateTeam(ctx context.Context, asked api.CreateTeamRequestObject) (api.CreateTeamResponseObject, error) {
	var body struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		rayslice.Charge
	}
	c := echoOf(ctx)
	if err := readJSON(c, asked.Body, &body, "name", "namespace", "gib", "cards"); err != nil {
		return nil, err
	}
	draft := rayslice.TeamDraft{Name: body.Name, Namespace: body.Namespace, Limit: body.Charge}
	if err := draft.Validate(p.config.Reserved...); err != nil {
		return nil, err
	}
	if err := p.config.Store.CreateTeam(ctx, user(c), draft); err != nil {
		return nil, err
	}
	team, err := p.teamDetails(c, draft.Name)
	return api.CreateTeam201JSONResponse(team), err
}

// ShowTeam shows a team.
func (p program) ShowTeam(ctx context.Context, asked api.ShowTeamRequestObject) (api.ShowTeamResponseObject, error) {
	team, err := p.teamDetails(echoOf(ctx), asked.Name)
	return api.ShowTeam200JSONResponse(team), err
}

// teamDetails is a team as programs see it.
func (s *Server) teamDetails(c echo.Context, name string) (api.TeamDetails, error) {
	ctx, actor := c.Request().Context(), user(c)
	team, err := s.config.Store.Team(ctx, actor, name)
	if err != nil {
		return api.TeamDetails{}, err
	}
	p := web.TeamPage{Team: team}
	if err := s.readTeam(ctx, c, actor, &p); err != nil {
		return api.TeamDetails{}, err
	}
	details := api.TeamDetails{Name: team.Name, Namespace: team.Namespace, Quota: quotaNumbers(p.Quota), Rules: rulesOf(p.Rules), Members: each(p.Members, memberOf)}
	details.Base, err = s.baseLimit(ctx, actor, name)
	return details, err
}

func memberOf(m web.TeamMember) api.Member {
	return api.Member{Id: m.User.ID, Name: m.User.Name, Email: m.User.Email, Disabled: m.User.Disabled, Roles: each(m.Grants, roleOf)}
}

// rulesOf has empty lists where there are none.
func rulesOf(r rayslice.Rules) rayslice.Rules {
	if r.Sizes == nil {
		r.Sizes = map[string][]int{}
	}
	for pool, sizes := range r.Sizes {
		r.Sizes[pool] = append([]int{}, sizes...)
	}
	r.ImagePrefixes = append([]string{}, r.ImagePrefixes...)
	return r
}

func roleOf(g rayslice.RoleGrant) api.RoleGrant {
	return api.RoleGrant{Team: said(g.Team), Role: g.Role, Source: g.Source, Until: known(g.Until), By: said(g.By)}
}

// SetLimit replaces a team's base limit.
func (p program) SetLimit(ctx context.Context, asked api.SetLimitRequestObject) (api.SetLimitResponseObject, error) {
	var body struct {
		Note string `json:"note"`
		rayslice.Charge
	}
	c := echoOf(ctx)
	if user(c).CanAdmin() { // else the store refuses, and records it; here and below
		if err := readJSON(c, asked.Body, &body, "gib", "cards"); err != nil {
			return nil, err
		}
		if err := rayslice.ValidateLimit(body.Charge, body.Note); err != nil {
			return nil, err
		}
	}
	if err := p.config.Store.SetLimit(ctx, user(c), asked.Name, body.Charge, body.Note); err != nil {
		return nil, err
	}
	team, err := p.teamDetails(c, asked.Name)
	return api.SetLimit200JSONResponse(team), err
}

// SetRules replaces a team's rules.
func (p program) SetRules(ctx context.Context, asked api.SetRulesRequestObject) (api.SetRulesResponseObject, error) {
	var rules rayslice.Rules
	c := echoOf(ctx)
	if user(c).CanLead(asked.Name) {
		if err := readJSON(c, asked.Body, &rules, "auto.gib", "auto.cards", "auto_hours", "escalate_minutes"); err != nil {
			return nil, err
		}
		if err := rules.Validate(p.config.Catalogue); err != nil {
			return nil, err
		}
	}
	if err := p.config.Store.SetRules(ctx, user(c), asked.Name, rules); err != nil {
		return nil, err
	}
	team, err := p.teamDetails(c, asked.Name)
	return api.SetRules200JSONResponse(team.Rules), err
}

// ListGrants lists what a team's limit was ever made of.
func (p program) ListGrants(ctx context.Context, asked api.ListGrantsRequestObject) (api.ListGrantsResponseObject, error) {
	c := echoOf(ctx)
	if _, err := p.config.Store.Team(ctx, user(c), asked.Name); err != nil { // before anything is said about parameters
		return nil, err
	}
	r := &filterReader{query: c.QueryParams()}
	after, limit := r.row(), r.limit(listLength)
	if err := rayslice.Invalid(r.bad...); err != nil {
		return nil, err
	}
	found, err := p.config.Store.GrantHistory(ctx, user(c), asked.Name, after, limit)
	if err != nil {
		return nil, err
	}
	return api.ListGrants200JSONResponse{Grants: each(found.Grants, grantOf), Next: said(rowID(found.Next))}, nil
}

func grantOf(g rayslice.Grant) api.Grant {
	return api.Grant{Id: g.ID, Charge: g.Charge, Base: g.Base, Since: g.Since, Until: known(g.Until), Ended: known(g.Ended), By: g.By, Note: said(g.Note)}
}

// EndGrant takes a raise back early.
func (p program) EndGrant(ctx context.Context, asked api.EndGrantRequestObject) (api.EndGrantResponseObject, error) {
	c := echoOf(ctx)
	id, err := idOf(c, "grant", "grant")
	if err != nil {
		return nil, err
	}
	return api.EndGrant204Response{}, p.config.Store.EndGrant(ctx, user(c), asked.Name, id)
}

// NameDeputy lets a member stand in for a lead.
func (p program) NameDeputy(ctx context.Context, asked api.NameDeputyRequestObject) (api.NameDeputyResponseObject, error) {
	var body struct {
		User  int64   `json:"user"`
		Until *string `json:"until"`
	}
	c := echoOf(ctx)
	var until time.Time
	if user(c).CanLead(asked.Name) {
		err := readJSON(c, asked.Body, &body, "user", "until")
		if err == nil {
			until, err = readMoment("until", body.Until)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := p.config.Store.NameDeputy(ctx, user(c), asked.Name, body.User, until); err != nil {
		return nil, err
	}
	team, err := p.teamDetails(c, asked.Name)
	return api.NameDeputy200JSONResponse(team), err
}

// EndDeputy ends a deputy's time now.
func (p program) EndDeputy(ctx context.Context, asked api.EndDeputyRequestObject) (api.EndDeputyResponseObject, error) {
	c := echoOf(ctx)
	id, err := idOf(c, "user", "user")
	if err != nil {
		return nil, err
	}
	return api.EndDeputy204Response{}, p.config.Store.EndDeputy(ctx, user(c), asked.Name, id)
}

// ShowTeamUse says what a team has made of what it holds.
func (p program) ShowTeamUse(ctx context.Context, asked api.ShowTeamUseRequestObject) (api.ShowTeamUseResponseObject, error) {
	c := echoOf(ctx)
	if _, err := p.config.Store.Team(ctx, user(c), asked.Name); err != nil {
		return nil, err
	}
	from, to, err := readTeamStretch(c.QueryParams(), p.now())
	if err != nil {
		return nil, err
	}
	use, err := p.config.Store.TeamUse(ctx, user(c), asked.Name, from, to)
	return api.ShowTeamUse200JSONResponse{
		Team: use.Team, From: from, To: to, Points: append([]rayslice.TeamUsePoint{}, use.Points...), Idle: append([]rayslice.IdleHolder{}, use.Idle...),
	}, err
}

// maxTeamUse is the longest stretch of hours in one answer.
const maxTeamUse = 60 * 24 * time.Hour

// readTeamStretch reads from when to when a team's use is asked for; without parameters the last week.
func readTeamStretch(query url.Values, now time.Time) (from, to time.Time, err error) {
	r := &filterReader{query: query}
	week, _, _ := web.UseStretch("week")
	to = r.moment("to", now)
	from = r.moment("from", to.Add(-week))
	switch {
	case len(r.bad) > 0:
	case !from.Before(to):
		r.refuse("to", codeAfterFrom, nil)
	case to.Sub(from) > maxTeamUse:
		r.refuse("from", rayslice.CodeRange, map[string]any{"min": to.Add(-maxTeamUse).UTC().Format(time.RFC3339), "max": to.UTC().Format(time.RFC3339)})
	}
	return from.UTC(), to.UTC(), rayslice.Invalid(r.bad...)
}

// ListTeamAudit lists what happened in a team.
func (p program) ListTeamAudit(ctx context.Context, _ api.ListTeamAuditRequestObject) (api.ListTeamAuditResponseObject, error) {
	found, err := p.auditEntries(echoOf(ctx))
	return api.ListTeamAudit200JSONResponse(found), err
}

// ListAudit lists what happened anywhere.
func (p program) ListAudit(ctx context.Context, _ api.ListAuditRequestObject) (api.ListAuditResponseObject, error) {
	found, err := p.auditEntries(echoOf(ctx))
	return api.ListAudit200JSONResponse(found), err
}

// auditEntries reads one page of the log as the address asks for it.
func (s *Server) auditEntries(c echo.Context) (api.AuditPage, error) {
	ctx := c.Request().Context()
	done, err := takeTurn(ctx, s.turns.pages, s.timing.report)
	if err != nil {
		return api.AuditPage{}, err
	}
	defer done()
	r := &filterReader{query: c.QueryParams()}
	after, limit := r.row(), r.limit(listLength)
	filter, bad := auditFilter(c)
	if bad = together(bad, rayslice.Invalid(r.bad...)); bad != nil {
		filter.Team, limit = c.Param("name"), 1 // whether the caller may read it at all comes first
	}
	filter.After, filter.Limit = after, limit
	found, err := s.config.Store.AuditLog(ctx, user(c), filter)
	if err == nil {
		err = bad
	}
	if err != nil {
		return api.AuditPage{}, err
	}
	return api.AuditPage{Entries: entriesOf(c, found.Entries), Next: said(rowID(found.Next))}, nil
}

func entriesOf(c echo.Context, entries []rayslice.AuditEntry) []api.AuditEntry {
	return each(entries, func(e rayslice.AuditEntry) api.AuditEntry { return entryOf(c, e) })
}

// readMoment reads a moment of a body; the zero time when there is none.
func readMoment(field string, text *string) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, *text)
	if err != nil || at.Year() > 9000 || at.Year() < 1 {
		return time.Time{}, rayslice.Invalid(rayslice.FieldError{Field: field, Code: codeMoment})
	}
	return at.UTC(), nil
}
