package handlers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
)

// stampedeStreams is how many clients T48 has. RAYSLICE_TEST_STREAMS sets another number, 5000 say.
func stampedeStreams(t *testing.T) int {
	t.Helper()
	text := os.Getenv("RAYSLICE_TEST_STREAMS")
	if text == "" {
		return 150
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 {
		t.Fatalf("RAYSLICE_TEST_STREAMS=%q: want a number, at least 10", text)
	}
	return n
}

// small gives the connections that it accepts little room for what is not read.
type small struct{ net.Listener }

func (l small) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(4 << 10) // it is a wish
	}
	return conn, err
}

// replica is one portal with its HTTP server.
type replica struct {
	*portal
	web *httptest.Server
}

// stampede is many clients in front of two replicas.
type stampede struct {
	*testing.T
	path string
	t    timing

	mu       sync.Mutex
	replicas []*replica
	turn     int
	resting  []time.Duration // how long each client that lost its stream waited before it came back

	open atomic.Int64 // streams of those that read
	seen sync.Map     // client → the last bar it was shown
}

func (s *stampede) start(p *portal) *replica {
	s.Helper()
	p.server.timing = s.t
	r := &replica{portal: p, web: httptest.NewUnstartedServer(p.server)}
	r.web.Listener = small{r.web.Listener}
	r.web.Start()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = append(s.replicas, r)
	return r
}

// stop takes a replica out of turn and ends it as a SIGTERM does: streams first.
func (s *stampede) stop(r *replica) {
	s.mu.Lock()
	for i, other := range s.replicas {
		if other == r {
			s.replicas = append(s.replicas[:i:i], s.replicas[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	r.server.Close()
	r.web.Close()
}

// next is the replica whose turn it is.
func (s *stampede) next() *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	return s.replicas[s.turn%len(s.replicas)]
}

func (s *stampede) proxy() *httptest.Server {
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(s.next().web.URL)
		if err != nil {
			s.Error(err)
		}
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}, ErrorLog: log.New(io.Discard, "", 0)}
	return httptest.NewServer(proxy)
}

// connect opens a stream.
func (s *stampede) connect(ctx context.Context, client *http.Client, base string, who visitor) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+s.path, nil)
	if err != nil {
		return nil, err
	}
	r.Header = who.header.Clone()
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("answered %s", response.Status)
	}
	return response.Body, nil
}

// browse is a browser: it reads, and when the stream ends it waits for as long as it was told to and connects again. With a
// rhythm it also leaves and comes back again and again.
func (s *stampede) browse(ctx context.Context, client *http.Client, base string, who visitor, name int, rhythm time.Duration) {
	lost := time.Time{}
	for ctx.Err() == nil {
		once, leave := context.WithCancel(ctx)
		retry := s.t.retry + rand.N(s.t.retry) // until it has been told
		body, err := s.connect(once, client, base, who)
		if err == nil {
			if !lost.IsZero() && rhythm == 0 {
				s.mu.Lock()
				s.resting = append(s.resting, time.Since(lost))
				s.mu.Unlock()
			}
			if rhythm > 0 {
				time.AfterFunc(rhythm, leave)
			}
			s.open.Add(1)
			retry = s.read(bufio.NewScanner(body), name, retry)
			s.open.Add(-1)
			body.Close()
			lost = time.Now()
		}
		leave()
		if rhythm > 0 {
			retry = rhythm / 10
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
}

func (s *stampede) read(lines *bufio.Scanner, name int, retry time.Duration) time.Duration {
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "retry: "); ok {
			if ms, err := strconv.Atoi(text); err == nil {
				retry = time.Duration(ms) * time.Millisecond
			}
		}
		if at := strings.Index(line, " of 8.0 GiB"); at > 2 {
			s.seen.Store(name, line[at-3:at])
		}
	}
	return retry
}

// until polls until ok.
func (s *stampede) until(limit time.Duration, what string, ok func() bool) time.Duration {
	s.Helper()
	began, tick := time.Now(), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if <-tick.C; time.Since(began) > limit {
			s.Fatalf("not within %s: %s", limit, what)
		}
	}
	return time.Since(began)
}

// TestStampede is T48: of many clients a fifth never read and a fifth come again and again, while both replicas are restarted
// one after the other. Those that do not read are dropped as soon as the sockets are full, all others are back within
// 15 s and not all at once, and nothing is left running. The least wait is shorter than a browser's 5 s here.
func TestStampede(t *testing.T) { // not parallel: it counts goroutines
	n := stampedeStreams(t)
	p := open(t)
	request := p.running()
	visitors := p.crowd(n)
	before := runtime.NumGoroutine()
	clock := defaultTiming()
	clock.retry, clock.write, clock.rest = 1500*time.Millisecond, 500*time.Millisecond, 10*time.Millisecond
	s := &stampede{T: t, path: "/clusters/" + request.ID + "/events", t: clock}
	first, second := s.start(p), s.start(another(t, p))
	proxy := s.proxy()
	transport := &http.Transport{DialContext: dialSmall}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	silent, steady := n/5, n-2*(n/5)
	for i, who := range visitors {
		switch {
		case i < silent: // straight to a replica: a proxy's buffers are its own
			body, err := s.connect(ctx, &http.Client{Transport: transport}, s.next().web.URL, who)
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
		case i < 2*silent:
			clients.Go(func() { s.browse(ctx, &http.Client{Transport: transport}, proxy.URL, who, i, 300*time.Millisecond) })
		default:
			clients.Go(func() { s.browse(ctx, &http.Client{Transport: transport}, proxy.URL, who, i, 0) })
		}
	}
	back := func() bool { return s.open.Load() >= int64(steady) }
	s.until(20*time.Second, "all have come", back)

	update := 0
	dropped := func() bool {
		update++
		p.use(request.ID, 1024+update%40*103, rayslice.GradeSlice)
		return int(testutil.ToFloat64(first.server.metrics.dropped)+testutil.ToFloat64(second.server.metrics.dropped)) >= silent
	}
	took := s.until(20*time.Second, "those that do not read are dropped", dropped)
	t.Logf("%d that never read were dropped within %s, after %d updates", silent, took.Round(time.Millisecond), update)

	for _, old := range []*replica{first, second} {
		fresh := s.start(another(t, p))
		s.stop(old)
		fresh.use(request.ID, 7*1024, rayslice.GradeSlice)
		t.Logf("all back %s after a restart", s.wantSeen(n, 2*silent, "7.0").Round(time.Millisecond))
		p.use(request.ID, 2*1024, rayslice.GradeSlice)
		s.wantSeen(n, 2*silent, "2.0")
	}
	s.wantJitter()

	cancel()
	clients.Wait()
	proxy.Close()
	for _, r := range append([]*replica{}, s.replicas...) {
		s.stop(r)
	}
	transport.CloseIdleConnections()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections() // the proxy's
	const slack = 16                                               // of connections to Postgres that pools keep
	s.until(10*time.Second, fmt.Sprintf("goroutines back to %d", before), func() bool { return runtime.NumGoroutine() <= before+slack })
	for _, r := range []*replica{first, second} {
		if got := testutil.ToFloat64(r.server.metrics.streams); got != 0 {
			t.Errorf("%v streams still counted", got)
		}
	}
}

// crowd signs people of Ada's team in, who may have n streams together, with room to come again.
func (p *portal) crowd(n int) []visitor {
	p.t.Helper()
	const perSession, perPerson = 4, 20
	var seed store.Seed
	for i := range n/perPerson + 1 {
		seed.Users = append(seed.Users, store.SeedUser{Name: fmt.Sprint("Member ", i), Email: fmt.Sprintf("member-%d@example.org", i), Roles: map[string]rayslice.Role{"vision": rayslice.RoleMember}})
	}
	if err := p.store.Seed(p.t.Context(), rayslice.System, seed); err != nil {
		p.t.Fatal(err)
	}
	people, err := p.store.Personas(p.t.Context(), rayslice.System)
	if err != nil {
		p.t.Fatal(err)
	}
	var members []rayslice.User
	for _, u := range people {
		if strings.HasPrefix(u.Name, "Member ") {
			members = append(members, u)
		}
	}
	visitors := make([]visitor, n)
	for i := range visitors {
		if i%perSession == 0 {
			visitors[i] = p.as(members[i/perPerson])
		} else {
			visitors[i] = visitors[i-1]
		}
	}
	return visitors
}

// wantSeen waits until every client from the given one on has been shown a bar, which needs a stream.
func (s *stampede) wantSeen(n, from int, bar string) time.Duration {
	s.Helper()
	return s.until(15*time.Second, "everybody is shown "+bar+" GiB", func() bool {
		for i := from; i < n; i++ {
			if got, _ := s.seen.Load(i); got != bar {
				return false
			}
		}
		return true
	})
}

// wantJitter fails when those that lost their streams came back together.
func (s *stampede) wantJitter() {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	tenths := map[time.Duration]int{}
	for _, d := range s.resting {
		if d < s.t.retry {
			s.Errorf("one came back after %s, before the least wait", d)
		}
		tenths[d/(s.t.retry/10)]++
	}
	for _, count := range tenths {
		if count > len(s.resting)/2 {
			s.Errorf("%d of %d came back within a tenth of the wait", count, len(s.resting))
		}
	}
	if len(s.resting) == 0 {
		s.Error("nobody lost a stream")
	}
}

// dialSmall connects with little room for what is not read.
func dialSmall(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // it is a wish
	}
	return conn, err
}
