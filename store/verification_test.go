package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// running returns a store with a request of Ada's whose cluster runs.
func running(t *testing.T) (*store.Store, storetest.People, rayslice.Request) {
	t.Helper()
	s := storetest.New(t)
	people := storetest.Fill(t, s, rayslice.Charge{GiB: 40})
	r := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	for _, step := range [][2]rayslice.State{{rayslice.StateApproved, rayslice.StateProvisioning}, {rayslice.StateProvisioning, rayslice.StateReady}} {
		if err := s.Move(t.Context(), rayslice.System, r.ID, step[0], step[1], rayslice.Reason{}, "uid"); err != nil {
			t.Fatal(err)
		}
	}
	return s, people, r
}

func certificate(pod, node string, verdict rayslice.Enforcement) rayslice.Certificate {
	return rayslice.Certificate{
		At: time.Now().UTC().Truncate(time.Millisecond), Probe: "1.0.0",
		Target:    rayslice.Target{Pod: "worker-" + pod, PodUID: pod, Node: node, Mode: rayslice.ModeCGPU, Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}},
		Judgement: rayslice.Judgement{Enforcement: verdict},
	}
}

func mustStart(t *testing.T, s *store.Store, id, run string, pods ...string) rayslice.Verification {
	t.Helper()
	v, err := s.StartVerification(t.Context(), rayslice.System, id, run, pods)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOneVerificationAtATime(t *testing.T) {
	s, people, r := running(t)
	first := mustStart(t, s, r.ID, "one", "a", "b")
	if again := mustStart(t, s, r.ID, "two", "c"); cmp.Diff(first, again) != "" {
		t.Errorf("a second portal begins another run: %s", cmp.Diff(first, again))
	}
	if asked, err := s.AskVerification(t.Context(), people.Ada, r.ID); err != nil || asked.Run != "one" {
		t.Errorf("asked while one runs: %+v, %v", asked, err)
	}
	work, err := s.VerificationWork(t.Context(), rayslice.System, r.ID)
	if err != nil || work.Open == nil || work.Off || len(work.Covered) != 0 {
		t.Errorf("work %+v, %v", work, err)
	}
	finish := func(verdict rayslice.Enforcement) {
		t.Helper()
		if err := s.FinishVerification(t.Context(), rayslice.System, "one", rayslice.Reason{}, []rayslice.Certificate{certificate("a", "node-1", verdict)}); err != nil {
			t.Fatal(err)
		}
	}
	finish(rayslice.Enforced)
	finish(rayslice.NotEnforced) // the same run ends once
	certificates, err := s.Certificates(t.Context(), people.Ada, r.ID)
	if err != nil || len(certificates) != 1 || certificates[0].Judgement.Enforcement != rayslice.Enforced || certificates[0].Run != "one" || certificates[0].RequestID != r.ID {
		t.Errorf("certificates %+v, %v", certificates, err)
	}
	work, err = s.VerificationWork(t.Context(), rayslice.System, r.ID)
	if err != nil || work.Open != nil || len(work.Covered) != 2 || work.Covered[0].Pod != "a" || work.Covered[1].Pod != "b" || work.Covered[0].Runs != 1 {
		t.Errorf("afterwards %+v, %v", work, err)
	}
}

func TestVerifyAgain(t *testing.T) {
	s, people, r := running(t)
	mustStart(t, s, r.ID, "one", "a")
	if err := s.FinishVerification(t.Context(), rayslice.System, "one", rayslice.Reason{Code: rayslice.ReasonVerifyLate, Args: map[string]any{"seconds": 90}}, nil); err != nil {
		t.Fatal(err)
	}
	asked, err := s.AskVerification(t.Context(), people.Lea, r.ID)
	if err != nil || asked.By != people.Lea.Name || !asked.StartedAt.IsZero() {
		t.Fatalf("asked %+v, %v", asked, err)
	}
	started := mustStart(t, s, r.ID, "other", "a", "b")
	if started.Run != asked.Run || started.StartedAt.IsZero() || len(started.Pods) != 2 {
		t.Errorf("started %+v", started)
	}
	if err := s.FinishVerification(t.Context(), rayslice.System, asked.Run, rayslice.Reason{}, []rayslice.Certificate{
		certificate("a", "node-1", rayslice.Enforced), certificate("b", "node-2", rayslice.NotEnforced)}); err != nil {
		t.Fatal(err)
	}
	runs, err := s.Verifications(t.Context(), people.Ada, r.ID)
	if err != nil || len(runs) != 2 || runs[0].Run != asked.Run || runs[1].Reason.Code != rayslice.ReasonVerifyLate {
		t.Errorf("runs %+v, %v", runs, err)
	}
	standing, err := s.StandingCertificates(t.Context(), people.Ada, r.ID)
	if err != nil || len(standing) != 2 {
		t.Errorf("standing %+v, %v", standing, err)
	}
	looked := certificate("a", "node-1", rayslice.Inconclusive)
	looked.Judgement.InUse = true
	mustStart(t, s, r.ID, "later", "a")
	if err := s.FinishVerification(t.Context(), rayslice.System, "later", rayslice.Reason{}, []rayslice.Certificate{looked}); err != nil {
		t.Fatal(err)
	}
	if again, err := s.StandingCertificates(t.Context(), people.Ada, r.ID); err != nil || cmp.Diff(standing, again) != "" {
		t.Errorf("a look in use took something back: %s, %v", cmp.Diff(standing, again), err)
	}
	verdicts, err := s.NodeVerdicts(t.Context(), people.Ada)
	if err != nil || len(verdicts) != 2 || verdicts[0].Enforcement != rayslice.Enforced || verdicts[1].Node != "node-2" || verdicts[1].Enforcement != rayslice.NotEnforced {
		t.Errorf("nodes %+v, %v", verdicts, err)
	}
	if n := count(t, `SELECT count(*) FROM river_job WHERE args ->> 'code' = 'not_enforced' AND args ->> 'node' = 'node-2'`); n != 1 {
		t.Errorf("admins told %d times, want once", n)
	}
}

func TestWhoMayVerify(t *testing.T) {
	s, people, r := running(t)
	cases := map[string]struct {
		who  rayslice.User
		want rayslice.Kind
	}{
		"another member": {people.Bob, rayslice.KindForbidden},
		"another team":   {people.Sam, rayslice.KindNotFound},
	}
	for name, c := range cases {
		_, err := s.AskVerification(t.Context(), c.who, r.ID)
		if rayslice.KindOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.StopRequest(t.Context(), people.Ada, r.ID); err != nil {
		t.Fatal(err)
	}
	_, err := s.AskVerification(t.Context(), people.Ada, r.ID)
	if e := refusal(t, err, rayslice.KindConflict); e.Code != "verify_not_running" {
		t.Errorf("of a stopping cluster: %v", e)
	}
}

func TestTheGateCanBeOff(t *testing.T) {
	s, people, _ := running(t)
	draft := storetest.Draft(1, 8)
	draft.Unverified = true
	r := mustCreate(t, s, people.Ada, draft)
	off := func(id string) bool {
		t.Helper()
		work, err := s.VerificationWork(t.Context(), rayslice.System, id)
		if err != nil {
			t.Fatal(err)
		}
		return work.Off
	}
	other := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	if !off(r.ID) || off(other.ID) {
		t.Errorf("by the request: %v, %v", off(r.ID), off(other.ID))
	}
	rules := rayslice.DefaultRules()
	rules.Unverified = true
	if err := s.SetRules(t.Context(), people.Lea, "vision", rules); err != nil {
		t.Fatal(err)
	}
	if !off(other.ID) {
		t.Error("by the team's rules: still on")
	}
}

// A run that is open when its cluster is stopped ends with it, and none begins afterwards.
func TestVerificationEndsWithItsCluster(t *testing.T) {
	s, people, r := running(t)
	mustStart(t, s, r.ID, "one", "a")
	if _, err := s.StopRequest(t.Context(), people.Ada, r.ID); err != nil {
		t.Fatal(err)
	}
	runs, err := s.Verifications(t.Context(), people.Ada, r.ID)
	if err != nil || len(runs) != 1 || runs[0].Open() || runs[0].Reason.Code != rayslice.ReasonVerifyGone {
		t.Errorf("runs %+v, %v", runs, err)
	}
	_, err = s.StartVerification(t.Context(), rayslice.System, r.ID, "two", []string{"a"})
	if e := refusal(t, err, rayslice.KindConflict); e.Code != "verify_not_running" {
		t.Errorf("of a stopping cluster: %v", e)
	}
	if err := s.FinishVerification(t.Context(), rayslice.System, "one", rayslice.Reason{}, []rayslice.Certificate{certificate("a", "n", rayslice.Enforced)}); err != nil {
		t.Fatal(err)
	}
	if found, err := s.Certificates(t.Context(), people.Ada, r.ID); err != nil || len(found) != 0 {
		t.Errorf("certificates of a run that has ended: %+v, %v", found, err)
	}
}

// What the store keeps decides when a pod is looked at again: the number of runs, and why the latest came to no verdict.
func TestCoveredPods(t *testing.T) {
	s, _, r := running(t)
	late, gone := rayslice.Reason{Code: rayslice.ReasonVerifyLate, Args: map[string]any{"seconds": 60}}, rayslice.Reason{Code: rayslice.ReasonVerifyGone}
	unproven := certificate("a", "node-1", rayslice.Inconclusive)
	unproven.Judgement.Reason = rayslice.Reason{Code: rayslice.WhyNeighboursDark}
	for _, run := range []struct {
		name         string
		reason       rayslice.Reason
		certificates []rayslice.Certificate
		want         []rayslice.CoveredPod
	}{
		{"gone", gone, nil, nil},
		{"late", late, nil, []rayslice.CoveredPod{{Pod: "a", Runs: 1, Reason: late}, {Pod: "b", Runs: 1, Reason: late}}},
		{"half", rayslice.Reason{}, []rayslice.Certificate{unproven, certificate("b", "node-1", rayslice.Enforced)},
			[]rayslice.CoveredPod{{Pod: "a", Runs: 2, Reason: unproven.Judgement.Reason}, {Pod: "b", Runs: 2}}},
	} {
		mustStart(t, s, r.ID, run.name, "a", "b")
		if err := s.FinishVerification(t.Context(), rayslice.System, run.name, run.reason, run.certificates); err != nil {
			t.Fatal(err)
		}
		work, err := s.VerificationWork(t.Context(), rayslice.System, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		for i := range work.Covered {
			if time.Since(work.Covered[i].At) > time.Hour {
				t.Errorf("%s: ended at %v", run.name, work.Covered[i].At)
			}
			work.Covered[i].At = time.Time{}
		}
		if diff := cmp.Diff(run.want, work.Covered, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after %s: %s", run.name, diff)
		}
	}
}

// Admins hear of a node once a day, whosever cluster shows it.
func TestToldOncePerNode(t *testing.T) {
	s, people, first := running(t)
	second := mustCreate(t, s, people.Ada, storetest.Draft(1, 8))
	if err := s.Move(t.Context(), rayslice.System, second.ID, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, "uid"); err != nil {
		t.Fatal(err)
	}
	for i, node := range []string{"node-1", "node-1", "node-2", "node-1"} {
		id, run := []string{first.ID, second.ID}[i%2], fmt.Sprintf("run-%d", i)
		mustStart(t, s, id, run, "a")
		if err := s.FinishVerification(t.Context(), rayslice.System, run, rayslice.Reason{}, []rayslice.Certificate{certificate("a", node, rayslice.NotEnforced)}); err != nil {
			t.Fatal(err)
		}
	}
	for node, want := range map[string]int{"node-1": 1, "node-2": 1} {
		if n := count(t, `SELECT count(*) FROM river_job WHERE args ->> 'code' = 'not_enforced' AND args ->> 'node' = '`+node+`'`); n != want {
			t.Errorf("told of %s %d times, want %d", node, n, want)
		}
	}
}

// A certificate is out of date when a later one found another driver on its node.
func TestAnotherDriver(t *testing.T) {
	s, people, r := running(t)
	for i, driver := range []string{"535.161.07", "", "550.90.07"} {
		run, c := fmt.Sprintf("run-%d", i), certificate(fmt.Sprintf("pod-%d", i), "node-1", rayslice.Enforced)
		c.Driver = driver
		mustStart(t, s, r.ID, run, c.Target.PodUID)
		if err := s.FinishVerification(t.Context(), rayslice.System, run, rayslice.Reason{}, []rayslice.Certificate{c}); err != nil {
			t.Fatal(err)
		}
	}
	certificates, err := s.StandingCertificates(t.Context(), people.Ada, r.ID)
	if err != nil || len(certificates) != 3 {
		t.Fatalf("%+v, %v", certificates, err)
	}
	for _, c := range certificates {
		want := rayslice.Enforced
		if c.Driver == "535.161.07" {
			want = rayslice.OutOfDate
		}
		if got := c.Now(c.Target.PodUID, "node-1", c.NodeDriver); got != want {
			t.Errorf("driver %q of %q: %s", c.Driver, c.NodeDriver, got)
		}
	}
}

// TestObserved sums up in a list what the whole certificates say.
func TestObserved(t *testing.T) {
	s, people, r := running(t)
	worker := func(pod string) rayslice.Worker {
		return rayslice.Worker{Name: "worker-" + pod, UID: pod, Node: "node-1", Ready: true, Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1}}
	}
	cluster := rayslice.Cluster{RequestID: r.ID, ObservedAt: time.Now().UTC().Truncate(time.Microsecond), Exists: true, Workers: []rayslice.Worker{worker("a"), worker("b")},
		Head: &rayslice.Worker{Name: "head"}, Problem: rayslice.Reason{Code: rayslice.ReasonWarning, Args: map[string]any{"pods": 2}}}
	runs := 0
	look := func(change func(*rayslice.Certificate), pods ...string) {
		t.Helper()
		var found []rayslice.Certificate
		for _, pod := range pods {
			c := certificate(pod, "node-1", rayslice.Enforced)
			c.Driver = "535.161.07"
			change(&c)
			found = append(found, c)
		}
		runs++
		run := fmt.Sprintf("run-%d", runs)
		mustStart(t, s, r.ID, run, pods...)
		if err := s.FinishVerification(t.Context(), rayslice.System, run, rayslice.Reason{}, found); err != nil {
			t.Fatal(err)
		}
	}
	plain := func(*rayslice.Certificate) {}
	steps := []struct {
		what string
		do   func()
		want rayslice.Badge
	}{
		{"nothing yet", func() {}, rayslice.Badge{Workers: 2}},
		{"one of two", func() { look(plain, "a") }, rayslice.Badge{Enforcement: rayslice.Inconclusive, Workers: 2, Enforced: 1}},
		{"both", func() { look(plain, "a", "b") }, rayslice.Badge{Enforcement: rayslice.Enforced, Workers: 2, Enforced: 2}},
		{"a look in use", func() {
			look(func(c *rayslice.Certificate) {
				c.Judgement = rayslice.Judgement{Enforcement: rayslice.Inconclusive, InUse: true}
			}, "a")
		}, rayslice.Badge{Enforcement: rayslice.Enforced, Workers: 2, Enforced: 2}},
		{"inconclusive", func() {
			look(func(c *rayslice.Certificate) { c.Judgement.Enforcement = rayslice.Inconclusive }, "a")
		}, rayslice.Badge{Enforcement: rayslice.Inconclusive, Workers: 2, Enforced: 1}},
		{"another driver", func() { look(func(c *rayslice.Certificate) { c.Driver = "550.90.07" }, "a") },
			rayslice.Badge{Enforcement: rayslice.OutOfDate, Workers: 2, Enforced: 1}},
		{"no limit", func() { look(func(c *rayslice.Certificate) { c.Judgement.Enforcement = rayslice.NotEnforced }, "b") },
			rayslice.Badge{Enforcement: rayslice.NotEnforced, Workers: 2}},
	}
	if err := s.SaveCluster(t.Context(), rayslice.System, cluster); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		step.do()
		found, err := s.Observed(t.Context(), people.Ada, []string{r.ID})
		if diff := cmp.Diff(store.Observed{Cluster: cluster, Badge: step.want}, found[r.ID]); err != nil || diff != "" {
			t.Errorf("%s (-want +got):\n%s%v", step.what, diff, err)
		}
		badge, err := s.Badge(t.Context(), people.Ada, cluster)
		whole, errWhole := s.Certificates(t.Context(), people.Ada, r.ID)
		if err != nil || errWhole != nil || badge != step.want || badge != rayslice.NewBadge(cluster, rayslice.Standing(whole)) {
			t.Errorf("%s: alone %+v, by whole certificates %+v, %v, %v", step.what, badge, rayslice.NewBadge(cluster, rayslice.Standing(whole)), err, errWhole)
		}
	}
	if _, err := s.StopRequest(t.Context(), people.Ada, r.ID); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, `UPDATE requests SET state = 'stopped' WHERE id = $1`, r.ID)
	if found, err := s.Observed(t.Context(), people.Ada, []string{r.ID}); err != nil || found[r.ID].Badge.Enforcement != "" {
		t.Errorf("once it is over: %+v, %v", found[r.ID].Badge, err)
	}
}
