package bench

import (
	"context"
	"fmt"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	rayclient "github.com/ray-project/kuberay/ray-operator/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// A Maker makes objects in the API server as fast as that takes them.
type Maker struct {
	core      kubernetes.Interface
	ray       rayclient.Interface
	catalogue rayslice.Catalogue
	namespace string
}

// NewMaker returns one that works in the namespace.
func NewMaker(config *rest.Config, catalogue rayslice.Catalogue, namespace string) (*Maker, error) {
	fast := rest.CopyConfig(config)
	fast.QPS = -1
	core, err := kubernetes.NewForConfig(fast)
	if err != nil {
		return nil, err
	}
	ray, err := rayclient.NewForConfig(fast)
	return &Maker{core, ray, catalogue, namespace}, err
}

// Manifest returns what is applied for the request.
func (m *Maker) Manifest(request rayslice.Request) ([]byte, error) {
	cluster, err := k8s.Render(request, m.catalogue)
	if err != nil {
		return nil, err
	}
	return k8s.Manifest(cluster)
}

// Cluster makes one RayCluster, its head and its workers.
func (m *Maker) Cluster(ctx context.Context, request rayslice.Request, pods int) error {
	manifest, err := m.Manifest(request)
	if err != nil {
		return err
	}
	cluster, err := m.ray.RayV1().RayClusters(m.namespace).Patch(ctx, request.ObjectName(), types.ApplyPatchType, manifest,
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
func (m *Maker) pod(ctx context.Context, owner *rayv1.RayCluster, template corev1.PodTemplateSpec, labels map[string]string, i int) error {
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
	_, err := m.core.CoreV1().Pods(m.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}
