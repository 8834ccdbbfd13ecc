package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	rayinformers "github.com/ray-project/kuberay/ray-operator/pkg/client/informers/externalversions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// The tests below run the program itself on the sandbox's real control plane, KubeRay and Postgres.

// TestKillNine kills the portal at many points of many clusters' lives (T06). Nothing may be lost, done twice or left over.
func TestKillNine(t *testing.T) {
	t.Parallel()
	i := install(t)
	objects := i.watchObjects()
	var ids []string
	for n, delay := range killDelays {
		key, draft := fmt.Sprintf("kill-%d", n), draftOf(fmt.Sprintf("kill-%d", n), 2)
		ids = append(ids, i.callAndKill("/api/v1/requests", key, draft, delay).ID)
	}
	for range 8 {
		i.leadAndKill(150 * time.Millisecond)
	}
	i.start()
	i.leads()
	i.kill() // and its Lease stays: this once it has to run out
	i.start()
	for _, id := range ids {
		i.untilState(id, rayslice.StateReady)
	}
	i.kill()
	i.dropLease()
	for n, delay := range killDelays {
		i.callAndKill("/api/v1/requests/"+ids[n]+"/stop", "", "", delay)
	}
	i.start()
	for _, id := range ids {
		i.untilState(id, rayslice.StateStopped)
	}

	i.checkNothingLeft()
	for _, id := range ids {
		request := i.request(id)
		if diff := cmp.Diff([]types.UID{types.UID(request.ClusterUID)}, objects.of(id)); diff != "" {
			t.Errorf("objects of %s (-recorded +seen):\n%s", id, diff)
		}
		i.checkAudit(id)
	}
	requests, err := i.store.LiveRequests(t.Context(), rayslice.System)
	i.must(err)
	if len(requests) != len(ids) { // those that stopped in the last hour are looked at too
		t.Errorf("%d requests, want %d", len(requests), len(ids))
	}
}

// killDelays are how long after a request to the API its portal dies. Other clusters start or stop meanwhile, so each
// kill hits them at other points.
var killDelays = []time.Duration{
	0, 2 * time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond, 40 * time.Millisecond,
	150 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond,
}

// callAndKill sends a POST and kills the portal that long after. Where that cost the answer, it asks the next portal
// again, as a client does.
func (i *installation) callAndKill(path, key, body string, delay time.Duration) answer {
	i.Helper()
	i.start()
	i.leads()
	answers := make(chan answer, 1)
	go func() {
		got, err := i.call(http.MethodPost, path, key, body)
		if err != nil {
			got = answer{}
		}
		answers <- got
	}()
	<-time.After(delay)
	i.kill()
	i.dropLease()
	got := <-answers
	if got.ID == "" {
		i.start()
		var err error
		got, err = i.call(http.MethodPost, path, key, body)
		i.must(err)
		i.kill()
		i.dropLease()
	}
	if got.ID == "" {
		i.Fatalf("POST %s: %+v", path, got)
	}
	return got
}

// leadAndKill runs a portal that dies a while after it began to reconcile.
func (i *installation) leadAndKill(after time.Duration) {
	i.Helper()
	i.start()
	i.leads()
	<-time.After(after)
	i.kill()
	i.dropLease()
}

// sightings are the RayClusters that ever existed, by request.
type sightings struct {
	mu   sync.Mutex
	uids map[string][]types.UID
}

func (s *sightings) of(id string) []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uids[id]
}

// watchObjects notes every RayCluster of the team's namespace, beside the portal.
func (i *installation) watchObjects() *sightings {
	i.Helper()
	s := &sightings{uids: map[string][]types.UID{}}
	factory := rayinformers.NewSharedInformerFactoryWithOptions(i.ray, 0, rayinformers.WithNamespace(i.namespace))
	_, err := factory.Ray().V1().RayClusters().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		cluster := object.(*rayv1.RayCluster)
		s.mu.Lock()
		defer s.mu.Unlock()
		id := cluster.Labels[k8s.LabelRequest]
		s.uids[id] = append(s.uids[id], cluster.UID)
	}})
	i.must(err)
	factory.Start(i.Context().Done())
	i.Cleanup(factory.Shutdown) // the context has ended before
	return s
}

// checkAudit fails unless every transition of a whole life was recorded exactly once.
func (i *installation) checkAudit(id string) {
	i.Helper()
	entries, err := i.store.Audit(i.Context(), rayslice.System, id)
	i.must(err)
	var got []rayslice.State
	for _, e := range entries {
		got = append(got, e.To)
	}
	want := []rayslice.State{rayslice.StatePending, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.StateReady, rayslice.StateStopping, rayslice.StateStopped}
	if diff := cmp.Diff(want, got); diff != "" {
		i.Errorf("audit of %s (-want +got):\n%s", id, diff)
	}
}

// TestStopsInOrder ends the portal as an orchestrator does, with a page open that refreshes itself.
func TestStopsInOrder(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.start()
	i.leads()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.url+"/clusters/events", nil)
	i.must(err)
	request.Header.Set("Authorization", "Bearer "+i.portal.token)
	response, err := http.DefaultClient.Do(request)
	i.must(err)
	defer response.Body.Close()
	stream := bufio.NewReader(response.Body)
	for line := ""; !strings.HasPrefix(line, "data:"); {
		line, err = stream.ReadString('\n')
		i.must(err)
	}

	i.must(i.portal.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-i.portal.done:
	case <-time.After(5 * time.Second):
		t.Fatal("still runs 5 s after SIGTERM")
	}
	if code := i.portal.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the stream was cut, not ended: %v", err)
	}
	lease, err := i.core.CoordinationV1().Leases(i.lease).Get(t.Context(), "rayslice", metav1.GetOptions{})
	i.must(err)
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		t.Errorf("%s still holds the Lease: the next portal waits until it runs out", *holder)
	}
}
