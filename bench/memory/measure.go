package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
)

// patience bounds each wait for the portal.
const patience = 10 * time.Minute

// mib is what people and the goal count in.
const mib = 1 << 20

// measure runs the real portal until it has seen everything and has nothing to do, and notes its memory.
func (b *benchmark) measure(ctx context.Context, report *bench.Report) error {
	p, err := bench.Serve(ctx, b.Bin, b.Dir, "--database-url", b.database, "--kubeconfig", b.sandbox.Kubeconfig, "--namespace", namespace)
	if err != nil {
		return err
	}
	defer p.Stop()
	begin := time.Now()
	if err := b.untilSeen(ctx); err != nil {
		return err
	}
	report.Result("everything seen and recorded", "%.1f s after start", time.Since(begin).Seconds())
	if err := untilCollected(ctx, p); err != nil {
		return err
	}
	memory, err := p.Metrics(ctx)
	if err != nil {
		return err
	}
	status := fmt.Sprintf("/proc/%d/status", p.Pid)
	rss, err := kib(status, "VmRSS")
	if err != nil {
		return err
	}
	anonymous, errAnonymous := kib(status, "RssAnon")
	peak, errPeak := kib(status, "VmHWM")
	report.Result("resident", "%.1f MiB (goal: at most 120), %.1f of it not backed by files; %.1f at most since start", rss/1024, anonymous/1024, peak/1024)
	report.Result("Go heap in use", "%.1f MiB, after a collection at rest", memory["go_memstats_heap_inuse_bytes"]/mib)
	report.Result("goroutines", "%.0f", memory["go_goroutines"])
	return errors.Join(errAnonymous, errPeak)
}

// untilSeen returns when the portal has recorded what stands for every request.
func (b *benchmark) untilSeen(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, b.database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return bench.Until(ctx, patience, "the portal has recorded every cluster", func() (bool, error) {
		var left int
		err := conn.QueryRow(ctx, `
			SELECT count(*)
			FROM requests r
			LEFT JOIN clusters c ON c.request_id = r.id
			WHERE r.state = $1 OR c.request_id IS NULL`, rayslice.StateApproved).Scan(&left)
		return left == 0, err
	})
}

// untilCollected returns when the portal is at rest and Go has collected garbage since: it does so by itself every two
// minutes.
func untilCollected(ctx context.Context, p *bench.Process) error {
	var rest float64 // of collections, when the portal came to rest
	atRest := false
	return bench.Until(ctx, patience, "the portal is at rest and has collected its garbage", func() (bool, error) {
		now, err := p.Metrics(ctx)
		if err != nil {
			return false, err
		}
		collections := now["go_gc_duration_seconds_count"]
		if !atRest && now["rayslice_reconcile_queue_depth"] == 0 {
			atRest, rest = true, collections
		}
		if atRest && collections >= rest+2 { // the one that was on its way may be the first
			return true, nil
		}
		return false, pause(ctx, time.Second)
	})
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kib reads a line such as "VmRSS:  12345 kB".
func kib(path, name string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			return strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}
