package main

import (
	"context"
	"fmt"
	"os"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	rayclient "github.com/ray-project/kuberay/ray-operator/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/bench"
	"github.com/rayslice/rayslice/k8s"
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
	maker, err := newMaker(b.config, catalogue)
	if err != nil {
		return err
	}
	err = bench.Parallel(ctx, b.Clusters, b.Width, func(ctx context.Context, i int) error {
		pods := b.Pods / b.Clusters
		if i < b.Pods%b.Clusters {
			pods++
		}
		return maker.cluster(ctx, b.requests[i], pods)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d RayClusters and %d pods in the API server\n", b.Clusters, b.Pods)
	manifest, err := maker.manifest(b.requests[0])
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

// maker makes objects in the API server as fast as that takes them.
type maker struct {
	core      kubernetes.Interface
	ray       rayclient.Interface
	catalogue rayslice.Catalogue
}

func newMaker(config *rest.Config, catalogue rayslice.Catalogue) (*maker, error) {
	fast := rest.CopyConfig(config)
	fast.QPS = -1
	core, err := kubernetes.NewForConfig(fast)
	if err != nil {
		return nil, err
	}
	ray, err := rayclient.NewForConfig(fast)
	return &maker{core, ray, catalogue}, err
}

func (m *maker) manifest(request rayslice.Request) ([]byte, error) {
	cluster, err := k8s.Render(request, m.catalogue)
	if err != nil {
		return nil, err
	}
	return k8s.Manifest(cluster)
}

// cluster makes one RayCluster, its head and its workers.
func (m *maker) cluster(ctx context.Context, request rayslice.Request, pods int) error {
	manifest, err := m.manifest(request)
	if err != nil {
		return err
	}
	cluster, err := m.ray.RayV1().RayClusters(namespace).Patch(ctx, request.ObjectName(), types.ApplyPatchType, manifest,
		metav1.PatchOptions{FieldManager: k8s.FieldManager})
	if err != nil {
		return err
	}
	group := cluster.Spec.WorkerGroupSpecs[0]
	for i := range pods {
		template, labels := group.Template, map[string]string{"ray.io/node-type": "worker", "ray.io/group": group.GroupName}
		if i == 0 {
			template, labels = cluster.Spec.HeadGroupSpec.Template, map[string]string{"ray.io/node-type": "head", "ray.io/group": "headgroup"}
		}
		if err := m.pod(ctx, cluster, template, labels, i); err != nil {
			return err
		}
	}
	return nil
}

// pod makes one pod with the labels and the owner that KubeRay gives it. No scheduler looks at it.
func (m *maker) pod(ctx context.Context, owner *rayv1.RayCluster, template corev1.PodTemplateSpec, labels map[string]string, i int) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%d", owner.Name, labels["ray.io/group"], i), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, rayv1.GroupVersion.WithKind("RayCluster"))},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	labels["ray.io/cluster"], labels["ray.io/is-ray-node"] = owner.Name, "yes"
	for name, value := range template.Labels {
		labels[name] = value
	}
	pod.Spec.SchedulerName = "nobody"
	_, err := m.core.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}
