package manifests

import (
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice/sandbox/manifests/origin"
)

// ours are the manifests that are written here; every other one is a copy.
var ours = map[string]bool{"rbac/sandbox.yaml": true}

func TestCopiesEqualTheirModules(t *testing.T) {
	want, err := origin.Files("..")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{}
	for _, folder := range []string{"crds", "rbac", "stages"} {
		err := fs.WalkDir(os.DirFS("."), folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || ours[path] {
				return err
			}
			got[path], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for path := range want {
		if string(got[path]) != string(want[path]) {
			t.Errorf("%s differs from its module: run go generate ./manifests", path)
		}
		delete(got, path)
	}
	if diff := cmp.Diff(map[string][]byte{}, got); diff != "" {
		t.Errorf("files that no module has (-want +got):\n%s", diff)
	}
}

func TestEveryManifestDecodes(t *testing.T) {
	crds, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	var names, kinds []string
	for _, object := range crds {
		if object.GetKind() != "CustomResourceDefinition" {
			t.Errorf("%s %s among the CRDs", object.GetKind(), object.GetName())
		}
		names = append(names, object.GetName())
	}
	for _, kind := range Kinds() {
		kinds = append(kinds, kind.String())
	}
	if diff := cmp.Diff(names, kinds); diff != "" || len(names) != 15 {
		t.Errorf("%d CRDs, want KubeRay's three and KWOK's twelve; kinds (-CRDs +file names):\n%s", len(names), diff)
	}
	if _, err := RBAC(); err != nil {
		t.Error(err)
	}
	if _, err := Stage("general", "no-such-stage"); err == nil {
		t.Error("a stage that does not exist was found")
	}
}
