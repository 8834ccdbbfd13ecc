package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/yaml"

	"github.com/rayslice/rayslice/sandbox/gpushare"
)

// Two slices of 8 GiB, each on a node of its own kind; the head runs anywhere.
const rayCluster = `
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: train}
spec:
  rayVersion: "2.51.1"
  headGroupSpec:
    rayStartParams: {num-cpus: "0", num-gpus: "0"}
    template:
      spec:
        containers:
          - {name: ray-head, image: ray, resources: {limits: {cpu: "1", memory: 4Gi}}}
  workerGroupSpecs:
    - groupName: slices
      replicas: 2
      minReplicas: 2
      maxReplicas: 2
      rayStartParams: {num-gpus: "1", resources: '"{\"slice_gib\":8}"'}
      template:
        spec:
          nodeSelector: {simulation: %q}
          containers:
            - {name: ray-worker, image: ray, resources: {limits: {cpu: "1", memory: 8Gi, aliyun.com/gpu-mem: "8"}}}
`

func TestRayCluster(t *testing.T) {
	client := clients(t)
	custom, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	space := namespace(t, client)
	machine(t, client, 1, map[string]string{"simulation": space})
	var cluster unstructured.Unstructured
	if err := yaml.Unmarshal(fmt.Appendf(nil, rayCluster, space), &cluster.Object); err != nil {
		t.Fatal(err)
	}
	clusters := custom.Resource(schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}).Namespace(space)
	if _, err := clusters.Create(t.Context(), &cluster, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	head, workers := running(t, client, space)
	for _, worker := range workers {
		if got, want := worker.Annotations[gpushare.AllocationAnnotation], `{"0":{"0":8}}`; got != want {
			t.Errorf("%s is at %q, want %q", worker.Name, got, want)
		}
	}

	address := forward(t, client, head)
	checkHead(t, address, workers)

	if err := clusters.Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	forwards := custom.Resource(schema.GroupVersionResource{Group: "kwok.x-k8s.io", Version: "v1alpha1", Resource: "portforwards"}).Namespace(space)
	eventually(t, func(ctx context.Context) error {
		left, err := forwards.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = errors.New("the PortForward is still there")
		}
		return err
	})
}

// running waits until the head and both workers run.
func running(t *testing.T, client kubernetes.Interface, space string) (head *corev1.Pod, workers []*corev1.Pod) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(space).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		head, workers = nil, nil
		for i := range pods.Items {
			switch pod := &pods.Items[i]; {
			case pod.Status.Phase != corev1.PodRunning:
			case pod.Labels["ray.io/node-type"] == "head":
				head = pod
			default:
				workers = append(workers, pod)
			}
		}
		if head == nil || len(workers) != 2 {
			return fmt.Errorf("head %t, %d workers of 2", head != nil, len(workers))
		}
		return nil
	})
	return head, workers
}

// forward leads a local port to the dashboard of a head pod, through the API server as the portal would.
func forward(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) string {
	t.Helper()
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	overWebsocket, err := portforward.NewSPDYOverWebsocketDialer(url, config)
	if err != nil {
		t.Fatal(err)
	}
	dialer := portforward.NewFallbackDialer(overWebsocket,
		spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), httpstream.IsUpgradeFailure)
	up := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:8265"}, t.Context().Done(), up, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-up:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0].Local)
}

// checkHead asks what the portal asks. The PortForward may come a moment after the pod runs.
func checkHead(t *testing.T, address string, workers []*corev1.Pod) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		var version struct {
			Version string `json:"ray_version"`
		}
		if err := getJSON(ctx, address+"/api/version", &version); err != nil {
			return err
		}
		if version.Version != "2.51.1" {
			return fmt.Errorf("version %q, want the cluster's", version.Version)
		}
		return nil
	})
	var nodes struct {
		Data struct {
			Summary []struct {
				IP   string
				GPUs []struct{ MemoryTotal int }
			}
		}
	}
	if err := getJSON(t.Context(), address+"/nodes?view=summary", &nodes); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, node := range nodes.Data.Summary {
		for _, card := range node.GPUs {
			seen[node.IP] += card.MemoryTotal
		}
	}
	for _, worker := range workers {
		if got := seen[worker.Status.PodIP]; got != 8373 {
			t.Errorf("%s at %s has %d MiB, want 8373", worker.Name, worker.Status.PodIP, got)
		}
	}
	if len(nodes.Data.Summary) != 3 {
		t.Errorf("%d nodes, want the head and two workers", len(nodes.Data.Summary))
	}
}

func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}
