package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

func TestPrometheusNames(t *testing.T) {
	good := "namespace: ns\npod: pod\ngpu: uuid\nused:\n- {name: used_bytes, factor: 0.5, grade: slice}\n"
	for name, tc := range map[string]struct {
		config    Config
		file      string // "" = none
		want      *k8s.PrometheusConfig
		wantError string
	}{
		"heads":                       {Config{UsageSource: "ray", PrometheusURL: "http://p"}, "", nil, ""},
		"names of a file":             {Config{UsageSource: "prometheus", PrometheusURL: "http://p"}, good, &k8s.PrometheusConfig{URL: "http://p", Names: k8s.SeriesNames{Namespace: "ns", Pod: "pod", GPU: "uuid", Used: []k8s.Series{{Name: "used_bytes", Factor: .5, Grade: rayslice.GradeSlice}}}}, ""},
		"a field with a typing error": {Config{UsageSource: "prometheus"}, good + "limits: []\n", nil, `unknown field "limits"`},
		"a factor that is no number":  {Config{UsageSource: "prometheus"}, strings.Replace(good, "0.5", "half", 1), nil, "used.factor: must be a number, is string"},
		"an unknown grade":            {Config{UsageSource: "prometheus"}, strings.Replace(good, "slice}", "pod}", 1), nil, "used[0].grade: must be process, slice or card"},
		"a file of nowhere":           {Config{UsageSource: "prometheus", PrometheusNames: "nowhere.yaml"}, "", nil, "RAYSLICE_PROMETHEUS_NAMES: open nowhere.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.file != "" {
				tc.config.PrometheusNames = filepath.Join(t.TempDir(), "names.yaml")
				if err := os.WriteFile(tc.config.PrometheusNames, []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := tc.config.prometheus()
			if (err == nil) != (tc.wantError == "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Fatalf("error %v, want %q", err, tc.wantError)
			}
			if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, preset := range []string{"ack", "dcgm", "hami"} {
		got, err := Config{UsageSource: "prometheus", PrometheusPreset: preset}.prometheus()
		if err != nil || len(got.Names.Used) == 0 {
			t.Errorf("%s: %+v, %v", preset, got, err)
		}
	}
}
