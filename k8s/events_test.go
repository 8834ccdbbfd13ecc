package k8s

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayslice/rayslice"
)

func podEvent(uid, object string, minute int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{UID: types.UID(uid)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team-vision", Name: object},
		LastTimestamp:  metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute)),
		Type:           corev1.EventTypeWarning, Reason: "Failed", Message: "m " + uid, Count: 2,
	}
}

func TestEventStore(t *testing.T) {
	var woken []string
	s := newEventStore(func(id string) { woken = append(woken, id) })
	feed := s.of("Pod")
	for _, e := range []*corev1.Event{
		podEvent("1", "rs-abcdefghijkl-head-x", 1),
		podEvent("2", "rs-abcdefghijkl-a10-8g-worker-y", 2),
		podEvent("3", "somebody-elses-pod", 3),
		podEvent("4", "rs-abcdefghijklm", 3), // not one of our names
	} {
		if err := feed.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	want := []rayslice.Event{
		{At: noon.Add(2 * time.Minute), Warning: true, Object: "Pod/rs-abcdefghijkl-a10-8g-worker-y", Reason: "Failed", Message: "m 2", Count: 2},
		{At: noon.Add(1 * time.Minute), Warning: true, Object: "Pod/rs-abcdefghijkl-head-x", Reason: "Failed", Message: "m 1", Count: 2},
	}
	if diff := cmp.Diff(want, s.about("team-vision", "abcdefghijkl")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := s.about("team-speech", "abcdefghijkl"); got != nil {
		t.Errorf("events of another namespace: %v", got)
	}
	if diff := cmp.Diff([]string{"abcdefghijkl", "abcdefghijkl"}, woken); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	_ = feed.Delete(podEvent("2", "rs-abcdefghijkl-a10-8g-worker-y", 2))
	_ = s.of("RayCluster").Replace(nil, "") // another kind's list takes nothing away
	if got := s.about("team-vision", "abcdefghijkl"); len(got) != 1 {
		t.Errorf("%d events left, want 1", len(got))
	}
	_ = feed.Replace([]any{podEvent("5", "rs-bbbbbbbbbbbb-head-x", 1)}, "")
	if len(s.by) != 1 || len(s.about("team-vision", "bbbbbbbbbbbb")) != 1 {
		t.Errorf("after a new list: %v", s.by)
	}
}

func TestEventStoreIsBounded(t *testing.T) {
	s := newEventStore(func(string) {})
	for i := range 10 * keptEvents {
		_ = s.of("Pod").Add(podEvent(fmt.Sprint(i), "rs-abcdefghijkl-head-x", i))
	}
	got := s.about("team-vision", "abcdefghijkl")
	if len(got) != maxEvents || got[0].Message != fmt.Sprintf("m %d", 10*keptEvents-1) {
		t.Errorf("%d events, latest %q", len(got), got[0].Message)
	}
	if kept := len(s.by[eventKey{"team-vision", "abcdefghijkl"}]); kept > keptEvents {
		t.Errorf("%d kept", kept)
	}
}

func TestEventTime(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	cases := map[string]struct {
		event corev1.Event
		want  time.Time
	}{
		"old API":           {corev1.Event{LastTimestamp: metav1.NewTime(at(1)), EventTime: metav1.NewMicroTime(at(9))}, at(1)},
		"new API":           {corev1.Event{EventTime: metav1.NewMicroTime(at(2))}, at(2)},
		"new API, repeated": {corev1.Event{EventTime: metav1.NewMicroTime(at(2)), Series: &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(at(4))}}, at(4)},
		"neither":           {corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(5))}}, at(5)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := eventTime(&tc.event); !got.Equal(tc.want) {
				t.Errorf("time %v, want %v", got, tc.want)
			}
		})
	}
}
