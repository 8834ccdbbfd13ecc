package k8s

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
)

var useCatalogue = rayslice.Catalogue{Pools: []rayslice.Pool{
	{Name: "a10", Mode: rayslice.ModeCGPU, CardGiB: 22, CardMiB: 23028, MaxCards: 2},
	{Name: "a100", Mode: rayslice.ModeWhole, CardGiB: 80, CardMiB: 81920},
}}

// useWorker is a running worker of 8 GiB of an A10.
func useWorker(n int, change ...func(*rayslice.Worker)) rayslice.Worker {
	w := rayslice.Worker{
		Name: fmt.Sprintf("w-%d", n), UID: fmt.Sprintf("uid-%d", n), IP: fmt.Sprintf("10.0.0.%d", n), Node: "gpu-1",
		Phase: rayslice.PodRunning, Slice: rayslice.Slice{Pool: "a10", GiB: 8, Cards: 1},
	}
	for _, f := range change {
		f(&w)
	}
	return w
}

func useSubject(workers ...rayslice.Worker) subject {
	return subject{
		UseTarget: rayslice.UseTarget{RequestID: "abcdefghijkl", Namespace: "team-vision"},
		Running: Running{Known: true, Head: &rayslice.Worker{Name: "h", UID: "uid-h", IP: "10.0.0.100", Phase: rayslice.PodRunning},
			Workers: workers},
		catalogue: useCatalogue,
	}
}

// rayNode is one entry of a head's list.
func rayNode(ip, state, gpus string) string {
	return fmt.Sprintf(`{"ip": %q, "hostname": "x", "raylet": {"state": %q}%s}`, ip, state, gpus)
}

func rayList(nodes ...string) string {
	return `{"result": true, "msg": "", "data": {"summary": [` + strings.Join(nodes, ",") + `], "nodeLogicalResources": {}}}`
}

func rayGPUs(cards ...string) string { return `, "gpus": [` + strings.Join(cards, ",") + `]` }

func rayGPU(uuid string, used, total, percent any) string {
	return fmt.Sprintf(`{"index": 0, "name": "NVIDIA A10", "uuid": %q, "memoryUsed": %v, "memoryTotal": %v, "utilizationGpu": %v, "processesPids": null}`, uuid, used, total, percent)
}

func TestReadNodes(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	slice := func(n int, gpu string, used, limit int, percent float64) rayslice.Sample {
		return rayslice.Sample{RequestID: "abcdefghijkl", PodUID: fmt.Sprintf("uid-%d", n), Pod: fmt.Sprintf("w-%d", n), GPU: gpu, At: now, Source: rayslice.UseFromRay,
			UsedMiB: &used, LimitMiB: &limit, MemoryGrade: rayslice.GradeSlice, Percent: &percent, Grade: rayslice.GradeCard}
	}
	change := func(s rayslice.Sample, f func(*rayslice.Sample)) rayslice.Sample { f(&s); return s }
	unknown := change(slice(1, "", 0, 0, 0), func(s *rayslice.Sample) {
		s.UsedMiB, s.LimitMiB, s.Percent, s.MemoryGrade = nil, nil, nil, rayslice.GradeCard
	})
	whole := func(w *rayslice.Worker) { w.Slice = rayslice.Slice{Pool: "a100", Cards: 1} }
	two := func(w *rayslice.Worker) { w.Slice.Cards = 2 }
	for name, tc := range map[string]struct {
		workers     []rayslice.Worker
		body        string
		want        []rayslice.Sample
		wantDropped int
	}{
		"one slice": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 4329, 8373, 41)))),
			[]rayslice.Sample{slice(1, "GPU-a", 4329, 8373, 41)}, 0},
		"B013 two slices of one card": {[]rayslice.Worker{useWorker(1), useWorker(2)}, rayList(
			rayNode("10.0.0.2", "ALIVE", rayGPUs(rayGPU("GPU-a", 100, 8373, 41))), rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 4329, 8373, 41)))),
			[]rayslice.Sample{slice(1, "GPU-a", 4329, 8373, 41), slice(2, "GPU-a", 100, 8373, 41)}, 0},
		"idle is zero": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 0, 8373, 0)))),
			[]rayslice.Sample{slice(1, "GPU-a", 0, 8373, 0)}, 0},
		"the head's cards and pods of others are nobody's": {[]rayslice.Worker{useWorker(1)}, rayList(
			rayNode("10.0.0.100", "ALIVE", rayGPUs(rayGPU("GPU-h", 1, 23028, 1))), rayNode("10.9.9.9", "ALIVE", rayGPUs(rayGPU("GPU-x", 1, 2, 3))),
			rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 4329, 8373, 41)))),
			[]rayslice.Sample{slice(1, "GPU-a", 4329, 8373, 41)}, 0},
		"C.1 the dead say nothing": {[]rayslice.Worker{useWorker(1)}, rayList(
			rayNode("10.0.0.1", "DEAD", rayGPUs(rayGPU("GPU-a", 8000, 8373, 99))), rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 4329, 8373, 41)))),
			[]rayslice.Sample{slice(1, "GPU-a", 4329, 8373, 41)}, 0},
		"C.1 only the dead":           {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "DEAD", rayGPUs(rayGPU("GPU-a", 8000, 8373, 99)))), []rayslice.Sample{unknown}, 0},
		"C.1 no gpus is not zero":     {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", "")), []rayslice.Sample{unknown}, 0},
		"gpus null":                   {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", `, "gpus": null`)), []rayslice.Sample{unknown}, 0},
		"gpus empty":                  {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs())), []rayslice.Sample{unknown}, 0},
		"a worker that is not listed": {[]rayslice.Worker{useWorker(1)}, rayList(), []rayslice.Sample{unknown}, 0},
		"two pods with one address": {[]rayslice.Worker{useWorker(1), useWorker(2, func(w *rayslice.Worker) { w.IP = "10.0.0.1" })},
			rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 1, 8373, 1)))),
			[]rayslice.Sample{unknown, change(unknown, func(s *rayslice.Sample) { s.Pod, s.PodUID = "w-2", "uid-2" })}, 0},
		"utilisation not said": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 4329, 8373, -1)))),
			[]rayslice.Sample{change(slice(1, "GPU-a", 4329, 8373, 0), func(s *rayslice.Sample) { s.Percent = nil })}, 0},
		"utilisation null": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 4329, 8373, "null")))),
			[]rayslice.Sample{change(slice(1, "GPU-a", 4329, 8373, 0), func(s *rayslice.Sample) { s.Percent = nil })}, 0},
		"B044 more than the card has": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 17592186044134, 8373, 41)))),
			[]rayslice.Sample{change(slice(1, "GPU-a", 0, 8373, 41), func(s *rayslice.Sample) { s.UsedMiB = nil })}, 1},
		"T28 words for numbers": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", `"[N/A]"`, 8373, `{"a": 1}`)))),
			[]rayslice.Sample{change(slice(1, "GPU-a", 0, 8373, 0), func(s *rayslice.Sample) { s.UsedMiB, s.Percent = nil, nil })}, 2},
		"no wall: the card's own": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 14329, 23028, 41)))),
			[]rayslice.Sample{change(slice(1, "GPU-a", 14329, 23028, 41), func(s *rayslice.Sample) { s.MemoryGrade = rayslice.GradeCard })}, 0},
		"a whole card is the worker's own": {[]rayslice.Worker{useWorker(1, whole)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 14329, 81920, 41)))),
			[]rayslice.Sample{change(slice(1, "GPU-a", 14329, 81920, 41), func(s *rayslice.Sample) { s.Grade = rayslice.GradeSlice })}, 0},
		"slices of two cards": {[]rayslice.Worker{useWorker(1, two)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-b", 10, 8373, 1), rayGPU("GPU-a", 20, 8373, 2)))),
			[]rayslice.Sample{slice(1, "GPU-a", 20, 8373, 2), slice(1, "GPU-b", 10, 8373, 1)}, 0},
		"B043 two cards held, one listed": {[]rayslice.Worker{useWorker(1, two)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 9000, 16746, 2)))),
			[]rayslice.Sample{change(slice(1, "", 9000, 0, 0), func(s *rayslice.Sample) { s.LimitMiB, s.Percent, s.MemoryGrade = nil, nil, rayslice.GradeCard })}, 0},
		"one card listed twice": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 4329, 8373, 41), rayGPU("GPU-a", 4329, 8373, 41)))),
			[]rayslice.Sample{slice(1, "GPU-a", 4329, 8373, 41)}, 0},
		"a name that is no name": {[]rayslice.Worker{useWorker(1)}, rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU\u202e"+strings.Repeat("a", 200), 4329, 8373, 41)))),
			[]rayslice.Sample{slice(1, "GPU"+strings.Repeat("a", 97), 4329, 8373, 41)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := readNodes([]byte(tc.body), useSubject(tc.workers...), now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, found.sorted()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if found.dropped != tc.wantDropped || !found.at.Equal(now) {
				t.Errorf("dropped %d at %v, want %d", found.dropped, found.at, tc.wantDropped)
			}
		})
	}
}

func FuzzReadNodes(f *testing.F) {
	f.Add([]byte(rayList(rayNode("10.0.0.1", "ALIVE", rayGPUs(rayGPU("GPU-a", 17592186044134, 8373, -1), rayGPU("GPU-b", "null", `"x"`, 1e300))))))
	f.Add([]byte(`{"data": {"summary": [null, {"ip": "10.0.0.1", "gpus": [null]}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		found, err := readNodes(body, useSubject(useWorker(1), useWorker(2)), time.Unix(1, 0))
		if err != nil {
			return
		}
		for _, s := range found.samples {
			if s.UsedMiB != nil && (*s.UsedMiB < 0 || *s.UsedMiB > rayslice.MaxCardMiB || s.LimitMiB != nil && *s.UsedMiB > *s.LimitMiB) {
				t.Errorf("uses %d MiB", *s.UsedMiB)
			}
			if s.Percent != nil && !(*s.Percent >= 0 && *s.Percent <= 100) {
				t.Errorf("%v %%", *s.Percent)
			}
			if s.PodUID != "uid-1" && s.PodUID != "uid-2" {
				t.Errorf("says something about %q", s.PodUID)
			}
		}
	})
}

// TestRayUsageProblems asks heads that do what no head should.
func TestRayUsageProblems(t *testing.T) {
	body := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(text))
		}
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    rayslice.Reason
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, rayslice.Reason{Code: ReasonUseHeadSilent}},
		"stops in the middle": {func(w http.ResponseWriter, r *http.Request) {
			body("application/json", `{"data": {"summary": [`)(w, nil)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, rayslice.Reason{Code: ReasonUseHeadSilent}},
		"sends without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				if _, err := w.Write([]byte(strings.Repeat(`{"a": 1}, `, 1000))); err != nil {
					return
				}
			}
		}, rayslice.Reason{Code: ReasonUseAnswerTooLarge, Args: map[string]any{"kib": int64(320)}}},
		"sends us astray": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, rayslice.Reason{Code: ReasonUseHeadRefused, Args: map[string]any{"status": 302}}},
		"wants a token":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, rayslice.Reason{Code: ReasonUseHeadRefused, Args: map[string]any{"status": 401}}},
		"sends HTML":       {body("text/html", `<!doctype html>`), rayslice.Reason{Code: ReasonUseAnswerUnreadable}},
		"HTML called JSON": {body("application/json", `<!doctype html>`), rayslice.Reason{Code: ReasonUseAnswerUnreadable}},
		"another JSON":     {body("application/json", `{"result": false, "msg": "no", "data": {}}`), rayslice.Reason{Code: ReasonUseAnswerUnreadable}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := &rayUsage{heads: headsTo(t, tc.handler)}
			began := time.Now()
			_, err := source.read(t.Context(), useSubject(useWorker(1)), 0)
			var why *useError
			if !errors.As(err, &why) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, why.Reason); diff != "" {
				t.Errorf("-want +got:\n%s\n%v", diff, err)
			}
			if took := time.Since(began); took > headTimeout+2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("no head", func(t *testing.T) {
		of := useSubject(useWorker(1))
		of.Head = nil
		_, err := (&rayUsage{}).read(t.Context(), of, 0)
		var why *useError
		if !errors.As(err, &why) || why.Reason.Code != ReasonUseNoHead {
			t.Errorf("error %v", err)
		}
	})
}
