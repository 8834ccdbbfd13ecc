package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestNoNumberIsZeroByItself leaves each number of each form empty that has no stated meaning without one.
func TestNoNumberIsZeroByItself(t *testing.T) {
	t.Parallel()
	p := open(t)
	raise := p.raise(rayslice.Charge{GiB: 8, Cards: 1})
	for what, form := range map[string]struct {
		by     rayslice.User
		path   string
		id     string
		values url.Values
		needed []string
	}{
		"the base limit": {p.Root, "/teams/vision/limit", "limit", url.Values{"gib": {"24"}, "cards": {"2"}}, []string{"gib", "cards"}},
		"rules": {p.Lea, "/teams/vision/rules", "rules", url.Values{"auto.gib": {"8"}, "auto.cards": {"0"}, "auto_hours": {"24"}, "escalate_minutes": {"60"}, "member.gib": {"8"}, "member.cards": {"1"}},
			[]string{"auto.gib", "auto.cards", "auto_hours", "escalate_minutes", "member.gib", "member.cards"}},
		"a new team": {p.Root, "/admin/teams", "team", url.Values{"name": {"robots"}, "namespace": {"robots"}, "gib": {"8"}, "cards": {"0"}}, []string{"gib", "cards"}},
		"a raise":    {p.Root, "/admin/raises/" + itoa(raise.ID), "decide", url.Values{"verdict": {"grant"}, "gib": {"8"}, "cards": {"1"}, "until": {day(3)}}, []string{"gib", "cards"}},
		"a wish":     {p.Lea, "/teams/vision/raises", "raise", url.Values{"cards": {"x"}, "purpose": {"more"}}, []string{"cards"}},
	} {
		for _, name := range form.needed {
			for _, value := range []string{"", " ", "12 GiB", "99999999999999999999999"} {
				values := url.Values{}
				for k, v := range form.values {
					values[k] = v
				}
				if values.Set(name, value); what == "a wish" && strings.TrimSpace(value) == "" {
					continue // none of it, as it says
				}
				page := p.as(form.by).post(form.path, values).want(http.StatusUnprocessableEntity).page()
				marked := page.Find("input[aria-invalid=true]")
				if !marked.FilterFunction(func(_ int, s *goquerySelection) bool { return s.AttrOr("name", "") == name }).Is("input") {
					t.Errorf("%s, %s %q: it is not marked", what, name, value)
				}
				id := form.id + "-" + strings.NewReplacer(".", "-", "_", "-").Replace(name) + "-error"
				if said := page.Find("#" + id).Text(); len(value) > 9 && !strings.Contains(said, "Choose from") {
					t.Errorf("%s, %s %q: it says %q", what, name, value, said)
				}
			}
		}
	}
	if got := p.limit("vision"); got != (rayslice.Charge{GiB: 24, Cards: 2}) {
		t.Errorf("limit %v", got)
	}
}

// TestEverythingWrongAtOnce: a number that cannot be read hides no other one that is out of bounds.
func TestEverythingWrongAtOnce(t *testing.T) {
	t.Parallel()
	p := open(t)
	rules := p.as(p.Lea).post("/teams/vision/rules", url.Values{"auto.gib": {"lots"}, "auto.cards": {"-1"}, "auto_hours": {"9999"}, "max_hours": {"0"}, "escalate_minutes": {"1"}}).
		want(http.StatusUnprocessableEntity).page()
	for _, id := range []string{"rules-auto-gib", "rules-auto-cards", "rules-auto-hours", "rules-max-hours"} {
		if rules.Find(`#rules-problem a[href="#`+id+`"]`).Length() != 1 || rules.Find("input#"+id+"[aria-invalid=true]").Length() != 1 {
			t.Errorf("%s: the summary does not lead to it", id)
		}
	}
	form := goodForm()
	form.Set("hours", "soon")
	form.Set("groups[0].workers", "two")
	form.Set("head.cpu", "999999999999999999999")
	form.Set("name", "")
	page := p.as(p.Ada).post("/clusters", form).want(http.StatusUnprocessableEntity).page()
	var got []string
	page.Find("#problem li a").Each(func(_ int, s *goquerySelection) { got = append(got, s.AttrOr("href", "")) })
	if text := strings.Join(got, " "); len(got) != 4 || !strings.Contains(text, "#f-hours") || !strings.Contains(text, "workers") || !strings.Contains(text, "cpu") || !strings.Contains(text, "name") {
		t.Errorf("the summary has %q", got)
	}
	if said := page.Find("#f-head-cpu-error").Text(); !strings.Contains(said, "Choose from") {
		t.Errorf("a number that is too long: %q", said)
	}
}

// TestALowerLimitIsAskedAbout: nothing is lowered below what is used, or to nothing, without saying what will happen.
func TestALowerLimitIsAskedAbout(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.create(p.Ada, storetest.Draft(1, 8))
	admin := p.as(p.Root)
	admin.post("/teams/vision/limit", url.Values{"gib": {"12"}, "cards": {"2"}}).want(http.StatusSeeOther)
	for what, form := range map[string]struct {
		values url.Values
		says   []string
	}{
		"below what is used": {url.Values{"gib": {"4"}, "cards": {"2"}, "note": {"summer"}}, []string{"4 GiB and 2 whole cards", "In use now: 8 GiB", "nothing is stopped"}},
		"to nothing":         {url.Values{"gib": {"12"}, "cards": {"0"}}, []string{"12 GiB and 0 whole cards", "nothing more may be asked for"}},
	} {
		question := admin.post("/teams/vision/limit", form.values).want(http.StatusUnprocessableEntity).page().Find("section.confirm")
		for _, want := range form.says {
			if !strings.Contains(question.Text(), want) {
				t.Errorf("%s: it does not say %q: %s", what, want, question.Text())
			}
		}
		if got := p.limit("vision"); got != (rayslice.Charge{GiB: 12, Cards: 2}) {
			t.Fatalf("%s: limit %v without an answer", what, got)
		}
		if what != "below what is used" {
			continue
		}
		answer := url.Values{}
		question.Find("input").Each(func(_ int, s *goquerySelection) { answer.Set(s.AttrOr("name", ""), s.AttrOr("value", "")) })
		admin.post(question.Find("form").AttrOr("action", ""), answer).want(http.StatusSeeOther)
		if got := p.limit("vision"); got != (rayslice.Charge{GiB: 4, Cards: 2}) {
			t.Errorf("limit %v after the answer", got)
		}
		admin.post("/teams/vision/limit", url.Values{"gib": {"12"}, "cards": {"2"}}).want(http.StatusSeeOther)
	}
}
