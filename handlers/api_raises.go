package handlers

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store"
)

// ListRaises lists what leads ask for.
func (p program) ListRaises(ctx context.Context, _ api.ListRaisesRequestObject) (api.ListRaisesResponseObject, error) {
	c := echoOf(ctx)
	r := &filterReader{query: c.QueryParams()}
	filter := store.RaiseFilter{Team: r.team(user(c)), State: r.raiseState(), After: r.row(), Limit: r.limit(listLength)}
	if err := rayslice.Invalid(r.bad...); err != nil {
		return nil, err
	}
	found, err := p.config.Store.Raises(ctx, user(c), filter)
	if err != nil {
		return nil, err
	}
	return api.ListRaises200JSONResponse{Raises: each(found.Raises, raiseOf), Next: said(rowID(found.Next))}, nil
}

func raiseOf(r rayslice.Raise) api.Raise {
	raise := api.Raise{Id: r.ID, Team: r.Team, By: api.Owner{Name: r.By.Name, Email: r.By.Email}, Charge: r.Charge, Until: known(r.Until), Purpose: r.Purpose,
		State: r.State, AskedAt: r.AskedAt, DecidedAt: known(r.DecidedAt), DecidedBy: said(r.DecidedBy), Answer: said(r.Answer)}
	if r.Grant != nil {
		grant := grantOf(*r.Grant)
		raise.Grant = &grant
	}
	return raise
}

// ShowRaise shows one raise.
func (p program) ShowRaise(ctx context.Context, _ api.ShowRaiseRequestObject) (api.ShowRaiseResponseObject, error) {
	raise, err := p.raise(echoOf(ctx))
	return api.ShowRaise200JSONResponse(raiseOf(raise)), err
}

// raise returns the raise in the path.
func (s *Server) raise(c echo.Context) (rayslice.Raise, error) {
	id, err := idOf(c, "raise", "raise")
	if err != nil {
		return rayslice.Raise{}, err
	}
	return s.config.Store.Raise(c.Request().Context(), user(c), id)
}

// AskRaise asks the admins for more quota.
func (p program) AskRaise(ctx context.Context, asked api.AskRaiseRequestObject) (api.AskRaiseResponseObject, error) {
	c := echoOf(ctx)
	draft := rayslice.RaiseDraft{Team: asked.Name}
	if user(c).CanLead(draft.Team) { // else the store refuses, and records it
		if err := p.readRaise(c, asked.Body, &draft); err != nil {
			return nil, err
		}
	}
	raise, err := p.config.Store.AskRaise(ctx, user(c), draft)
	return api.AskRaise201JSONResponse(raiseOf(raise)), err
}

func (s *Server) readRaise(c echo.Context, sent *api.Body, draft *rayslice.RaiseDraft) error {
	var body struct {
		Until   *string `json:"until"`
		Purpose string  `json:"purpose"`
		rayslice.Charge
	}
	if err := readJSON(c, sent, &body, "purpose"); err != nil {
		return err
	}
	until, err := readMoment("until", body.Until)
	draft.Charge, draft.Until, draft.Purpose = body.Charge, until, body.Purpose
	return together(err, draft.Validate(s.now()))
}

// WithdrawRaise takes back what a lead has asked for.
func (p program) WithdrawRaise(ctx context.Context, _ api.WithdrawRaiseRequestObject) (api.WithdrawRaiseResponseObject, error) {
	c := echoOf(ctx)
	raise, err := p.raise(c)
	if err == nil {
		err = p.config.Store.WithdrawRaise(ctx, user(c), raise.ID)
	}
	if err != nil {
		return nil, err
	}
	raise, err = p.raise(c)
	return api.WithdrawRaise200JSONResponse(raiseOf(raise)), err
}

// DecideRaise grants or denies a raise. What is left out is granted as it was asked for.
func (p program) DecideRaise(ctx context.Context, asked api.DecideRaiseRequestObject) (api.DecideRaiseResponseObject, error) {
	c := echoOf(ctx)
	raise, err := p.raise(c)
	if err != nil {
		return nil, err
	}
	var decision rayslice.RaiseDecision
	if user(c).MayDecideRaise(raise) == nil { // else the store refuses, and records it
		if decision, err = readRaiseDecision(c, asked.Body, raise); err != nil {
			return nil, err
		}
	}
	raise, err = p.config.Store.DecideRaise(ctx, user(c), raise.ID, decision)
	return api.DecideRaise200JSONResponse(raiseOf(raise)), err
}

func readRaiseDecision(c echo.Context, sent *api.Body, asked rayslice.Raise) (d rayslice.RaiseDecision, err error) {
	var body struct {
		Grant  bool    `json:"grant"`
		GiB    *int    `json:"gib"`
		Cards  *int    `json:"cards"`
		Until  *string `json:"until"`
		Answer string  `json:"answer"`
	}
	if err := readJSON(c, sent, &body, "grant"); err != nil {
		return d, err
	}
	d.Grant, d.Answer = body.Grant, body.Answer
	if !d.Grant {
		return d, nil
	}
	d.Charge, d.Until = asked.Charge, asked.Until
	if body.GiB != nil {
		d.Charge.GiB = *body.GiB
	}
	if body.Cards != nil {
		d.Charge.Cards = *body.Cards
	}
	if body.Until != nil {
		d.Until, err = readMoment("until", body.Until)
	}
	return d, err
}
