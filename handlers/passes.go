package handlers

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Bounds of what is remembered about visitors of dashboards.
const (
	maxPasses    = 4096
	maxHeads     = 1024
	enteredAgain = time.Hour // until the use of a token on a cluster is recorded again
)

// passes remembers for a few seconds what keys open: a dashboard asks for dozens of files at once. It is as fresh as what event
// streams know, and nobody sends a job by it.
type passes struct {
	now     func() time.Time
	mu      sync.Mutex
	known   *simplelru.LRU[[sha256.Size]byte, pass]
	entries *simplelru.LRU[entered, time.Time]
}

// entered is one token on one cluster.
type entered struct {
	token   int64
	cluster string
}

func newPasses(now func() time.Time) *passes {
	known, err := simplelru.NewLRU[[sha256.Size]byte, pass](maxPasses, nil)
	if err != nil {
		panic(err) // the size is above 0
	}
	entries, err := simplelru.NewLRU[entered, time.Time](maxPasses, nil)
	if err != nil {
		panic(err)
	}
	return &passes{now: now, known: known, entries: entries}
}

// of returns what a key opens, as it was at most so long ago; 0 = now.
func (p *passes) of(ctx context.Context, k key, age time.Duration, look func(context.Context, key) (pass, error)) (pass, error) {
	name := sha256.Sum256([]byte(strings.Join(append([]string{k.cluster, k.bearer}, k.cookies...), "\x00")))
	if age > 0 {
		p.mu.Lock()
		found, ok := p.known.Get(name)
		p.mu.Unlock()
		if ok && p.now().Sub(found.at) < age {
			return found, nil
		}
	}
	found, err := look(ctx, k)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.known.Remove(name)
		return found, err
	}
	p.known.Add(name, found)
	return found, nil
}

// entered reports whether a token's use on a cluster is to be recorded now, and remembers that it was.
func (p *passes) entered(token int64, cluster string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := entered{token, cluster}
	if at, ok := p.entries.Get(x); ok && now.Sub(at) < enteredAgain {
		return false
	}
	p.entries.Add(x, now)
	return true
}

// heads keeps the way to each head that was visited lately, with its open connections.
type heads struct {
	way func(Head) http.RoundTripper
	mu  sync.Mutex
	of  *simplelru.LRU[Head, http.RoundTripper]
}

func newHeads(way func(Head) http.RoundTripper) *heads {
	of, err := simplelru.NewLRU(maxHeads, func(_ Head, way http.RoundTripper) { closeIdle(way) })
	if err != nil {
		panic(err) // the size is above 0
	}
	return &heads{way: way, of: of}
}

func closeIdle(way http.RoundTripper) {
	if idle, ok := way.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

func (h *heads) to(head Head) http.RoundTripper {
	h.mu.Lock()
	defer h.mu.Unlock()
	if way, ok := h.of.Get(head); ok {
		return way
	}
	way := h.way(head)
	h.of.Add(head, way)
	return way
}

// close closes the connections that nothing uses.
func (h *heads) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of.Purge()
}

// proxying counts what passes through for each person at a time.
type proxying struct {
	mu sync.Mutex
	by map[int64]int
}

func (p *proxying) begin(user int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[user] >= maxProxied {
		return false
	}
	p.by[user]++
	return true
}

func (p *proxying) end(user int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[user]--; p.by[user] == 0 {
		delete(p.by, user)
	}
}
