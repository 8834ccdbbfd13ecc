package rayslice_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rayslice/rayslice"
)

func slicedCatalogue() rayslice.Catalogue {
	return rayslice.Catalogue{
		Pools: []rayslice.Pool{
			{Name: "a10", Mode: rayslice.ModeCGPU, CardGiB: 22, Sizes: []int{4, 8, 16}},
			{Name: "a100", Mode: rayslice.ModeWhole, CardGiB: 80},
		},
		Images:        []rayslice.Image{{Ref: "rayproject/ray:2.52.0"}, {Ref: "registry.example/team/ray:1"}},
		ImagePrefixes: []string{"rayproject/"},
		Limits:        rayslice.DefaultLimits(),
	}
}

// TestB076RulesNameWhatExists refuses rules about pools and sizes that nothing offers, with the list of those that exist.
func TestB076RulesNameWhatExists(t *testing.T) {
	c := slicedCatalogue()
	good := rayslice.Rules{Auto: rayslice.Charge{GiB: 16, Cards: 1}, AutoHours: 8, Member: &rayslice.Charge{GiB: 32}, MaxHours: 24,
		EscalateMinutes: 60, Sizes: map[string][]int{"a10": {4, 8}}, ImagePrefixes: []string{"registry.example/"}}
	for what, tc := range map[string]struct {
		change func(*rayslice.Rules)
		field  string // "" = fine
		code   string
		known  string // in the answer
	}{
		"fine":                  {func(*rayslice.Rules) {}, "", "", ""},
		"no such pool":          {func(r *rayslice.Rules) { r.Sizes = map[string][]int{"nvidia.com/gpumemory": {4}} }, "sizes.nvidia.com/gpumemory", rayslice.CodePoolUnknown, "a10, a100"},
		"whole cards have none": {func(r *rayslice.Rules) { r.Sizes = map[string][]int{"a100": {4}} }, "sizes.a100", rayslice.CodePoolUnknown, "a10, a100"},
		"no such size":          {func(r *rayslice.Rules) { r.Sizes = map[string][]int{"a10": {5}} }, "sizes.a10", rayslice.CodeSizeNotOffered, "4, 8, 16"},
		"negative":              {func(r *rayslice.Rules) { r.Auto.GiB = -1 }, "auto.gib", rayslice.CodeRange, ""},
		"huge":                  {func(r *rayslice.Rules) { r.Member = &rayslice.Charge{Cards: rayslice.MaxLimit + 1} }, "member.cards", rayslice.CodeRange, ""},
		"longer than possible":  {func(r *rayslice.Rules) { r.MaxHours = 169 }, "max_hours", rayslice.CodeRange, ""},
		"a prefix with a space": {func(r *rayslice.Rules) { r.ImagePrefixes = []string{"a b"} }, "image_prefixes", rayslice.CodeCharacters, ""},
	} {
		rules := good
		tc.change(&rules)
		err := rules.Validate(c)
		if tc.field == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		var e *rayslice.Error
		if !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Field != tc.field || e.Fields[0].Code != tc.code {
			t.Errorf("%s: %v, want %s %s", what, err, tc.field, tc.code)
			continue
		}
		if args := e.Fields[0].Args; tc.known != "" && args["pools"] != tc.known && args["sizes"] != tc.known {
			t.Errorf("%s: %v does not list %s", what, args, tc.known)
		}
	}
}

// TestNarrowAndCheckAgree says that what the narrowed catalogue still offers is what Check lets pass.
func TestNarrowAndCheckAgree(t *testing.T) {
	c := slicedCatalogue()
	rapid.Check(t, func(t *rapid.T) {
		rules := rayslice.Rules{MaxHours: rapid.IntRange(0, 10).Draw(t, "longest")}
		if rapid.Bool().Draw(t, "narrow") {
			rules.Sizes = map[string][]int{"a10": slices.DeleteFunc([]int{4, 8, 16}, func(int) bool { return rapid.Bool().Draw(t, "drop") })}
		}
		if rapid.Bool().Draw(t, "prefixes") {
			rules.ImagePrefixes = []string{"registry.example/"}
		}
		draft := rayslice.RequestDraft{Team: "t", Name: "n", Hours: rapid.IntRange(1, 12).Draw(t, "hours"), RayVersion: "2.52.0",
			Head: rayslice.Head{CPU: 1, MemoryGiB: 8}, Image: rapid.SampledFrom([]string{"rayproject/ray:2.52.0", "registry.example/team/ray:1"}).Draw(t, "image"),
			Groups: []rayslice.Group{{Slice: rayslice.Slice{Pool: "a10", GiB: rapid.SampledFrom([]int{4, 8, 16}).Draw(t, "GiB"), Cards: 1}, Workers: 1, CPU: 1, MemoryGiB: 1}}}
		draft.Normalize(c)
		checked, narrowed := rules.Check(draft) == nil, draft.Validate(rules.Narrow(c)) == nil
		if checked != narrowed {
			t.Fatalf("Check says %v, the narrowed catalogue %v", checked, narrowed)
		}
	})
	if diff := cmp.Diff(slicedCatalogue(), c); diff != "" {
		t.Errorf("Narrow changed the catalogue it was given:\n%s", diff)
	}
}

// TestGrantIsNeverMore grants random terms: what comes out is a valid part of what was asked, or a refusal by field.
func TestGrantIsNeverMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(t, "most")
		workers := rapid.IntRange(1, most).Draw(t, "workers")
		asked := rayslice.RequestDraft{Hours: 8, Groups: []rayslice.Group{
			{Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}, Workers: workers, MinWorkers: rapid.IntRange(0, workers).Draw(t, "least"), MaxWorkers: most},
			{Slice: rayslice.Slice{Pool: "a100", Cards: 2}, Workers: 1, MinWorkers: 1, MaxWorkers: 1},
		}}
		terms := rayslice.Terms{Hours: rapid.IntRange(-1, 10).Draw(t, "hours"), Groups: []rayslice.GroupTerms{
			{Workers: rapid.IntRange(-1, 8).Draw(t, "granted"), GiB: rapid.IntRange(-1, 10).Draw(t, "GiB")}, {Workers: 1}}}
		granted, err := asked.Grant(terms)
		inside := terms.Hours >= 1 && terms.Hours <= 8 && terms.Groups[0].Workers >= 1 && terms.Groups[0].Workers <= most && terms.Groups[0].GiB >= 1 && terms.Groups[0].GiB <= 8
		if inside != (err == nil) {
			t.Fatalf("%+v of %+v: %v", terms, asked, err)
		}
		if err != nil {
			return
		}
		g := granted.Groups[0]
		if c, a := granted.Charge(), asked.Charge(); c.GiB > a.GiB || c.Cards > a.Cards || g.MinWorkers > g.Workers || g.Workers > g.MaxWorkers || g.Workers < 1 {
			t.Fatalf("granted %+v of %+v", g, asked.Groups[0])
		}
	})
}

func TestDecisionSaysWhy(t *testing.T) {
	for what, tc := range map[string]struct {
		d    rayslice.Decision
		want string // field; "" = fine
	}{
		"approve without a word": {rayslice.Decision{Verdict: rayslice.VerdictApprove}, ""},
		"reject without a word":  {rayslice.Decision{Verdict: rayslice.VerdictReject}, "answer"},
		"reject with blanks":     {rayslice.Decision{Verdict: rayslice.VerdictReject, Answer: " \u200b\n"}, "answer"},
		"ask nothing":            {rayslice.Decision{Verdict: rayslice.VerdictReturn}, "answer"},
		"no verdict":             {rayslice.Decision{Answer: "x"}, "verdict"},
		"reject with terms":      {rayslice.Decision{Verdict: rayslice.VerdictReject, Answer: "x", Terms: &rayslice.Terms{}}, "terms"},
	} {
		err := tc.d.Validate()
		var e *rayslice.Error
		if got := errors.As(err, &e); got != (tc.want != "") || got && e.Fields[0].Field != tc.want {
			t.Errorf("%s: %v, want field %q", what, err, tc.want)
		}
	}
}
