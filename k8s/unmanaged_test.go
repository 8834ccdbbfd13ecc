package k8s

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
)

func TestUnmanaged(t *testing.T) { // B082
	made := func(name, owner string, minutes int, limits corev1.ResourceList) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "team-vision", CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(minutes) * time.Minute)),
		}}
		p.Spec.Containers = []corev1.Container{{Name: "x", Resources: corev1.ResourceRequirements{Limits: limits}}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "RayCluster", Name: owner, Controller: new(true)}}
		}
		return p
	}
	gib := func(n string) corev1.ResourceList { return corev1.ResourceList{ResourceGPUMem: resource.MustParse(n)} }
	ended := made("done", "", 90, gib("8"))
	ended.Status.Phase = corev1.PodSucceeded
	elsewhere := made("elsewhere", "", 1, gib("8"))
	elsewhere.Namespace = "team-speech"
	got := unmanaged("vision", "team-vision", foreigners(t,
		made("job-w-1", "job-x7k2p", 5, gib("8")),
		made("notebook", "", 60, nil),
		made("bare", "", 30, corev1.ResourceList{ResourceGPU: resource.MustParse("2")}),
		made("job-w-2", "job-x7k2p", 7, gib("8")),
		ended, elsewhere,
	))
	want := []rayslice.Unmanaged{
		{Team: "vision", Namespace: "team-vision", Object: "Pod/bare", Pods: 1, Charge: rayslice.Charge{Cards: 2}, CreatedAt: noon.Add(-30 * time.Minute)},
		{Team: "vision", Namespace: "team-vision", Object: "RayCluster/job-x7k2p", Pods: 2, Charge: rayslice.Charge{GiB: 16}, CreatedAt: noon.Add(-7 * time.Minute)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
