package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stage is a supervisor in a folder of its own, and what it says.
type stage struct {
	*Supervisor
	dir     string
	changes chan struct{}

	mu   sync.Mutex
	said []string
}

func newStage(t *testing.T) *stage {
	s := &stage{dir: t.TempDir(), changes: make(chan struct{}, 100)}
	s.Supervisor = New(s.dir, func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = append(s.said, line)
	}, func() { s.changes <- struct{}{} })
	t.Cleanup(s.Stop)
	return s
}

func (s *stage) sayings() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, "\n")
}

// script is a component that runs shell commands and is ready once it has made a file of its name.
func (s *stage) script(name, commands string) Component {
	return Component{
		Name: name, Path: "/bin/sh", Args: []string{"-c", commands}, Dir: s.dir,
		Ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(s.dir, name))
			return err
		},
	}
}

// await returns when the condition holds; it is asked again after each change of the processes.
func (s *stage) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	giveUp := time.After(time.Minute)
	for !holds() {
		select {
		case <-s.changes:
		case <-giveUp:
			t.Fatalf("never: %s; it said %s", what, s.sayings())
		}
	}
}

func TestStartWaitsUntilAllAreReady(t *testing.T) {
	s := newStage(t)
	if err := s.Start(t.Context(), s.script("a", "touch a; exec sleep 600"), s.script("b", "touch b; exec sleep 600")); err != nil {
		t.Fatal(err)
	}
	processes := s.Processes()
	for _, name := range []string{"a", "b"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
			t.Errorf("%s is not ready", name)
		}
		if syscall.Kill(processes[name], 0) != nil {
			t.Errorf("%s does not run", name)
		}
	}
}

func TestStartSaysWhichComponentFailedAndWhy(t *testing.T) {
	tests := map[string]struct {
		commands string
		want     []string
	}{
		"with a complaint": {"echo first; echo the disk is on fire; exit 3", []string{"broken ended at start (exit status 3)", "broken.log", "the disk is on fire"}},
		"in silence":       {"exit 0", []string{"broken ended at start (exit status 0)"}},
		"by a signal":      {"kill -9 $$", []string{"broken ended at start (signal: killed)"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			err := s.Start(t.Context(), s.script("fine", "touch fine; exec sleep 600"), s.script("broken", test.commands))
			if err == nil {
				t.Fatal("started")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("says %q, want it to say %q", err, want)
				}
			}
		})
	}
	t.Run("without a program", func(t *testing.T) {
		s := newStage(t)
		err := s.Start(t.Context(), Component{Name: "absent", Path: filepath.Join(s.dir, "absent")})
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start absent") {
			t.Errorf("says %v", err)
		}
	})
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Start(ctx, s.script("slow", "exec sleep 600")); !errors.Is(err, context.Canceled) {
		t.Errorf("says %v, want it to be canceled", err)
	}
}

func TestADeadComponentIsStartedAgain(t *testing.T) {
	s := newStage(t)
	if err := s.Start(t.Context(), s.script("a", "touch a; exec sleep 600")); err != nil {
		t.Fatal(err)
	}
	first := s.Processes()["a"]
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.await(t, "a second process", func() bool {
		second, running := s.Processes()["a"]
		return running && second != first
	})
	if said := s.sayings(); !strings.Contains(said, "a ended (signal: killed); starting it again in 1s") {
		t.Errorf("says %q", said)
	}
}

func TestStopEndsTheLastStartedFirst(t *testing.T) {
	s := newStage(t)
	for _, name := range []string{"first", "second", "third"} {
		component := s.script(name, `trap "echo `+name+` >> order; exit" TERM; touch `+name+`; while :; do sleep 0.01; done`)
		if err := s.Start(t.Context(), component); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	order, err := os.ReadFile(filepath.Join(s.dir, "order"))
	if err != nil || string(order) != "third\nsecond\nfirst\n" {
		t.Errorf("order %q, %v", order, err)
	}
	if left := s.Processes(); len(left) != 0 {
		t.Errorf("still running: %v", left)
	}
	if err := s.Start(t.Context(), s.script("late", "exec sleep 600")); !errors.Is(err, errStopping) {
		t.Errorf("started after the stop: %v", err)
	}
}

func TestStopKillsWhatDoesNotStop(t *testing.T) {
	s := newStage(t)
	component := s.script("stubborn", `trap "" TERM; touch stubborn; while :; do sleep 0.01; done`)
	component.StopTimeout = 50 * time.Millisecond
	if err := s.Start(t.Context(), component); err != nil {
		t.Fatal(err)
	}
	process := s.Processes()["stubborn"]
	s.Stop()
	if syscall.Kill(process, 0) == nil {
		t.Error("still running")
	}
	if said := s.sayings(); !strings.Contains(said, "stubborn did not stop in time") {
		t.Errorf("says %q", said)
	}
}

func TestALargeLogMakesRoom(t *testing.T) {
	s := newStage(t)
	log := filepath.Join(s.dir, "a.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(log, largeLog+1); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), s.script("a", "echo anew; touch a; exec sleep 600")); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(log); err != nil || string(content) != "anew\n" {
		t.Errorf("log %q, %v", content, err)
	}
	if old, err := os.Stat(log + ".old"); err != nil || old.Size() != largeLog+1 {
		t.Errorf("old log %v, %v", old, err)
	}
}
