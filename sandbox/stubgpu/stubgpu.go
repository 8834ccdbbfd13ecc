// Package stubgpu is a stand-in for NVIDIA's driver: a libcuda.so.1 and an nvidia-smi that hand out no memory but count it
// per simulated card. stub.c says what can be set.
package stubgpu

import (
	_ "embed" // of the program's text
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed stub.c
var source []byte

// The files of the driver.
const (
	library = "libcuda.so.1"
	smi     = "nvidia-smi"
	config  = "stub.conf"
)

// ErrNoCompiler says that the driver cannot be built here.
var ErrNoCompiler = errors.New("there is no C compiler (cc)")

// Build compiles the driver into the folder.
func Build(dir string) error {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return ErrNoCompiler
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := filepath.Join(dir, "stub.c")
	if err := os.WriteFile(text, source, 0o644); err != nil {
		return err
	}
	for name, flags := range map[string][]string{library: {"-shared", "-fPIC"}, smi: {"-DSMI"}} {
		built := filepath.Join(dir, name)
		arguments := append(flags, "-O1", "-o", built+".new", text)
		if out, err := exec.Command(compiler, arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", name, err, out)
		}
		if err := os.Rename(built+".new", built); err != nil {
			return err
		}
	}
	return nil
}

// Settings of the driver by name, without STUB_.
type Settings map[string]string

// Install puts the driver built in a folder into a pod's own, where it finds the settings, and returns the variables that
// lead a process there.
func Install(built, dir string, settings Settings) (map[string]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{library, smi} { // links would lead the program to the settings of all pods
		if err := os.Link(filepath.Join(built, name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "STUB_%s=%s\n", name, settings[name])
	}
	if err := os.WriteFile(filepath.Join(dir, config+".new"), []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(filepath.Join(dir, config+".new"), filepath.Join(dir, config)); err != nil {
		return nil, err
	}
	return map[string]string{"LD_LIBRARY_PATH": dir, "PATH": dir + ":" + os.Getenv("PATH")}, nil
}
