package handlers

import (
	"context"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store"
)

// ShowAdmin says what waits for an admin, and what should not be.
func (p program) ShowAdmin(ctx context.Context, _ api.ShowAdminRequestObject) (api.ShowAdminResponseObject, error) {
	c := echoOf(ctx)
	found, err := p.adminWork(ctx, user(c))
	if err != nil {
		return nil, err
	}
	raises, err := p.config.Store.PendingRaises(ctx, user(c))
	if err != nil {
		return nil, err
	}
	fleet, err := p.config.Store.Fleet(ctx, user(c))
	if err != nil {
		return nil, err
	}
	answer := api.ShowAdmin200JSONResponse{
		Raises: raises, Drifts: each(found.drifts, driftOf), AuditOpen: found.auditOpen,
		Orphans: append([]rayslice.Orphan{}, fleet.Orphans...), Unmanaged: append([]rayslice.Unmanaged{}, fleet.Unmanaged...),
		Problems: reasonsOf(c, slices.Concat(fleet.Problems, fleet.Guards)),
	}
	answer.Late, err = p.requestsOf(c, found.late.Requests)
	return answer, err
}

func driftOf(d store.Drift) api.QuotaDrift {
	return api.QuotaDrift{Team: d.Team, Used: d.Used, Ledger: d.Ledger}
}

// ListPeople lists people.
func (p program) ListPeople(ctx context.Context, _ api.ListPeopleRequestObject) (api.ListPeopleResponseObject, error) {
	c := echoOf(ctx)
	filter, err := readPeopleFilter(user(c), c.QueryParams())
	if err != nil {
		return nil, err
	}
	found, err := p.config.Store.Users(ctx, user(c), filter)
	if err != nil {
		return nil, err
	}
	return api.ListPeople200JSONResponse{People: each(found.People, toPerson), Next: said(found.Next)}, nil
}

func toPerson(p store.Person) api.Person {
	return api.Person{Id: p.User.ID, Name: p.User.Name, Email: p.User.Email, Disabled: p.User.Disabled, Roles: each(p.Grants, roleOf),
		Provider: said(personOf(p).Provider), SeenAt: known(p.SeenAt)}
}

// personDetails is the person in the path as programs see them.
func (s *Server) personDetails(c echo.Context) (api.PersonDetails, error) {
	ctx, actor := c.Request().Context(), user(c)
	id, err := idOf(c, "user", "user")
	if err != nil {
		return api.PersonDetails{}, err
	}
	person, err := s.config.Store.Person(ctx, actor, id)
	if err != nil {
		return api.PersonDetails{}, err
	}
	tokens, err := s.config.Store.PersonTokens(ctx, actor, id)
	p := toPerson(person)
	return api.PersonDetails{Id: p.Id, Name: p.Name, Email: p.Email, Disabled: p.Disabled, Roles: p.Roles, Provider: p.Provider, SeenAt: p.SeenAt, Tokens: each(tokens, tokenOf)}, err
}

// ShowPerson shows one person.
func (p program) ShowPerson(ctx context.Context, _ api.ShowPersonRequestObject) (api.ShowPersonResponseObject, error) {
	person, err := p.personDetails(echoOf(ctx))
	return api.ShowPerson200JSONResponse(person), err
}

// changed carries out a change of the person in the path and returns them as they are then.
func (s *Server) changed(c echo.Context, change func(c echo.Context, id int64) error) (api.PersonDetails, error) {
	id, err := idOf(c, "user", "user")
	if err == nil {
		err = change(c, id)
	}
	if err != nil {
		return api.PersonDetails{}, err
	}
	return s.personDetails(c)
}

// allRoles and allSources are what a role and who gave it can be.
var (
	allRoles   = []rayslice.Role{rayslice.RoleMember, rayslice.RoleLead, rayslice.RoleAdmin}
	allSources = []rayslice.Source{rayslice.SourceSeed, rayslice.SourceManual, rayslice.SourceOIDC, rayslice.SourceConfig, rayslice.SourceDeputy}
)

// GrantRole gives a role by hand.
func (p program) GrantRole(ctx context.Context, asked api.GrantRoleRequestObject) (api.GrantRoleResponseObject, error) {
	var body struct {
		Team *string       `json:"team"`
		Role rayslice.Role `json:"role"`
	}
	person, err := p.changed(echoOf(ctx), func(c echo.Context, id int64) error {
		if err := readJSON(c, asked.Body, &body, "role"); err != nil {
			return err
		}
		return p.giveRole(c, id, orNone(body.Team), body.Role)
	})
	return api.GrantRole200JSONResponse(person), err
}

// RevokeRole takes a role back.
func (p program) RevokeRole(ctx context.Context, asked api.RevokeRoleRequestObject) (api.RevokeRoleResponseObject, error) {
	var body struct {
		Team   *string         `json:"team"`
		Role   rayslice.Role   `json:"role"`
		Source rayslice.Source `json:"source"`
	}
	person, err := p.changed(echoOf(ctx), func(c echo.Context, id int64) error {
		if err := readJSON(c, asked.Body, &body, "role", "source"); err != nil {
			return err
		}
		if err := together(choose("role", allRoles, body.Role), choose("source", allSources, body.Source)); err != nil {
			return err
		}
		return p.config.Store.RevokeRole(ctx, user(c), rayslice.RoleGrant{UserID: id, Team: orNone(body.Team), Role: body.Role, Source: body.Source})
	})
	return api.RevokeRole200JSONResponse(person), err
}

// DisablePerson keeps somebody out.
func (p program) DisablePerson(ctx context.Context, _ api.DisablePersonRequestObject) (api.DisablePersonResponseObject, error) {
	person, err := p.changed(echoOf(ctx), func(c echo.Context, id int64) error { return p.disablePerson(c, id, nil) })
	return api.DisablePerson200JSONResponse(person), err
}

// EnablePerson lets somebody in again.
func (p program) EnablePerson(ctx context.Context, _ api.EnablePersonRequestObject) (api.EnablePersonResponseObject, error) {
	person, err := p.changed(echoOf(ctx), func(c echo.Context, id int64) error { return p.enablePerson(c, id, nil) })
	return api.EnablePerson200JSONResponse(person), err
}

// EndSessions signs somebody out everywhere.
func (p program) EndSessions(ctx context.Context, _ api.EndSessionsRequestObject) (api.EndSessionsResponseObject, error) {
	_, err := p.changed(echoOf(ctx), func(c echo.Context, id int64) error { return p.endSessions(c, id, nil) })
	return api.EndSessions204Response{}, err
}

// RevokePersonToken revokes somebody's token.
func (p program) RevokePersonToken(ctx context.Context, _ api.RevokePersonTokenRequestObject) (api.RevokePersonTokenResponseObject, error) {
	_, err := p.changed(echoOf(ctx), func(c echo.Context, id int64) error { return p.revokePersonToken(c, id, nil) })
	return api.RevokePersonToken204Response{}, err
}
