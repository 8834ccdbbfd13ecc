package handlers

import (
	"context"
	"encoding/csv"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// exportAudit streams what the filter shows as CSV, one export of a person at a time. What is refused before the first row
// is answered like any page; after it the connection is cut, so that half an export is not taken for a whole one.
func (s *Server) exportAudit(c echo.Context) error {
	end, err := s.exporting.begin(user(c).ID)
	if err != nil {
		return err
	}
	defer end()
	filter, err := auditFilter(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.timing.export)
	defer cancel()
	out := newAuditExport(c, s.timing, exportName(c.Param("name"), s.now()))
	if err = s.writeAudit(ctx, user(c), filter, out); err != nil && c.Response().Committed {
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "an export of the audit log was cut",
			slog.String("request_id", visitOf(c).id), slog.String("error", err.Error()))
		panic(http.ErrAbortHandler)
	}
	return err
}

// writeAudit reads and writes one chunk after the other. What is recorded meanwhile is not in it.
func (s *Server) writeAudit(ctx context.Context, actor rayslice.User, filter store.AuditFilter, out *auditExport) error {
	for wait := s.timing.report; ; wait = s.timing.export { // who has begun waits for as long as they may
		chunk, err := s.auditChunk(ctx, actor, filter, wait)
		if err == nil {
			err = out.write(chunk.Entries)
		}
		if err != nil || chunk.Next == 0 {
			return err
		}
		filter.After = chunk.Next
	}
}

func (s *Server) auditChunk(ctx context.Context, actor rayslice.User, filter store.AuditFilter, wait time.Duration) (store.AuditPage, error) {
	done, err := takeTurn(ctx, s.turns.exports, wait)
	if err != nil {
		return store.AuditPage{}, err
	}
	defer done()
	return s.config.Store.AuditChunk(ctx, actor, filter)
}

// exporting knows who has an export under way.
type exporting struct {
	mu sync.Mutex
	by map[int64]bool
}

// begin refuses a second export of the same person. The caller ends it with end.
func (x *exporting) begin(user int64) (end func(), err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.by[user] {
		return nil, refuse(http.StatusTooManyRequests, "export_running", nil, nil)
	}
	x.by[user] = true
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.by, user)
	}, nil
}

// auditExport writes entries as CSV, the header first.
type auditExport struct {
	context echo.Context
	rows    *csv.Writer
	name    string
}

func newAuditExport(c echo.Context, t timing, name string) *auditExport {
	w := &timedWriter{c.Response(), http.NewResponseController(c.Response()), t.chunk, time.Now().Add(t.export)}
	return &auditExport{context: c, rows: csv.NewWriter(w), name: name}
}

// write sends entries.
func (x *auditExport) write(entries []rayslice.AuditEntry) error {
	if !x.context.Response().Committed {
		header := x.context.Response().Header()
		header.Set(echo.HeaderContentType, "text/csv; charset=utf-8; header=present")
		header.Set(echo.HeaderContentDisposition, `attachment; filename="`+x.name+`"`)
		header.Set(echo.HeaderConnection, "close") // its time limits would hold for what comes next
		x.context.Response().WriteHeader(http.StatusOK)
		if err := x.rows.Write(web.AuditHeader); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := x.rows.Write(web.AuditRecord(e)); err != nil {
			return err
		}
	}
	x.rows.Flush()
	return x.rows.Error()
}

// timedWriter gives every write a time limit, and all of them one together: who stops reading, or reads on and on, is cut.
type timedWriter struct {
	response *echo.Response
	control  *http.ResponseController
	each     time.Duration
	end      time.Time
}

// Write implements io.Writer.
func (w *timedWriter) Write(p []byte) (int, error) {
	deadline := time.Now().Add(w.each)
	if deadline.After(w.end) {
		deadline = w.end
	}
	_ = w.control.SetWriteDeadline(deadline) // not every writer has one
	return w.response.Write(p)
}

// exportName is what a browser saves the export as.
func exportName(team string, now time.Time) string {
	name := "rayslice-audit-"
	if team != "" {
		name += url.PathEscape(team) + "-"
	}
	return name + now.UTC().Format(time.DateOnly) + ".csv"
}
