package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// The kinds that benchmarks count.
var (
	RayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}
	Pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// MakeNamespace makes a namespace and waits until pods can be created in it.
func MakeNamespace(ctx context.Context, config *rest.Config, name string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	return Until(ctx, time.Minute, "service account of "+name, func() (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

// An Arrivals watches objects come into being.
type Arrivals struct{ watch watch.Interface }

// Watch begins to note objects of the kind that come into being in the namespace. Stop it in the end.
func Watch(ctx context.Context, config *rest.Config, kind schema.GroupVersionResource, namespace string) (*Arrivals, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(list.Items) > 0 {
		return nil, fmt.Errorf("namespace %s has %d %s already", namespace, len(list.Items), kind.Resource)
	}
	events, err := client.Resource(kind).Namespace(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	return &Arrivals{events}, err
}

// Stop ends the watch.
func (a *Arrivals) Stop() { a.watch.Stop() }

// Wait returns when n more objects have come into being, within the limit.
func (a *Arrivals) Wait(ctx context.Context, n int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for seen := 0; seen < n; {
		select {
		case event, open := <-a.watch.ResultChan():
			switch {
			case !open:
				return errors.New("the API server ended the watch")
			case event.Type == watch.Error:
				return fmt.Errorf("watch: %v", event.Object)
			case event.Type == watch.Added:
				seen++
			}
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d objects came into being: %w", seen, n, ctx.Err())
		}
	}
	return nil
}

// Empty deletes the namespace's RayClusters and waits until they and all pods are gone.
func Empty(ctx context.Context, config *rest.Config, namespace string) error {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := client.Resource(RayClusters).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	for _, kind := range []schema.GroupVersionResource{RayClusters, Pods} {
		err := Until(ctx, 10*time.Minute, kind.Resource+" gone from "+namespace, func() (bool, error) {
			left, err := client.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			return err == nil && len(left.Items) == 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Until asks again and again until done, an error, or the limit.
func Until(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s", limit, what)
		}
	}
}
