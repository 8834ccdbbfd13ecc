package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
)

// Team is the team that asks in every benchmark.
const Team = "bench"

// Catalogue reads a catalogue file as the portal does. The default one is what `rayslice serve` has built in.
func Catalogue(path string) (rayslice.Catalogue, error) {
	catalogue := rayslice.Catalogue{Limits: rayslice.DefaultLimits()}
	text, err := os.ReadFile(path)
	if err != nil {
		return catalogue, err
	}
	err = yaml.UnmarshalStrict(text, &catalogue)
	return catalogue, err
}

// Hire seeds the team, with room for every request and its clusters in the namespace, and returns its only member.
func Hire(ctx context.Context, s *store.Store, namespace string) (rayslice.User, error) {
	err := s.Seed(ctx, rayslice.System, store.Seed{
		Teams: []store.SeedTeam{{Name: Team, Namespace: namespace, LimitGiB: 1 << 30}},
		Users: []store.SeedUser{{Name: "Ada", Email: "ada@example.org", Roles: map[string]rayslice.Role{Team: rayslice.RoleMember}}},
	})
	if err != nil {
		return rayslice.User{}, err
	}
	people, err := s.Personas(ctx, rayslice.System)
	if err != nil || len(people) != 1 {
		return rayslice.User{}, fmt.Errorf("personas: %v, %w", people, err)
	}
	return people[0], nil
}

// Draft asks for workers of 2 GiB each on the catalogue's first pool.
func Draft(catalogue rayslice.Catalogue, workers int) (rayslice.RequestDraft, error) {
	draft := rayslice.RequestDraft{
		Team: Team, Name: "benchmark", Hours: rayslice.DefaultHours,
		Head: rayslice.Head{CPU: rayslice.DefaultHeadCPU, MemoryGiB: rayslice.DefaultHeadMemoryGiB},
		Groups: []rayslice.Group{{
			Slice:   rayslice.Slice{Pool: catalogue.Pools[0].Name, GiB: 2, Cards: 1},
			Workers: workers, CPU: rayslice.DefaultWorkerCPU, MemoryGiB: rayslice.DefaultWorkerMemoryGiB,
		}},
		Image: catalogue.Images[0].Ref, RayVersion: catalogue.Images[0].RayVersion,
	}
	draft.Normalize(catalogue)
	return draft, draft.Validate(catalogue)
}

// Ask sends the draft n times. Within quota that approves each at once.
func Ask(ctx context.Context, s *store.Store, asker rayslice.User, draft rayslice.RequestDraft, n int) ([]rayslice.Request, error) {
	requests := make([]rayslice.Request, n)
	err := Parallel(ctx, n, 4, func(ctx context.Context, i int) error {
		var err error
		requests[i], err = s.CreateRequest(ctx, asker, draft, "")
		return err
	})
	return requests, err
}

// Parallel calls do for 0 … n-1, at most width at the same time, until one fails.
func Parallel(ctx context.Context, n, width int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(width)
	for i := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return do(ctx, i)
		})
	}
	return group.Wait()
}

// Quantile returns the smallest value that at least the share q of the values do not exceed. There must be values.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(0, rank-1)]
}
