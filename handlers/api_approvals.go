package handlers

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/web"
)

// ListApprovals lists what waits for the caller, or what was decided.
func (p program) ListApprovals(ctx context.Context, _ api.ListApprovalsRequestObject) (api.ListApprovalsResponseObject, error) {
	c := echoOf(ctx)
	filter, err := readApprovals(decider(c), c.QueryParams())
	if err != nil {
		return nil, err
	}
	found, err := p.approvals(ctx, decider(c), filter)
	if err != nil {
		return nil, err
	}
	rows, err := p.approvalRows(ctx, found.Approvals, filter.Decided)
	if err != nil {
		return nil, err
	}
	answer := api.ListApprovals200JSONResponse{Next: said(found.Next)}
	answer.Approvals, err = p.approvalsOf(c, rows)
	return answer, err
}

// ShowApproval shows one request to somebody who may have to decide it.
func (p program) ShowApproval(ctx context.Context, _ api.ShowApprovalRequestObject) (api.ShowApprovalResponseObject, error) {
	c := echoOf(ctx)
	row, err := p.leadsApproval(c)
	if err != nil {
		return nil, err
	}
	found, err := p.approvalsOf(c, []web.ApprovalRow{row})
	if err != nil {
		return nil, err
	}
	return api.ShowApproval200JSONResponse(found[0]), nil
}

func (s *Server) approvalsOf(c echo.Context, rows []web.ApprovalRow) ([]api.Approval, error) {
	requests := make([]rayslice.Request, len(rows))
	for i, row := range rows {
		requests[i] = row.Request
	}
	bodies, err := s.requestsOf(c, requests)
	if err != nil {
		return nil, err
	}
	all := make([]api.Approval, len(rows))
	for i, row := range rows {
		all[i] = api.Approval{Request: bodies[i], Talk: entriesOf(c, row.Talk)}
		if row.Request.State.Open() {
			quota := quotaNumbers(row.Quota)
			all[i].Quota, all[i].Record = &quota, &api.Record{Grants: row.Record.Grants, Granted: row.Record.Granted, Held: row.Record.Held}
			if row.Fit.Known {
				all[i].Fit = &api.Room{Fits: row.Fit.Fits, Maybe: row.Fit.Maybe, OnCards: row.Fit.OnCards, Missing: row.Fit.Missing}
			}
		}
		if row.Refusal != nil {
			all[i].Refusal = &api.Reason{Code: row.Refusal.Code, Text: visitOf(c).locale.Problem(row.Refusal)}
		}
	}
	return all, nil
}
