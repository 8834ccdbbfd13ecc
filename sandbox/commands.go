package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type upCommand struct {
	Bin         string `help:"Folder of the control plane's programs (default: that of this program)." placeholder:"DIR"`
	Fleet       string `help:"Replace the sandbox's fleet.yaml by this file." placeholder:"FILE"`
	Only        string `help:"Start only this part: postgres." enum:",postgres" default:"" placeholder:"PART"`
	NoPostgres  bool   `help:"Start Kubernetes only."`
	PostgresBin string `help:"Folder of PostgreSQL's server programs (default: looked for)." placeholder:"DIR"`
	NoFsync     bool   `help:"Faster, but a machine that stops loses data. For tests."`
	Detach      bool   `help:"Return when the sandbox is ready and leave it running."`
}

// Run starts the sandbox in this process or in one of its own.
func (c *upCommand) Run(ctx context.Context, dir folder) error {
	options, err := c.options(string(dir))
	if err != nil {
		return err
	}
	if c.Detach {
		return detach(ctx, options.dir)
	}
	starter := openStarter()
	say := func(line string) {
		fmt.Println(line)
		starter.tell(line + "\n")
	}
	err = run(ctx, options, say, func(state *State) {
		say("ready" + describe(state))
		starter.tell(readyMark)
	})
	if err != nil {
		starter.tell("sandbox: " + err.Error() + "\n" + failedMark)
	}
	return err
}

func (c *upCommand) options(dir string) (upOptions, error) {
	if c.Only == "postgres" && c.NoPostgres {
		return upOptions{}, errors.New("--only postgres and --no-postgres leave nothing to start: drop one of them")
	}
	bin := c.Bin
	if bin == "" {
		self, err := os.Executable()
		if err != nil {
			return upOptions{}, err
		}
		bin = filepath.Dir(self)
	}
	bin, err := filepath.Abs(bin)
	return upOptions{
		dir: dir, bin: bin, fleetFile: c.Fleet, postgresBin: c.PostgresBin,
		kubernetes: c.Only != "postgres", postgres: !c.NoPostgres, fsync: !c.NoFsync,
	}, err
}

// A detached sandbox knows by the variable that somebody listens at the descriptor. It ends what it tells with a mark, a
// byte that no text has.
const (
	detachedVariable = "SANDBOX_DETACHED"
	starterFile      = 3
	readyMark        = "\x00"
	failedMark       = "\x01"
)

// starter is the process that waits for a detached sandbox; nil when there is none.
type starter struct{ pipe *os.File }

func openStarter() *starter {
	if os.Getenv(detachedVariable) == "" {
		return nil
	}
	syscall.CloseOnExec(starterFile) // or the components would keep it waiting
	return &starter{os.NewFile(starterFile, "starter")}
}

// tell is lost when the starter has gone; the log has the same text.
func (s *starter) tell(text string) {
	if s != nil {
		_, _ = s.pipe.WriteString(text)
	}
}

// detach runs the same command line in a session of its own, shows its progress and returns once it is ready.
func detach(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o711); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "logs", "sandbox.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	progress, told, err := os.Pipe()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(self, withoutDetach(os.Args[1:])...)
	command.Env = append(os.Environ(), detachedVariable+"=1")
	command.Stdout, command.Stderr = log, log
	command.ExtraFiles = []*os.File{told}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return err
	}
	told.Close()
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Signal(syscall.SIGTERM) }) // Ctrl-C before it was ready
	defer stop()
	return follow(progress, log.Name())
}

func withoutDetach(arguments []string) []string {
	return slices.DeleteFunc(slices.Clone(arguments), func(argument string) bool { return argument == "--detach" })
}

// follow shows the progress until one of the marks; without any, the sandbox has ended in silence.
func follow(progress io.Reader, log string) error {
	buffer := make([]byte, 4096)
	for {
		n, err := progress.Read(buffer)
		text, _, isReady := bytes.Cut(buffer[:n], []byte(readyMark))
		text, _, hasFailed := bytes.Cut(text, []byte(failedMark))
		os.Stdout.Write(text)
		switch {
		case isReady:
			return nil
		case hasFailed:
			return errShown
		case err != nil:
			return fmt.Errorf("the sandbox did not start; its log is %s", log)
		}
	}
}

// describe says how to use a running sandbox, on lines of their own.
func describe(state *State) string {
	var text strings.Builder
	if state.Kubeconfig != "" {
		fmt.Fprint(&text, "\n  kubeconfig    ", state.Kubeconfig)
	}
	if state.DatabaseURL != "" {
		fmt.Fprint(&text, "\n  database URL  ", state.DatabaseURL)
	}
	return text.String()
}

type statusCommand struct{}

// Run shows the sandbox's processes and machines.
func (c *statusCommand) Run(ctx context.Context, dir folder) error {
	state, err := loadState(string(dir))
	if err != nil {
		return err
	}
	pid := lockHolder(string(dir))
	if pid == 0 {
		fmt.Println("down:", dir)
		return nil
	}
	fmt.Printf("%s: %s, process %d%s\n", state.Phase, dir, pid, describe(state))
	showProcesses(state, pid)
	if state.Kubeconfig == "" || state.Phase != ready {
		return nil
	}
	return showNodes(ctx, state.Kubeconfig)
}

func showProcesses(state *State, supervisor int) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "\nPART\tPROCESS\tPORT\tMEMORY")
	total := memoryMiB(supervisor)
	fmt.Fprintf(table, "sandbox\t%d\t\t%d MiB\n", supervisor, total)
	for _, name := range slices.Sorted(maps.Keys(state.Processes)) {
		pid := state.Processes[name]
		memory := memoryMiB(pid)
		total += memory
		fmt.Fprintf(table, "%s\t%d\t%d\t%d MiB\n", name, pid, state.Ports[name], memory)
	}
	fmt.Fprintf(table, "\t\t\t%d MiB\n", total)
}

func showNodes(ctx context.Context, kubeconfig string) error {
	cluster, err := openCluster(kubeconfig)
	if err != nil {
		return err
	}
	nodes, err := cluster.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "\nMACHINE\tMODE\tCARD\tSTATE")
	for _, node := range nodes.Items {
		condition := "ready"
		switch {
		case isDead(&node):
			condition = "dead"
		case !isReady(&node):
			condition = "not ready"
		case node.Spec.Unschedulable:
			condition = "drained"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", node.Name, node.Labels["ack.node.gpu.schedule"],
			node.Labels["aliyun.accelerator/nvidia_name"], condition)
	}
	return nil
}

// forget removes what the sandbox wrote into its folder, the folder itself if nothing else is in it. A fleet file that
// differs from the default is somebody's work and stays.
func forget(dir string) error {
	database := filepath.Join(dir, "postgres")
	if elsewhere, err := os.Readlink(database); err == nil {
		if err := os.RemoveAll(elsewhere); err != nil {
			return err
		}
	}
	written := []string{
		"etcd", "identity", "identity.part", "logs", "machine", "postgres", "postgres.part", "postgres.password", "postgres.rayslice_app.password",
		"kube-scheduler.yaml", "kwok.yaml", "state.json", "state.json.part", "lock",
	}
	for _, user := range users {
		written = append(written, user.file)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "fleet.yaml")); err == nil && bytes.Equal(content, defaultFleet) {
		written = append(written, "fleet.yaml")
	}
	for _, name := range written {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	_ = os.Remove(dir) // stays when somebody keeps something in it
	return nil
}
