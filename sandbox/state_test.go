package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/tools/clientcmd"
)

func TestStateIsFoundAgain(t *testing.T) {
	dir := t.TempDir()
	state, err := loadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if state.Phase != stopped {
		t.Errorf("a new folder is %q, want %q", state.Phase, stopped)
	}
	err = state.update(func(state *State) {
		state.Phase, state.PID, state.DatabaseURL = ready, 42, "postgres://somewhere"
		state.Ports, state.Processes = map[string]int{"etcd": 20001}, map[string]int{"etcd": 43}
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state, again, cmpopts.IgnoreUnexported(State{})); diff != "" {
		t.Errorf("state (-written +read):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(dir, "state.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file with a password has mode %v, %v", info.Mode(), err)
	}
}

func TestDamagedStateIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(`{"phase":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadState(dir); err == nil || !strings.Contains(err.Error(), "state.json is damaged") {
		t.Errorf("says %v", err)
	}
}

func TestPortsAreKeptWhenFree(t *testing.T) {
	components := []string{"etcd", "kwok", "postgres"}
	first, err := takePorts(nil, components)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(first["kwok"]))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	second, err := takePorts(first, components)
	if err != nil {
		t.Fatal(err)
	}
	if second["etcd"] != first["etcd"] || second["postgres"] != first["postgres"] {
		t.Errorf("free ports were not kept: %v, then %v", first, second)
	}
	if second["kwok"] == first["kwok"] {
		t.Errorf("kept port %d, on which something listens", second["kwok"])
	}
	for component, port := range second {
		if port < firstPort || port > lastPort {
			t.Errorf("%s has port %d, outside %d to %d", component, port, firstPort, lastPort)
		}
	}
}

func TestPortsDifferWhenTheStateSaysOtherwise(t *testing.T) {
	ports, err := takePorts(map[string]int{"etcd": 21000, "kwok": 21000}, []string{"etcd", "kwok"})
	if err != nil {
		t.Fatal(err)
	}
	if ports["etcd"] == ports["kwok"] {
		t.Errorf("one port for two: %v", ports)
	}
}

func TestLeftoversOfThisFolderEnd(t *testing.T) {
	dir := t.TempDir()
	start := func(folder string) *exec.Cmd {
		command := exec.Command("/bin/sh", "-c", "while :; do sleep 0.01; done", folder+"/data")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
		return command
	}
	ours, other := start(dir), start(dir+"-other")
	endLeftovers(map[string]int{"ours": ours.Process.Pid, "other": other.Process.Pid}, dir, 10*time.Millisecond)
	if err := ours.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("ours ended with %v, want it killed", err)
	}
	if !isOurs(other.Process.Pid, dir+"-other") {
		t.Error("another folder's process was ended")
	}
}

func TestIdentityIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	identity := identity(filepath.Join(dir, "identity"))
	read := func() string {
		if err := identity.ensure(); err != nil {
			t.Fatal(err)
		}
		var all string
		for _, name := range []string{"ca.crt", "ca.key", "server.crt", "server.key", "accounts.key", "accounts.pub", "tokens.csv"} {
			content, err := os.ReadFile(identity.file(name))
			if err != nil {
				t.Fatal(err)
			}
			all += string(content)
		}
		return all
	}
	first := read()
	if second := read(); second != first {
		t.Error("a second up has another identity")
	}
}

func TestEveryUserHasAKubeconfig(t *testing.T) {
	dir := t.TempDir()
	identity := identity(filepath.Join(dir, "identity"))
	if err := identity.ensure(); err != nil {
		t.Fatal(err)
	}
	if err := identity.writeKubeconfigs(dir, "https://127.0.0.1:21000"); err != nil {
		t.Fatal(err)
	}
	tokens, err := os.ReadFile(identity.file("tokens.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, user.file))
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != "https://127.0.0.1:21000" || len(config.CAData) == 0 {
			t.Errorf("%s goes to %s", user.file, config.Host)
		}
		if !strings.Contains(string(tokens), config.BearerToken+","+user.name+",") {
			t.Errorf("%s has a token that the API server does not know as %s", user.file, user.name)
		}
	}
}

func TestMissingProgramsAreNamed(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "etcd"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := checkPrograms(bin)
	if err == nil || !strings.Contains(err.Error(), "lacks kube-apiserver, kube-controller-manager, kube-scheduler, kuberay-operator, kwok: build them with `make sandbox`") {
		t.Errorf("says %v", err)
	}
	if _, err := findPostgres(bin); err == nil || !strings.Contains(err.Error(), "no initdb in "+bin) {
		t.Errorf("says %v", err)
	}
}

func TestForgetKeepsAnEditedFleet(t *testing.T) {
	tests := map[string]struct {
		fleet     []byte
		wantThere bool
	}{
		"edited":      {[]byte("nodeGroups: []\n"), true},
		"the default": {defaultFleet, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "sandbox")
			elsewhere := filepath.Join(t.TempDir(), "database")
			for _, folder := range []string{filepath.Join(dir, "etcd"), filepath.Join(elsewhere, "data")} {
				if err := os.MkdirAll(folder, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(elsewhere, filepath.Join(dir, "postgres")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), test.fleet, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := forget(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(elsewhere); err == nil {
				t.Error("the database elsewhere is still there")
			}
			left, _ := filepath.Glob(filepath.Join(dir, "*"))
			if len(left) > 0 != test.wantThere || (test.wantThere && filepath.Base(left[0]) != "fleet.yaml") {
				t.Errorf("left %v", left)
			}
		})
	}
}
