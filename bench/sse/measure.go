package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
)

// measurement is one portal with a crowd in front of it.
type measurement struct {
	options
	portal  *bench.Process
	crowd   *bench.Crowd
	cluster rayslice.Cluster

	told    atomic.Int64  // which update is on its way
	reached atomic.Int64  // how many browsers have been told of it
	all     chan struct{} // receives when all that read have
}

// maxUpdates is how many figures of a slice's use look different on the page.
const maxUpdates = 150

// usedMiB is what the first worker uses after an update, and usedText how the page says it.
func usedMiB(update int64) int { return int(update)*1024/10 + 10 }

func usedText(update int64) string {
	return fmt.Sprintf("%.1f of 16.0 GiB", float64(usedMiB(update))/1024)
}

// measure measures memory, then opens the streams, then measures that again, then the way of the updates.
func (m *measurement) measure(ctx context.Context, report *bench.Report) error {
	m.all = make(chan struct{}, 1)
	if err := m.save(ctx); err != nil {
		return err
	}
	warm, err := m.open(ctx, 100) // what is made once, for whoever comes first
	if err != nil {
		return err
	}
	warm()
	before, err := m.memory(ctx)
	if err != nil {
		return err
	}
	closeAll, err := m.open(ctx, m.Browsers)
	if err != nil {
		return err
	}
	defer closeAll()
	after, err := m.memory(ctx)
	if err != nil {
		return err
	}
	m.tellMemory(report, before, after)
	delays, err := m.update(ctx)
	if err != nil {
		return err
	}
	report.Result("update to the last browser", "p50 %.0f ms, p95 %.0f ms (goal: at most 300), at most %.0f ms", bench.Quantile(delays, .5), bench.Quantile(delays, .95), bench.Quantile(delays, 1))
	end, err := m.portal.Metrics(ctx)
	report.Result("streams open in the end", "%.0f; %.0f dropped", end["rayslice_event_streams"], end["rayslice_event_streams_dropped_total"])
	return err
}

func (m *measurement) tellMemory(report *bench.Report, before, after memory) {
	per := func(a, b float64) float64 { return (b - a) / float64(m.Browsers) / 1024 }
	report.Result("memory of an idle stream", "%.1f KiB (goal: at most 30): %.1f heap, %.1f stacks", per(before.live+before.stacks, after.live+after.stacks),
		per(before.live, after.live), per(before.stacks, after.stacks))
	report.Result("resident, of one stream", "%.1f KiB more, with the garbage of %s and of opening them", per(before.resident, after.resident), m.Rest)
	report.Result("goroutines of a stream", "%.1f", (after.goroutines-before.goroutines)/float64(m.Browsers))
	report.Result("CPU of the portal", "%.1f %% of one core while streams are idle, %.1f without any", after.cpu, before.cpu)
}

// memory is what the portal needs at rest. live is the least heap that was seen, as it is after a collection.
type memory struct{ live, stacks, resident, goroutines, cpu float64 }

// memory watches the portal for a while; collections happen by themselves.
func (m *measurement) memory(ctx context.Context) (memory, error) {
	var found memory
	if err := pause(ctx, 5*time.Second); err != nil { // until what went on before is over
		return found, err
	}
	first, err := m.portal.Metrics(ctx)
	if err != nil {
		return found, err
	}
	last, began := first, time.Now()
	for found.live = first["go_memstats_heap_alloc_bytes"]; ; found.live = min(found.live, last["go_memstats_heap_alloc_bytes"]) {
		enough := last["go_gc_duration_seconds_count"] >= first["go_gc_duration_seconds_count"]+2
		if time.Since(began) >= m.Rest && enough {
			break
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return found, err
		}
		if last, err = m.portal.Metrics(ctx); err != nil {
			return found, err
		}
	}
	found.stacks, found.goroutines = last["go_memstats_stack_inuse_bytes"], last["go_goroutines"]
	found.cpu = 100 * (last["process_cpu_seconds_total"] - first["process_cpu_seconds_total"]) / time.Since(began).Seconds()
	found.resident = last["process_resident_memory_bytes"]
	return found, nil
}

// save saves one reading of the cluster's use, as the collector does.
func (m *measurement) save(ctx context.Context) error {
	use := rayslice.Use{RequestID: m.crowd.Request.ID, AskedAt: time.Now(), DataAt: time.Now(), Source: rayslice.UseFromRay}
	used, limit, percent := usedMiB(m.told.Load()), 16*1024, 50.0
	for n, w := range m.cluster.Workers {
		use.Samples = append(use.Samples, rayslice.Sample{RequestID: use.RequestID, PodUID: w.UID, Pod: w.Name, GPU: fmt.Sprint("GPU-", n), At: use.DataAt,
			UsedMiB: &used, LimitMiB: &limit, MemoryGrade: rayslice.GradeSlice, Percent: &percent, Grade: rayslice.GradeCard})
	}
	return m.crowd.Store.SaveUse(ctx, rayslice.System, []rayslice.Use{use})
}

// update saves one reading after the other, and returns how many milliseconds passed from each call until the last browser had it.
func (m *measurement) update(ctx context.Context) (delays []float64, err error) {
	for range m.Updates {
		if err := pause(ctx, m.Every); err != nil {
			return nil, err
		}
		m.reached.Store(0)
		m.told.Add(1)
		began := time.Now()
		if err := m.save(ctx); err != nil {
			return nil, err
		}
		select {
		case <-m.all:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("an update reached %d browsers of %d within a minute", m.reached.Load(), m.Browsers-m.silent())
		}
		delays = append(delays, float64(time.Since(began).Microseconds())/1000)
	}
	return delays, nil
}

// open opens streams, and returns when each has answered. Of the crowd, some never read.
func (m *measurement) open(ctx context.Context, browsers int) (closeAll func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	closeAll = func() { cancel(); reading.Wait() }
	cookies, err := m.crowd.Cookies(ctx, browsers)
	if err != nil {
		cancel()
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dialSmall}}
	for i, cookie := range cookies {
		silent := (i+1)*m.Silent/100 > i*m.Silent/100 // every fifth, say
		first := make(chan error, 1)
		reading.Go(func() { m.browse(ctx, client, cookie, silent, first) })
		if err := <-first; err != nil {
			closeAll()
			return nil, fmt.Errorf("browser %d: %w", i+1, err)
		}
	}
	return closeAll, nil
}

// dialSmall connects with little room for what is not read.
func dialSmall(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(8 << 10) // it is a wish
	}
	return conn, err
}

// browse opens a stream and reads it until ctx ends, or never; it tells first of the answer.
func (m *measurement) browse(ctx context.Context, client *http.Client, cookie *http.Cookie, silent bool, first chan<- error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.crowd.Page+"/events", nil)
	if err != nil {
		first <- err
		return
	}
	r.AddCookie(cookie)
	answer, err := client.Do(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		err = fmt.Errorf("event stream: %s", answer.Status)
	}
	first <- err
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if silent {
		<-ctx.Done()
		return
	}
	m.read(bufio.NewReader(answer.Body))
}

// read notes each update that the stream tells of.
func (m *measurement) read(lines *bufio.Reader) {
	seen := int64(0)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		if told := m.told.Load(); told > seen && strings.Contains(string(line), usedText(told)) {
			seen = told
			if m.reached.Add(1) == int64(m.Browsers-m.silent()) {
				m.all <- struct{}{}
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
