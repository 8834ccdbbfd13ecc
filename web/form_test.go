package web

import (
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
)

func TestTheFormComesBackAsItWasTyped(t *testing.T) {
	for name, form := range map[string]RequestForm{"full": fullForm(), "usual": sampleForm(), "wrong": rejectedPage(Frame{Locale: NewLocalizer("en")}).Form} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(form, ParseRequestForm(valuesOf(form))); diff != "" {
				t.Errorf("-typed +read back:\n%s", diff)
			}
		})
	}
}

func TestWhatAnAddressLeavesOutGetsItsDefault(t *testing.T) {
	form := ParseRequestForm(url.Values{"team": {"vision"}, "groups[0].size": {"a10:8"}})
	draft, err := form.Draft()
	if err != nil {
		t.Fatal(err)
	}
	draft.Name = "x"
	draft.Normalize(SampleCatalogue())
	if err := draft.Validate(SampleCatalogue()); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestAskingAgainAsksForTheSame(t *testing.T) {
	draft, err := fullForm().Draft()
	if err != nil {
		t.Fatal(err)
	}
	draft.Normalize(SampleCatalogue())
	again, err := FormFromDraft(draft, SampleCatalogue()).Draft()
	if err != nil {
		t.Fatal(err)
	}
	again.Normalize(SampleCatalogue())
	if diff := cmp.Diff(draft, again); diff != "" {
		t.Errorf("-first +again:\n%s", diff)
	}
}

func TestDraftReadsSizes(t *testing.T) {
	for size, want := range map[string]rayslice.Slice{
		"a10:8":      {Pool: "a10", GiB: 8, Cards: 1},
		"a100:whole": {Pool: "a100", Cards: 1},
		SizeCPU:      {},
		"a10:0":      {Pool: "a10", GiB: -1, Cards: 1}, // refused later: 0 would be a whole card
	} {
		form := sampleForm()
		form.Groups[0].Size = size
		draft, err := form.Draft()
		if err != nil {
			t.Errorf("%s: %v", size, err)
			continue
		}
		if got := draft.Groups[0].Slice; got != want {
			t.Errorf("%s is %+v, want %+v", size, got, want)
		}
	}
}

func TestDraftNamesWhatIsNotANumber(t *testing.T) {
	form := fullForm()
	form.Hours, form.HeadCPU, form.Groups[0].Workers, form.Groups[1].Cards = "eight", "1.5", "2x", "-"
	form.Groups[2].Size, form.Env, form.CustomImage = "", "A=1\nA=2\nnothing", ""
	_, err := form.Draft()
	var refused *rayslice.Error
	if !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	got := map[string]string{}
	for _, f := range refused.Fields {
		got[f.Field+" "+f.Code] = ""
	}
	want := map[string]string{
		"hours type": "", "head.cpu type": "", "groups[0].workers type": "", "groups[1].per_pod type": "",
		"groups[2].pool required": "", "env duplicate": "", "env env_line": "", "image required": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// valuesOf returns what a browser would post.
func valuesOf(f RequestForm) url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, value := range map[string]string{
		"team": f.Team, "name": f.Name, "purpose": f.Purpose, "hours": f.Hours, "image": f.Image, "custom_image": f.CustomImage,
		"ray_version": f.RayVersion, "head.cpu": f.HeadCPU, "head.memory_gib": f.HeadMemoryGiB, "env": f.Env, "pull_secrets": f.PullSecrets,
	} {
		set(name, value)
	}
	for i, g := range f.Groups {
		for name, value := range map[string]string{
			"size": g.Size, "core_percent": g.CorePercent, "per_pod": g.Cards, "workers": g.Workers,
			"min_workers": g.MinWorkers, "max_workers": g.MaxWorkers, "cpu": g.CPU, "memory_gib": g.MemoryGiB,
		} {
			set(path(i, name), value)
		}
		if g.Spread {
			v.Set(path(i, "spread"), "1")
		}
	}
	return v
}
