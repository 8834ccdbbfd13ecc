package web

import (
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
)

func TestNewLocalizerPicksALanguage(t *testing.T) {
	for name, c := range map[string]struct {
		preferences []string
		want        string
	}{
		"nothing asked":              {nil, "en"},
		"empty cookie, then header":  {[]string{"", "zh-CN,zh;q=0.9,en;q=0.8"}, "zh-CN"},
		"cookie before header":       {[]string{"en", "zh-CN"}, "en"},
		"Chinese without a region":   {[]string{"zh"}, "zh-CN"},
		"simplified by script":       {[]string{"zh-Hans"}, "zh-CN"},
		"a language nobody wrote":    {[]string{"fi"}, "en"},
		"quality decides":            {[]string{"en;q=0.2, zh-CN;q=0.9"}, "zh-CN"},
		"a header that is no header": {[]string{";;;", "zh-CN"}, "zh-CN"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NewLocalizer(c.preferences...).Code(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestDurationsHaveTwoUnitsAtMost(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		0:                               {"0 s", "0 秒"},
		59 * time.Second:                {"59 s", "59 秒"},
		61 * time.Second:                {"1 min 1 s", "1 分钟 1 秒"},
		41*time.Minute + 3*time.Second:  {"41 min", "41 分钟"},
		5*time.Hour + 48*time.Minute:    {"5 h 48 min", "5 小时 48 分钟"},
		24 * time.Hour:                  {"24 h", "24 小时"},
		75 * time.Hour:                  {"3 d 3 h", "3 天 3 小时"},
		-(5*time.Hour + 48*time.Minute): {"5 h 48 min", "5 小时 48 分钟"},
	} {
		for i, code := range []string{"en", "zh-CN"} {
			if got := NewLocalizer(code).Duration(d); got != want[i] {
				t.Errorf("%s of %v is %q, want %q", code, d, got, want[i])
			}
		}
	}
}

func TestOverQuotaSaysTheNumbersThatMatter(t *testing.T) {
	quota := rayslice.Quota{Team: "vision", Limit: rayslice.Charge{GiB: 96, Cards: 2}, Used: rayslice.Charge{GiB: 56, Cards: 1}, Held: rayslice.Charge{GiB: 8}}
	for name, c := range map[string]struct {
		asked rayslice.Charge
		want  []string
		not   string
	}{
		"too many GiB":   {rayslice.Charge{GiB: 48}, []string{"vision", "40 of 96 GiB", "48 GiB", "8 held"}, "card"},
		"too many cards": {rayslice.Charge{Cards: 3}, []string{"1 of 2 whole cards", "asks for 3"}, "GiB"},
		"both":           {rayslice.Charge{GiB: 48, Cards: 3}, []string{"48 GiB and 3 whole cards", "40 GiB and 1 whole cards"}, "no value"},
	} {
		t.Run(name, func(t *testing.T) {
			got := NewLocalizer("en").Problem(problemOf(quota.OverQuota(c.asked)))
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("%q lacks %q", got, w)
				}
			}
			if strings.Contains(got, c.not) {
				t.Errorf("%q speaks of %q", got, c.not)
			}
		})
	}
}

func TestUnknownCodesStillGetASentence(t *testing.T) {
	l := NewLocalizer("en")
	for want, got := range map[string]string{
		"Reason given: brand_new":  l.Reason(rayslice.Reason{Code: "brand_new"}),
		l.T("kind_conflict"):       l.Problem(&rayslice.Error{Kind: rayslice.KindConflict, Code: "brand_new"}),
		l.T("kind_other"):          l.Problem(&rayslice.Error{Code: "brand_new"}),
		l.T("kind_invalid"):        l.Field(rayslice.FieldError{Field: "x", Code: "brand_new"}),
		l.T("error_user_disabled"): l.Reason(rayslice.Reason{Code: "user_disabled"}),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStatesAmongArgumentsAreTranslated(t *testing.T) {
	got := NewLocalizer("zh-CN").Problem(&rayslice.Error{Kind: rayslice.KindConflict, Code: "state_changed", Args: Args{"state": rayslice.StateStopped}})
	if !strings.Contains(got, "已停止") {
		t.Errorf("%q does not say the state in Chinese", got)
	}
}
