package supervisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	readyTimeout = 3 * time.Minute        // a loaded two-core machine needs most of one
	readyPoll    = 100 * time.Millisecond // how often readiness is asked for
	stopTimeout  = 15 * time.Second
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	settled      = time.Minute // a process that lived this long starts again after the first backoff
	quotedLines  = 5           // of a log, in an error
	quotedBytes  = 4096        // of a log, to find these lines in
)

// process is a component and the life of its program, over all restarts.
type process struct {
	Component
	supervisor *Supervisor
	pid        atomic.Int64 // zero while it is not running
	ready      atomic.Bool  // has been ready once: from then on it is restarted
	failed     chan error   // how it ended before it was ready
	stop       chan struct{}
	stopOnce   sync.Once
	ended      chan struct{} // closed when it is over for good
}

func (p *process) start() (*exec.Cmd, error) {
	command, err := p.supervisor.command(p.Component)
	if err != nil {
		return nil, err
	}
	defer command.Stdout.(*os.File).Close()
	request := launch{command, make(chan error)}
	p.supervisor.launch <- request
	if err := <-request.result; err != nil {
		return nil, err
	}
	p.pid.Store(int64(command.Process.Pid))
	return command, nil
}

// keep waits for the program and starts it again, until it is told to stop or has failed before it was ready.
func (p *process) keep(command *exec.Cmd) {
	defer close(p.ended)
	wait := firstBackoff
	for {
		p.supervisor.changed()
		began := time.Now()
		err := p.wait(command)
		p.supervisor.changed()
		if p.isStopping() {
			return
		}
		if !p.ready.Load() {
			p.failed <- fmt.Errorf("%s ended at start (%v)%s", p.Name, err, p.quote())
			return
		}
		if time.Since(began) > settled {
			wait = firstBackoff
		}
		if command = p.restart(err, &wait); command == nil {
			return
		}
	}
}

func (p *process) wait(command *exec.Cmd) error {
	err := command.Wait()
	p.pid.Store(0)
	if err == nil {
		return fmt.Errorf("exit status 0")
	}
	return err
}

// restart starts the program again after a growing wait; nil when it is told to stop meanwhile.
func (p *process) restart(cause error, wait *time.Duration) *exec.Cmd {
	for {
		p.supervisor.say(fmt.Sprintf("%s ended (%v); starting it again in %s%s", p.Name, cause, *wait, p.quote()))
		select {
		case <-p.stop:
			return nil
		case <-time.After(*wait):
		}
		*wait = min(*wait*2, lastBackoff)
		command, err := p.start()
		if err == nil {
			if p.isStopping() { // between the wait and the start
				p.signal(syscall.SIGKILL, -1)
			}
			return command
		}
		cause = err
	}
}

func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	var last error
	for {
		if last = p.Ready(ctx); last == nil {
			p.ready.Store(true)
			return nil
		}
		select {
		case err := <-p.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %v%s", p.Name, context.Cause(ctx), last, p.quote())
		case <-poll.C:
		}
	}
}

func (p *process) isStopping() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// end asks the program to stop, kills it when it does not, and returns when it is gone.
func (p *process) end() {
	p.stopOnce.Do(func() { close(p.stop) })
	p.signal(orDefault(p.Stop, syscall.SIGTERM), 1)
	select {
	case <-p.ended:
		return
	case <-time.After(orDefault(p.StopTimeout, stopTimeout)):
	}
	p.supervisor.say(p.Name + " did not stop in time and was killed")
	p.signal(syscall.SIGKILL, -1)
	<-p.ended
}

// signal reaches the process, or with the sign -1 its whole process group.
func (p *process) signal(signal syscall.Signal, sign int) {
	if pid := int(p.pid.Load()); pid != 0 {
		_ = syscall.Kill(sign*pid, signal) // it may be gone already, which is what we want
	}
}

// quote is the end of the component's log, ready to follow an error message.
func (p *process) quote() string {
	path := p.supervisor.logFile(p.Name)
	lines := strings.Split(strings.TrimSpace(tail(path)), "\n")
	lines = lines[max(0, len(lines)-quotedLines):]
	return fmt.Sprintf("; the end of %s:\n    %s", path, strings.Join(lines, "\n    "))
}

// tail is the last few KiB of a file, empty when it cannot be read.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > quotedBytes {
		_, _ = file.Seek(-quotedBytes, io.SeekEnd) // else the whole file is quoted from
	}
	content, _ := io.ReadAll(io.LimitReader(file, quotedBytes)) // what could be read is better than nothing
	return string(content)
}
