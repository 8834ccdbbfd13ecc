package store_test

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

func named(team, name string) rayslice.RequestDraft {
	draft := storetest.Draft(1, 1)
	draft.Team, draft.Name = team, name
	return draft
}

func TestRequestsFilters(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	first := mustCreate(t, s, people.Ada, named("vision", "Ablation 7"))
	mustCreate(t, s, people.Bob, named("vision", "消融实验"))
	mustCreate(t, s, people.Sam, named("speech", "100% done_"))
	mustStop(t, s, people.Ada, first.ID)

	tests := map[string]struct {
		actor  rayslice.User
		filter store.RequestFilter
		want   []string // names, newest first
	}{
		"a member sees the team":     {people.Ada, store.RequestFilter{}, []string{"消融实验", "Ablation 7"}},
		"an admin sees all":          {people.Root, store.RequestFilter{}, []string{"100% done_", "消融实验", "Ablation 7"}},
		"one team":                   {people.Root, store.RequestFilter{Team: "speech"}, []string{"100% done_"}},
		"one owner":                  {people.Ada, store.RequestFilter{OwnerID: people.Ada.ID}, []string{"Ablation 7"}},
		"states":                     {people.Ada, store.RequestFilter{States: []rayslice.State{rayslice.StateApproved, rayslice.StateReady}}, []string{"消融实验"}},
		"part of the name, any case": {people.Ada, store.RequestFilter{Search: "ABLAT"}, []string{"Ablation 7"}},
		"part of a Chinese name":     {people.Ada, store.RequestFilter{Search: "实验"}, []string{"消融实验"}},
		"the id":                     {people.Ada, store.RequestFilter{Search: first.ID}, []string{"Ablation 7"}},
		"the owner":                  {people.Ada, store.RequestFilter{Search: "bob"}, []string{"消融实验"}},
		"no wildcard in a search":    {people.Root, store.RequestFilter{Search: "%"}, []string{"100% done_"}},
		"nothing fits":               {people.Root, store.RequestFilter{Search: "'; --"}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			page, err := s.Requests(t.Context(), tc.actor, tc.filter)
			if err != nil || page.Next != "" {
				t.Fatalf("next %q, %v", page.Next, err)
			}
			var got []string
			for _, r := range page.Requests {
				got = append(got, r.Draft.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsPages(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	for range 7 {
		mustCreate(t, s, people.Ada, storetest.Draft(1, 1))
	}
	storetest.Exec(t, `UPDATE requests SET created_at = '2026-01-01'`) // only the id is left to sort by
	seen, pages := map[string]bool{}, 0
	for after := ""; pages == 0 || after != ""; pages++ {
		page, err := s.Requests(t.Context(), people.Ada, store.RequestFilter{Limit: 3, After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Requests {
			seen[r.ID] = true
		}
		after = page.Next
	}
	if len(seen) != 7 || pages != 3 {
		t.Errorf("%d requests on %d pages, want 7 on 3", len(seen), pages)
	}
	for _, after := range []string{"!", "x", base64.RawURLEncoding.EncodeToString([]byte("9223372036854775807.x")), base64.RawURLEncoding.EncodeToString([]byte("-5.x"))} {
		_, err := s.Requests(t.Context(), people.Ada, store.RequestFilter{After: after})
		wantField(t, err, "after", rayslice.CodeCharacters)
	}
}

func TestWorkForTheReconciler(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 20})
	live := mustCreate(t, s, people.Ada, storetest.Draft(1, 1))
	justStopped := mustCreate(t, s, people.Ada, storetest.Draft(1, 1))
	longStopped := mustCreate(t, s, people.Ada, storetest.Draft(1, 1))
	needLead(t, s, people)
	mustCreate(t, s, people.Ada, storetest.Draft(1, 1))
	mustStop(t, s, people.Ada, justStopped.ID)
	mustStop(t, s, people.Ada, longStopped.ID)
	storetest.Exec(t, `UPDATE requests SET state_since = now() - interval '61 minutes' WHERE id = $1`, longStopped.ID)
	ids, err := s.LiveRequests(t.Context(), rayslice.System)
	if diff := cmp.Diff([]string{live.ID, justStopped.ID}, ids); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	known, err := s.KnownRequests(t.Context(), rayslice.System, []string{live.ID, longStopped.ID, "aaaaaaaaaaaa"})
	if diff := cmp.Diff(map[string]bool{live.ID: true, longStopped.ID: true}, known); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	work, err := s.Work(t.Context(), rayslice.System, live.ID)
	if err != nil || work.Namespace != "team-vision" || work.Owner.Name != "Ada" {
		t.Errorf("got %v, %v", work, err)
	}
	_, err = s.Work(t.Context(), rayslice.System, "aaaaaaaaaaaa")
	wantKind(t, err, rayslice.KindNotFound)
}
