// Package manifests holds the Kubernetes objects that the sandbox installs: the custom resource definitions of KubeRay
// and KWOK and KWOK's stages, copied unchanged from their modules, and the rights the sandbox gives to its parts.
package manifests

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The modules are not at hand when the sandbox runs, hence the copies.
//go:generate go run ./copy

//go:embed crds
var crds embed.FS

//go:embed rbac
var rbac embed.FS

//go:embed stages
var stages embed.FS

// CRDs are the custom resource definitions of KubeRay and KWOK, with the one version of each that is stored. KubeRay's
// v1alpha1, which its operator no longer uses, would cost the API server a fifth of its start and 80 MiB.
func CRDs() ([]*unstructured.Unstructured, error) {
	definitions, err := objects(crds)
	if err != nil {
		return nil, err
	}
	for _, definition := range definitions {
		if err := keepStored(definition); err != nil {
			return nil, err
		}
	}
	return definitions, nil
}

func keepStored(definition *unstructured.Unstructured) error {
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		return err
	}
	stored := slices.DeleteFunc(versions, func(version any) bool { return version.(map[string]any)["storage"] != true })
	return unstructured.SetNestedSlice(definition.Object, stored, "spec", "versions")
}

// RBAC is what the sandbox's own parts may do: the operator's role from KubeRay's module, KWOK's from its own, and the
// scheduler plugin's.
func RBAC() ([]*unstructured.Unstructured, error) { return objects(rbac) }

// Digest tells whether CRDs or RBAC differ from those of another time, without the work of reading them.
func Digest() string {
	digest := sha256.New()
	fmt.Fprintln(digest, "stored versions only") // what CRDs makes of the files
	for _, folder := range []embed.FS{crds, rbac} {
		_ = eachFile(folder, func(path string, content []byte) error { // an embedded file can be read
			fmt.Fprintln(digest, path, len(content))
			digest.Write(content)
			return nil
		})
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// Kinds are what CRDs defines, as their files are named: <group>_<plural>.yaml.
func Kinds() []schema.GroupResource {
	var kinds []schema.GroupResource
	_ = eachFile(crds, func(path string, _ []byte) error { // an embedded file can be read
		group, plural, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".yaml"), "_")
		kinds = append(kinds, schema.GroupResource{Group: group, Resource: plural})
		return nil
	})
	return kinds
}

// Stage is one of KWOK's stages by its file name without the ending, for example "pod-ready" of the folder "general".
func Stage(folder, name string) (*unstructured.Unstructured, error) {
	path := "stages/" + folder + "/" + name + ".yaml"
	content, err := stages.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found, err := decode(content)
	if err != nil || len(found) != 1 {
		return nil, errors.Join(fmt.Errorf("%s must hold one stage", path), err)
	}
	return found[0], nil
}

// objects decodes every file of a folder, in the order of their names.
func objects(folder embed.FS) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	err := eachFile(folder, func(path string, content []byte) error {
		found, err := decode(content)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, found...)
		return nil
	})
	return all, err
}

func eachFile(folder embed.FS, visit func(path string, content []byte) error) error {
	return fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := folder.ReadFile(path)
		if err != nil {
			return err
		}
		return visit(path, content)
	})
}

func decode(content []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}
