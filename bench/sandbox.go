package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/migrations"
)

// A Sandbox is a fresh one, for one benchmark.
type Sandbox struct {
	Kubeconfig  string         `json:"kubeconfig"`  // path: an administrator's
	DatabaseURL string         `json:"databaseURL"` // of the server
	Processes   map[string]int `json:"processes"`   // by program

	bin, dir string
}

// WithFsync lets the Postgres of Up wait for its disk.
const WithFsync = "--fsync"

// Up starts a sandbox, without fsync unless more has WithFsync, in the folder dir, from the programs in bin; what an earlier benchmark left there is
// forgotten. more are further flags of `sandbox up`. Call Down in any case.
func Up(ctx context.Context, bin, dir string, more ...string) (*Sandbox, error) {
	s := &Sandbox{bin: bin, dir: dir}
	if err := s.command(ctx, "reset"); err != nil {
		return s, err
	}
	flags := append([]string{"--detach"}, slices.DeleteFunc(slices.Clone(more), func(flag string) bool { return flag == WithFsync })...)
	if len(flags) == len(more)+1 {
		flags = append(flags, "--no-fsync")
	}
	if err := s.command(ctx, "up", flags...); err != nil {
		return s, err
	}
	content, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(content, s)
}

// Down stops the sandbox and forgets it.
func (s *Sandbox) Down() {
	if err := s.command(context.Background(), "reset"); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return
	}
	_ = os.Remove(filepath.Join(s.dir, "fleet.yaml")) // ours, not somebody's work
	_ = os.Remove(s.dir)
}

// command runs one of the sandbox's commands; what it says goes to stderr.
func (s *Sandbox) command(ctx context.Context, name string, flags ...string) error {
	command := exec.CommandContext(ctx, filepath.Join(s.bin, "sandbox"), append([]string{name, "--dir", s.dir}, flags...)...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", command.Path, name, err)
	}
	return nil
}

// Pause holds one of the sandbox's programs until resume is called.
func (s *Sandbox) Pause(program string) (resume func(), err error) {
	pid := s.Processes[program]
	if pid == 0 {
		return nil, fmt.Errorf("the sandbox has no %s", program)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("pause %s: %w", program, err)
	}
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }, nil // it has ended when this fails
}

// Database makes a database with the portal's schema and returns its URL.
func (s *Sandbox) Database(ctx context.Context) (string, error) {
	name := "bench_" + rayslice.NewRequestID()
	conn, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+name); err != nil {
		return "", err
	}
	address, err := url.Parse(s.DatabaseURL)
	if err != nil {
		return "", err
	}
	address.Path = "/" + name
	return address.String(), migrations.Up(ctx, address.String())
}

// PostgresVersion is what the server says it is.
func (s *Sandbox) PostgresVersion(ctx context.Context) (version string, err error) {
	conn, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	return version, conn.QueryRow(ctx, `SHOW server_version`).Scan(&version)
}
