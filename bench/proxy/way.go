package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/store"
)

// beHead is a process that answers as a dashboard does, until its input ends.
func beHead(ctx context.Context, o options) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	answer, part := bytes.Repeat([]byte(`{"a":1},`), o.KiB<<7), bytes.Repeat([]byte("x"), 64<<10)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/nodes" {
			_, _ = w.Write(answer)
			return
		}
		for range o.MiB << 4 {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// startHead starts the head, so that its memory is not the portal's, and returns its address.
func startHead(ctx context.Context, o options) (string, error) {
	command := exec.CommandContext(ctx, os.Args[0], "--as-head", "--version=none", fmt.Sprint("--kib=", o.KiB), fmt.Sprint("--mib=", o.MiB))
	command.Stderr = os.Stderr
	if _, err := command.StdinPipe(); err != nil { // it ends with this process
		return "", err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := command.Start(); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(line), err
}

// way is a portal with one cluster, and both ways to its head.
type way struct {
	server  *handlers.Server
	web     *http.Server
	closers []func()

	direct, through string // addresses
	host, token     string // of the cluster
	client          *http.Client
}

const domain = "clusters.localhost"

func openWay(ctx context.Context, o options, sandbox *bench.Sandbox, head string) (*way, error) {
	w := &way{direct: "http://" + head, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	address, err := sandbox.Database(ctx)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, s.Close)
	s.LetPersonasIn()
	sessions, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, sessions.Close)
	catalogue, err := bench.Catalogue(o.Catalogue)
	if err != nil {
		return nil, err
	}
	if err := w.fill(ctx, s, catalogue); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.through = "http://" + listener.Addr().String()
	w.server, err = handlers.New(handlers.Config{
		Store: s, Sessions: sessions, Catalogue: catalogue, Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Render: func(rayslice.Request) (string, error) { return "", nil },
		Demo:   true, Version: o.Version, PublicURL: w.through, BaseContext: ctx, Unlimited: true,
		ClustersDomain: domain, Dashboard: func(handlers.Head) http.RoundTripper { return wayTo(head) },
	})
	if err != nil {
		return nil, err
	}
	w.web = &http.Server{Handler: w.server, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
	go func() { _ = w.web.Serve(listener) }()
	return w, nil
}

// wayTo leads to the head, with the settings of k8s.Heads.Proxy.
func wayTo(head string) http.RoundTripper {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", head)
		},
		DisableCompression: true, MaxIdleConns: 8, MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: time.Minute,
	}
}

// fill makes a person with a token and a cluster of theirs that runs.
func (w *way) fill(ctx context.Context, s *store.Store, catalogue rayslice.Catalogue) error {
	person, err := bench.Hire(ctx, s, "bench")
	if err != nil {
		return err
	}
	draft, err := bench.Draft(catalogue, 1)
	if err != nil {
		return err
	}
	requests, err := bench.Ask(ctx, s, person, draft, 1)
	if err != nil {
		return err
	}
	r := requests[0]
	for _, step := range [][2]rayslice.State{{rayslice.StateApproved, rayslice.StateProvisioning}, {rayslice.StateProvisioning, rayslice.StateReady}} {
		if err := s.Move(ctx, rayslice.System, r.ID, step[0], step[1], rayslice.Reason{}, r.ID); err != nil {
			return err
		}
	}
	cluster := rayslice.Cluster{RequestID: r.ID, ObservedAt: time.Now(), Exists: true, Ours: true, Head: &rayslice.Worker{Name: "head", Phase: rayslice.PodRunning, Ready: true, IP: "127.0.0.1"}}
	if err := s.SaveCluster(ctx, rayslice.System, cluster); err != nil {
		return err
	}
	w.host = r.ID + "." + domain
	w.token, _, err = s.CreateToken(ctx, person, rayslice.TokenDraft{Name: "bench", Scopes: rayslice.Scopes(), Days: 1})
	return err
}

// Close ends the portal and its connections.
func (w *way) Close() {
	w.server.Close()
	_ = w.web.Close()
	for i := len(w.closers) - 1; i >= 0; i-- {
		w.closers[i]()
	}
}

// call reads one answer to its end and returns its size.
func (w *way) call(ctx context.Context, address, path string) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
	if err != nil {
		return 0, err
	}
	if address == w.through {
		r.Host = w.host
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers with %d", address, answer.StatusCode)
	}
	return n, err
}

// measureCalls takes turns, so that both ways meet the same machine.
func (w *way) measureCalls(ctx context.Context, o options, report *bench.Report) error {
	var direct, through, added []time.Duration
	for i := range o.Calls + o.Calls/10 {
		one, err := w.time(ctx, w.direct)
		if err != nil {
			return err
		}
		other, err := w.time(ctx, w.through)
		if err != nil {
			return err
		}
		if i >= o.Calls/10 { // the first warm up
			direct, through, added = append(direct, one), append(through, other), append(added, other-one)
		}
	}
	for _, q := range []float64{0.5, 0.99} {
		a, b := bench.Quantile(direct, q), bench.Quantile(through, q)
		report.Result(fmt.Sprintf("one call, p%.0f", q*100), "direct %.3f ms, through the portal %.3f ms", millis(a), millis(b))
	}
	report.Result("added by the portal, p50 of pairs", "%.3f ms (at most 1 ms is wanted)", millis(bench.Quantile(added, 0.5)))
	return nil
}

func (w *way) time(ctx context.Context, address string) (time.Duration, error) {
	began := time.Now()
	_, err := w.call(ctx, address, "/nodes")
	return time.Since(began), err
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// measureStream reads a long answer and watches this process's memory, in which both the portal and the reader are.
func (w *way) measureStream(ctx context.Context, o options, report *bench.Report) error {
	before, err := residentMiB()
	if err != nil {
		return err
	}
	most, done, watched := before, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if now, err := residentMiB(); err == nil {
					most = max(most, now)
				}
			case <-done:
				return
			}
		}
	}()
	began := time.Now()
	n, err := w.call(ctx, w.through, "/api/v0/logs/file")
	took := time.Since(began)
	close(done)
	<-watched
	if err != nil {
		return err
	}
	if n != int64(o.MiB)<<20 {
		return fmt.Errorf("%d bytes came through of %d MiB", n, o.MiB)
	}
	after, err := residentMiB()
	report.Result("stream", "%.0f MiB/s; memory before %.1f MiB, at most %.1f MiB, after %.1f MiB", float64(o.MiB)/took.Seconds(), before, most, after)
	return err
}

// residentMiB returns how much memory this process has resident, in MiB.
func residentMiB() (float64, error) {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(raw))[1])
	return float64(pages*os.Getpagesize()) / (1 << 20), err
}
