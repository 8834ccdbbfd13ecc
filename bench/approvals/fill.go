package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/store"
)

func teamName(i int) string { return fmt.Sprintf("team-%d", i) }

// fill makes teams, people and requests as they would have come about, by COPY. The first persona is an admin, the second
// leads the first team.
func fill(ctx context.Context, o options, s *store.Store, pool *pgxpool.Pool, catalogue rayslice.Catalogue) error {
	seed := store.Seed{Users: []store.SeedUser{
		{Name: "admin", Email: "admin@example.org", Admin: true},
		{Name: "lead", Email: "lead@example.org", Roles: map[string]rayslice.Role{teamName(0): rayslice.RoleLead}},
	}}
	for i := range o.Teams {
		seed.Teams = append(seed.Teams, store.SeedTeam{Name: teamName(i), Namespace: teamName(i), LimitGiB: rayslice.MaxLimit, Rules: &rayslice.Rules{}})
	}
	for i := range o.People {
		seed.Users = append(seed.Users, store.SeedUser{Name: fmt.Sprintf("person %d", i), Email: fmt.Sprintf("p%d@example.org", i),
			Roles: map[string]rayslice.Role{teamName(i % o.Teams): rayslice.RoleMember}})
	}
	if err := s.Seed(ctx, rayslice.System, seed); err != nil {
		return err
	}
	people, err := s.Personas(ctx, rayslice.System)
	if err != nil {
		return err
	}
	if err := copyRequests(ctx, o, pool, catalogue, people[2:]); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, `
		UPDATE quotas q
		SET
			used_gib = c.gib
		FROM (
			SELECT
				team,
				sum(gib) AS gib
			FROM charges
			WHERE released_at IS NULL
			GROUP BY team
		) c
		WHERE c.team = q.team`)
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, `ANALYZE`)
	return err
}

// rows are what is copied into each table.
type rows struct{ requests, charges, audit, clusters [][]any }

func copyRequests(ctx context.Context, o options, pool *pgxpool.Pool, catalogue rayslice.Catalogue, people []rayslice.User) error {
	var r rows
	now := time.Now()
	for i := range o.Requests {
		if err := r.add(o, i, catalogue, people[i%len(people)], now); err != nil {
			return err
		}
	}
	for _, table := range []struct {
		name    string
		columns []string
		rows    [][]any
	}{
		{"requests", []string{"id", "team", "owner_id", "name", "hours", "draft", "state", "reason", "created_at", "state_since", "sent_at", "decided_at", "decided_by",
			"answer", "ready_at", "ends_at", "stopping_at", "stopped_at"}, r.requests},
		{"charges", []string{"request_id", "team", "gib", "cards", "charged_at", "released_at"}, r.charges},
		{"audit", []string{"at", "actor_id", "actor", "action", "request_id", "team", "from_state", "to_state", "reason"}, r.audit},
		{"clusters", []string{"request_id", "observed", "observed_at"}, r.clusters},
	} {
		if _, err := pool.CopyFrom(ctx, pgx.Identifier{table.name}, table.columns, pgx.CopyFromRows(table.rows)); err != nil {
			return fmt.Errorf("%s: %w", table.name, err)
		}
	}
	return nil
}

// add makes the i-th request: the first ones wait, the next ones run, the rest is over.
func (r *rows) add(o options, i int, catalogue rayslice.Catalogue, owner rayslice.User, now time.Time) error {
	draft, err := bench.Draft(catalogue, 1+i%4)
	if err != nil {
		return err
	}
	draft.Team, draft.Name, draft.Purpose = owner.Teams()[0], fmt.Sprintf("run-%d", i), "measuring what a lead waits for, with a sentence of some length about it"
	id := rayslice.NewRequestID()
	at := now.Add(-time.Duration(i) * 5 * time.Minute)
	why := rayslice.Reason{Code: rayslice.ReasonNeedsLeadGiB, Args: map[string]any{"asked": draft.Charge().GiB, "most": 0}}
	state, decidedBy, answer := rayslice.StatePending, "", ""
	var decided, ready, ends, stopping, stopped, released any
	switch {
	case i < o.Waiting:
		at = now.Add(-time.Duration(i) * 10 * time.Second)
	case i < o.Waiting+o.Live:
		state, decidedBy, decided, ready, ends = rayslice.StateReady, "lead", at.Add(time.Minute), at.Add(2*time.Minute), now.Add(time.Hour)
		r.clusters = append(r.clusters, []any{id, observed(id, draft), now})
	case i%5 == 0:
		state, decidedBy, answer, decided, released = rayslice.StateRejected, "lead", "not this week", at.Add(time.Minute), at.Add(time.Minute)
	default:
		over := at.Add(6 * time.Hour)
		state, decidedBy, decided, ready, ends = rayslice.StateStopped, "lead", at.Add(time.Minute), at.Add(2*time.Minute), at.Add(8*time.Hour)
		stopping, stopped, released = over, over, over
	}
	r.requests = append(r.requests, []any{id, draft.Team, owner.ID, draft.Name, draft.Hours, draft, string(state), why, at, at, at, decided, decidedBy, answer,
		ready, ends, stopping, stopped})
	r.charges = append(r.charges, []any{id, draft.Team, draft.Charge().GiB, 0, at, released})
	r.audit = append(r.audit, []any{at, owner.ID, owner.Name, "create", id, draft.Team, "", "pending", why})
	if i%3 == 0 {
		asked := rayslice.Decision{Verdict: rayslice.VerdictReturn, Answer: "do you need all of them?"}.Reason("lead")
		r.audit = append(r.audit, []any{at, owner.ID, "lead", "return", id, draft.Team, "pending", "returned", asked},
			[]any{at, owner.ID, owner.Name, "resend", id, draft.Team, "returned", "pending", rayslice.Reason{Code: why.Code, Args: map[string]any{"answer": "yes", "asked": 1, "most": 0}}})
	}
	return nil
}

// observed is what Kubernetes would report about a running request.
func observed(id string, draft rayslice.RequestDraft) json.RawMessage {
	group := draft.Groups[0]
	cluster := rayslice.Cluster{RequestID: id, Exists: true, Ours: true, HeadAnswers: true}
	for i := range group.Workers {
		cluster.Workers = append(cluster.Workers, rayslice.Worker{Name: fmt.Sprintf("%s-worker-%d", id, i), Group: group.Name, Phase: rayslice.PodRunning, Ready: true,
			Node: fmt.Sprintf("cn-hangzhou.10.200.12.%d", i), Slice: group.Slice, Placements: []rayslice.Placement{{Card: i, GiB: group.GiB}}})
	}
	raw, err := json.Marshal(cluster)
	if err != nil {
		panic(err) // it is our own type
	}
	return raw
}
