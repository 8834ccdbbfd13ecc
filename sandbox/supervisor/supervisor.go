// Package supervisor starts programs, waits until they are ready, restarts them when they die and stops them in order.
// Its programs never outlive it: the kernel ends them when the supervisor's process dies, however it dies.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Component is a program to keep running.
type Component struct {
	Name        string                      // also the name of its log file
	Path        string                      // the program
	Args        []string                    // its arguments
	Env         []string                    // variables beside the supervisor's own
	Dir         string                      // where it runs; empty for the supervisor's own folder
	Credential  *syscall.Credential         // whom it runs as; nil for the supervisor's own user
	Stop        syscall.Signal              // asks it to end; zero is SIGTERM
	Orphaned    syscall.Signal              // what the kernel sends when the supervisor is gone; zero is SIGKILL
	StopTimeout time.Duration               // how long it may take to end before it is killed; zero is 15 s
	Ready       func(context.Context) error // nil once it does its work
}

// Supervisor keeps components running. Use New.
type Supervisor struct {
	logs    string
	say     func(string)
	changed func()
	launch  chan launch

	mu       sync.Mutex
	running  []*process // in the order of their start
	stopping bool
}

type launch struct {
	command *exec.Cmd
	result  chan error
}

// largeLog is the size from which a log makes room for a new one when its program starts.
const largeLog = 64 << 20

// errStopping is what Start says after Stop was called.
var errStopping = errors.New("the supervisor is stopping")

// New returns a supervisor that writes each component's output to <logs>/<name>.log, tells people what it does through
// say, and calls changed whenever a process was started or ended.
func New(logs string, say func(string), changed func()) *Supervisor {
	s := &Supervisor{logs: logs, say: say, changed: changed, launch: make(chan launch)}
	go s.launcher()
	return s
}

// launcher starts every process from one thread that never ends: the kernel takes the death of the thread that started a
// process for the death of its parent.
func (s *Supervisor) launcher() {
	runtime.LockOSThread()
	for request := range s.launch {
		request.result <- request.command.Start()
	}
}

// Start starts the components together and returns when all are ready. A component that ends before it is ready is an
// error, which quotes its last log lines; one that dies later is started again.
func (s *Supervisor) Start(ctx context.Context, components ...Component) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(components))
	for _, component := range components {
		p, err := s.add(component)
		if err != nil {
			return err
		}
		go func() { results <- p.awaitReady(ctx) }()
	}
	for range components {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

func (s *Supervisor) add(component Component) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, errStopping
	}
	p := &process{Component: component, supervisor: s, stop: make(chan struct{}), ended: make(chan struct{}), failed: make(chan error, 1)}
	command, err := p.start()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", component.Name, err)
	}
	s.running = append(s.running, p)
	go p.keep(command)
	return p, nil
}

// Stop ends every component, the last started first, each before the next.
func (s *Supervisor) Stop() {
	s.mu.Lock()
	s.stopping = true
	running := slices.Clone(s.running)
	s.mu.Unlock()
	for _, p := range slices.Backward(running) {
		p.end()
	}
}

// Processes maps the names of the running components to their process ids.
func (s *Supervisor) Processes() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	processes := map[string]int{}
	for _, p := range s.running {
		if pid := p.pid.Load(); pid != 0 {
			processes[p.Name] = int(pid)
		}
	}
	return processes
}

// command is the component's program, writing to its log and bound to the life of this process.
func (s *Supervisor) command(c Component) (*exec.Cmd, error) {
	if info, err := os.Stat(s.logFile(c.Name)); err == nil && info.Size() > largeLog {
		if err := os.Rename(s.logFile(c.Name), s.logFile(c.Name)+".old"); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(s.logFile(c.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	command := exec.Command(c.Path, c.Args...)
	command.Env = append(os.Environ(), c.Env...)
	command.Dir = c.Dir
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true, // a terminal's Ctrl-C is for the supervisor, which knows the order
		Pdeathsig:  orDefault(c.Orphaned, syscall.SIGKILL),
		Credential: c.Credential,
	}
	return command, nil
}

func (s *Supervisor) logFile(name string) string { return filepath.Join(s.logs, name+".log") }

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
