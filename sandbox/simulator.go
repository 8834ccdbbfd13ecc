package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rayslice/rayslice/sandbox/rayhead"
)

// simulatorWait is how long the stand-ins for Ray heads rest after an error, before they try again.
const simulatorWait = time.Second

// simulator runs the stand-ins for Ray heads in this process.
type simulator struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// simulate starts them. They run until stop, whatever happens to the cluster meanwhile.
func simulate(config *rest.Config, dir string, say func(string)) *simulator {
	machine, err := rayhead.NewMachine(filepath.Join(dir, "machine"))
	if err != nil {
		say(fmt.Sprintf("jobs find no GPU driver, so that verification stays inconclusive: %v (Debian: apt-get install gcc libc6-dev)", err))
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &simulator{cancel, make(chan struct{})}
	go func() {
		defer close(s.ended)
		for ctx.Err() == nil {
			if err := rayhead.Run(ctx, config, machine); err != nil {
				say(fmt.Sprintf("the stand-ins for Ray heads failed (%v); starting them again in %s", err, simulatorWait))
			}
			select {
			case <-ctx.Done():
			case <-time.After(simulatorWait):
			}
		}
	}()
	return s
}

// stop ends the stand-ins and returns when their ports are closed. A sandbox that had none has nothing to stop.
func (s *simulator) stop() {
	if s == nil {
		return
	}
	s.cancel()
	<-s.ended
}

// logToFile sends what the libraries in this process log to a file, so that people see progress and problems only.
func (s *sandbox) logToFile() (io.Closer, error) {
	log, err := os.OpenFile(filepath.Join(s.options.dir, "logs", "simulator.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	klog.SetSlogLogger(slog.Default())
	return log, nil
}
