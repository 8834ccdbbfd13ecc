package k8s

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// jobHead is a head whose Jobs API answers as Ray's does: the job is over at the second look.
type jobHead struct {
	mu      sync.Mutex
	jobs    map[string]int // looks by job
	posts   int
	deleted int
	log     func(run string) string
}

func (h *jobHead) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	say := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/jobs/"), "/logs")
	looks, known := h.jobs[id]
	switch {
	case r.Method == http.MethodPost:
		var body struct {
			ID         string `json:"submission_id"`
			Entrypoint string `json:"entrypoint"`
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil || !strings.HasPrefix(body.Entrypoint, "python3 -c ") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.posts++
		h.jobs[body.ID] = 0
		say(map[string]string{"submission_id": body.ID})
	case !known:
		http.Error(w, "Job "+id+" does not exist", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		h.deleted++
		say(map[string]bool{"deleted": true})
	case strings.HasSuffix(r.URL.Path, "/logs"):
		say(map[string]string{"logs": h.log(strings.TrimPrefix(id, "rayslice-verify-"))})
	default:
		h.jobs[id] = looks + 1
		say(map[string]string{"status": []string{"RUNNING", "SUCCEEDED"}[min(1, looks)]})
	}
}

// measured is a document that a real card gave (testdata of the probe), as if it were about the run and the pod.
func measured(t *testing.T, file, run, pod string) string {
	t.Helper()
	raw, err := os.ReadFile("probe/testdata/gpu/" + file + ".log")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), " PROBE "+file+"-----", " PROBE "+run+"-----")
	return strings.ReplaceAll(strings.ReplaceAll(text, `"run": "`+file+`"`, `"run": "`+run+`"`), `"pod": "worker"`, `"pod": "`+pod+`"`)
}

// verifying is a request whose one worker runs on an H200, and a verifier that asks the handler about it.
type verifying struct {
	*verifier
	kept    *store.Store
	people  storetest.People
	request rayslice.Request
	have    rayslice.Cluster
	parts   sync.WaitGroup
	changed chan string
}

func newVerifying(t *testing.T, handler http.HandlerFunc) *verifying {
	t.Helper()
	s := storetest.New(t)
	v := &verifying{kept: s, people: storetest.Fill(t, s, rayslice.Charge{GiB: 40}), changed: make(chan string, 8)}
	created, err := s.CreateRequest(t.Context(), v.people.Ada, storetest.Draft(1, 8), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Move(t.Context(), rayslice.System, created.ID, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, "uid"); err != nil {
		t.Fatal(err)
	}
	if v.request, err = s.Work(t.Context(), rayslice.System, created.ID); err != nil {
		t.Fatal(err)
	}
	neighbours := 0
	v.have = rayslice.Cluster{RequestID: created.ID, Exists: true, Ours: true, HeadAnswers: true, Head: &rayslice.Worker{Name: "head", Ready: true},
		Workers: []rayslice.Worker{{Name: "worker-1", UID: "uid-1", Node: "node-1", Ready: true, Slice: rayslice.Slice{Pool: "h200", GiB: 8, Cards: 1}}}}
	v.verifier = &verifier{
		store: s, jobs: jobs{headsTo(t, handler)}, changed: func(id string) { v.changed <- id }, log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		metrics: newVerifyMetrics(), least: time.Minute, look: func(rayslice.Request) rayslice.Cluster { return v.have }, slots: make(chan struct{}, 1), running: map[string]bool{},
		targets: func(have rayslice.Cluster, _ []string) []rayslice.Target {
			return []rayslice.Target{{Pod: "worker-1", PodUID: "uid-1", Node: "node-1", Mode: rayslice.ModeCGPU, Slice: have.Workers[0].Slice,
				CardGiB: 140, CardMiB: 143771, NeighboursMiB: &neighbours}}
		},
	}
	return v
}

func (v *verifying) look(t *testing.T) rayslice.VerificationState {
	t.Helper()
	state, err := v.see(t.Context(), &v.parts, v.request, v.have)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// certificate waits for the verification that look has begun and returns what it gave.
func (v *verifying) certificate(t *testing.T) rayslice.Certificate {
	t.Helper()
	v.parts.Wait()
	found, err := v.kept.Certificates(t.Context(), rayslice.System, v.request.ID)
	if err != nil || len(found) == 0 {
		t.Fatalf("certificates %+v, %v", found, err)
	}
	return found[0]
}

func TestVerifyBeforeReady(t *testing.T) {
	for file, want := range map[string]rayslice.Enforcement{"unlimited": rayslice.NotEnforced, "mps-default": rayslice.Enforced, "mps-client": rayslice.NotEnforced} {
		t.Run(file, func(t *testing.T) {
			head := &jobHead{jobs: map[string]int{}, log: func(run string) string { return measured(t, file, run, "worker-1") }}
			v := newVerifying(t, head.ServeHTTP)
			if state := v.look(t); state != rayslice.VerificationDue {
				t.Errorf("before: %q", state)
			}
			v.look(t) // a second look while it runs begins nothing
			c := v.certificate(t)
			if c.Judgement.Enforcement != want || c.CardUUID == "" || c.Driver == "" || len(c.Judgement.Rows) < 5 {
				t.Errorf("%+v", c)
			}
			if state := v.look(t); state != rayslice.VerificationDone {
				t.Errorf("afterwards: %q", state)
			}
			if head.posts != 1 || head.deleted != 1 || testutil.ToFloat64(v.metrics.verdicts.WithLabelValues(string(want), "h200")) != 1 {
				t.Errorf("sent %d times, deleted %d times", head.posts, head.deleted)
			}
			if id := <-v.changed; id != v.request.ID {
				t.Errorf("woke %q", id)
			}
		})
	}
}

func TestVerifyWaitsForTheCluster(t *testing.T) {
	cases := map[string]func(v *verifying){
		"the head does not answer": func(v *verifying) { v.have.HeadAnswers = false },
		"a worker is missing":      func(v *verifying) { v.have.Workers = nil },
		"a worker is not ready":    func(v *verifying) { v.have.Workers[0].Ready = false },
		"the cluster goes":         func(v *verifying) { v.have.Deleting = true },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			v := newVerifying(t, func(http.ResponseWriter, *http.Request) { t.Error("asked the head") })
			change(v)
			if state := v.look(t); state != "" {
				t.Errorf("state %q", state)
			}
			v.parts.Wait()
		})
	}
}

func TestVerificationThatBringsNothing(t *testing.T) { // every fault ends as inconclusive, with its reason
	noise := strings.Repeat("[core-lib msg] noise\n", 10<<20/21)
	half := func(text string) string { return text[:len(text)/2] }
	logs := map[string]struct {
		log    func(t *testing.T, run string) string
		reason string
		want   rayslice.Enforcement
	}{
		"noise before the document": {func(t *testing.T, run string) string { return noise + measured(t, "mps-default", run, "worker-1") }, "", rayslice.Enforced},
		"10 MB of noise only":       {func(*testing.T, string) string { return noise }, rayslice.ReasonVerifyNoAnswer, rayslice.Inconclusive},
		"half a document":           {func(t *testing.T, run string) string { return half(measured(t, "mps-default", run, "worker-1")) }, rayslice.ReasonVerifyNoAnswer, rayslice.Inconclusive},
		"another run's document":    {func(t *testing.T, _ string) string { return measured(t, "mps-default", "other", "worker-1") }, rayslice.ReasonVerifyNoAnswer, rayslice.Inconclusive},
		"another worker's document": {func(t *testing.T, run string) string { return measured(t, "mps-default", run, "worker-2") }, rayslice.WhyNoEvidence, rayslice.Inconclusive},
	}
	for name, tc := range logs {
		t.Run(name, func(t *testing.T) {
			head := &jobHead{jobs: map[string]int{}, log: func(run string) string { return tc.log(t, run) }}
			v := newVerifying(t, head.ServeHTTP)
			v.look(t)
			if c := v.certificate(t); c.Judgement.Enforcement != tc.want || c.Judgement.Reason.Code != tc.reason {
				t.Errorf("%s because of %+v", c.Judgement.Enforcement, c.Judgement.Reason)
			}
			if v.look(t) != rayslice.VerificationDone {
				t.Error("the cluster still waits")
			}
		})
	}
	answers := map[string]http.HandlerFunc{
		"another version of Ray": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				http.Error(w, "Traceback\nTypeError: unexpected keyword", http.StatusBadRequest)
				return
			}
			http.NotFound(w, r)
		},
	}
	for name, handler := range answers {
		t.Run(name, func(t *testing.T) {
			v := newVerifying(t, handler)
			v.look(t)
			c := v.certificate(t)
			if c.Judgement.Reason.Code != rayslice.ReasonVerifyNoJobs || !strings.Contains(c.Judgement.Reason.Detail, "TypeError") {
				t.Errorf("%+v", c.Judgement.Reason)
			}
		})
	}
}

func TestJobThatNeverEnds(t *testing.T) {
	v := newVerifying(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"RUNNING"}`)
	})
	limited, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	_, reason := v.jobs.ask(limited, HeadAddress{}, "run", nil, time.Minute)
	if reason.Code != rayslice.ReasonVerifyLate {
		t.Errorf("%+v", reason)
	}
}

func TestAnotherReplicaGoesOn(t *testing.T) { // kill -9 after the job was sent
	head := &jobHead{jobs: map[string]int{}, log: func(run string) string { return measured(t, "mps-default", run, "worker-1") }}
	v := newVerifying(t, head.ServeHTTP)
	run, err := v.store.StartVerification(t.Context(), rayslice.System, v.request.ID, "first", []string{"uid-1"})
	if err != nil {
		t.Fatal(err)
	}
	head.jobs[submissionID(run.Run)] = 0
	if state := v.look(t); state != rayslice.VerificationDue {
		t.Errorf("state %q", state)
	}
	if c := v.certificate(t); c.Run != "first" || c.Judgement.Enforcement != rayslice.Enforced || head.posts != 0 {
		t.Errorf("run %q, %s, sent %d times more", c.Run, c.Judgement.Enforcement, head.posts)
	}
}

func TestVerifyOnlyWhenAsked(t *testing.T) {
	head := &jobHead{jobs: map[string]int{}, log: func(run string) string { return measured(t, "mps-default", run, "worker-1") }}
	v := newVerifying(t, head.ServeHTTP)
	v.off = true
	if state := v.look(t); state != rayslice.VerificationOff {
		t.Errorf("state %q", state)
	}
	v.parts.Wait()
	if head.posts != 0 {
		t.Error("verified by itself")
	}
	if _, err := v.kept.AskVerification(t.Context(), v.people.Ada, v.request.ID); err != nil {
		t.Fatal(err)
	}
	v.look(t)
	if c := v.certificate(t); c.Judgement.Enforcement != rayslice.Enforced {
		t.Errorf("%+v", c.Judgement)
	}
}

// A run that was asked for ends where the cluster cannot be verified for long.
func TestAskedForInVain(t *testing.T) {
	v := newVerifying(t, func(http.ResponseWriter, *http.Request) { t.Error("asked the head") })
	v.have.HeadAnswers = false
	if _, err := v.kept.AskVerification(t.Context(), v.people.Ada, v.request.ID); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		ago  string
		open bool
	}{{"5 min", true}, {"11 min", false}} {
		storetest.Exec(t, `UPDATE verifications SET asked_at = now() - $1::interval`, step.ago)
		v.look(t)
		runs, err := v.kept.Verifications(t.Context(), v.people.Ada, v.request.ID)
		if err != nil || len(runs) != 1 || runs[0].Open() != step.open {
			t.Errorf("after %s: %+v, %v", step.ago, runs, err)
		}
	}
}
