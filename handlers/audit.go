package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// turns are for reading the audit log, one at a time for pages and one for exports: together less than the smallest pool, so
// that people sign in and decide while the log is slow, and no page waits for an export. Nobody has one while writing.
type turns struct{ pages, exports chan struct{} }

func newTurns() turns { return turns{make(chan struct{}, 1), make(chan struct{}, 1)} }

// takeTurn waits for a turn, and not for long. The caller ends it with done.
func takeTurn(ctx context.Context, turns chan struct{}, wait time.Duration) (done func(), err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-timer.C:
		return nil, refuse(http.StatusServiceUnavailable, "reports_busy", nil, nil)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// showAudit shows the audit log: a team's own where the path names one, else all.
func (s *Server) showAudit(c echo.Context) error {
	p, status, err := s.auditPage(c)
	if err != nil {
		return err
	}
	return page(c, status, web.AuditView(p))
}

// auditPage reads one page of the log as the address asks for it. A filter that cannot be read comes back as it was typed.
func (s *Server) auditPage(c echo.Context) (web.AuditPage, int, error) {
	ctx, actor, query := c.Request().Context(), user(c), c.QueryParams()
	done, err := takeTurn(ctx, s.turns.pages, s.timing.report)
	if err != nil {
		return web.AuditPage{}, 0, err
	}
	defer done()
	p := web.AuditPage{Team: c.Param("name"), Path: c.Request().URL.Path, Filter: web.Form{ID: "filter", Values: query}, Catalogue: s.config.Catalogue}
	if p.Team == "" {
		quotas, err := s.config.Store.Quotas(ctx, actor)
		if err != nil {
			return p, 0, err
		}
		p.Teams = teamsOf(quotas)
	}
	filter, bad := auditFilter(c)
	if bad != nil {
		filter = store.AuditFilter{Team: p.Team, Limit: 1} // whether the visitor may read it at all comes first
	}
	found, err := s.config.Store.AuditLog(ctx, actor, filter)
	if err != nil {
		return p, 0, err
	}
	if p.Frame, err = s.liveFrame(c); err != nil {
		return p, 0, err
	}
	if bad != nil {
		status, problem := explain(bad)
		visitOf(c).failure, p.Filter.Problem = bad, problem
		return p, status, nil
	}
	p.Entries, p.Pages = found.Entries, pages(p.Path, query, "after", rowID(found.Next))
	p.CSV = withQuery(p.Path+".csv", without(query, "after"))
	return p, http.StatusOK, nil
}

// auditFilter reads how the log is narrowed. In a team's own log the team is the path's, whatever else is asked for.
func auditFilter(c echo.Context) (store.AuditFilter, error) {
	query := c.QueryParams()
	q, err := web.ParseAuditQuery(query)
	if err != nil {
		return store.AuditFilter{}, err
	}
	after, err := number(query, "after")
	if team := c.Param("name"); team != "" {
		q.Team = team
	}
	return store.AuditFilter{
		Team: q.Team, Actor: q.Actor, Action: q.Action, RequestID: q.RequestID, From: q.From, To: q.To, After: after, Limit: listLength,
	}, err
}
