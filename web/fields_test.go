package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rayslice/rayslice"
)

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"Lin Wei":             "Lin Wei",
		"消融实验 نور 🚀":          "消融实验 نور 🚀",
		"a\r\nb\tc":           `a\r\nb\tc`,
		"\x1b[31mred":         `\x1b[31mred`,
		"a\u2028b\u0085c":     `a\u2028b\u0085c`,
		"\u202eevil\u2069":    `\u202eevil\u2069`,
		`a\nb`:                `a\\nb`,
		"\"quoted\" 'single'": "\"quoted\" 'single'",
		"\x7f":                `\x7f`,
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestNoCellIsAFormula(t *testing.T) {
	for cell, want := range map[string]string{"": "", "a=1": "a=1", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "＝1": "'＝1", "'=1": "'=1"} {
		if got := safeCell(cell); got != want {
			t.Errorf("%q became %q, want %q", cell, got, want)
		}
	}
	record := AuditRecord(rayslice.AuditEntry{Actor: "=1", Reason: rayslice.Reason{Code: "x", Args: map[string]any{"answer": "a\nb"}}})
	if len(record) != len(AuditHeader) || strings.ContainsRune(strings.Join(record, ""), '\n') {
		t.Errorf("record %q", record)
	}
}

// TestRulesThereAndBack fills the form with rules and reads it again.
func TestRulesThereAndBack(t *testing.T) {
	c := SampleCatalogue()
	for what, rules := range map[string]rayslice.Rules{
		"everything":         sampleRules(),
		"nothing":            {},
		"the default":        rayslice.DefaultRules().Under(rayslice.Charge{GiB: 96, Cards: 2}),
		"a share of nothing": {Member: &rayslice.Charge{}},
		"every pool closed":  {Sizes: map[string][]int{"a10": {}, "t4": {}, "a10c": {}, "a10s": {}}},
	} {
		got, err := ParseRules(RulesValues(rules, c), c)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if diff := cmp.Diff(rules, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-set +read):\n%s", what, diff)
		}
	}
}

// TestHoursHideNothing: what is there is never shown as nothing.
func TestHoursHideNothing(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.01: "0.1", 0.4: "0.4", 9.94: "9.9", 12.4: "12", 1234.5: "1234"} {
		if got := hoursText(n); got != want {
			t.Errorf("%v is %q, want %q", n, got, want)
		}
	}
}

func TestDaysEndInUTC(t *testing.T) {
	for text, want := range map[string]time.Time{"": {}, "2026-03-09": time.Date(2026, 3, 9, 23, 59, 59, 0, time.UTC), "2024-02-29": time.Date(2024, 2, 29, 23, 59, 59, 0, time.UTC)} {
		draft, err := ParseRaise("vision", url.Values{"until": {text}})
		if err != nil || !draft.Until.Equal(want) || dayText(draft.Until) != text {
			t.Errorf("%q is %v, %v", text, draft.Until, err)
		}
	}
	for _, text := range []string{"tomorrow", "2026-02-30", "09.03.2026", "2026-03-09T12:00", "2026-3-9", "\xff"} {
		if _, err := ParseRaise("vision", url.Values{"until": {text}}); rayslice.KindOf(err) != rayslice.KindInvalid {
			t.Errorf("%q was read", text)
		}
	}
	query, err := ParseAuditQuery(url.Values{"from": {"2026-03-09"}, "to": {"2026-03-09"}})
	if err != nil || query.To.Sub(query.From) != 24*time.Hour || query.From.Hour() != 0 {
		t.Errorf("a day is %v to %v, %v", query.From, query.To, err)
	}
}

func TestDestructiveButtonsAskOnceMore(t *testing.T) {
	for name, action := range map[string]string{
		"team-confirm-withdraw": "/teams/vision/raises/31/withdraw",
		"team-confirm-grant":    "/teams/vision/grants/12/end",
		"team-confirm-deputy":   "/teams/vision/deputies/5/end",
	} {
		page := sample(t, name)
		if page.Find(`section.confirm form[method=post][action="`+action+`"] button.danger-solid`).Length() != 1 {
			t.Errorf("%s: no question without JavaScript", name)
		}
		if page.Find(`form[action="`+action+`"]`).Length() != 1 {
			t.Errorf("%s: it can be done without a question", name)
		}
	}
	lead := sample(t, "team-lead")
	if lead.Find(`a[data-dialog=dialog-withdraw-31][href="/teams/vision?confirm=withdraw-31"]`).Length() != 1 || lead.Find("dialog#dialog-withdraw-31 form").Length() != 1 {
		t.Error("the dialog does not ask")
	}
	if text := sample(t, "team-confirm-grant").Find("section.confirm").Text(); !strings.Contains(text, "80 GiB and 2 whole cards") || !strings.Contains(text, "nothing is stopped") {
		t.Errorf("it does not say what will happen: %s", text)
	}
}
