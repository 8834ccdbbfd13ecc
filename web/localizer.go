package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"

	"github.com/rayslice/rayslice"
)

//go:embed locales/*.json
var locales embed.FS

// Args fill in the {{.Name}} places of a sentence.
type Args = map[string]any

// Language is one the pages are written in.
type Language struct {
	Code string // BCP 47, e.g. "zh-CN"; what POST /language sends as lang
	Name string // in itself, e.g. "简体中文"
}

// Languages returns the languages there are, the default first.
func Languages() []Language {
	return []Language{{Code: "en", Name: "English"}, {Code: "zh-CN", Name: "简体中文"}}
}

var bundle = loadBundle()

// loadBundle reads the embedded catalogues; a broken one is a build fault that the tests catch, so it panics.
func loadBundle() *i18n.Bundle {
	b := i18n.NewBundle(language.English)
	b.RegisterUnmarshalFunc("json", json.Unmarshal)
	for _, l := range Languages() {
		if _, err := b.LoadMessageFileFS(locales, "locales/"+l.Code+".json"); err != nil {
			panic(fmt.Sprintf("catalogue %s: %v", l.Code, err))
		}
	}
	return b
}

// Localizer speaks one language.
type Localizer struct {
	code      string
	localizer *i18n.Localizer
}

// NewLocalizer returns the localizer for the first preference we have: a language code, or an Accept-Language header.
// Empty preferences are passed over; without any it is English.
func NewLocalizer(preferences ...string) *Localizer {
	return localizers[matchLanguage(preferences)]
}

// localizers and matcher are made once: both cost more than the words of a page.
var localizers, matcher = loadLocalizers()

func loadLocalizers() ([]*Localizer, language.Matcher) {
	var all []*Localizer
	var tags []language.Tag
	for _, l := range Languages() {
		all = append(all, &Localizer{code: l.Code, localizer: i18n.NewLocalizer(bundle, l.Code)})
		tags = append(tags, language.MustParse(l.Code))
	}
	return all, language.NewMatcher(tags)
}

// matchLanguage returns the place in Languages of the first preference we have, else of the default.
func matchLanguage(preferences []string) int {
	for _, p := range preferences {
		wanted, _, err := language.ParseAcceptLanguage(p)
		if err != nil || len(wanted) == 0 {
			continue
		}
		if _, i, confidence := matcher.Match(wanted...); confidence != language.No {
			return i
		}
	}
	return 0
}

// Code returns the language's BCP 47 code, for lang="…".
func (l *Localizer) Code() string { return l.code }

// T returns the sentence for the key, filled in. A key without a sentence comes back as itself.
func (l *Localizer) T(key string, args ...Args) string {
	return l.say(&i18n.LocalizeConfig{MessageID: key, TemplateData: merge(args)})
}

// N returns the sentence for n of something; {{.N}} is n.
func (l *Localizer) N(key string, n int, args ...Args) string {
	data := merge(args)
	data["N"] = n
	return l.say(&i18n.LocalizeConfig{MessageID: key, PluralCount: n, TemplateData: data})
}

func (l *Localizer) say(c *i18n.LocalizeConfig) string {
	s, err := l.localizer.Localize(c)
	if err != nil && s == "" {
		return c.MessageID
	}
	return s
}

func merge(args []Args) Args {
	data := Args{}
	for _, a := range args {
		maps.Copy(data, a)
	}
	return data
}

// has reports whether there is a sentence for the key.
func (l *Localizer) has(key string) bool {
	_, err := l.localizer.Localize(&i18n.LocalizeConfig{MessageID: key, TemplateData: Args{}})
	return err == nil
}

// Problem returns the sentence for an error: by its code, else by its kind.
func (l *Localizer) Problem(err *rayslice.Error) string {
	key := "error_" + err.Code
	if err.Kind == rayslice.KindOverQuota {
		key += overQuotaSuffix(err.Args)
	}
	args := l.localizeArgs(err.Args)
	for _, k := range []string{key, "kind_" + string(err.Kind)} {
		if l.has(k) {
			return l.T(k, args)
		}
	}
	return l.T("kind_other")
}

// overQuotaSuffix picks the sentence that speaks only of what is too much: GiB or cards.
func overQuotaSuffix(args Args) string {
	over := func(unit string) bool {
		asked, _ := args["asked_"+unit].(int)
		left, _ := args["left_"+unit].(int)
		return asked > left
	}
	switch gib, cards := over("gib"), over("cards"); {
	case gib && !cards:
		return "_gib"
	case cards && !gib:
		return "_cards"
	}
	return ""
}

// localizeArgs puts states among the arguments into words.
func (l *Localizer) localizeArgs(args Args) Args {
	words := maps.Clone(args)
	for k, v := range args {
		if s, ok := v.(rayslice.State); ok {
			words[k] = l.State(s)
		}
	}
	return words
}

// Field returns the sentence for a bad field, with the remedy and without the field's name.
func (l *Localizer) Field(f rayslice.FieldError) string {
	if f.Code == rayslice.CodePurposeNeeded {
		why, _ := f.Args["why"].(string)
		return l.T("field_purpose_needed", Args{"Why": l.Reason(rayslice.Reason{Code: why, Args: f.Args})})
	}
	if key := "field_" + f.Code; l.has(key) {
		return l.T(key, f.Args)
	}
	return l.T("kind_invalid")
}

// Reason returns the sentence for a reason, without its raw detail. Refusals are reasons too, in the audit log.
func (l *Localizer) Reason(r rayslice.Reason) string {
	for _, key := range []string{"reason_" + r.Code, "error_" + r.Code} {
		if l.has(key) {
			return l.T(key, r.Args)
		}
	}
	return l.T("reason_other", Args{"Code": r.Code})
}

// Finding returns what is wrong, as a sentence.
func (l *Localizer) Finding(f rayslice.Finding) string { return l.T("lint_"+f.Code, l.typeArgs(f)) }

// Remedy returns what to do about a finding, as a sentence.
func (l *Localizer) Remedy(f rayslice.Finding) string { return l.T("remedy_"+f.Code, l.typeArgs(f)) }

// NotMended says of a finding whose fix could not be carried out that it was not, and what to do.
func (l *Localizer) NotMended() string { return l.T("lint_not_mended") }

// typeArgs puts the types among the arguments of a finding into words.
func (l *Localizer) typeArgs(f rayslice.Finding) Args {
	if f.Code != rayslice.FindingWrongType && f.Code != rayslice.FindingNoCluster {
		return f.Args
	}
	words := maps.Clone(f.Args)
	for name, value := range words {
		if key := fmt.Sprintf("type_%v", value); l.has(key) {
			words[name] = l.T(key)
		}
	}
	return words
}

// State returns the word for a state.
func (l *Localizer) State(s rayslice.State) string { return l.T("state_" + string(s)) }

// Duration returns a length of time in two units at most, e.g. "5 h 48 min"; app.js does the same.
func (l *Localizer) Duration(d time.Duration) string {
	units := strings.Split(l.T("units"), "|") // d, h, min, s
	if len(units) != 4 {
		return d.Round(time.Second).String()
	}
	seconds := int(d.Abs() / time.Second)
	days, hours, minutes := seconds/86400, seconds/3600, seconds/60
	switch {
	case hours >= 48:
		return twoUnits(days, units[0], hours%24, units[1])
	case hours >= 1:
		return twoUnits(hours, units[1], minutes%60, units[2])
	case minutes >= 10:
		return twoUnits(minutes, units[2], 0, "")
	case minutes >= 1:
		return twoUnits(minutes, units[2], seconds%60, units[3])
	}
	return twoUnits(seconds, units[3], 0, "")
}

func twoUnits(n int, unit string, m int, smaller string) string {
	if m == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, m, smaller)
}
