// Package origin knows which file of which Go module each copied manifest comes from.
package origin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is a folder of a Go module, required by the go.mod of one of the sandbox's own module folders.
type source struct {
	into    string   // folder of the copies
	require string   // the sandbox's folder whose go.mod pins the module
	module  string   // module path
	folder  string   // folder in the module
	files   []string // patterns of file names in it
}

var sources = []source{
	{"crds", "kuberay", kuberay, "config/crd/bases", []string{"*.yaml"}},
	{"rbac/kuberay", "kuberay", kuberay, "config/rbac", []string{"role.yaml"}},
	{"crds", "kwok", kwok, "kustomize/crd/bases", []string{"*.yaml"}},
	{"rbac/kwok", "kwok", kwok, "kustomize/rbac", []string{"role.yaml"}},
	{"stages/node", "kwok", kwok, "kustomize/stage/node/fast", []string{"node-initialize.yaml"}},
	{"stages/node", "kwok", kwok, "kustomize/stage/node/heartbeat-with-lease", []string{"node-*.yaml"}},
	{"stages/fast", "kwok", kwok, "kustomize/stage/pod/fast", []string{"pod-*.yaml"}},
	{"stages/general", "kwok", kwok, "kustomize/stage/pod/general", []string{"pod-*.yaml"}},
	{"stages/chaos", "kwok", kwok, "kustomize/stage/pod/chaos", []string{"pod-container-running-failed.yaml"}},
}

const (
	kuberay = "github.com/ray-project/kuberay/ray-operator"
	kwok    = "sigs.k8s.io/kwok"
)

// Files maps each copy's path below the manifests folder to the content that the pinned module has for it. The argument
// is the sandbox's own folder. The go command must find the modules.
func Files(sandbox string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, source := range sources {
		root, err := moduleFolder(filepath.Join(sandbox, source.require), source.module)
		if err != nil {
			return nil, err
		}
		if err := source.read(root, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (s source) read(root string, files map[string][]byte) error {
	for _, pattern := range s.files {
		matches, err := filepath.Glob(filepath.Join(root, s.folder, pattern))
		if err != nil || len(matches) == 0 {
			return fmt.Errorf("%s has no %s/%s (%v)", s.module, s.folder, pattern, err)
		}
		for _, match := range matches {
			content, err := os.ReadFile(match)
			if err != nil {
				return err
			}
			files[filepath.Join(s.into, filepath.Base(match))] = content
		}
	}
	return nil
}

// moduleFolder is where the go command keeps the module's files, downloading them when needed.
func moduleFolder(from, module string) (string, error) {
	command := exec.Command("go", "mod", "download", "-json", module)
	command.Dir = from
	command.Env = append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("download %s: %w: %s", module, err, output)
	}
	command = exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = from
	command.Env = append(os.Environ(), "GOWORK=off")
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", module, err)
	}
	return strings.TrimSpace(string(output)), nil
}
