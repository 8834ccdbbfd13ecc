package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A Process is the real portal, running as a program of its own. Stop it.
type Process struct {
	URL string
	Pid int

	process *os.Process
	ended   chan error
}

// Serve starts `rayslice serve` from the folder bin on a free loopback port, with its log in dir. flags are further ones.
func Serve(ctx context.Context, bin, dir string, flags ...string) (*Process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	listener.Close()
	log, err := os.Create(filepath.Join(dir, "portal.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.CommandContext(ctx, filepath.Join(bin, "rayslice"), append([]string{"serve", "--addr", addr}, flags...)...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &Process{URL: "http://" + addr, Pid: command.Process.Pid, process: command.Process, ended: make(chan error, 1)}
	go func() { p.ended <- command.Wait() }()
	return p, nil
}

// Stop ends the program and says on stderr when it ended badly.
func (p *Process) Stop() {
	_ = p.process.Signal(syscall.SIGTERM) // it may have ended
	if err := <-p.ended; err != nil {
		fmt.Fprintln(os.Stderr, "the portal ended badly:", err)
	}
}

// Metrics reads what the portal says about itself, by name with labels.
func (p *Process) Metrics(ctx context.Context) (map[string]float64, error) {
	select {
	case err := <-p.ended:
		p.ended <- err
		return nil, fmt.Errorf("the portal has ended: %w; its log says why", err)
	default:
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return ParseMetrics(string(text)), nil
}

// ParseMetrics reads Prometheus' text form: values by name with labels. What is no number is left out.
func ParseMetrics(text string) map[string]float64 {
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if number, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			values[line[:at]] = number
		}
	}
	return values
}
