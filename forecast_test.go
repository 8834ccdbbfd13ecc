package rayslice

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestForecast(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	occupants := []Occupant{
		{RequestID: "late", EndsAt: at(5)}, {RequestID: "soon", EndsAt: at(2)}, {RequestID: "endless"}, {RequestID: "elsewhere", EndsAt: at(1)},
		{RequestID: "stopping", EndsAt: at(9), Stopping: true}, {RequestID: "over", EndsAt: at(-1)},
	}
	full := func(first, second, third, fourth string) []Hold {
		var holds []Hold
		for i, who := range []string{first, second, third, fourth} {
			h := heldBy(who, []string{"n1", "n1", "n2", "n2"}[i], 22, i%2)
			if h.Foreign = who == ""; h.Foreign {
				h.Team, h.Slice.Pool = "", ""
			}
			holds = append(holds, h)
		}
		return holds
	}
	spread, pair := fitGroup("a10", 4, 3), fitGroup("a10", 4, 1)
	spread.Spread, pair.Slice.Cards = true, 3
	no := FitResult{Known: true, Missing: 1}
	for name, tc := range map[string]struct {
		draft RequestDraft
		holds []Hold
		want  Forecast
	}{
		"now":                                       {fitDraft(fitGroup("a10", 8, 1)), full("late", "late", "late", "late")[:3], Forecast{FitResult: FitResult{Known: true, Fits: true, OnCards: 1}}},
		"when the first ends":                       {fitDraft(fitGroup("a10", 8, 1)), full("late", "soon", "late", "endless"), Forecast{FitResult: no, Latest: at(2), Until: "soon"}},
		"when both have ended":                      {fitDraft(fitGroup("a10", 8, 5)), full("late", "soon", "late", "endless"), Forecast{FitResult: FitResult{Known: true, Missing: 5}, Latest: at(5), Until: "late"}},
		"a cluster that is stopped goes soon":       {fitDraft(fitGroup("a10", 8, 1)), full("late", "stopping", "late", "endless"), Forecast{FitResult: no, Latest: now, Until: "stopping"}},
		"an end that is past is now":                {fitDraft(fitGroup("a10", 8, 1)), full("late", "over", "late", "endless"), Forecast{FitResult: no, Latest: now, Until: "over"}},
		"no date where others hold it":              {fitDraft(fitGroup("a10", 8, 1)), full("", "", "", ""), Forecast{FitResult: no}},
		"no date where ours does not help":          {fitDraft(fitGroup("a10", 8, 3)), full("soon", "", "", ""), Forecast{FitResult: FitResult{Known: true, Missing: 3}}},
		"no date without an end":                    {fitDraft(fitGroup("a10", 8, 1)), full("endless", "endless", "endless", "endless"), Forecast{FitResult: no}},
		"a request nobody knows has no end":         {fitDraft(fitGroup("a10", 8, 1)), full("orphan", "orphan", "orphan", "orphan"), Forecast{FitResult: no}},
		"B026 larger than any card":                 {fitDraft(fitGroup("a10", 24, 1)), full("soon", "soon", "soon", "soon"), Forecast{FitResult: no, Cannot: Reason{Code: ReasonFitTooLarge, Args: map[string]any{"largest": 22}}}},
		"no node of the pool":                       {fitDraft(fitGroup("t4", 8, 1)), nil, Forecast{FitResult: no, Cannot: Reason{Code: ReasonFitNoNode, Args: map[string]any{"pool": "t4"}}}},
		"the pool is closed":                        {fitDraft(fitGroup("shut", 8, 1)), nil, Forecast{FitResult: no, Cannot: Reason{Code: "pool_unit"}}},
		"memory alone where compute is reserved":    {fitDraft(fitGroup("core", 8, 1)), nil, Forecast{FitResult: no, Cannot: Reason{Code: ReasonFitNoCompute}}},
		"more cards than a node has":                {fitDraft(pair), nil, Forecast{FitResult: FitResult{Known: true, OnCards: 4, Missing: 1}, Cannot: Reason{Code: ReasonFitFewCards, Args: map[string]any{"cards": 2}}}},
		"B055 more nodes than there are":            {fitDraft(spread), nil, Forecast{FitResult: FitResult{Known: true, OnCards: 4, Missing: 1}, Cannot: Reason{Code: ReasonFitFewNodes, Args: map[string]any{"nodes": 2}}}},
		"more than an empty fleet takes":            {fitDraft(fitGroup("a10", 16, 5)), full("soon", "soon", "soon", "soon"), Forecast{FitResult: FitResult{Known: true, Missing: 5}, Cannot: Reason{Code: ReasonFitTooMany}}},
		"a foreign pod with the id of a request":    {fitDraft(fitGroup("a10", 8, 1)), []Hold{foreign("n1", 22, 0), foreign("n1", 22, 1), foreign("n2", 22, 0), {RequestID: "soon", Foreign: true, Node: "n2", Slice: Slice{GiB: 22, Cards: 1}, Placements: []Placement{{Card: 1, GiB: 22}}}}, Forecast{FitResult: no}},
		"B032 not recorded, so not sure before end": {fitDraft(fitGroup("a10", 22, 4)), []Hold{heldBy("soon", "n1", 4)}, Forecast{FitResult: FitResult{Known: true, Maybe: true, OnCards: 2, Missing: 2}, Latest: at(2), Until: "soon"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, fitFleet(tc.holds...).Forecast(tc.draft, occupants, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := (Fleet{}).Forecast(fitDraft(fitGroup("a10", 8, 1)), occupants, now); got.Known {
		t.Errorf("an unknown fleet says %+v", got)
	}
}

// TestFleetFor keeps other teams' clusters and foreign pods nameless, and their sizes.
func TestFleetFor(t *testing.T) {
	own, theirs, alien := heldBy("a", "n1", 8, 0), heldBy("b", "n1", 4, 0), foreign("n1", 2, 0)
	own.Pod, theirs.Pod, theirs.Namespace, theirs.Team = "rs-a", "rs-b", "team-speech", "speech"
	fleet := fitFleet(own, theirs, alien)
	fleet.Unmanaged = []Unmanaged{{Team: "speech"}}
	got := fleet.For(User{ID: 1, Roles: map[string]Role{"vision": RoleMember}})
	hidden := []Hold{own, {Node: "n1", Slice: theirs.Slice, Placements: theirs.Placements}, {Foreign: true, Node: "n1", Slice: alien.Slice, Placements: alien.Placements}}
	if diff := cmp.Diff(hidden, got.Holds); diff != "" || got.Unmanaged != nil {
		t.Errorf("a member sees %v (-want +got):\n%s", got.Unmanaged, diff)
	}
	for name, actor := range map[string]User{"an admin": {ID: 2, Admin: true}, "the portal": System} {
		if diff := cmp.Diff(fleet, fleet.For(actor)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if seen := fleet.For(User{ID: 2, Admin: true, TokenID: 7}).Holds[2]; seen.Pod != "" {
		t.Errorf("an admin's token sees %+v", seen)
	}
}
