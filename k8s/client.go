package k8s

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	rayclient "github.com/ray-project/kuberay/ray-operator/pkg/client/clientset/versioned"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
)

// callLimit bounds every single call to the API server; watches are bounded by their own watchdog.
const callLimit = 20 * time.Second

// LoadConfig reads how to reach the cluster: from the kubeconfig file, or, when the path is empty, from the pod the
// portal runs in. It never falls back to somebody's default kubeconfig. Errors are one line and say how to mend it.
func LoadConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return inClusterConfig()
	}
	if _, err := os.Stat(kubeconfig); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("kubeconfig %s does not exist: check the path given with --kubeconfig", kubeconfig)
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("kubeconfig %s names no cluster: set its current-context (kubectl config use-context NAME)", kubeconfig)
	case err != nil:
		return nil, fmt.Errorf("kubeconfig %s cannot be used: %w; kubectl --kubeconfig %s cluster-info shows the same", kubeconfig, err, kubeconfig)
	}
	return config, nil
}

func inClusterConfig() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("no kubeconfig given and not running in a pod: pass --kubeconfig FILE")
	}
	if err != nil {
		return nil, fmt.Errorf("the pod's service account cannot be read: %w; set automountServiceAccountToken: true", err)
	}
	return config, nil
}

// clients are the ways to the API server. They share one rate limit, except the lease's: an election must not wait
// behind a thousand applies.
type clients struct {
	rest  *rest.Config // for port-forwarding
	core  kubernetes.Interface
	ray   rayclient.Interface
	lease kubernetes.Interface
}

func newClients(base *rest.Config, qps float32, burst int) (clients, error) {
	shared := rest.CopyConfig(base)
	shared.UserAgent = "rayslice"
	shared.QPS, shared.Burst = qps, burst
	shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	core := rest.CopyConfig(shared)
	core.ContentType = "application/vnd.kubernetes.protobuf"
	core.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	lease := rest.CopyConfig(core)
	lease.QPS, lease.Burst, lease.RateLimiter = 5, 10, nil
	lease.Timeout = callLimit

	out := clients{rest: shared}
	var err error
	if out.core, err = kubernetes.NewForConfig(core); err != nil {
		return out, fmt.Errorf("kubernetes client: %w", err)
	}
	rays := rest.CopyConfig(shared)
	rays.Wrap(boundExponents)
	if out.ray, err = rayclient.NewForConfig(rays); err != nil {
		return out, fmt.Errorf("ray client: %w", err)
	}
	if out.lease, err = kubernetes.NewForConfig(lease); err != nil {
		return out, fmt.Errorf("lease client: %w", err)
	}
	return out, nil
}
