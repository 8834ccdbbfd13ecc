package main

import (
	"context"
	"time"

	rayclient "github.com/ray-project/kuberay/ray-operator/pkg/client/clientset/versioned"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
)

// manifest is one object as it is sent.
type manifest struct {
	name string
	body []byte
}

// manifest renders what the portal would for a request of its own.
func (b *benchmark) manifest(namespace string) (manifest, error) {
	request := rayslice.Request{
		ID: rayslice.NewRequestID(), Team: bench.Team, Namespace: namespace, Draft: b.draft,
		Owner: rayslice.User{Name: "Ada", Email: "ada@example.org"},
	}
	cluster, err := k8s.Render(request, b.catalogue)
	if err != nil {
		return manifest{}, err
	}
	body, err := k8s.Manifest(cluster)
	return manifest{request.ObjectName(), body}, err
}

// bare applies n rendered objects with nothing around it, and returns the time until all exist.
func (b *benchmark) bare(ctx context.Context, n int) (time.Duration, error) {
	namespace, err := b.namespace(ctx)
	if err != nil {
		return 0, err
	}
	manifests := make([]manifest, n)
	for i := range manifests {
		if manifests[i], err = b.manifest(namespace); err != nil {
			return 0, err
		}
	}
	limited := rest.CopyConfig(b.config)
	limited.QPS, limited.Burst = b.QPS, b.Burst
	client, err := rayclient.NewForConfig(limited)
	if err != nil {
		return 0, err
	}
	arrivals, err := bench.Watch(ctx, b.config, bench.RayClusters, namespace)
	if err != nil {
		return 0, err
	}
	defer arrivals.Stop()
	begin, force := time.Now(), false
	err = bench.Parallel(ctx, n, b.Workers, func(ctx context.Context, i int) error {
		_, err := client.RayV1().RayClusters(namespace).Patch(ctx, manifests[i].name, types.ApplyPatchType, manifests[i].body,
			metav1.PatchOptions{FieldManager: k8s.FieldManager, Force: &force})
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := arrivals.Wait(ctx, n, patience); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	return took, bench.Empty(ctx, b.config, namespace)
}
