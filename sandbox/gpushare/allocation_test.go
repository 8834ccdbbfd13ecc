package gpushare_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice/sandbox/gpushare"
)

func TestAnnotations(t *testing.T) {
	coreMem := gpushare.Node{Cards: 2, Size: gpushare.Share{Memory: 22, Core: 100}}
	tests := map[string]struct {
		node    gpushare.Node
		request gpushare.Request
		cards   []int
		want    map[string]string
	}{
		"memory": {
			node: gpushare.Node{Cards: 1, Size: gpushare.Share{Memory: 15}}, request: memory(8), cards: []int{0},
			want: map[string]string{
				"scheduler.framework.gpushare.allocation":   `{"0":{"0":8}}`,
				"scheduler.framework.gpushare.assigned":     "true",
				"scheduler.framework.gpushare.assume-time":  "1700000000000000001",
				"gpushare.alibabacloud.com/device-resource": `{"0":15}`,
			},
		},
		"memory and compute on the second card": {
			node: coreMem, request: gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: 8, Core: 50}}, Cards: 1}, cards: []int{1},
			want: map[string]string{
				"scheduler.framework.gpushare.allocation":   `{"0":{"1":8}}`,
				"scheduler.framework.gpushare.assigned":     "true",
				"scheduler.framework.gpushare.assume-time":  "1700000000000000001",
				"gpushare.alibabacloud.com/core-percentage": `{"0":{"1":50}}`,
				"gpushare.alibabacloud.com/device-resource": `{"0":22,"1":22}`,
			},
		},
		"one container over two cards": {
			node: coreMem, request: gpushare.Request{Containers: map[int]gpushare.Share{0: {Memory: 8}}, Cards: 2}, cards: []int{0, 1},
			want: map[string]string{
				"scheduler.framework.gpushare.allocation":   `{"0":{"0":4,"1":4}}`,
				"scheduler.framework.gpushare.assigned":     "true",
				"scheduler.framework.gpushare.assume-time":  "1700000000000000001",
				"gpushare.alibabacloud.com/device-resource": `{"0":22,"1":22}`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			allocation := gpushare.Allocate(test.request, test.cards)
			got, err := allocation.Annotations(test.node, time.Unix(1700000000, 1))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			back, ok := gpushare.AllocationOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: got}})
			if diff := cmp.Diff(allocation.PerCard(), back.PerCard()); !ok || diff != "" {
				t.Errorf("read back (-written +read):\n%s", diff)
			}
		})
	}
}

func TestAllocationOfUnreadable(t *testing.T) {
	for _, text := range []string{"", "null and void", `{"0":{"0":"8"}}`, `{"zero":{"0":8}}`, `[8]`} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gpushare.AllocationAnnotation: text}}}
		if got, ok := gpushare.AllocationOf(pod); ok {
			t.Errorf("AllocationOf(%q) = %+v, want none", text, got)
		}
	}
	if _, ok := gpushare.AllocationOf(&corev1.Pod{}); ok {
		t.Error("a pod without annotations has an allocation")
	}
}

func TestConfigYAMLNamesTheKubeconfig(t *testing.T) {
	if got := gpushare.ConfigYAML(`C:\state "1"/kubeconfig`); !strings.Contains(got, `kubeconfig: "C:\\state \"1\"/kubeconfig"`) {
		t.Errorf("no kubeconfig in:\n%s", got)
	}
}
