package web

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// path returns the name of a group's input.
func path(group int, name string) string { return fmt.Sprintf("groups[%d].%s", group, name) }

// groupAt returns the form's i-th group, or an empty one with defaults.
func groupAt(f RequestForm, i int) GroupForm {
	if i < len(f.Groups) {
		return f.Groups[i]
	}
	return newGroupForm()
}

var indexed = regexp.MustCompile(`^(groups\[\d+\])\.(.+)$`)

// inputOf returns the name of the input that a field error belongs to.
func inputOf(f RequestForm, field string) string {
	switch {
	case strings.HasPrefix(field, "env."):
		return "env"
	case strings.HasPrefix(field, "pull_secrets["):
		return "pull_secrets"
	case field == "groups":
		return path(0, "workers")
	case field == "image" && f.Image == ImageCustom:
		return "custom_image"
	}
	if m := indexed.FindStringSubmatch(field); m != nil {
		switch m[2] {
		case "pool", "slice_gib", "name":
			return m[1] + ".size"
		}
	}
	return field
}

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// inputID returns the id of the input of that name.
func inputID(name string) string {
	return "f-" + strings.Trim(notInID.ReplaceAllString(name, "-"), "-")
}

func errorID(name string) string { return inputID(name) + "-error" }

func hintID(name string) string { return inputID(name) + "-hint" }

// errorsOf returns what is wrong with an input.
func errorsOf(p NewRequestPage, name string) []rayslice.FieldError {
	if p.Problem == nil {
		return nil
	}
	var errors []rayslice.FieldError
	for _, e := range p.Problem.Fields {
		if inputOf(p.Form, e.Field) == name {
			errors = append(errors, e)
		}
	}
	return errors
}

// marked returns "true" when an input has errors: fields that are hidden until needed then show.
func marked(p NewRequestPage, name string) string {
	return strconv.FormatBool(len(errorsOf(p, name)) > 0)
}

// describedBy returns the ids of what explains an input, for aria-describedby.
func describedBy(p NewRequestPage, name string, ids ...string) string {
	if len(errorsOf(p, name)) > 0 {
		ids = append(ids, errorID(name))
	}
	return strings.Join(ids, " ")
}

// choice returns the attributes every input shares: name, id, and what explains it.
func choice(p NewRequestPage, name string) templ.Attributes {
	attributes := templ.Attributes{"name": name, "id": inputID(name)}
	var hints []string
	if fieldHint(p, name) != "" {
		hints = append(hints, hintID(name))
	}
	if by := describedBy(p, name, hints...); by != "" {
		attributes["aria-describedby"] = by
	}
	if len(errorsOf(p, name)) > 0 {
		attributes["aria-invalid"] = "true"
	}
	return attributes
}

// input returns the attributes of an input with a value.
func input(p NewRequestPage, name, value string) templ.Attributes {
	attributes := choice(p, name)
	attributes["value"] = value
	return attributes
}

// fieldName returns an input's label.
func fieldName(l *Localizer, name string) string {
	if m := indexed.FindStringSubmatch(name); m != nil {
		name = m[2]
	}
	return l.T("label_" + strings.ReplaceAll(name, ".", "_"))
}

// fieldLabel returns what a field error is about, e.g. "Worker group 2: workers", "Environment: LD_PRELOAD". A field
// nobody knows comes back as it is.
func fieldLabel(l *Localizer, field string) string {
	if name, ok := strings.CutPrefix(field, "env."); ok {
		return l.T("label_env") + ": " + name
	}
	if strings.HasPrefix(field, "pull_secrets[") {
		return l.T("label_pull_secrets")
	}
	key := field
	prefix := ""
	if m := indexed.FindStringSubmatch(field); m != nil {
		key = m[2]
		if n, _ := strconv.Atoi(strings.Trim(m[1], "groups[]")); n > 0 {
			prefix = l.T("extra_group", Args{"N": n + 1}) + ": "
		}
	}
	key = "label_" + strings.ReplaceAll(key, ".", "_")
	if !l.has(key) {
		return field
	}
	return prefix + l.T(key)
}

// fieldHint returns what helps to fill an input in; "" = it speaks for itself.
func fieldHint(p NewRequestPage, name string) string {
	l := p.Locale
	switch name {
	case "hours":
		return l.T("hint_hours", Args{"Max": p.Catalogue.Limits.MaxHours})
	case "purpose":
		return l.T("hint_purpose")
	case "env":
		return l.T("hint_env")
	case "pull_secrets":
		return l.T("hint_pull_secrets")
	case "custom_image":
		return l.T("hint_custom_image", Args{"Prefixes": strings.Join(p.Catalogue.ImagePrefixes, ", ")})
	case "ray_version":
		return l.T("hint_ray_version")
	case "head.memory_gib":
		return l.T("hint_head_memory", Args{"Min": p.Catalogue.Limits.MinHeadMemoryGiB})
	case path(0, "core_percent"):
		return l.T("hint_core_percent")
	}
	return ""
}

// moreOpen reports whether the part most people never touch has something in it, or something wrong.
func moreOpen(p NewRequestPage) bool {
	usual := NewRequestForm(p.Catalogue, p.Form.Team)
	g, u := groupAt(p.Form, 0), groupAt(usual, 0)
	if len(p.Form.Groups) > 1 || p.Form.Env != "" || p.EnvLost || p.Form.PullSecrets != "" || p.Form.Unverified || g.MinWorkers != "" || g.MaxWorkers != "" || g.Spread ||
		g.CPU != u.CPU || g.MemoryGiB != u.MemoryGiB || p.Form.HeadCPU != usual.HeadCPU || p.Form.HeadMemoryGiB != usual.HeadMemoryGiB {
		return true
	}
	for _, name := range []string{"env", "pull_secrets", "head.cpu", "head.memory_gib", path(0, "cpu"), path(0, "memory_gib"), path(0, "min_workers"), path(0, "max_workers")} {
		if len(errorsOf(p, name)) > 0 {
			return true
		}
	}
	return false
}

// PoolSizes returns the sizes a pool offers; 0 is a whole card.
func PoolSizes(p rayslice.Pool) []int {
	if p.Mode == rayslice.ModeWhole {
		return []int{0}
	}
	return p.Sizes
}

// poolStatus returns what the nodes say about a pool; false when nothing was read yet.
func poolStatus(p NewRequestPage, pool rayslice.Pool) (rayslice.PoolStatus, bool) {
	for _, s := range p.Fleet.Pools {
		if s.Pool == pool.Name {
			return s, true
		}
	}
	return rayslice.PoolStatus{}, false
}

// ReasonPoolShare is the code of why a pool that enforces nothing is not offered.
const ReasonPoolShare = "pool_share"

// poolClosed returns why nobody may ask for a pool; zero = it is open.
func poolClosed(p NewRequestPage, pool rayslice.Pool) rayslice.Reason {
	if !pool.Offered() {
		return rayslice.Reason{Code: ReasonPoolShare}
	}
	status, _ := poolStatus(p, pool)
	return status.Blocked
}

func anyClosed(p NewRequestPage) bool {
	for _, pool := range p.Catalogue.Pools {
		if !poolClosed(p, pool).IsZero() {
			return true
		}
	}
	return false
}

// poolText says how a pool's cards are shared, and how many there are.
func poolText(p NewRequestPage, pool rayslice.Pool) string {
	text := p.Locale.T("mode_" + string(pool.Mode))
	if s, ok := poolStatus(p, pool); ok {
		text += " · " + p.Locale.N("pool_cards", s.Cards)
	}
	return text
}

// optionText is a size in a select.
func optionText(l *Localizer, pool rayslice.Pool, gib int) string {
	if gib == 0 {
		return l.T("whole_size")
	}
	return l.T("amount_gib", Args{"N": gib})
}

func hasMode(c rayslice.Catalogue, m rayslice.Mode) bool {
	for _, p := range c.Pools {
		if p.Mode == m && p.Offered() {
			return true
		}
	}
	return false
}

// maxCards returns the most cards any pool gives one worker.
func maxCards(c rayslice.Catalogue) int {
	n := 1
	for _, p := range c.Pools {
		n = max(n, p.MaxCards)
	}
	return n
}

// formQuota returns the quota of the form's team, or of the first team there is.
func formQuota(p NewRequestPage) (rayslice.Quota, bool) {
	for _, q := range p.Quotas {
		if q.Team == p.Form.Team {
			return q, true
		}
	}
	if len(p.Quotas) == 0 {
		return rayslice.Quota{}, false
	}
	return p.Quotas[0], true
}

// workersThatFit returns how many workers of a size the team's quota still has room for.
func workersThatFit(p NewRequestPage, pool rayslice.Pool, gib int) int {
	quota, _ := formQuota(p)
	if gib == 0 {
		return quota.Left().Cards
	}
	return quota.Left().GiB / gib
}

func fitTone(p NewRequestPage, pool rayslice.Pool, gib int) string {
	if workersThatFit(p, pool, gib) == 0 {
		return "bad"
	}
	return "ok"
}

// fitText says how many workers of a size the quota still allows, or what is left when it allows none.
func fitText(p NewRequestPage, pool rayslice.Pool, gib int) string {
	if n := workersThatFit(p, pool, gib); n > 0 {
		return p.Locale.N("fit_quota", n)
	}
	quota, _ := formQuota(p)
	unit, left, limit := unitGiB, quota.Left().GiB, quota.Limit.GiB
	if gib == 0 {
		unit, left, limit = unitCards, quota.Left().Cards, quota.Limit.Cards
	}
	switch {
	case limit == 0:
		return p.Locale.T("fit_limit_zero")
	case left == 0:
		return p.Locale.T("fit_nothing")
	}
	return p.Locale.T("fit_none", Args{"Left": amount(p.Locale, unit, left)})
}

// overQuota reports whether the request as it stands would be refused.
func overQuota(p NewRequestPage) bool {
	quota, ok := formQuota(p)
	return ok && !quota.Allow(p.Charge)
}

func nextTone(p NewRequestPage) string {
	switch {
	case overQuota(p):
		return "bad"
	case needsLead(p):
		return "warn"
	}
	return "info"
}

// nextText says what sending the form leads to.
func nextText(p NewRequestPage) string {
	switch {
	case overQuota(p):
		return p.Locale.T("next_over")
	case needsLead(p):
		return p.Locale.T("next_"+p.Decision.Code, p.Decision.Args)
	case p.Decision.IsZero():
		return p.Locale.T("next_unknown")
	}
	hours, err := strconv.Atoi(p.Form.Hours)
	if err != nil || hours < 1 {
		return p.Locale.T("next_starts")
	}
	return p.Locale.N("next_starts_hours", hours)
}

// askText is what the submit button says: what would be asked for, as far as it can be told.
func askText(p NewRequestPage) string {
	draft, err := p.Form.Draft()
	if err != nil || len(draft.Groups) == 0 || draft.Groups[0].Workers < 1 {
		return p.Locale.T("ask_plain")
	}
	if p.Edit != nil {
		return p.Locale.T("resend")
	}
	short := draft
	short.Groups = draft.Groups[:1]
	text := groupsText(p.Locale, short, p.Catalogue)
	if len(draft.Groups) > 1 {
		text += " + …"
	}
	return p.Locale.T("ask_for", Args{"What": text})
}

// previewTrigger says when htmx fetches the preview: on each change, and once at the start when there is none yet.
func previewTrigger(p NewRequestPage) string {
	trigger := "input from:closest form delay:400ms, change from:closest form delay:250ms"
	if p.YAML == "" && p.Problem == nil {
		trigger = "load, " + trigger
	}
	return trigger
}
