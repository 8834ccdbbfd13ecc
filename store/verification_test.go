package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	latest, err := s.LatestCertificates(t.Context(), people.Ada, []string{r.ID})
	if err != nil || len(latest[r.ID]) != 2 {
		t.Errorf("latest %+v, %v", latest, err)
	}
	verdicts, err := s.NodeVerdicts(t.Context(), people.Ada)
	if err != nil || len(verdicts) != 2 || verdicts[0].Enforcement != rayslice.Enforced || verdicts[1].Node != "node-2" || verdicts[1].Enforcement != rayslice.NotEnforced {
		t.Errorf("nodes %+v, %v", verdicts, err)
	}
	if n := count(t, `SELECT count(*) FROM river_job WHERE args ->> 'code' = 'not_enforced' AND args -> 'args' ->> 'nodes' = 'node-2'`); n != 1 {
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
