package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestFleetCards reads what pods hold only when it is asked for, and without the names that the actor may not see.
func TestFleetCards(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	request := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	held := rayslice.Hold{RequestID: request.ID, Team: "vision", Namespace: "team-vision", Pod: "w", Node: "n", Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1},
		Placements: []rayslice.Placement{{Card: 1, GiB: 8}}}
	saved := rayslice.Fleet{ObservedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Nodes: []rayslice.Node{{Name: "n", Pool: "a10"}}, Holds: []rayslice.Hold{held}}
	if err := s.SaveFleet(t.Context(), rayslice.System, saved); err != nil {
		t.Fatal(err)
	}
	hidden := held
	hidden.RequestID, hidden.Team, hidden.Namespace, hidden.Pod = "", "", "", ""
	for name, tc := range map[string]struct {
		actor rayslice.User
		want  rayslice.Hold
	}{"a member": {people.Ada, held}, "an admin": {people.Root, held}, "the portal": {rayslice.System, held}, "somebody else": {people.Sam, hidden}} {
		fleet, err := s.FleetCards(t.Context(), tc.actor)
		if diff := cmp.Diff([]rayslice.Hold{tc.want}, fleet.Holds); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if fleet, err := s.Fleet(t.Context(), tc.actor); err != nil || fleet.Holds != nil || len(fleet.Nodes) != 1 {
			t.Errorf("%s: %d nodes and %d holds without the cards, %v", name, len(fleet.Nodes), len(fleet.Holds), err)
		}
	}
	if _, err := s.FleetCards(t.Context(), rayslice.User{}); rayslice.KindOf(err) != rayslice.KindNotFound {
		t.Errorf("nobody: %v", err)
	}
}

// TestOccupants lists the live requests with their ends.
func TestOccupants(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	live, ended := mustCreate(t, s, people.Ada, storetest.Draft(1, 8)), mustCreate(t, s, people.Ada, storetest.Draft(1, 4))
	if err := s.Move(t.Context(), rayslice.System, ended.ID, rayslice.StateApproved, rayslice.StateStopping, rayslice.Reason{}, ""); err != nil {
		t.Fatal(err)
	}
	want := map[string]rayslice.Occupant{
		live.ID:  {RequestID: live.ID, Team: "vision", Name: live.Draft.Name, EndsAt: live.EndsAt},
		ended.ID: {RequestID: ended.ID, Team: "vision", Name: ended.Draft.Name, EndsAt: ended.EndsAt, Stopping: true},
	}
	found, err := s.Occupants(t.Context(), rayslice.System)
	got := map[string]rayslice.Occupant{}
	for _, o := range found {
		got[o.RequestID] = o
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
