package store_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// ledger is the quota of one team as it ought to be, and the Store it is compared with.
type ledger struct {
	t      *testing.T
	store  *store.Store
	owner  rayslice.User
	lead   rayslice.User
	team   string
	limit  rayslice.Charge
	ids    []string // in order of creation
	states map[string]rayslice.State
	costs  map[string]rayslice.Charge
}

// TestT05AnySequenceKeepsTheLedger makes random sequences of create, resend, decide, stop and move, and compares the Store with a
// pure model after each: 0 ≤ used ≤ limit, and used is the sum of the live charges.
func TestT05AnySequenceKeepsTheLedger(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		l := newLedger(t, rt, s, people.Ada, people.Lea, fmt.Sprintf("team-%d", round))
		rt.Repeat(map[string]func(*rapid.T){
			"create":  func(rt *rapid.T) { l.create(rt, autoHours, rayslice.StateApproved) },
			"submit":  func(rt *rapid.T) { l.create(rt, autoHours+1, rayslice.StatePending) },
			"resend":  l.resend,
			"decide":  l.decide,
			"stop":    l.stop,
			"move":    l.move,
			"advance": l.advance,
			"":        l.check,
		})
	})
}

func newLedger(t *testing.T, rt *rapid.T, s *store.Store, owner, lead rayslice.User, team string) *ledger {
	limit := rayslice.Charge{GiB: rapid.IntRange(0, 100).Draw(rt, "limit GiB"), Cards: rapid.IntRange(0, 4).Draw(rt, "limit cards")}
	seed := store.Seed{
		Teams: []store.SeedTeam{{Name: team, Namespace: team, LimitGiB: limit.GiB, LimitCards: limit.Cards,
			Rules: &rayslice.Rules{Auto: rayslice.Charge{GiB: rayslice.MaxLimit, Cards: rayslice.MaxLimit}, AutoHours: autoHours}}},
		Users: []store.SeedUser{
			{Name: owner.Name, Email: owner.Email, Roles: map[string]rayslice.Role{team: rayslice.RoleMember}},
			{Name: lead.Name, Email: lead.Email, Roles: map[string]rayslice.Role{team: rayslice.RoleLead}},
		},
	}
	if err := s.Seed(t.Context(), rayslice.System, seed); err != nil {
		rt.Fatal(err)
	}
	owner, err := s.User(t.Context(), rayslice.System, owner.ID)
	if err != nil {
		rt.Fatal(err)
	}
	lead, err = s.User(t.Context(), rayslice.System, lead.ID)
	if err != nil {
		rt.Fatal(err)
	}
	return &ledger{t: t, store: s, owner: owner, lead: lead, team: team, limit: limit, states: map[string]rayslice.State{}, costs: map[string]rayslice.Charge{}}
}

// autoHours is the longest lifetime that starts without a lead.
const autoHours = 8

// draft draws what is asked for.
func (l *ledger) draft(rt *rapid.T, hours int) rayslice.RequestDraft {
	draft := storetest.Draft(rapid.IntRange(1, 4).Draw(rt, "workers"), rapid.SampledFrom([]int{1, 4, 8, 16}).Draw(rt, "GiB"))
	draft.Team, draft.Hours = l.team, hours
	if rapid.Bool().Draw(rt, "whole cards") {
		draft.Groups[0].Slice = rayslice.Slice{Pool: "a100", Cards: rapid.IntRange(1, 2).Draw(rt, "cards")}
	}
	return draft
}

func (l *ledger) create(rt *rapid.T, hours int, state rayslice.State) {
	draft := l.draft(rt, hours)
	cost := draft.Charge()
	used, _ := l.used()
	fits := rayslice.Quota{Limit: l.limit, Used: used}.Allow(cost)
	r, err := l.store.CreateRequest(l.t.Context(), l.owner, draft, "")
	switch {
	case fits && err == nil:
		if r.State != state {
			rt.Fatalf("it is %s, want %s", r.State, state)
		}
		l.ids = append(l.ids, r.ID)
		l.states[r.ID], l.costs[r.ID] = state, cost
	case !fits && rayslice.KindOf(err) == rayslice.KindOverQuota:
	default:
		rt.Fatalf("%v on %v of %v: %v", cost, used, l.limit, err)
	}
}

// resend changes a request, also one that is decided already.
func (l *ledger) resend(rt *rapid.T) {
	id := l.pick(rt)
	now, err := l.store.Request(l.t.Context(), l.owner, id)
	if err != nil {
		rt.Fatal(err)
	}
	draft := l.draft(rt, autoHours+1)
	used, _ := l.used()
	used.GiB, used.Cards = used.GiB-l.costs[id].GiB, used.Cards-l.costs[id].Cards
	fits := rayslice.Quota{Limit: l.limit, Used: used}.Allow(draft.Charge())
	_, err = l.store.ResendRequest(l.t.Context(), l.owner, id, now.Revision, draft, "")
	switch open := l.states[id].Open(); {
	case open && fits && err == nil:
		l.states[id], l.costs[id] = rayslice.StatePending, draft.Charge()
	case open && !fits && rayslice.KindOf(err) == rayslice.KindOverQuota:
	case !open && rayslice.KindOf(err) == rayslice.KindConflict:
	default:
		rt.Fatalf("resend %v from %s: %v", draft.Charge(), l.states[id], err)
	}
}

// decide approves all or a part, asks back or rejects.
func (l *ledger) decide(rt *rapid.T) {
	id := l.pick(rt)
	now, err := l.store.Request(l.t.Context(), l.owner, id)
	if err != nil {
		rt.Fatal(err)
	}
	verdict := rapid.SampledFrom([]rayslice.Verdict{rayslice.VerdictApprove, rayslice.VerdictReturn, rayslice.VerdictReject}).Draw(rt, "verdict")
	d := rayslice.Decision{Verdict: verdict, Revision: now.Revision, Answer: "because"}
	cost := now.Charge
	if verdict == rayslice.VerdictApprove && rapid.Bool().Draw(rt, "a part") {
		terms := now.Draft.AsAsked()
		terms.Groups[0].Workers = rapid.IntRange(1, terms.Groups[0].Workers).Draw(rt, "workers granted")
		granted, err := now.Draft.Grant(terms)
		if err != nil {
			rt.Fatal(err)
		}
		d.Terms, cost = &terms, granted.Charge()
	}
	r, err := l.store.DecideRequest(l.t.Context(), l.lead, id, d)
	switch open := l.states[id].Open(); {
	case open && err == nil && r.State == verdict.State():
		l.states[id], l.costs[id] = r.State, cost
	case !open && (rayslice.KindOf(err) == rayslice.KindConflict || err == nil && r.State == l.states[id]):
	default:
		rt.Fatalf("%s from %s: %s, %v", verdict, l.states[id], r.State, err)
	}
}

// stop also stops what is over already, which must change nothing.
func (l *ledger) stop(rt *rapid.T) {
	id := l.pick(rt)
	r, err := l.store.StopRequest(l.t.Context(), l.owner, id)
	if err != nil {
		rt.Fatal(err)
	}
	switch now := l.states[id]; {
	case now.CanBecome(rayslice.StateCancelled):
		l.states[id] = rayslice.StateCancelled
	case now.CanBecome(rayslice.StateStopping):
		l.states[id] = rayslice.StateStopping
	}
	if r.State != l.states[id] {
		rt.Fatalf("stopped into %s, want %s", r.State, l.states[id])
	}
}

// move tries any pair of states, mostly illegal ones.
func (l *ledger) move(rt *rapid.T) {
	id := l.pick(rt)
	from := rapid.SampledFrom(rayslice.States()).Draw(rt, "from")
	to := rapid.SampledFrom(rayslice.States()).Draw(rt, "to")
	l.moveTo(rt, id, from, to)
}

// advance takes a legal step from the present state.
func (l *ledger) advance(rt *rapid.T) {
	id := l.pick(rt)
	legal := slices.DeleteFunc(rayslice.States(), func(to rayslice.State) bool { return !l.states[id].CanBecome(to) })
	if len(legal) == 0 {
		rt.Skip("it is over")
	}
	l.moveTo(rt, id, l.states[id], rapid.SampledFrom(legal).Draw(rt, "to"))
}

func (l *ledger) moveTo(rt *rapid.T, id string, from, to rayslice.State) {
	err := l.store.Move(l.t.Context(), rayslice.System, id, from, to, rayslice.Reason{}, "")
	possible := l.states[id] == from && (from.CanBecome(to) || (from == to && !from.Final()))
	switch {
	case possible && err == nil:
		l.states[id] = to
	case !possible && rayslice.KindOf(err) == rayslice.KindConflict:
	default:
		rt.Fatalf("%s → %s from %s: %v", from, to, l.states[id], err)
	}
}

func (l *ledger) pick(rt *rapid.T) string {
	if len(l.ids) == 0 {
		rt.Skip("no request yet")
	}
	return rapid.SampledFrom(l.ids).Draw(rt, "request")
}

func (l *ledger) used() (used, held rayslice.Charge) {
	for id, state := range l.states {
		if !state.Final() {
			used = used.Add(l.costs[id])
		}
		if state.Open() {
			held = held.Add(l.costs[id])
		}
	}
	return used, held
}

func (l *ledger) check(rt *rapid.T) {
	used, held := l.used()
	want := rayslice.Quota{Team: l.team, Limit: l.limit, Used: used, Held: held}
	got, err := l.store.Quota(l.t.Context(), l.owner, l.team)
	if err != nil || got != want {
		rt.Fatalf("quota %v (%v), want %v", got, err, want)
	}
	if got.Used.GiB > got.Limit.GiB || got.Used.Cards > got.Limit.Cards {
		rt.Fatalf("used %v of %v", got.Used, got.Limit)
	}
	drift, err := l.store.QuotaDrift(l.t.Context(), rayslice.System)
	if err != nil || len(drift) > 0 {
		rt.Fatalf("drift %v, %v", drift, err)
	}
}
