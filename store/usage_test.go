package store_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

func ptr[T any](v T) *T { return &v }

// ready makes a request whose cluster is ready, with one worker pod per GiB given.
func ready(t *testing.T, s *store.Store, actor rayslice.User, gib int, uids ...string) rayslice.Request {
	t.Helper()
	r := mustCreate(t, s, actor, storetest.Draft(len(uids), gib))
	mustMove(t, s, r.ID, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.StateReady)
	c := rayslice.Cluster{RequestID: r.ID, Exists: true}
	for _, uid := range uids {
		c.Workers = append(c.Workers, rayslice.Worker{Name: "pod-" + uid, UID: uid, Ready: true, Slice: r.Draft.Groups[0].Slice})
	}
	if err := s.SaveCluster(t.Context(), rayslice.System, c); err != nil {
		t.Fatal(err)
	}
	return r
}

// sample is a reading of a slice of 8 GiB.
func sample(uid string, at time.Time, used int, percent float64) rayslice.Sample {
	return rayslice.Sample{PodUID: uid, Pod: "pod-" + uid, GPU: "GPU-1", At: at, Source: rayslice.UseFromRay, UsedMiB: &used, LimitMiB: ptr(8192),
		MemoryGrade: rayslice.GradeSlice, Percent: &percent, Grade: rayslice.GradeCard}
}

func useOf(id string, at time.Time, samples ...rayslice.Sample) rayslice.Use {
	return rayslice.Use{RequestID: id, AskedAt: at, DataAt: at, Source: rayslice.UseFromRay, Samples: samples}
}

func mustSaveUse(t *testing.T, s *store.Store, uses ...rayslice.Use) {
	t.Helper()
	if err := s.SaveUse(t.Context(), rayslice.System, uses); err != nil {
		t.Fatal(err)
	}
}

func history(t *testing.T, s *store.Store, id string, from, to time.Time, step time.Duration) []rayslice.UsePoint {
	t.Helper()
	points, err := s.UseHistory(t.Context(), rayslice.System, id, from, to, step)
	if err != nil {
		t.Fatal(err)
	}
	return points
}

func rowsOf(t *testing.T, table string) (n int) {
	t.Helper()
	storetest.Query(t, &n, `SELECT count(*) FROM `+table)
	return n
}

// spread writes the readings of a slice straight into the history, every 30 s of a stretch of time.
func spread(t *testing.T, s *store.Store, id, uid string, from, to time.Time, used, percent string) {
	t.Helper()
	storetest.Exec(t, `INSERT INTO use_series (request_id, pod_uid, pod, gpu) VALUES ($1, $2, 'pod-' || $2, 'GPU-1') ON CONFLICT DO NOTHING`, id, uid)
	storetest.Exec(t, `
		UPDATE use_slots SET span = x.span
		FROM (SELECT DISTINCT extract(epoch FROM at)::bigint / 10800 AS span FROM generate_series($1::timestamptz, $2::timestamptz - interval '1 s', '30 s') at) x
		WHERE ring = 'use_raw' AND slot = x.span % 8`, from, to)
	storetest.Exec(t, `
		INSERT INTO use_raw (slot, series, at, used_mib, limit_mib, memory_grade, percent, grade)
		SELECT extract(epoch FROM at)::bigint / 10800 % 8, s.id, at, `+used+`, 8192, 'slice', `+percent+`, 'card'
		FROM use_series s, generate_series($1::timestamptz, $2::timestamptz - interval '1 s', '30 s') at
		WHERE s.request_id = $3 AND s.pod_uid = $4`, from, to, id, uid)
}

func TestTheLatestUse(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	never, err := s.Use(t.Context(), people.Ada, r.ID)
	if err != nil || !never.AskedAt.IsZero() || !never.DataAt.IsZero() || never.RequestID != r.ID || len(never.Samples) != 0 {
		t.Errorf("never asked: %+v, %v", never, err)
	}
	first := time.Now().UTC().Truncate(time.Microsecond).Add(-time.Minute)
	x := sample("a", first, 3000, 71)
	x.RequestID = r.ID
	mustSaveUse(t, s, useOf(r.ID, first, x), useOf("nosuchreques", first, sample("a", first, 1, 1)))
	got, err := s.Use(t.Context(), people.Ada, r.ID)
	if diff := cmp.Diff(useOf(r.ID, first, x), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	failed := rayslice.Use{RequestID: r.ID, AskedAt: first.Add(30 * time.Second), Problem: rayslice.Reason{Code: "use_timeout"}}
	mustSaveUse(t, s, failed)
	got, err = s.Use(t.Context(), people.Ada, r.ID)
	if err != nil || !got.DataAt.Equal(first) || len(got.Samples) != 1 || got.Problem.Code != "use_timeout" || !got.AskedAt.Equal(failed.AskedAt) || got.Source != rayslice.UseFromRay {
		t.Errorf("a failed question: %+v, %v; want the samples of the one before", got, err)
	}
	mustSaveUse(t, s, useOf(r.ID, first.Add(10*time.Second), sample("a", first, 1, 1)))
	if got, _ = s.Use(t.Context(), people.Ada, r.ID); *got.Samples[0].UsedMiB != 3000 {
		t.Errorf("an answer that came late took the place of a later one: %+v", got)
	}
	all, err := s.Uses(t.Context(), people.Ada, []string{r.ID, "nosuchreques"})
	if err != nil || len(all) != 1 || len(all[r.ID].Samples) != 1 {
		t.Errorf("uses: %v, %v", all, err)
	}
	var kept int
	if storetest.Query(t, &kept, `SELECT count(*) FROM use_series WHERE request_id = 'nosuchreques'`); kept != 0 {
		t.Error("kept the history of what is no request")
	}
}

// TestB044ImpossibleValuesLeaveAGap saves what no card can say, and what no column can hold.
func TestB044ImpossibleValuesLeaveAGap(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	at := time.Now().UTC().Truncate(time.Minute)
	bad := sample("a", at.Add(-time.Minute), 17592186044134, math.NaN())
	bad.LimitMiB, bad.MemoryGrade, bad.Pod, bad.GPU = ptr(-1), "made up", "nul\x00"+strings.Repeat("長", 4000), "\xff"
	mustSaveUse(t, s, useOf(r.ID, at.Add(-2*time.Minute), sample("a", at.Add(-2*time.Minute), 3000, 50)))
	mustSaveUse(t, s, useOf(r.ID, at.Add(-time.Minute), bad))
	got, err := s.Use(t.Context(), people.Ada, r.ID)
	if err != nil || got.Dropped != 3 || got.Samples[0].UsedMiB != nil || got.Samples[0].Percent != nil {
		t.Errorf("%+v, %v; want three figures dropped", got, err)
	}
	points := history(t, s, r.ID, at.Add(-time.Hour), at, time.Minute)
	if len(points) != 2 || points[0].UsedMiB == nil || points[1].UsedMiB != nil || points[1].Percent != nil || points[1].Samples != 1 {
		t.Errorf("history %+v, want a reading and a gap", points)
	}
}

func TestSavingTwiceIsSavingOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 400})
	at := time.Now().UTC().Truncate(time.Microsecond)
	var uses []rayslice.Use
	for range 20 {
		r := ready(t, s, people.Ada, 8, "a", "b")
		uses = append(uses, useOf(r.ID, at, sample("a", at, 3000, 50), sample("b", at, 10, 0)))
	}
	var group errgroup.Group
	for range 4 { // replicas that each think a cluster is theirs
		group.Go(func() error {
			for range 5 {
				if err := s.SaveUse(context.Background(), rayslice.System, uses); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := rowsOf(t, "use_raw"); n != 40 {
		t.Errorf("%d rows, want 40", n)
	}
}

// TestSavingUseWaitsForNobody holds every request and every quota, and saves all the same.
func TestSavingUseWaitsForNobody(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	conn, err := pgx.Connect(t.Context(), storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		for _, sql := range []string{`SELECT FROM requests FOR UPDATE`, `SELECT FROM quotas FOR UPDATE`, `SELECT FROM charges FOR UPDATE`, `SELECT FROM clusters FOR UPDATE`} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // less than a lock's timeout
		defer cancel()
		now := time.Now()
		return s.SaveUse(ctx, rayslice.System, []rayslice.Use{useOf(r.ID, now, sample("a", now, 1, 1))})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestUseIsAnnouncedOnce hears of a batch in one announcement, and of a large one in few that Postgres can carry.
func TestUseIsAnnouncedOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	storetest.Exec(t, `
		INSERT INTO requests (id, team, owner_id, name, hours, draft, state)
		SELECT lpad(n::text, 12, 'a'), 'vision', (SELECT min(id) FROM users), 'x', 1, '{}', 'ready' FROM generate_series(1, 1000) n`)
	changes := listen(t, s)
	now := time.Now()
	var uses []rayslice.Use
	for n := range 1000 {
		uses = append(uses, useOf(fmt.Sprintf("%s%d", strings.Repeat("a", 12-len(fmt.Sprint(n+1))), n+1), now, sample("a", now, 1, 1)))
	}
	mustSaveUse(t, s, uses...)
	seen, said := map[string]bool{}, 0
	for len(seen) < 1000 {
		c := <-changes
		if c.Kind != store.KindUse {
			t.Fatalf("heard %+v", c)
		}
		said++
		for _, id := range c.IDs {
			seen[id] = true
		}
	}
	if said != 3 {
		t.Errorf("%d announcements, want 3", said)
	}
}

func TestTargetsAndWatches(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	mustCreate(t, s, people.Ada, storetest.Draft(1, 8)) // approved, nothing to ask yet
	until := time.Now().Add(time.Minute).UTC().Truncate(time.Microsecond)
	wantKind(t, s.WatchUse(t.Context(), people.Sam, []string{r.ID}, until), rayslice.KindNotFound)
	targets := func() []rayslice.UseTarget {
		targets, err := s.UseTargets(t.Context(), rayslice.System)
		if err != nil {
			t.Fatal(err)
		}
		return targets
	}
	if got, want := targets(), []rayslice.UseTarget{{RequestID: r.ID, Namespace: "team-vision"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("nobody looks: %+v", got)
	}
	for _, at := range []time.Time{until, until.Add(-30 * time.Second)} { // the later one counts
		if err := s.WatchUse(t.Context(), people.Ada, []string{r.ID, "nosuchreques"}, at); err != nil {
			t.Fatal(err)
		}
	}
	if got := targets(); len(got) != 1 || !got[0].WatchedUntil.Equal(until) {
		t.Errorf("watched: %+v", got)
	}
	storetest.Exec(t, `UPDATE use_watches SET until_at = now() - interval '2 minutes'`)
	if got := targets(); !got[0].WatchedUntil.IsZero() {
		t.Errorf("no longer watched: %+v", got)
	}
	mustSweep(t, s)
	if n := rowsOf(t, "use_watches"); n != 0 {
		t.Error("a watch that is over is still there")
	}
}

func TestAttend(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	attend := func(name string, want ...string) {
		t.Helper()
		got, err := s.Attend(t.Context(), rayslice.System, name)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s sees %v (%v), want %v", name, got, err, want)
		}
	}
	attend("b", "b")
	attend("a", "a", "b")
	attend("B", "B", "a", "b")
	storetest.Exec(t, `UPDATE replicas SET seen_at = now() - interval '16 seconds' WHERE name = 'a'`)
	attend("b", "B", "b")
	storetest.Exec(t, `UPDATE replicas SET seen_at = now() - interval '1 hour' WHERE name = 'a'`)
	attend("b", "B", "b")
	if n := rowsOf(t, "replicas"); n != 2 {
		t.Errorf("%d replicas remembered, want 2", n)
	}
}
