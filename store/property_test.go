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
	admin  rayslice.User // who decides
	team   string
	limit  rayslice.Charge
	ids    []string // in order of creation
	states map[string]rayslice.State
	costs  map[string]rayslice.Charge
}

// TestT05AnySequenceKeepsTheLedger makes random sequences of create, decide, resend, stop and move, and compares the Store with a
// pure model after each: 0 ≤ used ≤ limit, and used is the sum of the live charges.
func TestT05AnySequenceKeepsTheLedger(t *testing.T) {
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		l := newLedger(t, rt, s, people.Ada, fmt.Sprintf("team-%d", round))
		l.admin = people.Root
		rt.Repeat(map[string]func(*rapid.T){
			"create":  func(rt *rapid.T) { l.create(rt, l.createApproved, rayslice.StateApproved) },
			"submit":  func(rt *rapid.T) { l.create(rt, l.createPending, rayslice.StatePending) },
			"decide":  l.decide,
			"resend":  l.resend,
			"stop":    l.stop,
			"move":    l.move,
			"advance": l.advance,
			"":        l.check,
		})
	})
}

func newLedger(t *testing.T, rt *rapid.T, s *store.Store, owner rayslice.User, team string) *ledger {
	limit := rayslice.Charge{GiB: rapid.IntRange(0, 100).Draw(rt, "limit GiB"), Cards: rapid.IntRange(0, 4).Draw(rt, "limit cards")}
	seed := store.Seed{
		Teams: []store.SeedTeam{{Name: team, Namespace: team, LimitGiB: limit.GiB, LimitCards: limit.Cards}},
		Users: []store.SeedUser{{Name: owner.Name, Email: owner.Email, Roles: map[string]rayslice.Role{team: rayslice.RoleMember}}},
	}
	if err := s.Seed(t.Context(), rayslice.System, seed); err != nil {
		rt.Fatal(err)
	}
	owner, err := s.User(t.Context(), rayslice.System, owner.ID)
	if err != nil {
		rt.Fatal(err)
	}
	return &ledger{t: t, store: s, owner: owner, team: team, limit: limit, states: map[string]rayslice.State{}, costs: map[string]rayslice.Charge{}}
}

func (l *ledger) createApproved(draft rayslice.RequestDraft) (string, error) {
	r, err := l.store.CreateRequest(l.t.Context(), l.owner, draft, "")
	return r.ID, err
}

func (l *ledger) createPending(draft rayslice.RequestDraft) (string, error) {
	return l.store.CreatePending(l.t.Context(), l.owner, draft)
}

func (l *ledger) create(rt *rapid.T, do func(rayslice.RequestDraft) (string, error), state rayslice.State) {
	draft := storetest.Draft(rapid.IntRange(1, 4).Draw(rt, "workers"), rapid.SampledFrom([]int{1, 4, 8, 16}).Draw(rt, "GiB"))
	draft.Team = l.team
	if rapid.Bool().Draw(rt, "whole cards") {
		draft.Groups[0].Slice = rayslice.Slice{Pool: "a100", Cards: rapid.IntRange(1, 2).Draw(rt, "cards")}
	}
	cost := draft.Charge()
	used, _ := l.used()
	fits := rayslice.Quota{Limit: l.limit, Used: used}.Allow(cost)
	id, err := do(draft)
	switch {
	case fits && err == nil:
		l.ids = append(l.ids, id)
		l.states[id], l.costs[id] = state, cost
	case !fits && rayslice.KindOf(err) == rayslice.KindOverQuota:
	default:
		rt.Fatalf("%v on %v of %v: %v", cost, used, l.limit, err)
	}
}

// decide gives any verdict about any request, on terms that are sometimes less than what was asked for.
func (l *ledger) decide(rt *rapid.T) {
	id := l.pick(rt)
	r, err := l.store.Request(l.t.Context(), l.admin, id)
	if err != nil {
		rt.Fatal(err)
	}
	verdict := rapid.SampledFrom([]rayslice.Verdict{rayslice.VerdictApprove, rayslice.VerdictReturn, rayslice.VerdictReject}).Draw(rt, "verdict")
	d := rayslice.Decision{Verdict: verdict, Revision: r.Revision, Answer: "so be it"}
	cost := r.Draft.Charge()
	if verdict == rayslice.VerdictApprove && rapid.Bool().Draw(rt, "less") {
		terms := r.Draft.AsAsked()
		terms.Groups[0].Workers = rapid.IntRange(1, terms.Groups[0].Workers).Draw(rt, "granted")
		d.Terms = &terms
		cost = r.Draft.Groups[0].Slice.Charge().Times(terms.Groups[0].Workers)
	}
	_, err = l.store.DecideRequest(l.t.Context(), l.admin, id, d)
	switch {
	case l.states[id].Open() && err == nil:
		l.states[id], l.costs[id] = verdict.State(), cost
	case !l.states[id].Open() && rayslice.KindOf(err) == rayslice.KindConflict:
	default:
		rt.Fatalf("%s of what is %s: %v", verdict, l.states[id], err)
	}
}

// resend asks for another number of workers. The team's default rules let it start at once.
func (l *ledger) resend(rt *rapid.T) {
	id := l.pick(rt)
	r, err := l.store.Request(l.t.Context(), l.admin, id)
	if err != nil {
		rt.Fatal(err)
	}
	draft := r.Draft
	draft.Groups = slices.Clone(draft.Groups)
	workers := rapid.IntRange(1, 6).Draw(rt, "workers")
	draft.Groups[0].Workers, draft.Groups[0].MinWorkers, draft.Groups[0].MaxWorkers = workers, workers, workers
	cost, was := draft.Charge(), l.costs[id]
	used, _ := l.used()
	more := rayslice.Charge{GiB: cost.GiB - was.GiB, Cards: cost.Cards - was.Cards}
	fits := rayslice.Quota{Limit: l.limit, Used: used}.Allow(more)
	_, err = l.store.ResendRequest(l.t.Context(), l.owner, id, r.Revision, draft, "")
	switch {
	case !l.states[id].Open() && rayslice.KindOf(err) == rayslice.KindConflict:
	case l.states[id].Open() && fits && err == nil:
		l.states[id], l.costs[id] = rayslice.StateApproved, cost
	case l.states[id].Open() && !fits && rayslice.KindOf(err) == rayslice.KindOverQuota:
	default:
		rt.Fatalf("%v instead of %v, of what is %s: %v", cost, was, l.states[id], err)
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
