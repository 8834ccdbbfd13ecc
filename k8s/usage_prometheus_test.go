package k8s

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayslice/rayslice"
)

// startPrometheus runs Debian's Prometheus on loopback, scraping the exporter every second, and returns its address.
func startPrometheus(t *testing.T, exporter string) string {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal("prometheus is not installed: CI needs it (.ci/install prometheus)")
	default:
		t.Skip("prometheus is not installed: .ci/install prometheus")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	dir := t.TempDir()
	config := fmt.Sprintf("scrape_configs:\n- job_name: gpu\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  static_configs: [{targets: [%q]}]\n", strings.TrimPrefix(exporter, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		_ = output.Close()
		if text, _ := os.ReadFile(output.Name()); t.Failed() {
			t.Logf("prometheus says:\n%s", text)
		}
	})
	return "http://" + address
}

// exporterOf is an exporter with the labels and names of one preset.
type exporterOf struct {
	names    SeriesNames
	registry *prometheus.Registry
	gauges   map[string]*prometheus.GaugeVec
}

func newExporter(t *testing.T, preset string) (*exporterOf, string) {
	t.Helper()
	names, err := Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	e := &exporterOf{names: names, registry: prometheus.NewRegistry(), gauges: map[string]*prometheus.GaugeVec{}}
	server := httptest.NewServer(promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return e, server.URL
}

// set sets a series of one process in one pod; pod "" makes one of the card alone.
func (e *exporterOf) set(series, pod, gpu, process string, value float64) {
	g := e.gauges[series]
	if g == nil {
		g = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: series, Help: series}, []string{e.names.Namespace, e.names.Pod, e.names.GPU, "process"})
		e.gauges[series] = g
		e.registry.MustRegister(g)
	}
	namespace := "team-vision"
	if pod == "" {
		namespace = ""
	}
	g.WithLabelValues(namespace, pod, gpu, process).Set(value)
}

func newTestUsage(t *testing.T, url, preset string) (*prometheusUsage, prometheus.Gauge) {
	t.Helper()
	unattributed := prometheus.NewGauge(prometheus.GaugeOpts{Name: "unattributed"})
	names, err := Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPrometheusUsage(PrometheusConfig{URL: url, Names: names}, unattributed)
	if err != nil {
		t.Fatal(err)
	}
	return p, unattributed
}

// TestPrometheusUsage reads use from a real Prometheus that scrapes an exporter of each kind.
func TestPrometheusUsage(t *testing.T) {
	for preset, tc := range map[string]struct {
		fill             func(e *exporterOf)
		used, limit      int // of w-1; 0 = not known
		percent          float64
		memoryGrade      rayslice.Grade
		grade            rayslice.Grade
		wantUnattributed float64
	}{
		"ack": {func(e *exporterOf) {
			e.set("DCGM_CUSTOM_PROCESS_MEM_USED", "w-1", "GPU-a", "1", 4000)
			e.set("DCGM_CUSTOM_PROCESS_MEM_USED", "w-1", "GPU-a", "2", 329)
			e.set("DCGM_CUSTOM_PROCESS_SM_UTIL", "w-1", "GPU-a", "1", 41)
			e.set("DCGM_FI_DEV_FB_USED", "", "GPU-a", "", 20000)
		}, 4329, 0, 41, rayslice.GradeProcess, rayslice.GradeProcess, 1},
		"dcgm": {func(e *exporterOf) {
			for _, pod := range []string{"w-1", "w-9"} {
				e.set("DCGM_FI_DEV_FB_USED", pod, "GPU-a", "", 9000)
				e.set("DCGM_FI_DEV_FB_FREE", pod, "GPU-a", "", 14028)
				e.set("DCGM_FI_DEV_GPU_UTIL", pod, "GPU-a", "", 71)
			}
		}, 9000, 23028, 71, rayslice.GradeCard, rayslice.GradeCard, 0},
		"hami": {func(e *exporterOf) {
			e.set("hami_vgpu_memory_used_bytes", "w-1", "GPU-a", "", 4329<<20)
			e.set("hami_vgpu_memory_limit_bytes", "w-1", "GPU-a", "", 8192<<20)
			e.set("hami_container_device_utilization_ratio", "w-1", "GPU-a", "", 41)
		}, 4329, 8192, 41, rayslice.GradeSlice, rayslice.GradeSlice, 0},
	} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			exporter, url := newExporter(t, preset)
			tc.fill(exporter)
			source, unattributed := newTestUsage(t, startPrometheus(t, url), preset)
			whole := useWorker(2, func(w *rayslice.Worker) { w.Slice = rayslice.Slice{Pool: "a100", Cards: 1} })
			of := useSubject(useWorker(1), whole)
			var found finding
			soon(t, "figures from Prometheus", func() bool {
				var err error
				found, err = source.read(t.Context(), of, 0)
				return err == nil && found.samples[0].UsedMiB != nil && found.samples[0].Percent != nil
			})
			first, second := found.sorted()[0], found.samples[1]
			if first.PodUID != "uid-1" || first.GPU != "GPU-a" || first.Source != rayslice.UseFromPrometheus || *first.UsedMiB != tc.used || *first.Percent != tc.percent ||
				first.MemoryGrade != tc.memoryGrade || first.Grade != tc.grade || (first.LimitMiB == nil) != (tc.limit == 0) || first.LimitMiB != nil && *first.LimitMiB != tc.limit {
				t.Errorf("w-1: %+v", first)
			}
			if age := time.Since(first.At); age < 0 || age > 10*time.Second || !found.at.Equal(first.At) {
				t.Errorf("read %v ago, found at %v", age, found.at)
			}
			if second.PodUID != "uid-2" || second.UsedMiB != nil || second.Percent != nil || second.LimitMiB != nil { // B050
				t.Errorf("a whole card without series: %+v", second)
			}
			if n := testutil.ToFloat64(unattributed); n != tc.wantUnattributed { // B056
				t.Errorf("%v series of nobody, want %v", n, tc.wantUnattributed)
			}
		})
	}
}

// TestPrometheusIsAskedOnce counts what reaches the server: one question per series, however many clusters there are.
func TestPrometheusIsAskedOnce(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status": "success", "data": {"resultType": "matrix", "result": []}}`))
	}))
	t.Cleanup(server.Close)
	source, _ := newTestUsage(t, server.URL, "hami")
	for range 50 {
		_, err := source.read(t.Context(), useSubject(useWorker(1)), time.Minute)
		var why *useError
		if !errors.As(err, &why) || why.Reason.Code != ReasonUseNoSeries { // B050
			t.Fatalf("error %v", err)
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("asked %d times for 50 clusters, want one for each of 3 series", n)
	}
}

// TestPrometheusThatFailsIsAskedOnce lets no cluster wait for a server that has just not answered another.
func TestPrometheusThatFailsIsAskedOnce(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	source, _ := newTestUsage(t, server.URL, "hami")
	for range 50 {
		if _, err := source.read(t.Context(), useSubject(useWorker(1)), time.Minute); err == nil {
			t.Fatal("no error")
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times for 50 clusters", n)
	}
}

func TestPrometheusProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client has gone
			<-r.Context().Done()
		}, ReasonUseSourceSilent},
		"refuses":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, ReasonUseSourceRefused},
		"no such API": {http.NotFound, ReasonUseSourceRefused},
		"HTML":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<!doctype html>")) }, ReasonUseSourceRefused},
		"another result": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}}`))
		}, ReasonUseAnswerUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.handler)
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			source, _ := newTestUsage(t, server.URL, "hami")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := source.read(ctx, useSubject(useWorker(1)), time.Minute)
			var why *useError
			if !errors.As(err, &why) || why.Reason.Code != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}
