package main

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rayslice/rayslice"
)

// TestAPIServerAway starts the portal while the API server cannot be reached, and takes it away once more later (T07). Pages and
// requests work all the same, and what was asked for is applied once when it is back.
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	i := install(t)
	objects := i.watchObjects()
	line := i.throughLine()
	line.cut()
	i.start()
	first := i.askWhileAway("first")
	line.mend()
	i.untilState(first, rayslice.StateReady)

	line.cut()
	second := i.askWhileAway("second")
	line.mend()
	i.untilState(second, rayslice.StateReady)

	for _, id := range []string{first, second} {
		if diff := cmp.Diff([]types.UID{types.UID(i.request(id).ClusterUID)}, objects.of(id)); diff != "" {
			t.Errorf("objects of %s (-recorded +seen):\n%s", id, diff)
		}
		stopped, err := i.call(http.MethodPost, "/api/v1/requests/"+id+"/stop", "", "")
		if err != nil || stopped.State != rayslice.StateStopping {
			t.Errorf("stop %s: %+v, %v", id, stopped, err)
		}
	}
	for _, id := range []string{first, second} {
		i.untilState(id, rayslice.StateStopped)
	}
	i.checkNothingLeft()
}

// askWhileAway asks for a cluster and reads every page about it while the API server cannot be reached.
func (i *installation) askWhileAway(name string) string {
	i.Helper()
	got, err := i.call(http.MethodPost, "/api/v1/requests", "", draftOf(name, 2))
	i.must(err)
	if got.State != rayslice.StateApproved {
		i.Fatalf("POST: %+v", got)
	}
	for _, path := range []string{"/clusters", "/clusters/new", "/clusters/" + got.ID, "/clusters/" + got.ID + "/yaml", "/teams/vision"} {
		request, err := http.NewRequestWithContext(i.Context(), http.MethodGet, i.url+path, nil)
		i.must(err)
		request.Header.Set("Authorization", "Bearer "+i.portal.token)
		response, err := http.DefaultClient.Do(request)
		i.must(err)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		i.must(err)
		if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "vision") {
			i.Errorf("GET %s: %d", path, response.StatusCode)
		}
	}
	if state := i.request(got.ID).State; state != rayslice.StateApproved {
		i.Errorf("%s while the API server is away", state)
	}
	return got.ID
}

// line is the network between a portal and the API server.
type line struct {
	server string // host:port
	mu     sync.Mutex
	broken bool
	conns  map[net.Conn]bool
}

// throughLine makes the portal reach the API server through a line that can be cut.
func (i *installation) throughLine() *line {
	i.Helper()
	config, err := clientcmd.LoadFromFile(i.kubeconfig)
	i.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	i.must(err)
	l := &line{conns: map[net.Conn]bool{}}
	for _, cluster := range config.Clusters {
		l.server = strings.TrimPrefix(cluster.Server, "https://")
		cluster.Server = "https://" + listener.Addr().String()
	}
	file := filepath.Join(i.TempDir(), "kubeconfig")
	i.must(clientcmd.WriteToFile(*config, file))
	i.env = append(i.env, "RAYSLICE_KUBECONFIG="+file)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.serve(client) })
		}
	})
	i.Cleanup(func() { listener.Close(); l.cut(); serving.Wait() })
	return l
}

func (l *line) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.server)
	if err != nil || !l.add(client, server) {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client); server.Close() }()
	_, _ = io.Copy(client, server)
}

// add remembers connections to be cut; a line that is broken takes none.
func (l *line) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
		if l.broken {
			c.Close()
		}
	}
	return !l.broken
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = false
}
