package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/rayslice/rayslice/deploy"
)

// grant gives the portal's service account the rights of deploy/, as an administrator. The demo's portal works with
// these and no others, as it does in a cluster. Doing it twice is doing it once.
func grant(ctx context.Context, admin *rest.Config) error {
	objects, err := rightsObjects()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(admin)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(admin)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	for _, object := range objects {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).
			Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "rayslice-deploy", Force: true})
		if err != nil {
			return fmt.Errorf("give the portal its rights: %s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
	return nil
}

// rightsObjects reads the manifests in an order in which they can be applied: the namespace first.
func rightsObjects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, file := range []string{"namespace.yaml", "rbac.yaml", "create-namespaces.yaml"} {
		text, err := fs.ReadFile(deploy.Rights, file)
		if err != nil {
			return nil, err
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := documents.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}
