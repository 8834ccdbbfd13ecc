// Package manifests holds the Kubernetes objects that the sandbox installs: the custom resource definitions of KubeRay
// and KWOK and KWOK's stages, copied unchanged from their modules, and the rights the sandbox gives to its parts.
package manifests

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A fresh machine has the modules but not these copies' origin at run time, hence the copies.
//go:generate go run ./copy

//go:embed crds
var crds embed.FS

//go:embed rbac
var rbac embed.FS

//go:embed stages
var stages embed.FS

// CRDs are the custom resource definitions of KubeRay and KWOK.
func CRDs() ([]*unstructured.Unstructured, error) { return objects(crds) }

// RBAC is what the sandbox's own parts may do: the operator's role from KubeRay's module, KWOK's from its own, and the
// scheduler plugin's.
func RBAC() ([]*unstructured.Unstructured, error) { return objects(rbac) }

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
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := folder.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := decode(content)
		all = append(all, found...)
		return err
	})
	return all, err
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
