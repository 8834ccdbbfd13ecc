package web

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// AuditPage shows the audit log: all of it to admins, a team's own to its leads.
// Form: GET of the page's own address with team, actor, action, request, from and to.
type AuditPage struct {
	Frame
	Team      string // whose log this is; "" = all teams'
	Path      string // address of the page without its query
	Filter    Form   // team, actor, action, request, from and to (days)
	Teams     []string
	Entries   []rayslice.AuditEntry
	Pages     Pages
	Catalogue rayslice.Catalogue // for what rules say
	CSV       string             // address of what the filter shows as CSV
}

// AuditActions are the words of the audit log for what was done, each with a sentence of its own.
var AuditActions = []string{
	"create", "approve", "return", "reject", "resend", "cancel", "stop", "transition", "refuse", "escalate",
	"create_team", "set_limit", "set_rules", "ask_raise", "withdraw_raise", "grant_raise", "deny_raise", "end_grant", "grant_ended",
	"name_deputy", "end_deputy", "grant_role", "revoke_role", "create_token", "revoke_token", "disable_user", "enable_user", "end_sessions",
	"set_webhook", "verify", "open",
}

// actionText is what was done, in words; an action nobody has named comes back as it is.
func actionText(l *Localizer, action string) string {
	if l.has("action_" + action) {
		return l.T("action_" + action)
	}
	return action
}

// entryText says why or how something was done. Rules are told as their team's page tells them.
func entryText(p AuditPage, e rayslice.AuditEntry) string {
	if e.Reason.Code != "rules_set" {
		return p.Locale.Reason(e.Reason)
	}
	text, ok := rulesOf(p, e.Reason.Args["rules"])
	if !ok {
		return p.Locale.Reason(e.Reason)
	}
	if before, ok := rulesOf(p, e.Reason.Args["before"]); ok {
		text += " " + p.Locale.T("rules_before", Args{"Rules": before})
	}
	return text
}

// rulesOf reads rules as an entry keeps them, in the words of their team's page.
func rulesOf(p AuditPage, kept any) (string, bool) {
	raw, err := json.Marshal(kept)
	var rules rayslice.Rules
	if kept == nil || err != nil || json.Unmarshal(raw, &rules) != nil {
		return "", false
	}
	return strings.Join(rulesText(p.Locale, rules, p.Catalogue), " "), true
}

func actionTone(action string) string {
	switch action {
	case "refuse", "reject", "deny_raise":
		return "bad"
	case "approve", "grant_raise":
		return "ok"
	case "escalate":
		return "warn"
	}
	return "plain"
}

// AuditQuery is a filter as the address has it. Days count from their first second to their last, in UTC.
type AuditQuery struct {
	Team, Actor, Action, RequestID string
	From, To                       time.Time // To is the first moment that does not count any more
}

// ParseAuditQuery reads a filter and names every bad parameter.
func ParseAuditQuery(query url.Values) (AuditQuery, error) {
	r := formReader{values: query}
	q := AuditQuery{Team: r.text("team"), Actor: r.text("actor"), Action: r.text("action"), RequestID: r.text("request")}
	if from := r.day("from"); !from.IsZero() {
		q.From = StartOfDay(from)
	}
	if to := r.day("to"); !to.IsZero() {
		q.To = to.Add(time.Second)
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		r.refuse("to", CodeBeforeFrom, nil)
	}
	for name, text := range map[string]string{"team": q.Team, "actor": q.Actor, "action": q.Action, "request": q.RequestID} {
		if len(text) > maxFilterText {
			r.bad = append(r.bad, rayslice.FieldError{Field: name, Code: rayslice.CodeTooLong, Args: map[string]any{"max": maxFilterText}})
		}
	}
	return q, rayslice.Invalid(r.bad...)
}

// CodeBeforeFrom is the field code of a last day that lies before the first.
const CodeBeforeFrom = "before_from"

const maxFilterText = 200 // bytes of one parameter

// AuditHeader names the columns of the CSV export. They stay as they are: programs read them.
var AuditHeader = []string{"id", "at", "actor", "via", "action", "subject", "request", "team", "from", "to", "reason", "details"}

// AuditRecord returns one entry as a row of the CSV export. Line breaks and control characters become escapes such as \n, so
// that each entry stays one line for whatever reads it; a cell that a spreadsheet would take for a formula begins with an
// apostrophe.
func AuditRecord(e rayslice.AuditEntry) []string {
	details := ""
	if len(e.Reason.Args) > 0 {
		raw, _ := json.Marshal(e.Reason.Args) // it came from JSON
		details = string(raw)
	}
	record := []string{strconv.FormatInt(e.ID, 10), e.At.UTC().Format(time.RFC3339Nano), e.Actor, e.Via, e.Action, e.Subject, e.RequestID, e.Team,
		string(e.From), string(e.To), e.Reason.Code, details}
	for i, cell := range record {
		record[i] = safeCell(oneLine(cell))
	}
	return record
}

// safeCell keeps a spreadsheet from running what somebody wrote into a name (OWASP: CSV injection).
func safeCell(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(cell)[0]) {
		return "'" + cell
	}
	return cell
}
