package handlers

import (
	"context"
	"encoding/csv"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// maxReports is how many reports are read at once. It is less than half of the smallest pool, so that people sign in and
// decide while reports are slow.
const maxReports = 2

// reportWait is how long a report waits for its turn before its reader hears that others come first.
const reportWait = time.Second

// chunkTime is the longest that a reader of an export may take for one flush; who stops reading gives the turn back.
const chunkTime = 20 * time.Second

// takeTurn waits for a report's turn. The caller ends it with done.
func (s *Server) takeTurn(ctx context.Context) (done func(), err error) {
	timer := time.NewTimer(s.timing.report)
	defer timer.Stop()
	select {
	case s.reports <- struct{}{}:
		return func() { <-s.reports }, nil
	case <-timer.C:
		return nil, refuse(http.StatusServiceUnavailable, "reports_busy", nil, nil)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// showAudit shows the audit log: a team's own where the path names one, else all.
func (s *Server) showAudit(c echo.Context) error {
	done, err := s.takeTurn(c.Request().Context())
	if err != nil {
		return err
	}
	defer done()
	p, status, err := s.auditPage(c)
	if err != nil {
		return err
	}
	return page(c, status, web.AuditView(p))
}

// auditPage reads one page of the log as the address asks for it. A filter that cannot be read comes back as it was typed.
func (s *Server) auditPage(c echo.Context) (web.AuditPage, int, error) {
	ctx, actor, query := c.Request().Context(), user(c), c.QueryParams()
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
	p.Entries, p.Pages = found.Entries, pages(c, "after", filter.After, found.Next)
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

// exportAudit streams what the filter shows as CSV. What is refused before the first row is answered like any page; after
// it the connection is cut, so that half an export is not taken for a whole one.
func (s *Server) exportAudit(c echo.Context) error {
	done, err := s.takeTurn(c.Request().Context())
	if err != nil {
		return err
	}
	defer done()
	filter, err := auditFilter(c)
	if err != nil {
		return err
	}
	out := &auditExport{context: c, rows: csv.NewWriter(c.Response()), name: exportName(c.Param("name"), s.now())}
	err = s.config.Store.ExportAudit(c.Request().Context(), user(c), filter, out.write)
	if err == nil {
		err = out.end()
	}
	if err != nil && c.Response().Committed {
		s.config.Logger.LogAttrs(c.Request().Context(), slog.LevelWarn, "an export of the audit log was cut",
			slog.String("request_id", visitOf(c).id), slog.String("error", err.Error()))
		panic(http.ErrAbortHandler)
	}
	return err
}

// auditExport writes entries as CSV, the header with the first.
type auditExport struct {
	context echo.Context
	rows    *csv.Writer
	name    string
	count   int
}

func (x *auditExport) write(e rayslice.AuditEntry) error {
	if err := x.begin(); err != nil {
		return err
	}
	if x.count++; x.count%500 == 0 {
		if err := x.flush(); err != nil {
			return err
		}
	}
	return x.rows.Write(web.AuditRecord(e))
}

func (x *auditExport) begin() error {
	if x.context.Response().Committed {
		return nil
	}
	header := x.context.Response().Header()
	header.Set(echo.HeaderContentType, "text/csv; charset=utf-8; header=present")
	header.Set(echo.HeaderContentDisposition, `attachment; filename="`+x.name+`"`)
	x.context.Response().WriteHeader(http.StatusOK)
	return x.rows.Write(web.AuditHeader)
}

// flush sends what there is, within chunkTime.
func (x *auditExport) flush() error {
	controller := http.NewResponseController(x.context.Response())
	_ = controller.SetWriteDeadline(time.Now().Add(chunkTime)) // not every writer has one
	x.rows.Flush()
	return x.rows.Error()
}

func (x *auditExport) end() error {
	if err := x.begin(); err != nil {
		return err
	}
	err := x.flush()
	_ = http.NewResponseController(x.context.Response()).SetWriteDeadline(time.Time{}) // the connection lives on
	return err
}

// exportName is what a browser saves the export as.
func exportName(team string, now time.Time) string {
	name := "rayslice-audit-"
	if team != "" {
		name += url.PathEscape(team) + "-"
	}
	return name + now.UTC().Format(time.DateOnly) + ".csv"
}
