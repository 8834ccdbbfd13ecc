package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Phases of a sandbox's life.
const (
	starting = "starting"
	ready    = "ready"
	stopped  = "stopped"
)

// State is what a sandbox remembers in state.json: what a person or a program needs to use it, and what the next `up`
// needs to find it as it was.
type State struct {
	Phase            string         `json:"phase"`            // starting, ready or stopped
	PID              int            `json:"pid"`              // of the supervisor
	Kubeconfig       string         `json:"kubeconfig"`       // path: an administrator's
	PortalKubeconfig string         `json:"portalKubeconfig"` // path: the portal's, which may what RBAC gives its service account
	DatabaseURL      string         `json:"databaseURL"`      // as the role that owns the product's database; empty without Postgres
	AppDatabaseURL   string         `json:"appDatabaseURL"`   // the same as a role that owns nothing, for the product to work as
	Ports            map[string]int `json:"ports"`            // by component, kept from one up to the next
	Processes        map[string]int `json:"processes"`        // by component, while it runs

	mu   sync.Mutex
	file string
}

// loadState reads DIR/state.json; a folder without one has an empty state.
func loadState(dir string) (*State, error) {
	state := &State{Phase: stopped, Ports: map[string]int{}, file: filepath.Join(dir, "state.json")}
	content, err := os.ReadFile(state.file)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, state); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): delete it, the next up writes it anew", state.file, err)
	}
	if state.Ports == nil {
		state.Ports = map[string]int{}
	}
	return state, nil
}

// update changes the state and writes it, all or nothing.
func (s *State) update(change func(*State)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(s.file, append(content, '\n'))
}

// writeFile replaces a file that only we may read, all or nothing.
func writeFile(path string, content []byte) error {
	part := path + ".part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// Ports are taken below the range from which Linux gives outgoing connections theirs (32768 up), so that no connection
// of this machine sits on a port that a component needs again.
const (
	firstPort = 20000
	lastPort  = 29999
)

// takePorts gives each component the loopback port it had before when that is free, or else another free one.
func takePorts(before map[string]int, components []string) (map[string]int, error) {
	ports, used := map[string]int{}, map[int]bool{}
	for _, component := range components {
		port, had := before[component]
		for try := 0; !had || used[port] || !free(port); try++ {
			if try == 1000 {
				return nil, fmt.Errorf("no free port between %d and %d on 127.0.0.1: stop what listens there", firstPort, lastPort)
			}
			port, had = firstPort+rand.IntN(lastPort-firstPort+1), true
		}
		ports[component], used[port] = port, true
	}
	return ports, nil
}

func free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}

// lock is held by the supervisor of a folder for as long as it lives. The kernel drops it with the process and knows who
// holds it, so neither can go stale.
type lock struct{ file *os.File }

// takeLock locks the folder, or says which process has it.
func takeLock(dir string) (*lock, error) {
	file, err := os.OpenFile(lockFile(dir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	whole := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &whole); err == nil {
		return &lock{file}, nil
	}
	file.Close()
	return nil, fmt.Errorf("another sandbox (process %d) is up in %s: use it, stop it with `sandbox down --dir %s`, or choose another --dir",
		lockHolder(dir), dir, dir)
}

// lockHolder is the process that is up in the folder, 0 when none is.
func lockHolder(dir string) int {
	file, err := os.OpenFile(lockFile(dir), os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	whole := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &whole); err != nil || whole.Type == syscall.F_UNLCK {
		return 0
	}
	return int(whole.Pid)
}

func lockFile(dir string) string { return filepath.Join(dir, "lock") }

// endLeftovers waits until the processes of an earlier supervisor, which the kernel told to end, are gone, and kills
// those that are not. A process id that now belongs to something else is left alone.
func endLeftovers(processes map[string]int, dir string, patience time.Duration) {
	deadline := time.Now().Add(patience)
	for _, pid := range processes {
		for isOurs(pid, dir) && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		if isOurs(pid, dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may end by itself between the two lines
		}
	}
}
