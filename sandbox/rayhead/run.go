package rayhead

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	nodeTypeLabel = "ray.io/node-type"
	clusterLabel  = "ray.io/cluster"
	byCluster     = "cluster"

	dashboardPort  = 8265
	defaultVersion = "2.52.0" // for a RayCluster that does not name one
	workers        = 4
)

var (
	rayClusters  = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}
	portForwards = schema.GroupVersionResource{Group: "kwok.x-k8s.io", Version: "v1alpha1", Resource: "portforwards"}
)

// Run answers for every Ray head in the cluster until ctx ends, and returns when all its listeners are closed. It needs
// the RayCluster and PortForward types to be installed. Jobs run on the machine.
func Run(ctx context.Context, config *rest.Config, machine Machine) error {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("rayhead: %w", err)
	}
	custom, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("rayhead: %w", err)
	}
	return newKeeper(client, custom, machine).run(ctx)
}

// keeper keeps one stand-in per running head pod.
type keeper struct {
	custom   dynamic.Interface
	machine  Machine
	pods     cache.SharedIndexInformer
	nodes    cache.SharedIndexInformer
	clusters cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[string] // keys of pods

	mu    sync.Mutex
	heads map[string]*standIn // by key of the head pod
}

func newKeeper(client kubernetes.Interface, custom dynamic.Interface, machine Machine) *keeper {
	indexers := cache.Indexers{byCluster: func(object any) ([]string, error) { return []string{clusterKey(object.(*corev1.Pod))}, nil }}
	return &keeper{
		custom:  custom,
		machine: machine,
		pods: coreinformers.NewFilteredPodInformer(client, "", 0, indexers, func(options *metav1.ListOptions) {
			options.LabelSelector = nodeTypeLabel + " in (head, worker)"
		}),
		nodes:    coreinformers.NewNodeInformer(client, 0, nil),
		clusters: dynamicinformer.NewFilteredDynamicInformer(custom, rayClusters, "", 0, nil, nil).Informer(),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		heads:    map[string]*standIn{},
	}
}

func clusterKey(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Labels[clusterLabel] }

func (k *keeper) run(ctx context.Context) error {
	if err := k.watch(); err != nil {
		return fmt.Errorf("rayhead: %w", err)
	}
	var running sync.WaitGroup
	defer k.stopAll()
	defer running.Wait()
	defer k.queue.ShutDown()
	for _, informer := range []cache.SharedIndexInformer{k.pods, k.nodes, k.clusters} {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), k.pods.HasSynced, k.nodes.HasSynced, k.clusters.HasSynced) {
		return nil
	}
	for range workers {
		running.Go(func() { k.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

// watch slims what the caches hold and wakes the queue for heads.
func (k *keeper) watch() error {
	if err := k.pods.SetTransform(slimPod); err != nil {
		return err
	}
	if err := k.clusters.SetTransform(slimCluster); err != nil {
		return err
	}
	wake := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			k.queue.Add(key)
		}
	}
	_, err := k.pods.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			pod, ok := object.(*corev1.Pod)
			return !ok || pod.Labels[nodeTypeLabel] == "head"
		},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, object any) { wake(object) }, DeleteFunc: wake},
	})
	return err
}

func slimPod(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Spec.Volumes, pod.Spec.InitContainers = nil, nil, nil
	}
	return object, nil
}

func slimCluster(object any) (any, error) {
	cluster, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	version, _, err := unstructured.NestedString(cluster.Object, "spec", "rayVersion")
	if err != nil || version == "" {
		version = defaultVersion
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": cluster.GetNamespace(), "name": cluster.GetName()},
		"spec":     map[string]any{"rayVersion": version},
	}}, nil
}

func (k *keeper) work(ctx context.Context) {
	for {
		key, shutDown := k.queue.Get()
		if shutDown {
			return
		}
		if err := k.reconcile(ctx, key); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "Ray head not answered for yet", "pod", key, "error", err)
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

// reconcile gives a running head its stand-in, and takes it from any other. The queue never hands out a key twice at once.
func (k *keeper) reconcile(ctx context.Context, key string) error {
	object, exists, err := k.pods.GetStore().GetByKey(key)
	if err != nil {
		return err
	}
	pod, _ := object.(*corev1.Pod)
	wanted := exists && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
	head := k.head(key)
	if head != nil && (!wanted || head.pod != pod.UID) {
		k.drop(key)
		head = nil
	}
	if !wanted || ctx.Err() != nil {
		return nil
	}
	if head == nil {
		if head, err = k.start(key, pod); err != nil {
			return err
		}
	}
	return k.lead(ctx, pod, head)
}

func (k *keeper) head(key string) *standIn {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.heads[key]
}

func (k *keeper) drop(key string) {
	k.mu.Lock()
	head := k.heads[key]
	delete(k.heads, key)
	k.mu.Unlock()
	head.stop()
}

func (k *keeper) stopAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, head := range k.heads {
		head.stop()
	}
}

// standIn is the listener that answers for one head pod.
type standIn struct {
	pod    types.UID
	port   int
	led    bool // the pod's port-forward leads here
	server *http.Server
	jobs   *jobs
	done   chan struct{} // closed when the server no longer serves
}

func (s *standIn) stop() {
	_ = s.server.Close() // also ends the requests that hang on purpose
	<-s.done
	s.jobs.stopAll()
}

func (k *keeper) start(key string, pod *corev1.Pod) (*standIn, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", key, err)
	}
	look := func() cluster { return k.look(pod) }
	own := newJobs(k.machine, string(pod.UID), func() cluster { return k.beside(look()) })
	head := &standIn{
		pod:    pod.UID,
		port:   listener.Addr().(*net.TCPAddr).Port,
		server: &http.Server{Handler: handler(look, own), ReadHeaderTimeout: 10 * time.Second},
		jobs:   own,
		done:   make(chan struct{}),
	}
	go func() {
		defer close(head.done)
		_ = head.server.Serve(listener) // ends when stop closes it
	}()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heads[key] = head
	return head, nil
}

// look describes the head's cluster as the caches have it now.
func (k *keeper) look(head *corev1.Pod) cluster {
	var pods []*corev1.Pod
	objects, _ := k.pods.GetIndexer().ByIndex(byCluster, clusterKey(head))
	for _, object := range objects {
		pod := object.(*corev1.Pod)
		if pod.UID == head.UID {
			head = pod // as it is now
		}
		pods = append(pods, pod)
	}
	version := defaultVersion
	if object, ok, _ := k.clusters.GetStore().GetByKey(clusterKey(head)); ok {
		version, _, _ = unstructured.NestedString(object.(*unstructured.Unstructured).Object, "spec", "rayVersion")
	}
	return clusterOf(head, pods, k.node, version, time.Now())
}

// beside fills in what pods of other clusters hold on this one's cards.
func (k *keeper) beside(c cluster) cluster {
	var pods []*corev1.Pod
	for _, object := range k.pods.GetStore().List() {
		pods = append(pods, object.(*corev1.Pod))
	}
	return neighbours(c, pods, k.node)
}

func (k *keeper) node(name string) *corev1.Node {
	object, _, _ := k.nodes.GetStore().GetByKey(name)
	node, _ := object.(*corev1.Node)
	return node
}

// lead makes a port-forward to the pod reach its stand-in. The pod owns the PortForward, so that it goes with the pod even
// when nobody is here to see it go.
func (k *keeper) lead(ctx context.Context, pod *corev1.Pod, head *standIn) error {
	if head.led {
		return nil
	}
	forward := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": portForwards.GroupVersion().String(),
		"kind":       "PortForward",
		"metadata": map[string]any{
			"namespace": pod.Namespace,
			"name":      pod.Name,
			"ownerReferences": []any{map[string]any{
				"apiVersion": "v1", "kind": "Pod", "name": pod.Name, "uid": string(pod.UID),
			}},
		},
		"spec": map[string]any{"forwards": []any{map[string]any{
			"ports":  []any{int64(dashboardPort)},
			"target": map[string]any{"address": "127.0.0.1", "port": int64(head.port)},
		}}},
	}}
	options := metav1.ApplyOptions{FieldManager: "rayhead", Force: true}
	if _, err := k.custom.Resource(portForwards).Namespace(pod.Namespace).Apply(ctx, pod.Name, forward, options); err != nil {
		return fmt.Errorf("lead port-forwards to %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	head.led = true
	return nil
}
