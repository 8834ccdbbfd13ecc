package handlers

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
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

// TestEveryRefusalIsRecorded is T43's other half: whoever is refused by right leaves an entry that says why.
func TestEveryRefusalIsRecorded(t *testing.T) {
	t.Parallel()
	p := open(t)
	raise := p.raise(rayslice.Charge{GiB: 8})
	member, lead := p.as(p.Ada), p.as(p.Lea)
	for i, ask := range []func() answer{
		func() answer { return member.get("/teams/vision/rules") },
		func() answer { return member.post("/teams/vision/rules", nil) },
		func() answer { return member.post("/teams/vision/raises", nil) },
		func() answer { return member.post("/teams/vision/raises/"+itoa(raise.ID)+"/withdraw", nil) },
		func() answer { return lead.post("/teams/vision/limit", nil) },
		func() answer { return lead.post("/teams/vision/grants/"+itoa(p.base("vision"))+"/end", nil) },
		func() answer { return member.post("/teams/vision/deputies", nil) },
		func() answer { return member.get("/teams/vision/audit") },
		func() answer { return member.get("/teams/vision/audit.csv") },
		func() answer { return lead.get("/admin") },
		func() answer { return lead.post("/admin/teams", nil) },
		func() answer { return lead.post("/admin/raises/"+itoa(raise.ID), nil) },
		func() answer { return lead.get("/admin/audit.csv") },
	} {
		got := ask().want(http.StatusForbidden)
		if n := len(p.as(p.Root).get("/admin/audit.csv?action=refuse").records()) - 1; n != i+1 {
			t.Fatalf("%s: %d refusals are recorded, want %d", got.what, n, i+1)
		}
	}
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
		if got.Code == http.StatusServiceUnavailable {
			busy++
			if got.Header().Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
		} else if got.Code != http.StatusOK {
			t.Errorf("a report got %d", got.Code)
		}
	}
	if busy < 90 || took > 20*time.Second {
		t.Errorf("%d of 100 reports were sent away; five rounds of work took %v", busy, took)
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
	for _, want := range []string{"up to 8 GiB and up to 12 h starts at once", "30 GiB and 1 whole cards, before 24 GiB and 2 whole cards: “spring”"} {
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
