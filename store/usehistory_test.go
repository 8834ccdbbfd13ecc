package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// atMinute returns a whole minute of the past from which the next two lie in the same hour.
func atMinute() time.Time {
	at := time.Now().UTC().Truncate(time.Minute).Add(-5 * time.Minute)
	if at.Minute() > 55 {
		at = at.Add(-5 * time.Minute)
	}
	return at
}

// TestUnknownIsNotZeroInMeans rolls up readings some of which were not known.
func TestUnknownIsNotZeroInMeans(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	at := atMinute()
	unknown := sample("a", at.Add(20*time.Second), 0, 0)
	unknown.UsedMiB, unknown.Percent = nil, nil
	mustSaveUse(t, s, useOf(r.ID, at, sample("a", at, 3000, 20), sample("a", at.Add(10*time.Second), 5000, 40), unknown))
	nothing := unknown
	nothing.At = at.Add(time.Minute)
	mustSaveUse(t, s, useOf(r.ID, at.Add(time.Minute), nothing))
	check := func(level string, from, to time.Time, step time.Duration, points int) {
		t.Helper()
		got := history(t, s, r.ID, from, to, step)
		if len(got) != points || *got[0].UsedMiB != 4000 || *got[0].PeakMiB != 5000 || *got[0].Percent != 30 || *got[0].LimitMiB != 8192 ||
			got[0].Grade != rayslice.GradeCard || got[0].MemoryGrade != rayslice.GradeSlice {
			t.Errorf("%s: %+v", level, got)
		}
		if points > 1 && (got[1].UsedMiB != nil || got[1].Percent != nil || got[1].Samples != 1 || got[1].Grade != "") {
			t.Errorf("%s: nothing known became %+v", level, got[1])
		}
	}
	check("as read", at.Add(-time.Hour), at.Add(2*time.Minute), time.Minute, 2)
	for range 3 { // as often as one likes
		mustSweep(t, s)
	}
	check("by minutes", at.Add(-10*time.Hour), at.Add(2*time.Minute), time.Minute, 2)
	check("by hours", at.Add(-100*time.Hour), at.Add(2*time.Minute), time.Hour, 1)
	if n, m := rowsOf(t, "use_minutes"), rowsOf(t, "use_hours"); n != 2 || m != 1 {
		t.Errorf("%d minutes and %d hours, want 2 and 1", n, m)
	}
}

// TestLateReadingsAreRolledUp saves a reading of a minute that was rolled up already.
func TestLateReadingsAreRolledUp(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	at := time.Now().UTC().Truncate(time.Minute).Add(-2 * time.Minute)
	mustSaveUse(t, s, useOf(r.ID, at, sample("a", at, 1000, 0)))
	if swept := mustSweep(t, s); swept.Rolled != 2 {
		t.Errorf("swept %+v, want a minute and an hour", swept)
	}
	mustSaveUse(t, s, useOf(r.ID, at, sample("a", at.Add(time.Second), 3000, 0)))
	storetest.Exec(t, `UPDATE use_rolled SET until_at = until_at - interval '10 minutes'`) // as if that much had passed
	mustSweep(t, s)
	for table, step := range map[string]time.Duration{"use_minutes": time.Minute, "use_hours": time.Hour} {
		var mean int
		if storetest.Query(t, &mean, `SELECT used_sum / used_known FROM `+table); mean != 2000 {
			t.Errorf("mean of a %s is %d, want 2000", step, mean)
		}
	}
}

// TestHistoryAfterDaysOfDowntime finds old rows in the very slots that are needed now.
func TestHistoryAfterDaysOfDowntime(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	now := time.Now().UTC().Truncate(time.Microsecond)
	spread(t, s, r.ID, "a", now.Add(-72*time.Hour).Truncate(time.Hour), now.Add(-72*time.Hour).Truncate(time.Hour).Add(time.Hour), "1", "1")
	if rowsOf(t, "use_raw") != 120 {
		t.Fatal("no old rows")
	}
	mustSaveUse(t, s, useOf(r.ID, now, sample("a", now, 3000, 50)))
	if n := rowsOf(t, "use_raw"); n != 1 {
		t.Errorf("%d rows, want the new one alone", n)
	}
	spread(t, s, r.ID, "a", now.Add(-30*time.Hour).Truncate(time.Hour), now.Add(-30*time.Hour).Truncate(time.Hour).Add(time.Minute), "1", "1")
	if swept := mustSweep(t, s); swept.Slots != 1 || rowsOf(t, "use_raw") != 1 {
		t.Errorf("swept %+v, %d rows left; want what is too old gone", swept, rowsOf(t, "use_raw"))
	}
	if swept := mustSweep(t, s); swept.Slots != 0 {
		t.Errorf("swept the same again: %+v", swept)
	}
}

// TestReadingsOfAnotherTimeKeepNothingFromItsPlace saves what claims to be from the future, or comes far too late: neither may
// empty the slot of the present.
func TestReadingsOfAnotherTimeKeepNothingFromItsPlace(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	now := time.Now()
	mustSaveUse(t, s, useOf(r.ID, now, sample("a", now, 3000, 50)))
	for _, off := range []time.Duration{24 * time.Hour, -24 * time.Hour, 24 * 365 * time.Hour, -24 * 365 * time.Hour} {
		mustSaveUse(t, s, useOf(r.ID, now, sample("a", now.Add(off), 1, 1)))
	}
	if n := rowsOf(t, "use_raw"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// TestManyReplicasAtTheTurnOfASlot saves, sweeps and empties all at once: no present row is lost.
func TestManyReplicasAtTheTurnOfASlot(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	now := time.Now().UTC()
	spread(t, s, r.ID, "a", now.Add(-48*time.Hour).Truncate(time.Hour), now.Add(-48*time.Hour).Truncate(time.Hour).Add(time.Hour), "1", "1")
	var group errgroup.Group
	for replica := range 6 {
		group.Go(func() error {
			for n := range 20 {
				at := now.Add(-time.Duration(replica*20+n) * time.Millisecond)
				if err := s.SaveUse(context.Background(), rayslice.System, []rayslice.Use{useOf(r.ID, at, sample("a", at, 1, 1))}); err != nil {
					return err
				}
				if n%5 == 0 {
					if _, err := s.Sweep(context.Background(), rayslice.System); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := rowsOf(t, "use_raw"); n != 120 {
		t.Errorf("%d rows, want 120", n)
	}
}

// TestThePortalsRoleKeepsTheHistory saves, rolls up and forgets as the role that owns nothing.
func TestThePortalsRoleKeepsTheHistory(t *testing.T) {
	t.Parallel()
	owner := storetest.New(t)
	s := storetest.AsApp(t)
	people := storetest.Fill(t, owner, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	now := time.Now()
	spread(t, s, r.ID, "a", now.Add(-72*time.Hour), now.Add(-72*time.Hour+time.Minute), "1", "1")
	spread(t, s, r.ID, "a", now.Add(-31*time.Hour), now.Add(-31*time.Hour+time.Minute), "1", "1")
	at := now.Truncate(time.Minute).Add(-2 * time.Minute)
	mustSaveUse(t, s, useOf(r.ID, at, sample("a", at, 3000, 50)))
	if swept := mustSweep(t, s); swept.Rolled != 2 || swept.Slots == 0 {
		t.Errorf("swept %+v", swept)
	}
}

// TestHistoryOfAMonth keeps what was rolled up when the readings are gone, for as long as it is to be kept.
func TestHistoryOfAMonth(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	s.KeepUse(rayslice.UseRetention{Raw: 2 * time.Hour, Minutes: 24 * time.Hour})
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := ready(t, s, people.Ada, 8, "a")
	now := time.Now().UTC()
	begin := now.Add(-2*time.Hour + 5*time.Minute)
	spread(t, s, r.ID, "a", begin, now, "4000", "12.5")
	mustSweep(t, s)
	minutes := history(t, s, r.ID, now.Add(-20*time.Hour), now, 10*time.Minute)
	hours := history(t, s, r.ID, now.Add(-700*time.Hour), now, time.Hour)
	if len(minutes) < 11 || len(hours) < 2 || *hours[0].UsedMiB != 4000 || *minutes[3].Percent != 12.5 {
		t.Errorf("%d tens of minutes, %d hours: %+v", len(minutes), len(hours), hours)
	}
	var spans int
	if storetest.Query(t, &spans, `SELECT count(*) FROM use_slots WHERE span >= 0`); spans > 2+2+2 {
		t.Errorf("%d slots in use", spans)
	}
}

func TestTeamUse(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 100})
	hour := time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour)
	r := ready(t, s, people.Ada, 8, "a")
	cards := ready(t, s, people.Ada, 16, "c")
	storetest.Exec(t, `UPDATE requests SET decided_at = $1`, hour.Add(30*time.Minute))
	half := hour.Add(30 * time.Minute)
	spread(t, s, r.ID, "a", half, hour.Add(45*time.Minute), "4096", "50")
	spread(t, s, r.ID, "b", hour.Add(45*time.Minute), hour.Add(60*time.Minute), "2048", "50") // b replaced a
	spread(t, s, cards.ID, "c", half, hour.Add(time.Hour), "20000", "50")
	storetest.Exec(t, `UPDATE use_raw SET memory_grade = 'card' WHERE series = (SELECT id FROM use_series WHERE pod_uid = 'c')`) // B058: a card's, whoever uses it
	mustSweep(t, s)
	use, err := s.TeamUse(t.Context(), people.Ada, "vision", hour.Add(-time.Hour), hour.Add(2*time.Hour))
	if err != nil || len(use.Points) != 3 {
		t.Fatalf("%+v, %v", use, err)
	}
	before, during, after := use.Points[0], use.Points[1], use.Points[2]
	if before.GrantedGiB != 0 || before.UsedGiB != nil {
		t.Errorf("before: %+v", before)
	}
	if !near(during.GrantedGiB, 12) || during.UsedGiB == nil || !near(*during.UsedGiB, 3) || during.Known != 2 || during.Unknown != 1 {
		t.Errorf("during: %+v, want 12 GiB granted on average, 3 GiB used while known, and the card's figure left out", during)
	}
	if !near(after.GrantedGiB, 24) || after.UsedGiB != nil {
		t.Errorf("after: %+v, want 24 GiB granted and nothing known", after)
	}
	_, err = s.TeamUse(t.Context(), people.Sam, "vision", hour, hour)
	wantKind(t, err, rayslice.KindNotFound)
}

func near(a, b float64) bool { return a > b-0.05 && a < b+0.05 }

// TestB080OnlyWhatIsKnownToIdleIsIdle is the list of idle holders: nothing missing counts as idle.
func TestB080OnlyWhatIsKnownToIdleIsIdle(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const busy, idle = "50", "0"
	type stretch struct {
		uid, used, percent string
		from, to           time.Duration // ago
	}
	long := stretch{"a", "5000", idle, 4 * time.Hour, 0}
	for sentence, tc := range map[string]struct {
		workers []string
		history []stretch
		want    time.Duration // idle for so long; 0 = not named
	}{
		"a card that does nothing":                {[]string{"a"}, []stretch{long}, 4 * time.Hour},
		"memory that only the driver takes":       {[]string{"a"}, []stretch{{"a", "120", busy, 4 * time.Hour, 0}}, 4 * time.Hour},
		"busy until three hours ago":              {[]string{"a"}, []stretch{{"a", "5000", busy, 5 * time.Hour, 3 * time.Hour}, {"a", "5000", idle, 3 * time.Hour, 0}}, 3 * time.Hour},
		"idle for one hour only":                  {[]string{"a"}, []stretch{{"a", "5000", idle, time.Hour, 0}}, 0},
		"a share of a busy card with memory held": {[]string{"a"}, []stretch{{"a", "5000", busy, 4 * time.Hour, 0}}, 0},
		"nothing known":                           {[]string{"a"}, []stretch{{"a", "NULL", "NULL", 4 * time.Hour, 0}}, 0},
		"no data at all":                          {[]string{"a"}, nil, 0},
		"a gap of half an hour an hour ago":       {[]string{"a"}, []stretch{{"a", "1", idle, 4 * time.Hour, 90 * time.Minute}, {"a", "1", idle, time.Hour, 0}}, 0},
		"no data since half an hour":              {[]string{"a"}, []stretch{{"a", "1", idle, 4 * time.Hour, 30 * time.Minute}}, 0},
		"one of two workers without data":         {[]string{"a", "b"}, []stretch{long}, 0},
		"one of two workers busy":                 {[]string{"a", "b"}, []stretch{long, {"b", "5000", busy, 4 * time.Hour, 0}}, 0},
		"a worker that is gone was busy":          {[]string{"a"}, []stretch{long, {"gone", "5000", busy, 4 * time.Hour, 0}}, 4 * time.Hour},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			people := storetest.Fill(t, s, rayslice.Charge{GiB: 100})
			s.KeepUse(rayslice.UseRetention{Raw: 8 * time.Hour})
			r := ready(t, s, people.Ada, 8, tc.workers...)
			storetest.Exec(t, `UPDATE requests SET ready_at = now() - interval '6 hours'`)
			for _, h := range tc.history {
				spread(t, s, r.ID, h.uid, now.Add(-h.from), now.Add(-h.to), h.used, h.percent)
			}
			mustSweep(t, s)
			use, err := s.TeamUse(t.Context(), people.Lea, "vision", now.Add(-time.Hour), now)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == 0 {
				if len(use.Idle) > 0 {
					t.Errorf("named: %+v", use.Idle)
				}
				return
			}
			if len(use.Idle) != 1 || use.Idle[0].RequestID != r.ID || use.Idle[0].Owner != "Ada" || use.Idle[0].Charge.GiB != 8 ||
				now.Sub(use.Idle[0].Since) < tc.want-2*time.Minute || now.Sub(use.Idle[0].Since) > tc.want+2*time.Minute {
				t.Errorf("%+v, want idle for %s", use.Idle, tc.want)
			}
		})
	}
}

// TestB080OwnersHearOfIdleClusters tells an owner once, again when it goes on for long, and never on missing data.
func TestB080OwnersHearOfIdleClusters(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 100})
	s.KeepUse(rayslice.UseRetention{Raw: 24 * time.Hour})
	idle, unknown, short := ready(t, s, people.Ada, 8, "a"), ready(t, s, people.Bob, 8, "b"), ready(t, s, people.Ada, 8, "c")
	storetest.Exec(t, `UPDATE requests SET ready_at = now() - interval '20 hours'`)
	spread(t, s, idle.ID, "a", now.Add(-7*time.Hour), now, "5000", "0")
	spread(t, s, unknown.ID, "b", now.Add(-7*time.Hour), now, "NULL", "NULL")
	spread(t, s, short.ID, "c", now.Add(-5*time.Hour), now, "5000", "0")
	mustSweep(t, s)
	tell := func(want int) {
		t.Helper()
		if n, err := s.TellIdle(t.Context(), rayslice.System); err != nil || n != want {
			t.Errorf("told of %d (%v), want %d", n, err, want)
		}
	}
	tell(1)
	tell(0)
	news := outbox(t)
	if len(news) != 1 || news[0].Code != rayslice.NewsIdle || news[0].RequestID != idle.ID || news[0].For != people.Ada.ID || news[0].Reason.Args["hours"] != 7 {
		t.Errorf("told %+v", news)
	}
	storetest.Exec(t, `UPDATE requests SET told_idle_at = now() - interval '8 hours' WHERE id = $1`, idle.ID)
	tell(1)
	r, err := s.Request(t.Context(), people.Ada, idle.ID)
	if err != nil || r.State != rayslice.StateReady {
		t.Errorf("%s (%v): nothing is stopped", r.State, err)
	}
}

// TestRingSizes compares the rings of the program with those of the migration.
func TestRingSizes(t *testing.T) {
	t.Parallel()
	storetest.New(t)
	for ring, keep := range map[string]struct {
		keep, span time.Duration
	}{
		"use_raw":     {rayslice.MaxUseRetention.Raw, 3 * time.Hour},
		"use_minutes": {rayslice.MaxUseRetention.Minutes, 4 * 24 * time.Hour},
		"use_hours":   {rayslice.MaxUseRetention.Hours, 28 * 24 * time.Hour},
	} {
		var slots int
		storetest.Query(t, &slots, `SELECT count(*) FROM use_slots WHERE ring = $1`, ring)
		if most := time.Duration(slots-2) * keep.span; keep.keep > most { // the present span and the oldest are there in part
			t.Errorf("%s can keep %s, not %s", ring, most, keep.keep)
		}
		if fmt.Sprint(store.RingSlots(ring)) != fmt.Sprint(slots) {
			t.Errorf("%s has %d slots, the program counts %d", ring, slots, store.RingSlots(ring))
		}
	}
}
