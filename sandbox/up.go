package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayslice/rayslice/sandbox/fleet"
	"github.com/rayslice/rayslice/sandbox/supervisor"
)

//go:embed fleet.yaml
var defaultFleet []byte

// schedulerConfiguration is the plugin's own, as a file: its package would bring all of the scheduler into this program.
//
//go:embed gpushare/config.yaml
var schedulerConfiguration string

// leastFree is the disk space below which etcd and PostgreSQL would soon stop.
const leastFree = 1 << 30

// sandbox is one that is being started, runs, or is being stopped in this process.
type sandbox struct {
	options upOptions
	state   *State
	say     func(string)
	plane   *controlPlane
	server  *postgres
	fleet   fleet.Fleet
	keeper  *supervisor.Supervisor
	heads   *simulator
	began   time.Time
}

// upOptions are what a person can choose about a sandbox.
type upOptions struct {
	dir         string // absolute
	bin         string // of the control plane's programs
	fleetFile   string // replaces DIR/fleet.yaml when set
	postgresBin string // empty to look for it
	kubernetes  bool
	postgres    bool
	fsync       bool
}

// run starts the sandbox, calls announce when it is ready, and stops it when the context ends.
func run(ctx context.Context, options upOptions, say func(string), announce func(*State)) error {
	if err := os.MkdirAll(filepath.Join(options.dir, "logs"), 0o711); err != nil {
		return err
	}
	lock, err := takeLock(options.dir)
	if err != nil {
		return err
	}
	defer lock.file.Close()
	state, err := loadState(options.dir)
	if err != nil {
		return err
	}
	s := &sandbox{options: options, state: state, say: say, began: time.Now()}
	s.keeper = supervisor.New(filepath.Join(options.dir, "logs"), say, s.recordProcesses)
	if err := s.prepare(); err != nil {
		return err
	}
	defer s.stop()
	log, err := s.logToFile()
	if err != nil {
		return err
	}
	defer log.Close()
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it was ready
		}
		return err
	}
	announce(s.state)
	<-ctx.Done()
	return nil
}

// prepare checks and writes everything that the components need before the first is started.
func (s *sandbox) prepare() error {
	if err := checkDisk(s.options.dir); err != nil {
		return err
	}
	endLeftovers(s.state.Processes, s.options.dir, 5*time.Second)
	ports, err := takePorts(s.state.Ports, append([]string{"postgres", "etcd-peer"}, programs...))
	if err != nil {
		return err
	}
	if s.options.postgres {
		bin, err := findPostgres(s.options.postgresBin)
		if err != nil {
			return err
		}
		s.server = &postgres{dir: s.options.dir, bin: bin, port: ports["postgres"], fsync: s.options.fsync}
	}
	if s.options.kubernetes {
		if err := s.prepareKubernetes(ports); err != nil {
			return err
		}
	}
	return s.state.update(func(state *State) {
		state.Phase, state.PID, state.Ports, state.Processes = starting, os.Getpid(), ports, nil
		state.Kubeconfig, state.PortalKubeconfig, state.DatabaseURL, state.AppDatabaseURL = "", "", "", ""
		if s.options.kubernetes {
			state.Kubeconfig = filepath.Join(s.options.dir, admin.file)
			state.PortalKubeconfig = filepath.Join(s.options.dir, portal.file)
		}
	})
}

func (s *sandbox) prepareKubernetes(ports map[string]int) error {
	if err := checkPrograms(s.options.bin); err != nil {
		return err
	}
	var err error
	if s.fleet, err = readFleet(s.options.dir, s.options.fleetFile); err != nil {
		return err
	}
	s.plane = &controlPlane{
		dir: s.options.dir, bin: s.options.bin, ports: ports, fsync: s.options.fsync,
		identity: identity(filepath.Join(s.options.dir, "identity")),
	}
	if err := s.plane.identity.ensure(); err != nil {
		return err
	}
	if err := s.plane.identity.writeKubeconfigs(s.options.dir, "https://"+s.plane.address("kube-apiserver")); err != nil {
		return err
	}
	if err := s.plane.writeConfigs(); err != nil {
		return err
	}
	return s.plane.connect()
}

func checkDisk(dir string) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return err
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < leastFree {
		return fmt.Errorf("only %d MiB are free on the disk of %s, the sandbox needs %d: make room or choose another --dir",
			free>>20, dir, leastFree>>20)
	}
	return nil
}

// readFleet reads DIR/fleet.yaml, which is the given file's copy, or at first the default's.
func readFleet(dir, file string) (fleet.Fleet, error) {
	own := filepath.Join(dir, "fleet.yaml")
	content, err := os.ReadFile(own)
	switch {
	case file != "":
		if content, err = os.ReadFile(file); err != nil {
			return fleet.Fleet{}, fmt.Errorf("--fleet: %w", err)
		}
	case errors.Is(err, fs.ErrNotExist):
		content = defaultFleet
	case err != nil:
		return fleet.Fleet{}, err
	}
	parsed, err := fleet.Parse(content)
	if err != nil {
		return fleet.Fleet{}, err
	}
	return parsed, os.WriteFile(own, content, 0o644)
}

// start brings everything up, Postgres beside Kubernetes.
func (s *sandbox) start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if s.server != nil {
		group.Go(func() error { return s.startPostgres(ctx) })
	}
	if s.plane != nil {
		group.Go(func() error { return s.startKubernetes(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.state.update(func(state *State) { state.Phase = ready })
}

func (s *sandbox) startPostgres(ctx context.Context) error {
	if err := s.server.prepare(ctx); err != nil {
		return err
	}
	if err := s.keeper.Start(ctx, s.server.component()); err != nil {
		return err
	}
	owner, err := s.server.url(role)
	if err != nil {
		return err
	}
	app, err := s.server.url(appRole)
	if err != nil {
		return err
	}
	s.progress("PostgreSQL")
	return s.state.update(func(state *State) { state.DatabaseURL, state.AppDatabaseURL = owner, app })
}

// startKubernetes starts each part as soon as what it needs is there.
func (s *sandbox) startKubernetes(ctx context.Context) error {
	if err := s.keeper.Start(ctx, s.plane.etcd()); err != nil {
		return err
	}
	s.progress("etcd")
	cluster, err := openCluster(s.state.Kubeconfig)
	if err != nil {
		return err
	}
	if err := s.keeper.Start(ctx, s.plane.apiServer(cluster.isReady)); err != nil {
		return err
	}
	s.progress("Kubernetes API server")
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.keeper.Start(groupCtx, s.plane.controllerManager(), s.plane.scheduler()) })
	group.Go(func() error { return s.startPlayers(groupCtx, cluster) })
	if err := group.Wait(); err != nil {
		return err
	}
	s.heads = simulate(cluster.config, s.options.dir, s.say)
	s.progress("controllers, scheduler, KubeRay, KWOK")
	if err := cluster.awaitUsable(ctx); err != nil {
		return err
	}
	s.progress("fleet")
	return nil
}

// startPlayers starts those that need kinds of their own, and gives KWOK its machines.
func (s *sandbox) startPlayers(ctx context.Context, cluster *cluster) error {
	if err := cluster.install(ctx); err != nil {
		return err
	}
	if err := cluster.applyStages(ctx, s.fleet); err != nil {
		return err
	}
	if err := cluster.applyNodes(ctx, s.fleet.Nodes(int32(s.plane.ports["kwok"]))); err != nil {
		return err
	}
	return s.keeper.Start(ctx, s.plane.kwok(), s.plane.kuberayOperator())
}

func (s *sandbox) progress(what string) {
	s.say(fmt.Sprintf("%5.1fs  %s", time.Since(s.began).Seconds(), what))
}

func (s *sandbox) recordProcesses() {
	err := s.state.update(func(state *State) { state.Processes = s.keeper.Processes() })
	if err != nil {
		s.say("cannot write state.json: " + err.Error())
	}
}

func (s *sandbox) stop() {
	s.say("stopping")
	s.heads.stop()
	s.keeper.Stop()
	err := s.state.update(func(state *State) { state.Phase, state.PID, state.Processes = stopped, 0, nil })
	if err != nil {
		s.say("cannot write state.json: " + err.Error())
	}
	s.say("stopped")
}
