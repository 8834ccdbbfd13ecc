package rayslice_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
)

// fieldsOf returns "field code" of every bad field.
func fieldsOf(err error) []string {
	var e *rayslice.Error
	if !errors.As(err, &e) {
		return nil
	}
	var fields []string
	for _, f := range e.Fields {
		fields = append(fields, f.Field+" "+f.Code)
	}
	return fields
}

func TestTeamDraftValidate(t *testing.T) {
	good := rayslice.TeamDraft{Name: "robotics", Namespace: "team-robotics", Limit: rayslice.Charge{GiB: 64, Cards: 2}}
	for what, tc := range map[string]struct {
		change func(*rayslice.TeamDraft)
		want   []string
	}{
		"a good one":                      {func(*rayslice.TeamDraft) {}, nil},
		"nothing at all":                  {func(d *rayslice.TeamDraft) { *d = rayslice.TeamDraft{} }, []string{"name required", "namespace required"}},
		"a name with a dot":               {func(d *rayslice.TeamDraft) { d.Name = "a.b" }, []string{"name characters"}},
		"a name that ends with a dash":    {func(d *rayslice.TeamDraft) { d.Name = "a-" }, []string{"name characters"}},
		"a name with a new line":          {func(d *rayslice.TeamDraft) { d.Name = "a\nb" }, []string{"name characters"}},
		"a name that is too long":         {func(d *rayslice.TeamDraft) { d.Name = strings.Repeat("a", 41) }, []string{"name too_long"}},
		"Kubernetes' own namespace":       {func(d *rayslice.TeamDraft) { d.Namespace = "kube-system" }, []string{"namespace reserved_namespace"}},
		"the portal's namespace":          {func(d *rayslice.TeamDraft) { d.Namespace = "rayslice" }, []string{"namespace reserved_namespace"}},
		"the default namespace":           {func(d *rayslice.TeamDraft) { d.Namespace = "default" }, []string{"namespace reserved_namespace"}},
		"a limit below nothing":           {func(d *rayslice.TeamDraft) { d.Limit.GiB = -1 }, []string{"gib range"}},
		"a limit that sums could not add": {func(d *rayslice.TeamDraft) { d.Limit.Cards = rayslice.MaxLimit + 1 }, []string{"cards range"}},
	} {
		d := good
		tc.change(&d)
		if diff := cmp.Diff(tc.want, fieldsOf(d.Validate("rayslice", "kuberay-system"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestRaiseDecisionValidate(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	week := rayslice.Raise{Charge: rayslice.Charge{GiB: 16}, Until: now.AddDate(0, 0, 7)}
	forGood := rayslice.Raise{Charge: rayslice.Charge{GiB: 16, Cards: 1}}
	for what, tc := range map[string]struct {
		asked rayslice.Raise
		d     rayslice.RaiseDecision
		want  []string
	}{
		"all of it":              {week, rayslice.RaiseDecision{Grant: true, Charge: week.Charge, Until: week.Until}, nil},
		"less, and shorter":      {week, rayslice.RaiseDecision{Grant: true, Charge: rayslice.Charge{GiB: 8}, Until: now.AddDate(0, 0, 1)}, nil},
		"an end for one without": {forGood, rayslice.RaiseDecision{Grant: true, Charge: forGood.Charge, Until: week.Until}, nil},
		"more than asked":        {week, rayslice.RaiseDecision{Grant: true, Charge: rayslice.Charge{GiB: 17, Cards: 1}, Until: week.Until}, []string{"gib range", "cards range"}},
		"nothing":                {week, rayslice.RaiseDecision{Grant: true, Until: week.Until}, []string{"gib required"}},
		"for good, not asked":    {week, rayslice.RaiseDecision{Grant: true, Charge: week.Charge}, []string{"until required"}},
		"longer than asked":      {week, rayslice.RaiseDecision{Grant: true, Charge: week.Charge, Until: week.Until.Add(1)}, []string{"until later_than_asked"}},
		"until yesterday":        {week, rayslice.RaiseDecision{Grant: true, Charge: week.Charge, Until: now.AddDate(0, 0, -1)}, []string{"until past"}},
		"over a year":            {forGood, rayslice.RaiseDecision{Grant: true, Charge: forGood.Charge, Until: now.AddDate(2, 0, 0)}, []string{"until range"}},
		"no, without a word":     {week, rayslice.RaiseDecision{}, []string{"answer required"}},
		"no, with one":           {week, rayslice.RaiseDecision{Answer: "Not this month."}, nil},
	} {
		if diff := cmp.Diff(tc.want, fieldsOf(tc.d.Validate(tc.asked, now))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
