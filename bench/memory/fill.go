package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/store"
)

// fill makes the requests in the database, and their RayClusters and pods as the portal and KubeRay would.
func (b *benchmark) fill(ctx context.Context, report *bench.Report) error {
	catalogue, err := bench.Catalogue(b.Catalogue)
	if err != nil {
		return err
	}
	if err := b.ask(ctx, catalogue); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d requests in the database\n", b.Clusters)
	if err := bench.MakeNamespace(ctx, b.config, namespace); err != nil {
		return err
	}
	maker, err := bench.NewMaker(b.config, catalogue, namespace)
	if err != nil {
		return err
	}
	err = bench.Parallel(ctx, b.Clusters, b.Width, func(ctx context.Context, i int) error {
		pods := b.Pods / b.Clusters
		if i < b.Pods%b.Clusters {
			pods++
		}
		return maker.Cluster(ctx, b.requests[i], pods)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d RayClusters and %d pods in the API server\n", b.Clusters, b.Pods)
	manifest, err := maker.Manifest(b.requests[0])
	report.Set("object bytes", len(manifest))
	return err
}

func (b *benchmark) ask(ctx context.Context, catalogue rayslice.Catalogue) error {
	s, err := store.Open(ctx, b.database)
	if err != nil {
		return err
	}
	defer s.Close()
	asker, err := bench.Hire(ctx, s, namespace)
	if err != nil {
		return err
	}
	draft, err := bench.Draft(catalogue, max(1, b.Pods/b.Clusters-1))
	if err != nil {
		return err
	}
	b.requests, err = bench.Ask(ctx, s, asker, draft, b.Clusters)
	return err
}
