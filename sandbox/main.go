// Command sandbox runs a real Kubernetes control plane with the real KubeRay operator on a simulated GPU fleet, and a
// Postgres beside it, all on 127.0.0.1 and in one folder.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// commandLine is what a person can type.
type commandLine struct {
	Dir string `default:".sandbox" env:"SANDBOX_DIR" help:"Folder of the sandbox: its data, logs and kubeconfigs." placeholder:"DIR"`

	Up         upCommand         `cmd:"" help:"Start the sandbox and keep it running until Ctrl-C. Data of an earlier up is kept."`
	Down       downCommand       `cmd:"" help:"Stop the sandbox, wherever it was started."`
	Status     statusCommand     `cmd:"" help:"Show what runs, how to reach it and the state of the machines."`
	Reset      resetCommand      `cmd:"" help:"Stop the sandbox and forget its data. An edited fleet.yaml is kept."`
	Kubeconfig kubeconfigCommand `cmd:"" help:"Print the path of the administrator's kubeconfig."`
	Drain      drainCommand      `cmd:"" help:"Cordon a machine and evict its pods."`
	Kill       killCommand       `cmd:"" help:"Make a machine die: not ready, its pods lost."`
	Revive     reviveCommand     `cmd:"" help:"Bring a killed or drained machine back."`
}

func main() {
	var line commandLine
	parsed := kong.Parse(&line,
		kong.Name("sandbox"),
		kong.Description("A real Kubernetes control plane with the real KubeRay operator on a simulated GPU fleet."),
		kong.UsageOnError(),
	)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	parsed.BindTo(ctx, (*context.Context)(nil))
	dir, err := filepath.Abs(line.Dir)
	if err == nil {
		err = parsed.Run(folder(dir))
	}
	if err != nil {
		if !errors.Is(err, errShown) {
			fmt.Fprintln(os.Stderr, "sandbox:", err)
		}
		os.Exit(1)
	}
}

// errShown is a failure about which people have been told.
var errShown = errors.New("shown already")

// folder is the absolute path of a sandbox's folder.
type folder string

// open connects to the folder's running sandbox.
func (f folder) open() (*cluster, error) {
	state, err := loadState(string(f))
	if err != nil {
		return nil, err
	}
	if lockHolder(string(f)) == 0 || state.Kubeconfig == "" {
		return nil, fmt.Errorf("no cluster is up in %s: start it with `sandbox up --dir %s`", f, f)
	}
	return openCluster(state.Kubeconfig)
}

type downCommand struct {
	Timeout time.Duration `default:"60s" help:"How long to wait for everything to stop."`
}

// Run asks the supervisor to stop and waits until it has.
func (c *downCommand) Run(ctx context.Context, dir folder) error {
	pid := lockHolder(string(dir))
	if pid == 0 {
		fmt.Println("no sandbox is up in", dir)
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	for lockHolder(string(dir)) == pid {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d is still stopping after %s: see %s", pid, c.Timeout, filepath.Join(string(dir), "logs"))
		case <-time.After(poll):
		}
	}
	return nil
}

type resetCommand struct{}

// Run forgets everything that the sandbox wrote into its folder.
func (c *resetCommand) Run(ctx context.Context, dir folder) error {
	state, err := os.Stat(filepath.Join(string(dir), "state.json"))
	if err != nil || state.IsDir() {
		fmt.Println("no sandbox in", dir)
		return nil
	}
	if err := (&downCommand{Timeout: time.Minute}).Run(ctx, dir); err != nil {
		return err
	}
	return forget(string(dir))
}

type kubeconfigCommand struct{}

// Run prints a path, for KUBECONFIG=$(sandbox kubeconfig).
func (c *kubeconfigCommand) Run(dir folder) error {
	path := filepath.Join(string(dir), admin.file)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("no kubeconfig in %s yet: start the sandbox with `sandbox up --dir %s`", dir, dir)
	}
	fmt.Println(path)
	return nil
}

type drainCommand struct {
	Node    string        `arg:"" help:"Name of the machine."`
	Timeout time.Duration `default:"2m" help:"How long to wait for the pods to be gone."`
}

// Run drains the node.
func (c *drainCommand) Run(ctx context.Context, dir folder) error {
	cluster, err := dir.open()
	if err != nil {
		return err
	}
	if err := cluster.drain(ctx, c.Node, c.Timeout); err != nil {
		return err
	}
	fmt.Printf("%s is drained; `sandbox revive %s` takes it into service again\n", c.Node, c.Node)
	return nil
}

type killCommand struct {
	Node string `arg:"" help:"Name of the machine."`
}

// Run kills the node.
func (c *killCommand) Run(ctx context.Context, dir folder) error {
	cluster, err := dir.open()
	if err != nil {
		return err
	}
	if err := cluster.kill(ctx, c.Node); err != nil {
		return err
	}
	fmt.Printf("%s is dead; Kubernetes removes its pods within about 20 s; `sandbox revive %s` brings it back\n", c.Node, c.Node)
	return nil
}

type reviveCommand struct {
	Node string `arg:"" help:"Name of the machine."`
}

// Run revives the node.
func (c *reviveCommand) Run(ctx context.Context, dir folder) error {
	cluster, err := dir.open()
	if err != nil {
		return err
	}
	if err := cluster.revive(ctx, c.Node); err != nil {
		return err
	}
	fmt.Println(c.Node, "is ready")
	return nil
}
