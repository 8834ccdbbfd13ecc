package handlers

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

type goquerySelection = goquery.Selection

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// records parses a CSV answer, with its header.
func (a answer) records() [][]string {
	a.t.Helper()
	rows, err := csv.NewReader(strings.NewReader(a.Body.String())).ReadAll()
	if err != nil {
		a.t.Fatalf("%s: %v", a.what, err)
	}
	return rows
}

func TestAuditFilterAndPaging(t *testing.T) {
	t.Parallel()
	p := open(t)
	storetest.Exec(t, `INSERT INTO audit (actor, action, team) SELECT 'Eve', 'stop', 'vision' FROM generate_series(1, 120)`)
	p.create(p.Ada, storetest.Draft(1, 8))
	lead := p.as(p.Lea)
	seen := 0
	for address := "/teams/vision/audit?actor=eve&action=stop"; address != ""; {
		page := lead.get(address).want(http.StatusOK).page()
		seen += page.Find("table.audit tbody tr").Length()
		if page.Find("#filter-actor").AttrOr("value", "") != "eve" || page.Find("#filter-action option[selected]").AttrOr("value", "") != "stop" {
			t.Fatal("the filter is not kept")
		}
		address = page.Find(`nav.paging a[href*="after="]`).AttrOr("href", "")
	}
	if seen != 120 {
		t.Errorf("%d entries on all pages, want 120", seen)
	}
	export := lead.get("/teams/vision/audit").page().Find(`a[href$="audit.csv"]`).AttrOr("href", "")
	if got := lead.get(export + "?actor=eve").want(http.StatusOK).records(); len(got) != 121 {
		t.Errorf("%d records", len(got))
	}
	for _, query := range []string{"from=yesterday", "to=2026-02-30", "after=x", "after=-1", "actor=" + strings.Repeat("a", 300)} {
		lead.get("/teams/vision/audit?" + query).want(http.StatusUnprocessableEntity)
		lead.get("/teams/vision/audit.csv?" + query).want(http.StatusUnprocessableEntity)
	}
	today := time.Now().UTC().Format(time.DateOnly)
	if got := lead.get("/teams/vision/audit.csv?from=" + today + "&to=" + today).records(); len(got) < 122 {
		t.Errorf("%d records today", len(got))
	}
	if got := lead.get("/teams/vision/audit.csv?to=2020-01-01").records(); len(got) != 1 {
		t.Errorf("%d records before", len(got))
	}
	lead.get("/teams/vision/audit.csv?team=speech").want(http.StatusOK) // the path says whose; the rest cannot widen it
	for _, row := range lead.get("/teams/vision/audit.csv?team=speech").records()[1:] {
		if row[7] != "vision" {
			t.Errorf("another team's entry: %v", row)
		}
	}
}

// TestT43HostileNames puts names that break lines, terminals, quotes and spreadsheets into the log: each stays one record
// in the list, in CSV also line by line, and in the portal's own log.
func TestT43HostileNames(t *testing.T) {
	t.Parallel()
	p := open(t)
	names := []string{"Eve\r\nRoot,approve", "\x1b[2J\x1b[31mEve", `Eve","Root"`, "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "Eve\u2028Root", "\u202eevE", `back\nslash`, "＝1"}
	for _, name := range names {
		storetest.Exec(t, `INSERT INTO audit (actor, action, subject, team) VALUES ($1, 'name_deputy', $1, 'vision')`, name)
	}
	lead := p.as(p.Lea)
	list := lead.get("/teams/vision/audit?action=name_deputy").want(http.StatusOK).page()
	if n := list.Find("table.audit tbody tr").Length(); n != len(names) {
		t.Errorf("%d rows, want %d", n, len(names))
	}
	got := lead.get("/teams/vision/audit.csv?action=name_deputy").want(http.StatusOK)
	if got.Header().Get("Content-Type") != "text/csv; charset=utf-8; header=present" || !strings.HasPrefix(got.Header().Get("Content-Disposition"), "attachment") {
		t.Errorf("headers %v", got.Header())
	}
	if lines := strings.Count(got.Body.String(), "\n"); lines != len(names)+1 {
		t.Errorf("%d lines, want one for each record and the header", lines)
	}
	if strings.ContainsAny(got.Body.String(), "\r\x1b\u2028\u202e") {
		t.Error("a control character was written")
	}
	for i, row := range got.records()[1:] {
		name := names[len(names)-1-i]
		if strings.ContainsRune("=+-@\t\r＝", []rune(row[2])[0]) {
			t.Errorf("%q would be taken for a formula", row[2])
		}
		if row[2] != row[5] || len(row) != 12 {
			t.Errorf("%q became %v", name, row)
		}
	}
	for line := range strings.Lines(p.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no record of its own: %q", line)
		}
	}
}

// TestEveryRefusalIsRecorded is T43's other half: whoever is refused by right leaves an entry that says why, each time they
// try to do something; who looks at the same again at once leaves no more.
func TestEveryRefusalIsRecorded(t *testing.T) {
	t.Parallel()
	p := open(t)
	raise := p.raise(rayslice.Charge{GiB: 8})
	member, lead := p.as(p.Ada), p.as(p.Lea)
	p.needLead(0)
	asked, person := p.create(p.Bob, storetest.Draft(1, 4)).ID, "/admin/people/"+itoa(p.Sam.ID)
	edited, previewed := p.create(p.Bob, storetest.Draft(1, 4)).ID, p.create(p.Bob, storetest.Draft(1, 4)).ID
	reader := p.token(p.newToken(p.Ada, rayslice.ScopeRead))
	recorded := func() int { return len(p.as(p.Root).get("/admin/audit.csv?action=refuse").records()) - 1 }
	want := 0
	for _, ask := range []func() answer{
		func() answer { return member.get("/teams/vision/rules") },
		func() answer { return member.post("/teams/vision/raises", nil) },
		func() answer { return member.post("/teams/vision/raises/"+itoa(raise.ID)+"/withdraw", nil) },
		func() answer { return lead.post("/teams/vision/limit", nil) },
		func() answer { return member.post("/teams/vision/grants/"+itoa(p.base("vision"))+"/end", nil) },
		func() answer { return member.post("/teams/vision/deputies", nil) },
		func() answer { return member.get("/teams/vision/audit") },
		func() answer { return lead.get("/admin") },
		func() answer { return lead.post("/admin/teams", nil) },
		func() answer { return lead.post("/admin/raises/"+itoa(raise.ID), nil) },
		func() answer { return lead.get("/admin/audit.csv") },
		func() answer { return member.get("/admin/people") },
		func() answer { return member.get(person) },
		func() answer { return member.post(person+"/roles", nil) },
		func() answer { return member.post(person+"/disable", nil) },
		func() answer { return member.post(person+"/tokens/1/revoke", nil) },
		func() answer { return member.get("/approvals") },
		func() answer { return member.get("/approvals/" + asked + "/preview") },
		func() answer { return member.get("/clusters/" + asked + "/edit") },
		func() answer { return member.post("/clusters/"+edited+"/edit", nil) },
		func() answer { return member.post("/clusters/"+previewed+"/preview", nil) },
		func() answer { return reader.postJSON("/api/v1/requests", goodBody) },
		func() answer { return reader.post("/clusters/"+asked+"/stop", nil) },
	} {
		for try := range 2 {
			got := ask().want(http.StatusForbidden)
			if try == 0 || !strings.HasPrefix(got.what, "GET ") {
				want++
			}
			if n := recorded(); n != want {
				t.Fatalf("%s: %d refusals are recorded, want %d", got.what, n, want)
			}
		}
	}
	other := p.as(p.Bob)
	other.get("/admin/" + strings.Repeat("people/", 1000)).want(http.StatusNotFound)
	other.get("/admin/people/" + strings.Repeat("%00%ff", 1000)).want(http.StatusForbidden)
}

// TestT21SlowReports lets a hundred people read a log that is slow: signing in, asking, stopping and health answer
// meanwhile, and who does not get a turn hears when to try again.
func TestT21SlowReports(t *testing.T) {
	t.Parallel()
	p := open(t)
	admin, ada := p.as(p.Root), p.as(p.Ada)
	storetest.Exec(t, `INSERT INTO audit (actor, action) SELECT 'Eve', 'stop' FROM generate_series(1, 20)`)
	storetest.Exec(t, `ALTER TABLE audit RENAME TO audit_kept`)
	storetest.Exec(t, `CREATE FUNCTION slow() RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT pg_sleep(0.25) IS NOT NULL'`)
	storetest.Exec(t, `CREATE VIEW audit AS SELECT * FROM audit_kept WHERE slow()`)
	var readers sync.WaitGroup
	codes := make(chan answer, 100)
	for i := range 100 {
		path := []string{"/admin/audit?action=stop", "/admin/audit.csv?action=stop"}[i%2]
		readers.Go(func() { codes <- admin.get(path) })
	}
	began := time.Now()
	for i := range 5 {
		p.as(p.Sam)
		form := goodForm()
		form.Set("groups[0].size", "a10:4")
		form.Set("groups[0].workers", "1")
		form.Set("idempotency_key", fmt.Sprint("key", i))
		at := ada.post("/clusters", form).want(http.StatusSeeOther).location()
		ada.post(at+"/stop", nil).want(http.StatusSeeOther)
		p.nobody().get("/readyz").want(http.StatusOK)
	}
	took := time.Since(began)
	readers.Wait()
	close(codes)
	busy := 0
	for got := range codes {
		if got.Code == http.StatusServiceUnavailable || got.Code == http.StatusTooManyRequests { // one export of a person at a time
			busy++
			if got.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		} else if got.Code != http.StatusOK {
			t.Errorf("a report got %d", got.Code)
		}
	}
	if busy < 90 || took > 20*time.Second {
		t.Errorf("%d of 100 reports were sent away; five rounds of work took %v", busy, took)
	}
}

// TestStalledExport has somebody ask for an export and not read it: others' pages and exports go on, a second one has to
// wait for the first, and that is cut.
func TestStalledExport(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*timing){
		"who reads nothing":                     func(t *timing) { t.chunk = 500 * time.Millisecond },
		"who takes too long, however they read": func(t *timing) { t.export = 500 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			storetest.Exec(t, `INSERT INTO audit (actor, action, subject, team) SELECT 'Eve', 'test', repeat('x', 1000), 'vision' FROM generate_series(1, 5000)`)
			change(&p.server.timing)
			web := httptest.NewUnstartedServer(p.server)
			web.Config.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateNew {
					_ = c.(*net.TCPConn).SetWriteBuffer(32 << 10)
				}
			}
			web.Start()
			t.Cleanup(web.Close)
			lea, root := p.as(p.Lea), p.as(p.Root)
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.(*net.TCPConn).SetReadBuffer(2 << 10)
			_, _ = fmt.Fprintf(conn, "GET /teams/vision/audit.csv HTTP/1.1\r\nHost: portal.example\r\nCookie: %s\r\n\r\n", lea.header.Get("Cookie"))
			if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			root.get("/admin/audit").want(http.StatusOK)
			root.get("/admin/audit.csv?action=none").want(http.StatusOK)
			lea.get("/teams/vision/audit").want(http.StatusOK)
			if got := lea.with("Accept", "application/problem+json").get("/teams/vision/audit.csv?action=none").want(http.StatusTooManyRequests); got.Header().Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
			for until := time.Now().Add(20 * time.Second); lea.get("/teams/vision/audit.csv?action=none").Code != http.StatusOK; {
				if time.Now().After(until) {
					t.Fatal("the export is never cut")
				}
			}
			if rest, err := io.ReadAll(conn); strings.HasSuffix(string(rest), "0\r\n\r\n") {
				t.Errorf("it looks like a whole one (%v)", err)
			}
		})
	}
}

// TestTheAuditLogSaysWhatWasSet: rules in the words of their team's page, and the base limit with the one before.
func TestTheAuditLogSaysWhatWasSet(t *testing.T) {
	t.Parallel()
	p := open(t)
	if err := p.store.SetRules(t.Context(), p.Lea, "vision", rayslice.Rules{Auto: rayslice.Charge{GiB: 8}, AutoHours: 12, EscalateMinutes: 60}); err != nil {
		t.Fatal(err)
	}
	if err := p.store.SetLimit(t.Context(), p.Root, "vision", rayslice.Charge{GiB: 30, Cards: 1}, "spring"); err != nil {
		t.Fatal(err)
	}
	text := p.as(p.Lea).get("/teams/vision/audit").want(http.StatusOK).page().Find("tbody").Text()
	for _, want := range []string{"up to 8 GiB and up to 12 h starts at once", "Before: ", "30 GiB and 1 whole cards, before 24 GiB and 2 whole cards: “spring”"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not say %q: %s", want, text)
		}
	}
	turned := p.as(p.Lea).get("/teams/vision/audit?from=2026-03-09&to=2026-03-08").want(http.StatusUnprocessableEntity).page()
	if turned.Find("input[name=to][aria-invalid=true]").Length() != 1 {
		t.Error("a last day before the first is not refused")
	}
	p.as(p.Lea).get("/teams/vision/audit?from=2026-03-09&to=2026-03-09").want(http.StatusOK)
}
