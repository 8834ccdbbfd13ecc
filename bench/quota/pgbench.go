package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice/bench"
)

// scripts of pgbench, each one transaction that takes 1 from the limit of a random team. The limit is never reached.
const (
	tail = `
INSERT INTO bare_requests (team, draft) VALUES (:team, '{"team": "hot", "name": "bench", "hours": 8, "groups": [{"pool": "a10", "slice_gib": 1, "workers": 1}]}');
INSERT INTO bare_charges (team, gib) VALUES (:team, 1);
COMMIT;`
	scriptUpdate = `\set team random(1, :teams)
BEGIN ISOLATION LEVEL READ COMMITTED;
UPDATE bare_quotas SET used = used + 1 WHERE team = :team AND used + 1 <= most;` + tail
	scriptUpdateLast = `\set team random(1, :teams)
BEGIN ISOLATION LEVEL READ COMMITTED;
INSERT INTO bare_requests (team, draft) VALUES (:team, '{"team": "hot", "name": "bench", "hours": 8, "groups": [{"pool": "a10", "slice_gib": 1, "workers": 1}]}');
INSERT INTO bare_charges (team, gib) VALUES (:team, 1);
UPDATE bare_quotas SET used = used + 1 WHERE team = :team AND used + 1 <= most;
COMMIT;`
	scriptForUpdate = `\set team random(1, :teams)
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT used, most FROM bare_quotas WHERE team = :team FOR UPDATE;
UPDATE bare_quotas SET used = used + 1 WHERE team = :team;` + tail
	scriptAdvisory = `\set team random(1, :teams)
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(:team);
SELECT used, most FROM bare_quotas WHERE team = :team;
UPDATE bare_quotas SET used = used + 1 WHERE team = :team;` + tail
	scriptSerializable = `\set team random(1, :teams)
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT used, most FROM bare_quotas WHERE team = :team;
UPDATE bare_quotas SET used = used + 1 WHERE team = :team;` + tail
)

// bare is a database with the least tables a quota needs.
type bare struct {
	url   string
	teams int
}

func newBare(ctx context.Context, sandbox *bench.Sandbox, teams int) (*bare, error) {
	url, err := sandbox.Database(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, fmt.Sprintf(`
		CREATE TABLE bare_quotas (team integer PRIMARY KEY, most bigint NOT NULL, used bigint NOT NULL DEFAULT 0);
		CREATE TABLE bare_requests (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, team integer NOT NULL REFERENCES bare_quotas, draft jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now());
		CREATE TABLE bare_charges (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, team integer NOT NULL REFERENCES bare_quotas, gib bigint NOT NULL);
		INSERT INTO bare_quotas (team, most) SELECT n, 1000000 FROM generate_series(1, %d) n`, teams))
	return &bare{url, teams}, err
}

var (
	tps    = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)
	failed = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
)

// run returns the transactions per second of one script.
func (b *bare) run(ctx context.Context, o options, script string) (float64, error) {
	folder, err := os.MkdirTemp("", "bench-quota")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "script.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return 0, err
	}
	command := exec.CommandContext(ctx, "pgbench", "--no-vacuum", "--client", strconv.Itoa(o.Clients), "--jobs", "2", "--protocol", "prepared",
		"--time", strconv.Itoa(int(o.Time.Seconds())), "--max-tries", "100", "--define", fmt.Sprintf("teams=%d", b.teams), "--file", file, b.url)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	found := tps.FindSubmatch(out)
	if err != nil || found == nil {
		return 0, fmt.Errorf("pgbench: %w\n%s%s", err, out, problems.Bytes())
	}
	if lost := failed.FindSubmatch(out); lost != nil && string(lost[1]) != "0" && script != scriptSerializable {
		return 0, fmt.Errorf("pgbench: %s transactions failed", lost[1])
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

func pgbenchVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "pgbench", "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "pgbench (PostgreSQL) ")
}

// variants measures other ways to guard the same quota, side by side.
func variants(ctx context.Context, o options, sandbox *bench.Sandbox, report *bench.Report) error {
	ways := []struct{ name, script string }{
		{"conditional UPDATE first", scriptUpdate}, {"conditional UPDATE last", scriptUpdateLast}, {"SELECT FOR UPDATE", scriptForUpdate},
		{"advisory lock", scriptAdvisory}, {"SERIALIZABLE, tried again up to 100 times", scriptSerializable},
	}
	for _, teams := range []int{1, o.Teams} {
		b, err := newBare(ctx, sandbox, teams)
		if err != nil {
			return err
		}
		rates := make([][]float64, len(ways))
		for round := range o.Rounds {
			for i := range ways {
				at := (i + round) % len(ways)
				rate, err := b.run(ctx, o, ways[at].script)
				if err != nil {
					return fmt.Errorf("%s: %w", ways[at].name, err)
				}
				rates[at] = append(rates[at], rate)
			}
		}
		for i, way := range ways {
			report.Result(fmt.Sprintf("pgbench, %d team(s), %s", teams, way.name), "%.0f/s (rounds %.0f)", bench.Quantile(rates[i], 0.5), rates[i])
		}
	}
	return nil
}
