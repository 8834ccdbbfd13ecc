package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// demo starts the sandbox beside this program, then serves the portal on it until ctx ends, then stops the sandbox.
// The data stays in the command's folder.
func demo(ctx context.Context, config Config, command demoCommand) error {
	config.PersonaSignIn, config.CreateNamespaces = true, true
	if err := errors.Join(checkPersonas(config), checkFree(config.Addr)); err != nil {
		return err
	}
	if err := os.MkdirAll(command.Dir, 0o711); err != nil {
		return err
	}
	if err := sandbox(ctx, command, "up", "--detach"); err != nil {
		return err
	}
	defer sandbox(context.WithoutCancel(ctx), command, "down") //nolint:errcheck // it says itself what failed
	admin, err := useSandbox(&config, command.Dir)
	if err != nil {
		return err
	}
	if err := grantRights(ctx, admin); err != nil {
		return err
	}
	logFile, err := os.OpenFile(filepath.Join(command.Dir, "portal.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	fmt.Println("starting the portal; its log is", logFile.Name())
	return serve(ctx, config, slog.New(slog.NewJSONHandler(logFile, nil)))
}

// checkFree says early that the port is taken, before minutes go into the sandbox.
func checkFree(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%s is in use or not ours: choose another with RAYSLICE_ADDR=127.0.0.1:8090 make demo (%w)", addr, err)
	}
	return listener.Close()
}

// sandbox runs the sandbox's own program. It gets a process group of its own, so that Ctrl-C reaches only us and we
// stop it in order.
func sandbox(ctx context.Context, command demoCommand, args ...string) error {
	args = append(args, "--dir", command.Dir)
	if args[0] == "up" {
		args = append(args, "--bin", command.Bin)
	}
	c := exec.CommandContext(ctx, filepath.Join(command.Bin, "sandbox"), args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	err := c.Run()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is missing: run make demo, which builds it", c.Path)
	}
	if err != nil {
		return fmt.Errorf("sandbox %s: %w", args[0], err)
	}
	return nil
}

// useSandbox points the configuration at the sandbox that runs in dir, and returns an administrator's kubeconfig.
func useSandbox(config *Config, dir string) (admin string, err error) {
	content, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if err != nil {
		return "", err
	}
	var state struct {
		Kubeconfig       string `json:"kubeconfig"`
		PortalKubeconfig string `json:"portalKubeconfig"`
		DatabaseURL      string `json:"databaseURL"`
		AppDatabaseURL   string `json:"appDatabaseURL"`
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return "", fmt.Errorf("state of the sandbox: %w", err)
	}
	config.Kubeconfig, config.DatabaseURL, config.MigrateURL = state.PortalKubeconfig, state.AppDatabaseURL, state.DatabaseURL
	return state.Kubeconfig, nil
}
