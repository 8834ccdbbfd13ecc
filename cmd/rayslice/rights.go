package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/rayslice/rayslice/deploy"
	"github.com/rayslice/rayslice/k8s"
)

// grantRights gives the portal's service account in the sandbox exactly what the shipped manifests give it, so that
// the demo runs with the rights that a real installation has.
func grantRights(ctx context.Context, adminKubeconfig string) error {
	config, err := k8s.LoadConfig(adminKubeconfig)
	if err != nil {
		return err
	}
	for _, manifest := range deploy.Rights {
		if err := applyManifest(ctx, config, manifest); err != nil {
			return fmt.Errorf("rights of the portal: %w", err)
		}
	}
	return nil
}

// applyManifest server-side applies every object of a YAML text.
func applyManifest(ctx context.Context, config *rest.Config, text string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var object unstructured.Unstructured
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
		if err != nil {
			return err
		}
		_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).
			Apply(ctx, object.GetName(), &object, metav1.ApplyOptions{FieldManager: "rayslice-demo", Force: true})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}
