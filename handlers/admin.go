package handlers

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// requireAdmin refuses everybody else, with an audit entry.
func (s *Server) requireAdmin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.config.Store.AdminOnly(c.Request().Context(), user(c), attempt(c.Request())); err != nil {
			return err
		}
		return next(c)
	}
}

// showAdmin shows what waits for an admin, and what should not be.
func (s *Server) showAdmin(c echo.Context) error {
	ctx, actor := c.Request().Context(), user(c)
	raises, err := s.config.Store.Raises(ctx, actor, store.RaiseFilter{State: rayslice.RaisePending, Limit: partLength})
	if err != nil {
		return err
	}
	work, err := s.adminWork(ctx, actor)
	if err != nil {
		return err
	}
	frame, fleet, err := s.frameAndFleet(c)
	if err != nil {
		return err
	}
	frame.Problems = slices.Concat(frame.Problems, fleet.Guards)
	p := web.AdminPage{Frame: frame, Orphans: fleet.Orphans, Unmanaged: fleet.Unmanaged, Raises: raises.Raises, MoreRaise: raises.Next != 0, Late: work.late.Requests, MoreLate: work.late.Next != "", AuditOpen: work.auditOpen}
	for _, d := range work.drifts {
		p.Drifts = append(p.Drifts, web.QuotaDrift(d))
	}
	return page(c, http.StatusOK, web.AdminView(p))
}

// adminWork is what an admin should look after.
type adminWork struct {
	late      store.RequestPage // requests that nobody decides
	drifts    []store.Drift
	auditOpen bool
}

func (s *Server) adminWork(ctx context.Context, actor rayslice.User) (w adminWork, err error) {
	if w.late, err = s.config.Store.Requests(ctx, actor, store.RequestFilter{States: []rayslice.State{rayslice.StatePending}, Late: true, Limit: partLength}); err != nil {
		return w, err
	}
	if w.drifts, err = s.config.Store.QuotaDrift(ctx, actor); err != nil {
		return w, err
	}
	w.auditOpen, err = s.config.Store.AuditIsOpen(ctx)
	return w, err
}

// showAdminTeams lists the teams, with the form that adds one.
func (s *Server) showAdminTeams(c echo.Context) error {
	p, err := s.adminTeams(c)
	if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.AdminTeamsView(p))
}

func (s *Server) adminTeams(c echo.Context) (web.AdminTeamsPage, error) {
	found, err := s.teams(c.Request().Context(), user(c), c.QueryParams())
	if err != nil {
		return web.AdminTeamsPage{}, err
	}
	frame, err := s.liveFrame(c)
	return web.AdminTeamsPage{
		Frame: frame, Rows: found.rows, Search: found.search, Form: web.Form{ID: "team", Values: url.Values{}},
		Pages: pages("/admin/teams", c.QueryParams(), "cursor", found.next),
	}, err
}

// teamList is one page of teams by name.
type teamList struct {
	rows   []web.AdminTeamRow
	search string
	next   string // cursor of the next page; "" = this is the last
}

// teams reads one page of the teams that the actor may see. A portal has few enough to read them all.
func (s *Server) teams(ctx context.Context, actor rayslice.User, query url.Values) (teamList, error) {
	r := &filterReader{query: query}
	list, after, limit := teamList{search: r.search()}, r.cursor(), r.limit(listLength)
	if err := rayslice.Invalid(r.bad...); err != nil {
		return list, err
	}
	teams, err := s.config.Store.Teams(ctx, actor)
	if err != nil {
		return list, err
	}
	quotas, err := s.config.Store.Quotas(ctx, actor)
	if err != nil {
		return list, err
	}
	found := slices.DeleteFunc(teams, func(t rayslice.Team) bool {
		return !strings.Contains(t.Name+" "+t.Namespace, strings.ToLower(list.search))
	})
	begin, _ := slices.BinarySearchFunc(found, after, func(t rayslice.Team, name string) int { return cmp.Compare(t.Name, name) })
	end := min(len(found), begin+limit)
	for _, t := range found[begin:end] {
		list.rows = append(list.rows, web.AdminTeamRow{Team: t, Quota: quotaOf(quotas, t.Name)})
	}
	if end < len(found) {
		list.next = found[end].Name
	}
	return list, nil
}

func quotaOf(quotas []rayslice.Quota, team string) rayslice.Quota {
	i := slices.IndexFunc(quotas, func(q rayslice.Quota) bool { return q.Team == team })
	if i < 0 {
		return rayslice.Quota{Team: team}
	}
	return quotas[i]
}

// createTeam adds a team.
func (s *Server) createTeam(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	draft, err := web.ParseTeam(values)
	if err = together(err, draft.Validate(s.config.Reserved...)); err == nil {
		err = s.config.Store.CreateTeam(c.Request().Context(), user(c), draft)
	}
	if err == nil {
		return c.Redirect(http.StatusSeeOther, "/teams/"+draft.Name)
	}
	status, problem := explain(err)
	if problem.Kind != rayslice.KindInvalid {
		return err
	}
	p, pageErr := s.adminTeams(c)
	if pageErr != nil {
		return pageErr
	}
	visitOf(c).failure = err
	p.Form.Values, p.Form.Problem = values, problem
	return page(c, status, web.AdminTeamsView(p))
}

// showAdminRaises lists what leads ask for.
func (s *Server) showAdminRaises(c echo.Context) error {
	ctx, actor, query := c.Request().Context(), user(c), c.QueryParams()
	r := &filterReader{query: query}
	filter := store.RaiseFilter{Team: r.team(actor), State: r.raiseState(), Limit: listLength}
	after, err := number(query, "after")
	if err == nil {
		err = rayslice.Invalid(r.bad...)
	}
	if err != nil {
		return err
	}
	filter.After = after
	found, err := s.config.Store.Raises(ctx, actor, filter)
	if err != nil {
		return err
	}
	quotas, err := s.config.Store.Quotas(ctx, actor)
	if err != nil {
		return err
	}
	frame, err := s.liveFrame(c)
	if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.AdminRaisesView(web.AdminRaisesPage{
		Frame: frame, State: string(filter.State), Team: filter.Team, Teams: teamsOf(quotas),
		Raises: found.Raises, Pages: pages("/admin/raises", c.QueryParams(), "after", rowID(found.Next)),
	}))
}

func (r *filterReader) raiseState() rayslice.RaiseState {
	state := rayslice.RaiseState(r.query.Get("state"))
	switch state {
	case "", rayslice.RaisePending, rayslice.RaiseGranted, rayslice.RaiseDenied, rayslice.RaiseWithdrawn:
	default:
		r.refuse("state", codeStateUnknown, map[string]any{"states": "pending, granted, denied, withdrawn"})
	}
	return state
}

// showAdminRaise shows one raise with its decision.
func (s *Server) showAdminRaise(c echo.Context) error {
	p, err := s.adminRaise(c)
	if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.AdminRaiseView(p))
}

func (s *Server) adminRaise(c echo.Context) (web.AdminRaisePage, error) {
	ctx, actor := c.Request().Context(), user(c)
	id, err := idOf(c, "raise", "raise")
	if err != nil {
		return web.AdminRaisePage{}, err
	}
	raise, err := s.config.Store.Raise(ctx, actor, id)
	if err != nil {
		return web.AdminRaisePage{}, err
	}
	quota, err := s.config.Store.Quota(ctx, actor, raise.Team)
	if err != nil {
		return web.AdminRaisePage{}, err
	}
	frame, err := s.liveFrame(c)
	if err != nil {
		return web.AdminRaisePage{}, err
	}
	p := web.AdminRaisePage{Frame: frame, Raise: raise, Quota: quota, Form: web.Form{ID: "decide", Values: web.RaiseDecisionValues(raise)}}
	if err := actor.MayDecideRaise(raise); err != nil {
		_, p.May = explain(err)
	}
	return p, nil
}

// decideRaise grants or denies a raise.
func (s *Server) decideRaise(c echo.Context) error {
	id, err := idOf(c, "raise", "raise")
	if err != nil {
		return err
	}
	values, err := formValues(c)
	if err != nil {
		return err
	}
	decision, err := web.ParseRaiseDecision(values)
	if err == nil {
		_, err = s.config.Store.DecideRaise(c.Request().Context(), user(c), id, decision)
	}
	if err == nil {
		done := "raise_denied"
		if decision.Grant {
			done = "raise_granted"
		}
		return c.Redirect(http.StatusSeeOther, "/admin/raises?state=pending&done="+done)
	}
	status, problem := explain(err)
	if problem.Kind != rayslice.KindInvalid {
		return err
	}
	p, pageErr := s.adminRaise(c)
	if pageErr != nil {
		return pageErr
	}
	visitOf(c).failure = err
	_, problem = explain(together(err, decision.Validate(p.Raise, s.now())))
	p.Form.Values, p.Form.Problem = values, problem
	return page(c, status, web.AdminRaiseView(p))
}
