package handlers

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// showPeople lists people for an admin.
func (s *Server) showPeople(c echo.Context) error {
	ctx, actor, query := c.Request().Context(), user(c), c.QueryParams()
	filter, err := readPeopleFilter(actor, query)
	if err != nil {
		return err
	}
	found, err := s.config.Store.Users(ctx, actor, filter)
	if err != nil {
		return err
	}
	p := web.PeoplePage{Filter: web.PeopleFilter{Search: filter.Search, Team: filter.Team, Role: filter.Role, Disabled: filter.Disabled}}
	if p.Frame, p.Teams, err = s.adminFrame(c); err != nil {
		return err
	}
	for _, person := range found.People {
		p.People = append(p.People, personOf(person))
	}
	p.Pages = pages("/admin/people", query, "cursor", found.Next)
	return page(c, http.StatusOK, web.PeopleView(p))
}

// readPeopleFilter reads how the list of people is narrowed, and names every bad parameter.
func readPeopleFilter(actor rayslice.User, query url.Values) (store.PersonFilter, error) {
	r := &filterReader{query: query}
	filter := store.PersonFilter{
		Search: r.search(), Team: r.team(actor), Role: rayslice.Role(query.Get("role")), Disabled: query.Get("disabled") == "1",
		After: r.cursor(), Limit: r.limit(listLength),
	}
	if filter.Role != "" && !slices.Contains(allRoles, filter.Role) {
		r.refuse("role", rayslice.CodeRequired, nil)
	}
	return filter, rayslice.Invalid(r.bad...)
}

// adminFrame returns the frame of an admin's page and the names of all teams.
func (s *Server) adminFrame(c echo.Context) (web.Frame, []string, error) {
	frame, err := s.liveFrame(c)
	if err != nil {
		return frame, nil, err
	}
	teams, err := s.config.Store.Teams(c.Request().Context(), user(c))
	names := make([]string, len(teams))
	for i, team := range teams {
		names[i] = team.Name
	}
	return frame, names, err
}

func personOf(p store.Person) web.Person {
	person := web.Person{User: p.User, SeenAt: p.SeenAt, Grants: p.Grants}
	if u, err := url.Parse(p.Issuer); err == nil {
		person.Provider = u.Host
	}
	return person
}

// showPerson shows one person to an admin.
func (s *Server) showPerson(c echo.Context) error {
	p, err := s.personPage(c)
	if err != nil {
		return err
	}
	p.Confirm = c.QueryParam("confirm")
	return page(c, http.StatusOK, web.PersonView(p))
}

func (s *Server) personPage(c echo.Context) (web.PersonPage, error) {
	id, err := numberParam(c, "user", "user")
	if err != nil {
		return web.PersonPage{}, err
	}
	person, err := s.config.Store.Person(c.Request().Context(), user(c), id)
	if err != nil {
		return web.PersonPage{}, err
	}
	p := web.PersonPage{Person: personOf(person), Role: rayslice.RoleMember}
	if p.Tokens, err = s.config.Store.PersonTokens(c.Request().Context(), user(c), id); err != nil {
		return p, err
	}
	p.Frame, p.Teams, err = s.adminFrame(c)
	return p, err
}

// changePerson answers a form about one person: with their page as it is then and what was done (one of web.DoneCodes), or
// with what did not work.
func (s *Server) changePerson(done string, change func(c echo.Context, id int64, form url.Values) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := numberParam(c, "user", "user")
		if err != nil {
			return err
		}
		form, err := formValues(c)
		if err == nil {
			err = change(c, id, form)
		}
		if err == nil {
			return c.Redirect(http.StatusSeeOther, web.PersonPath(id)+"?done="+done)
		}
		status, problem := explain(err)
		if problem.Kind != rayslice.KindInvalid && problem.Kind != rayslice.KindConflict {
			return err
		}
		p, failed := s.personPage(c)
		if failed != nil {
			return failed
		}
		visitOf(c).failure, p.Problem, p.Team, p.Role = err, problem, form.Get("team"), rayslice.Role(form.Get("role"))
		return page(c, status, web.PersonView(p))
	}
}

func (s *Server) grantRole(c echo.Context, id int64, form url.Values) error {
	return s.giveRole(c, id, form.Get("team"), rayslice.Role(form.Get("role")))
}

// giveRole gives somebody a role that they do not have for good yet.
func (s *Server) giveRole(c echo.Context, id int64, team string, role rayslice.Role) error {
	ctx, actor := c.Request().Context(), user(c)
	if role != "" {
		if err := choose("role", allRoles, role); err != nil {
			return err
		}
	}
	person, err := s.config.Store.Person(ctx, actor, id)
	if err != nil {
		return err
	}
	switch {
	case role == rayslice.RoleAdmin && team != "":
		return rayslice.Invalid(rayslice.FieldError{Field: "team", Code: "admin_no_team"})
	case role != rayslice.RoleAdmin && team == "":
		return rayslice.Invalid(rayslice.FieldError{Field: "team", Code: "role_team"})
	case slices.ContainsFunc(person.Grants, func(g rayslice.RoleGrant) bool { return g.Role == role && g.Team == team && lasting(g) }):
		return &rayslice.Error{Kind: rayslice.KindConflict, Code: "role_held", Args: map[string]any{"name": person.User.Name}}
	}
	return s.config.Store.GrantRole(ctx, actor, id, team, role)
}

// lasting reports whether a role stays until somebody takes it: one of the provider's goes with its group, and a deputy's
// with its time, so that an admin may want to give the same for good.
func lasting(g rayslice.RoleGrant) bool {
	return g.Source != rayslice.SourceOIDC && g.Source != rayslice.SourceDeputy
}

func (s *Server) revokeRole(c echo.Context, id int64, form url.Values) error {
	return s.config.Store.RevokeRole(c.Request().Context(), user(c), rayslice.RoleGrant{
		UserID: id, Team: form.Get("team"), Role: rayslice.Role(form.Get("role")), Source: rayslice.Source(form.Get("source")),
	})
}

func (s *Server) disablePerson(c echo.Context, id int64, _ url.Values) error {
	return s.config.Store.SetDisabled(c.Request().Context(), user(c), id, true)
}

func (s *Server) enablePerson(c echo.Context, id int64, _ url.Values) error {
	return s.config.Store.SetDisabled(c.Request().Context(), user(c), id, false)
}

func (s *Server) endSessions(c echo.Context, id int64, _ url.Values) error {
	return s.config.Store.EndSessions(c.Request().Context(), user(c), id)
}

func (s *Server) revokePersonToken(c echo.Context, id int64, _ url.Values) error {
	token, err := numberParam(c, "token", "token")
	if err != nil {
		return err
	}
	return s.config.Store.RevokeToken(c.Request().Context(), user(c), id, token)
}
