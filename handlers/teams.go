package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// partLength is how many rows a list has that is one part of a page.
const partLength = 10

// showTeam shows a team: its quota and what it is used for, its rules and people, and what it asks for.
func (s *Server) showTeam(c echo.Context) error {
	p, err := s.teamPage(c)
	if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.TeamView(p))
}

// teamPage reads everything that a team's page shows, with its forms as they begin.
func (s *Server) teamPage(c echo.Context) (web.TeamPage, error) {
	ctx, actor := c.Request().Context(), user(c)
	team, err := s.config.Store.Team(ctx, actor, c.Param("name"))
	if err != nil {
		return web.TeamPage{}, err
	}
	p := web.TeamPage{Team: team, Catalogue: s.config.Catalogue, Confirm: c.QueryParam("confirm")}
	for _, read := range []func(context.Context, echo.Context, rayslice.User, *web.TeamPage) error{
		s.readTeam, s.readTeamClusters, s.readTeamGrants, s.readTeamRaises, s.readTeamUse,
	} {
		if err := read(ctx, c, actor, &p); err != nil {
			return p, err
		}
	}
	p.Frame, err = s.liveFrame(c)
	p.Raise, p.Deputy = web.Form{ID: "raise", Values: url.Values{}}, web.Form{ID: "deputy", Values: url.Values{}}
	return p, err
}

func (s *Server) readTeam(ctx context.Context, _ echo.Context, actor rayslice.User, p *web.TeamPage) (err error) {
	if p.Quota, err = s.config.Store.Quota(ctx, actor, p.Team.Name); err != nil {
		return err
	}
	rules, err := s.config.Store.Rules(ctx, actor, p.Team.Name)
	if err != nil {
		return err
	}
	p.Rules = rules.Under(p.Quota.Limit)
	members, err := s.config.Store.Members(ctx, actor, p.Team.Name)
	for _, m := range members {
		p.Members = append(p.Members, web.TeamMember(m))
	}
	return err
}

func (s *Server) readTeamClusters(ctx context.Context, _ echo.Context, actor rayslice.User, p *web.TeamPage) error {
	live, err := s.config.Store.Requests(ctx, actor, store.RequestFilter{Team: p.Team.Name, States: liveStates(), Limit: partLength})
	if err != nil {
		return err
	}
	p.More = live.Next != ""
	p.Rows, err = s.rows(ctx, actor, live.Requests)
	return err
}

func (s *Server) readTeamUse(ctx context.Context, _ echo.Context, actor rayslice.User, p *web.TeamPage) (err error) {
	week, _, _ := web.UseStretch("week")
	p.Use, err = s.config.Store.TeamUse(ctx, actor, p.Team.Name, s.now().Add(-week), s.now())
	return err
}

func (s *Server) readTeamGrants(ctx context.Context, c echo.Context, actor rayslice.User, p *web.TeamPage) error {
	after, err := number(c.QueryParams(), "grants")
	if err != nil {
		return err
	}
	history, err := s.config.Store.GrantHistory(ctx, actor, p.Team.Name, after, partLength)
	if err != nil {
		return err
	}
	p.Grants, p.GrantPages = history.Grants, teamPages(c, p.Team.Name, "grants", history.Next)
	p.Base, err = s.baseLimit(ctx, actor, p.Team.Name)
	p.Limit = web.Form{ID: "limit", Values: web.LimitValues(p.Base)}
	return err
}

// baseLimit returns the part of a team's limit that an admin has set.
func (s *Server) baseLimit(ctx context.Context, actor rayslice.User, team string) (rayslice.Charge, error) {
	live, err := s.config.Store.Grants(ctx, actor, team)
	i := slices.IndexFunc(live, func(g rayslice.Grant) bool { return g.Base })
	if err != nil || i < 0 {
		return rayslice.Charge{}, err
	}
	return live[i].Charge, nil
}

func (s *Server) readTeamRaises(ctx context.Context, c echo.Context, actor rayslice.User, p *web.TeamPage) error {
	after, err := number(c.QueryParams(), "raises")
	if err != nil {
		return err
	}
	found, err := s.config.Store.Raises(ctx, actor, store.RaiseFilter{Team: p.Team.Name, After: after, Limit: partLength})
	p.Raises, p.RaisePages = found.Raises, teamPages(c, p.Team.Name, "raises", found.Next)
	return err
}

// number reads a query parameter that says after which row a page begins; 0 when it is not there.
func number(query url.Values, name string) (int64, error) {
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, rayslice.Invalid(rayslice.FieldError{Field: name, Code: rayslice.CodeType, Args: map[string]any{"want": "int", "got": "text"}})
	}
	return n, nil
}

// teamPages returns the addresses around one part of a team's page. They lead to the page also where a form was answered
// with it, and no longer to what was about to be confirmed.
func teamPages(c echo.Context, team, place string, next int64) web.Pages {
	return pages("/teams/"+team, without(c.QueryParams(), "confirm"), place, rowID(next))
}

// rowNumber is how the number of a row is written, and the only way.
var rowNumber = regexp.MustCompile(`^[1-9][0-9]*$`)

// idOf returns the number in the path. What cannot be an id is not found, like an id that does not exist.
func idOf(c echo.Context, name, what string) (int64, error) {
	id, err := strconv.ParseInt(c.Param(name), 10, 64)
	if err != nil || !rowNumber.MatchString(c.Param(name)) {
		return 0, rayslice.NotFound(what)
	}
	return id, nil
}

// teamAddress is where a form of a team's page leads when it is done, which is one of web.DoneCodes.
func teamAddress(c echo.Context, done string) string {
	return "/teams/" + url.PathEscape(c.Param("name")) + "?done=" + done
}

// refuseTeamForm answers with the team's page and the form as it was typed. Errors that changing the form cannot mend are
// passed on.
func (s *Server) refuseTeamForm(c echo.Context, values url.Values, cause error, form func(*web.TeamPage) *web.Form) error {
	status, problem := explain(cause)
	if problem.Kind != rayslice.KindInvalid {
		return cause
	}
	p, err := s.teamPage(c)
	if err != nil {
		return err
	}
	visitOf(c).failure = cause
	f := form(&p)
	f.Values, f.Problem = values, problem
	return page(c, status, web.TeamView(p))
}

// askRaise asks the admins for more quota.
func (s *Server) askRaise(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	draft, err := web.ParseRaise(c.Param("name"), values)
	err = together(err, draft.Validate(s.now()))
	if err == nil || !user(c).CanLead(draft.Team) { // the store says why not before anybody hears about fields
		_, err = s.config.Store.AskRaise(c.Request().Context(), user(c), draft)
	}
	if err != nil {
		return s.refuseTeamForm(c, values, err, func(p *web.TeamPage) *web.Form { return &p.Raise })
	}
	return c.Redirect(http.StatusSeeOther, teamAddress(c, "raise_asked"))
}

// withdrawRaise takes back what a lead has asked for.
func (s *Server) withdrawRaise(c echo.Context) error {
	id, err := s.teamsRaise(c)
	if err != nil {
		return err
	}
	if err := s.config.Store.WithdrawRaise(c.Request().Context(), user(c), id); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, teamAddress(c, "raise_withdrawn"))
}

// teamsRaise returns the raise in the path, when it is the team's in the path.
func (s *Server) teamsRaise(c echo.Context) (int64, error) {
	id, err := idOf(c, "raise", "raise")
	if err != nil {
		return 0, err
	}
	raise, err := s.config.Store.Raise(c.Request().Context(), user(c), id)
	if err == nil && raise.Team != c.Param("name") {
		err = rayslice.NotFound("raise")
	}
	return id, err
}

// setLimit replaces a team's base limit. One that is lower than what is used, or nothing, is asked about first.
func (s *Server) setLimit(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	limit, note, err := web.ParseLimit(values)
	err = together(err, rayslice.ValidateLimit(limit, note))
	if err == nil && user(c).CanAdmin() && values.Get("confirm") != "limit" {
		p, err := s.teamPage(c)
		if err != nil {
			return err
		}
		if p.LowersLimit(limit) {
			p.Limit.Values, p.Lowered, p.Confirm = values, &limit, "limit"
			return page(c, http.StatusUnprocessableEntity, web.TeamView(p))
		}
	}
	if err == nil || !user(c).CanAdmin() {
		err = s.config.Store.SetLimit(c.Request().Context(), user(c), c.Param("name"), limit, note)
	}
	if err != nil {
		return s.refuseTeamForm(c, values, err, func(p *web.TeamPage) *web.Form { return &p.Limit })
	}
	return c.Redirect(http.StatusSeeOther, teamAddress(c, "limit"))
}

// endGrant takes a raise back early.
func (s *Server) endGrant(c echo.Context) error {
	id, err := idOf(c, "grant", "grant")
	if err != nil {
		return err
	}
	if err := s.config.Store.EndGrant(c.Request().Context(), user(c), c.Param("name"), id); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, teamAddress(c, "grant_ended"))
}

// nameDeputy lets a member stand in for a lead.
func (s *Server) nameDeputy(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	deputy, until, err := web.ParseDeputy(values)
	if err == nil || !user(c).CanLead(c.Param("name")) {
		err = s.config.Store.NameDeputy(c.Request().Context(), user(c), c.Param("name"), deputy, until)
	}
	if err != nil {
		return s.refuseTeamForm(c, values, err, func(p *web.TeamPage) *web.Form { return &p.Deputy })
	}
	return c.Redirect(http.StatusSeeOther, teamAddress(c, "deputy_named"))
}

// endDeputy ends a deputy's time now.
func (s *Server) endDeputy(c echo.Context) error {
	id, err := idOf(c, "user", "user")
	if err != nil {
		return err
	}
	if err := s.config.Store.EndDeputy(c.Request().Context(), user(c), c.Param("name"), id); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, teamAddress(c, "deputy_ended"))
}

// showRules shows the form of a team's rules to those who may set them.
func (s *Server) showRules(c echo.Context) error {
	p, err := s.rulesPage(c)
	if err != nil {
		return err
	}
	rules, err := s.config.Store.Rules(c.Request().Context(), user(c), p.Team.Name)
	if err != nil {
		return err
	}
	p.Rules, p.Saved = rules.Under(p.Quota.Limit), c.QueryParam("saved") == "1"
	p.Form.Values = web.RulesValues(p.Rules, s.config.Catalogue)
	return page(c, http.StatusOK, web.RulesView(p))
}

func (s *Server) rulesPage(c echo.Context) (web.RulesPage, error) {
	ctx, actor := c.Request().Context(), user(c)
	team, err := s.config.Store.Team(ctx, actor, c.Param("name"))
	if err == nil {
		err = s.config.Store.LeadOnly(ctx, actor, team.Name, attempt(c.Request()))
	}
	if err != nil {
		return web.RulesPage{}, err
	}
	quota, err := s.config.Store.Quota(ctx, actor, team.Name)
	if err != nil {
		return web.RulesPage{}, err
	}
	frame, err := s.liveFrame(c)
	return web.RulesPage{Frame: frame, Team: team, Quota: quota, Catalogue: s.config.Catalogue, Form: web.Form{ID: "rules"}}, err
}

// setRules replaces a team's rules.
func (s *Server) setRules(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	team := c.Param("name")
	rules, err := web.ParseRules(values, s.config.Catalogue)
	err = together(err, rules.Validate(s.config.Catalogue))
	if err == nil || !user(c).CanLead(team) {
		err = s.config.Store.SetRules(c.Request().Context(), user(c), team, rules)
	}
	status, problem := explain(err)
	switch {
	case err == nil:
		return c.Redirect(http.StatusSeeOther, fmt.Sprintf("/teams/%s/rules?saved=1", url.PathEscape(team)))
	case problem.Kind != rayslice.KindInvalid:
		return err
	}
	p, pageErr := s.rulesPage(c)
	if pageErr != nil {
		return pageErr
	}
	visitOf(c).failure = err
	p.Form.Values, p.Form.Problem = values, problem
	return page(c, status, web.RulesView(p))
}
