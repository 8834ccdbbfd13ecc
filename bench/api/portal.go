package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/web"
)

// portal is the product's side: a person with many clusters that run, and their token.
type portal struct {
	*bench.Portal
	address string
	asker   rayslice.User
	token   string
	want    int // clusters in the list
	bytes   int // of one answer
}

func open(ctx context.Context, o options, sandbox *bench.Sandbox) (*portal, error) {
	address, err := sandbox.Database(ctx)
	if err != nil {
		return nil, err
	}
	p := &portal{address: address, want: o.Clusters}
	if p.Portal, err = bench.OpenPortal(ctx, address, fmt.Sprintf("&pool_max_conns=%d", o.Pool), o.Catalogue, o.Version); err != nil {
		return nil, err
	}
	if err := p.fill(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// fill makes the clusters: each with a head, two workers and their certificates, and a fleet. Then Postgres counts the rows,
// as it does by itself within a minute.
func (p *portal) fill(ctx context.Context) (err error) {
	if p.asker, err = bench.Hire(ctx, p.Store, "bench-api"); err != nil {
		return err
	}
	token := rayslice.TokenDraft{Name: "bench", Days: 1}
	token.Normalize()
	if p.token, _, err = p.Store.CreateToken(ctx, p.asker, token); err != nil {
		return err
	}
	draft, err := bench.Draft(p.Catalogue, 2)
	if err != nil {
		return err
	}
	requests, err := bench.Ask(ctx, p.Store, p.asker, draft, p.want)
	if err != nil {
		return err
	}
	err = bench.Parallel(ctx, len(requests), 4, func(ctx context.Context, i int) error {
		r := requests[i]
		cluster := observed(r, fmt.Sprintf("node-%02d", i%nodes))
		return errors.Join(p.Store.SaveCluster(ctx, rayslice.System, cluster),
			p.Store.Move(ctx, rayslice.System, r.ID, rayslice.StateApproved, rayslice.StateProvisioning, rayslice.Reason{}, r.ID),
			p.Store.Move(ctx, rayslice.System, r.ID, rayslice.StateProvisioning, rayslice.StateReady, rayslice.Reason{}, r.ID),
			p.verify(ctx, cluster))
	})
	if err != nil {
		return err
	}
	if err := p.Store.SaveFleet(ctx, rayslice.System, fleet()); err != nil {
		return err
	}
	_, err = p.Pool.Exec(ctx, `VACUUM ANALYZE requests, teams, users, charges, clusters, certificates, fleet, tokens, roles`)
	return err
}

// nodes is how many the clusters' workers lie on.
const nodes = 40

// verify gives the cluster's workers their certificates.
func (p *portal) verify(ctx context.Context, cluster rayslice.Cluster) error {
	certificates := make([]rayslice.Certificate, len(cluster.Workers))
	for i, w := range cluster.Workers {
		certificates[i] = web.SampleCertificate(w, time.Now(), nil)
	}
	_, err := p.Store.StartVerification(ctx, rayslice.System, cluster.RequestID, cluster.RequestID, cluster.VerifiablePods())
	return errors.Join(err, p.Store.FinishVerification(ctx, rayslice.System, cluster.RequestID, rayslice.Reason{}, certificates))
}

func fleet() rayslice.Fleet {
	f := rayslice.Fleet{ObservedAt: time.Now()}
	for i := range nodes {
		f.Nodes = append(f.Nodes, rayslice.Node{Name: fmt.Sprintf("node-%02d", i), Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 8, CardGiB: 22})
	}
	return f
}

func observed(r rayslice.Request, node string) rayslice.Cluster {
	now, name := time.Now(), r.ObjectName()
	head := rayslice.Worker{Name: name + "-head", UID: name, Group: "headgroup", Phase: rayslice.PodRunning, Ready: true, Node: node, IP: "10.0.0.1", CreatedAt: now}
	cluster := rayslice.Cluster{RequestID: r.ID, ObservedAt: now, Exists: true, Ours: true, UID: r.ID, CreatedAt: now, RayVersion: r.Draft.RayVersion,
		Head: &head, HeadAnswers: true, Service: name + "-head-svc." + r.Namespace + ".svc"}
	for i := range r.Draft.Groups[0].Workers {
		worker := head
		worker.Name, worker.UID, worker.Slice = fmt.Sprintf("%s-worker-%d", name, i), fmt.Sprintf("%s-%d", name, i), r.Draft.Groups[0].Slice
		cluster.Workers = append(cluster.Workers, worker)
	}
	return cluster
}

// list reads the list once, through the whole handler and without a network, and returns how long that took.
func (p *portal) list(server http.Handler) (time.Duration, error) {
	r := httptest.NewRequest(http.MethodGet, bench.PublicURL+fmt.Sprintf("/api/v1/requests?limit=%d", p.want), nil)
	r.Header.Set("Authorization", "Bearer "+p.token)
	w := httptest.NewRecorder()
	begin := time.Now()
	server.ServeHTTP(w, r)
	took := time.Since(begin)
	if w.Code != http.StatusOK {
		return 0, fmt.Errorf("the list answers %d: %s", w.Code, w.Body)
	}
	if p.bytes == 0 { // the first one is looked at
		var got struct{ Requests []struct{ Cluster *struct{} } }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			return 0, err
		}
		if len(got.Requests) != p.want || got.Requests[0].Cluster == nil {
			return 0, fmt.Errorf("the list has %d clusters, want %d that were observed", len(got.Requests), p.want)
		}
		p.bytes = w.Body.Len()
	}
	return took, nil
}

// measure lets all clients read the list again and again; it returns lists per second and the 99th percentile, ms.
func (p *portal) measure(ctx context.Context, o options) (rate, p99 float64, err error) {
	var mu sync.Mutex
	var took []float64
	begin := time.Now()
	err = bench.Parallel(ctx, o.Clients, o.Clients, func(ctx context.Context, _ int) error {
		for time.Since(begin) < o.Time && ctx.Err() == nil {
			one, err := p.list(p)
			if err != nil {
				return err
			}
			mu.Lock()
			took = append(took, float64(one.Microseconds())/1000)
			mu.Unlock()
		}
		return ctx.Err()
	})
	if err != nil {
		return 0, 0, err
	}
	return float64(len(took)) / time.Since(begin).Seconds(), bench.Quantile(took, 0.99), nil
}
