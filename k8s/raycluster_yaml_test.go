package k8s

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestNodesWriteWhatYAMLWrites compares what is written without asking yaml with what yaml itself writes.
func TestNodesWriteWhatYAMLWrites(t *testing.T) {
	values := []any{
		"name", "ray-head", "aliyun.com/gpu-mem", "rayproject/ray:2.52.0-py311", "Exists", "spec", "a:b:c",
		"y", "N", "yes", "No", "on", "OFF", "true", "False", "null", "NULL", "nan", "inf", "Infinity", "e5", "E10", "x1F", "a:", ":a", "a: b",
		"", "~", "0", "8", "08", "1e3", "0x1f", "1:30", "2026-12-01", "8Gi", "0.0.0.0", ".inf", "-", "- a", "a #b", "'{\"slice_gib\":8}'",
		true, false, int64(0), int64(-7), int64(1 << 40),
	}
	for _, value := range values {
		node, err := nodeOf(value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := yaml.Marshal(node)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := yaml.Marshal(value); err != nil || string(got) != string(want) {
			t.Errorf("%v is written %q, yaml writes %q, %v", value, got, want, err)
		}
	}
}
