package web

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// RulesPage sets what a team's requests may be and which of them start at once.
// Form: POST /teams/NAME/rules.
type RulesPage struct {
	Frame
	Team      rayslice.Team
	Quota     rayslice.Quota
	Catalogue rayslice.Catalogue // the whole one: what the rules may narrow
	Form      Form
	Rules     rayslice.Rules // as they hold now
	Saved     bool           // ?saved=1
}

// rulesInputs are the inputs of the form besides the sizes of the pools.
var rulesInputs = []string{"auto.gib", "auto.cards", "auto_hours", "member.gib", "member.cards", "max_hours", "escalate_minutes", "image_prefixes"}

// RulesValues returns the form of the rules. A pool that the rules do not name has every size chosen.
func RulesValues(r rayslice.Rules, c rayslice.Catalogue) url.Values {
	number := func(n int) []string { return []string{strconv.Itoa(n)} }
	values := url.Values{
		"auto.gib": number(r.Auto.GiB), "auto.cards": number(r.Auto.Cards), "auto_hours": number(r.AutoHours),
		"escalate_minutes": number(r.EscalateMinutes), "image_prefixes": {strings.Join(r.ImagePrefixes, "\n")},
	}
	if r.Unverified {
		values.Set("unverified", "1")
	}
	if r.MaxHours > 0 {
		values["max_hours"] = number(r.MaxHours)
	}
	if r.Member != nil {
		values["member.gib"], values["member.cards"] = number(r.Member.GiB), number(r.Member.Cards)
	}
	for _, p := range slicedPools(c) {
		for _, gib := range p.Sizes {
			if sizes, narrowed := r.Sizes[p.Name]; !narrowed || slices.Contains(sizes, gib) {
				values.Add("sizes."+p.Name, strconv.Itoa(gib))
			}
		}
	}
	return values
}

// ParseRules reads the form. A pool with every size chosen is not narrowed, also when the catalogue offers more later; one
// with none chosen offers nothing. Pools that the catalogue does not have are kept, for Validate to refuse.
func ParseRules(values url.Values, c rayslice.Catalogue) (rayslice.Rules, error) {
	r := formReader{values: values}
	rules := rayslice.Rules{
		Auto: r.charge("auto."), AutoHours: r.needed("auto_hours"), MaxHours: r.number("max_hours", 0),
		EscalateMinutes: r.needed("escalate_minutes"), ImagePrefixes: r.lines("image_prefixes"), Sizes: map[string][]int{},
		Unverified: values.Get("unverified") == "1",
	}
	if r.text("max_hours") != "" && rules.MaxHours == 0 { // which would mean no bound of the team's own
		r.refuse("max_hours", rayslice.CodeRange, map[string]any{"min": 1, "max": c.Limits.MaxHours})
	}
	if r.text("member.gib")+r.text("member.cards") != "" {
		share := r.charge("member.")
		rules.Member = &share
	}
	for _, p := range slicedPools(c) {
		rules.Sizes[p.Name] = []int{}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if pool, ok := strings.CutPrefix(name, "sizes."); ok {
			rules.Sizes[pool] = r.numbers(name)
		}
	}
	for _, p := range slicedPools(c) {
		if slices.Equal(rules.Sizes[p.Name], p.Sizes) {
			delete(rules.Sizes, p.Name)
		}
	}
	return rules, rayslice.Invalid(r.bad...)
}

// lines reads one value a line.
func (r *formReader) lines(name string) []string {
	var lines []string
	for line := range strings.Lines(r.text(name)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// numbers reads the boxes that are checked, ascending.
func (r *formReader) numbers(name string) []int {
	numbers := []int{}
	for _, text := range r.values[name] {
		n, err := wholeNumber(text)
		if err != nil {
			r.refuse(name, rayslice.CodeType, map[string]any{"want": "int", "got": "text"})
			continue
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// slicedPools are the pools whose sizes rules may narrow.
func slicedPools(c rayslice.Catalogue) []rayslice.Pool {
	return slices.DeleteFunc(slices.Clone(c.Pools), func(p rayslice.Pool) bool { return !p.Mode.Sliced() })
}

// shownInputs are the inputs beside which their errors stand.
func (p RulesPage) shownInputs() []string {
	names := slices.Clone(rulesInputs)
	for _, pool := range slicedPools(p.Catalogue) {
		names = append(names, "sizes."+pool.Name)
	}
	return names
}

// labelOf says which input a name is: those of the same words by the heading of their part.
func (p RulesPage) labelOf(name string) string {
	part, _, _ := strings.Cut(name, ".")
	switch {
	case part == "sizes":
		return p.Locale.T("rules_sizes_heading")
	case name == "image_prefixes":
		return p.Locale.T("rules_images_heading")
	case part == "auto" || name == "auto_hours":
		return p.Locale.T("rules_auto_heading") + ": " + p.Locale.T("rules_"+strings.ReplaceAll(name, ".", "_"))
	case part == "member":
		return p.Locale.T("rules_member_heading") + ": " + p.Locale.T("rules_"+strings.ReplaceAll(name, ".", "_"))
	case name == "max_hours" || name == "escalate_minutes":
		return p.Locale.T("rules_" + name)
	}
	return name
}

func (f Form) checked(name string, n int) bool {
	return slices.Contains(f.Values[name], strconv.Itoa(n))
}

// rulesText says a team's rules in sentences.
func rulesText(l *Localizer, r rayslice.Rules, c rayslice.Catalogue) []string {
	var text []string
	switch {
	case r.AutoHours == 0:
		text = append(text, l.T("rules_auto_none"))
	case r.Auto == (rayslice.Charge{}):
		text = append(text, l.T("rules_auto_cpu", Args{"Hours": lifetimeText(l, r.AutoHours)}))
	default:
		text = append(text, l.T("rules_auto", Args{"Amount": chargeText(l, r.Auto), "Hours": lifetimeText(l, r.AutoHours)}))
	}
	if r.Member != nil {
		text = append(text, l.T("rules_member", Args{"Amount": limitAmount(l, *r.Member)}))
	}
	most := c.Limits.MaxHours
	if r.MaxHours > 0 {
		most = min(most, r.MaxHours)
	}
	text = append(text, l.T("rules_hours", Args{"Hours": lifetimeText(l, most)}))
	if r.EscalateMinutes > 0 {
		text = append(text, l.T("rules_escalate", Args{"After": l.Duration(time.Duration(r.EscalateMinutes) * time.Minute)}))
	}
	text = append(text, sizesText(l, r, c)...)
	if len(r.ImagePrefixes) > 0 {
		text = append(text, l.T("rules_images", Args{"Prefixes": strings.Join(r.ImagePrefixes, ", ")}))
	}
	if r.Unverified {
		text = append(text, l.T("rules_unverified"))
	}
	return text
}

func sizesText(l *Localizer, r rayslice.Rules, c rayslice.Catalogue) []string {
	var text []string
	for _, p := range slicedPools(c) {
		sizes, narrowed := r.Sizes[p.Name]
		switch {
		case !narrowed:
		case len(sizes) == 0:
			text = append(text, l.T("rules_pool_closed", Args{"Pool": p.Name}))
		default:
			text = append(text, l.T("rules_pool_sizes", Args{"Pool": p.Name, "Sizes": joinSizes(sizes)}))
		}
	}
	return text
}

func joinSizes(sizes []int) string {
	texts := make([]string, len(sizes))
	for i, n := range sizes {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

func lifetimeText(l *Localizer, hours int) string {
	return l.Duration(time.Duration(hours) * time.Hour)
}
