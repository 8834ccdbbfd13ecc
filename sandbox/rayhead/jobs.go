package rayhead

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	jobTimeout = 10 * time.Minute
	maxJob     = 1 << 20 // bytes of a submission
	noiseBytes = 10 << 20
)

// jobs are those of one head. Their processes run on this machine.
type jobs struct {
	machine Machine
	dir     string // of this head's jobs
	look    func() cluster

	mu   sync.Mutex
	jobs []*job
}

// job is one submission, in Ray's words.
type job struct {
	id         string
	entrypoint string
	metadata   map[string]string
	runtimeEnv map[string]any
	dir        string
	status     string
	message    string
	exitCode   *int
	start, end time.Time
	command    *exec.Cmd
	stopped    bool
	ended      chan struct{}
}

// The statuses of a job.
const (
	jobPending   = "PENDING"
	jobRunning   = "RUNNING"
	jobStopped   = "STOPPED"
	jobSucceeded = "SUCCEEDED"
	jobFailed    = "FAILED"
)

func newJobs(machine Machine, head string, look func() cluster) *jobs {
	return &jobs{machine: machine, dir: filepath.Join(machine.dir, "jobs", head), look: look}
}

// routes adds the Jobs API to a head's paths.
func (j *jobs) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/jobs/{$}", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, j.list()) })
	mux.HandleFunc("POST /api/jobs/{$}", j.submit)
	j.route(mux, "GET /api/jobs/{id}", func(one *job) (any, error) { return j.details(one), nil })
	j.route(mux, "GET /api/jobs/{id}/logs", func(one *job) (any, error) { return j.logs(one) })
	j.route(mux, "POST /api/jobs/{id}/stop", func(one *job) (any, error) { return object{"stopped": j.stop(one)}, nil })
	j.route(mux, "DELETE /api/jobs/{id}", func(one *job) (any, error) { return object{"deleted": true}, j.remove(one) })
}

func (j *jobs) route(mux *http.ServeMux, pattern string, answer func(*job) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		one := j.find(r.PathValue("id"))
		if one == nil {
			plain(w, http.StatusNotFound, "Job "+r.PathValue("id")+" does not exist")
			return
		}
		body, err := answer(one)
		if err != nil {
			plain(w, http.StatusInternalServerError, err.Error())
			return
		}
		writeJSON(w, http.StatusOK, body)
	})
}

func (j *jobs) find(id string) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.IndexFunc(j.jobs, func(one *job) bool { return one.id == id }); i >= 0 {
		return j.jobs[i]
	}
	return nil
}

func (j *jobs) list() []object {
	j.mu.Lock()
	all := slices.Clone(j.jobs)
	j.mu.Unlock()
	answers := []object{}
	for _, one := range all {
		answers = append(answers, j.details(one))
	}
	return answers
}

// submission is the body of a POST, as far as it counts here.
type submission struct {
	Entrypoint   *string           `json:"entrypoint"`
	SubmissionID string            `json:"submission_id"`
	RuntimeEnv   map[string]any    `json:"runtime_env"`
	Metadata     map[string]string `json:"metadata"`
}

var fileName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$`)

func (j *jobs) submit(w http.ResponseWriter, r *http.Request) {
	var s submission
	if err := json.NewDecoder(io.LimitReader(r.Body, maxJob)).Decode(&s); err != nil || s.Entrypoint == nil {
		plain(w, http.StatusBadRequest, fmt.Sprintf("Traceback (most recent call last):\nTypeError: entrypoint is missing, or the body is no JSON: %v", err))
		return
	}
	if s.SubmissionID == "" {
		s.SubmissionID = "raysubmit_" + digest(*s.Entrypoint, time.Now().String())[:16]
	}
	c := j.look()
	switch {
	case c.faults[JobsDown]:
		plain(w, http.StatusInternalServerError, "No available agent to submit job, please try again later.")
		return
	case j.machine.dir == "" || !fileName.MatchString(s.SubmissionID):
		plain(w, http.StatusInternalServerError, "the sandbox cannot run the job "+s.SubmissionID)
		return
	}
	if err := j.start(c, s); err != nil {
		plain(w, http.StatusInternalServerError, "Traceback (most recent call last):\n"+err.Error())
		return
	}
	writeJSON(w, http.StatusOK, object{"job_id": s.SubmissionID, "submission_id": s.SubmissionID})
}

// start takes the job in and starts its entrypoint.
func (j *jobs) start(c cluster, s submission) error {
	one := &job{id: s.SubmissionID, entrypoint: *s.Entrypoint, metadata: s.Metadata, runtimeEnv: s.RuntimeEnv, status: jobPending,
		dir: filepath.Join(j.dir, s.SubmissionID), start: time.Now(), ended: make(chan struct{})}
	j.mu.Lock()
	defer j.mu.Unlock()
	if slices.ContainsFunc(j.jobs, func(other *job) bool { return other.id == one.id }) {
		return fmt.Errorf("ValueError: Job with submission_id %s already exists. Please use a different submission_id.", one.id) //nolint:staticcheck // Ray's own words
	}
	j.jobs = append(j.jobs, one)
	if c.faults[JobsStuck] {
		one.message = "Job has not started yet. It may be waiting for resources."
		return nil
	}
	if err := j.launch(c, one); err != nil {
		one.status, one.message, one.end = jobFailed, err.Error(), time.Now()
	}
	return nil
}

func (j *jobs) launch(c cluster, one *job) error {
	if err := os.MkdirAll(one.dir, 0o700); err != nil {
		return err
	}
	environment, err := j.machine.describe(c, filepath.Join(one.dir, "ray.json"))
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(one.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command("/bin/sh", "-c", one.entrypoint)
	command.Dir, command.Stdout, command.Stderr = one.dir, log, log // all that it starts is known by this folder
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+value)
	}
	begin := make(chan error)
	go j.keep(one, command, begin)
	if err := <-begin; err != nil {
		return err
	}
	one.status, one.message, one.command = jobRunning, "Job is currently running.", command
	return nil
}

// keep starts the job's process, waits for its end, or makes it end, and ends what it left behind.
func (j *jobs) keep(one *job, command *exec.Cmd, begin chan<- error) {
	err := command.Start()
	begin <- err
	if err != nil {
		return
	}
	defer close(one.ended)
	limit := time.AfterFunc(jobTimeout, func() { endAll(one.dir) })
	err = command.Wait()
	limit.Stop()
	endAll(one.dir)
	j.mu.Lock()
	defer j.mu.Unlock()
	code := command.ProcessState.ExitCode()
	one.exitCode, one.end = &code, time.Now()
	switch {
	case one.stopped:
		one.status, one.message = jobStopped, "Job was intentionally stopped."
	case err == nil:
		one.status, one.message = jobSucceeded, "Job finished successfully."
	default:
		one.status, one.message = jobFailed, fmt.Sprintf("Job entrypoint command failed with exit code %d", code)
	}
}

// stop ends a running job; false when there was nothing to end.
func (j *jobs) stop(one *job) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case one.command == nil && one.status == jobPending:
		one.status, one.message, one.end = jobStopped, "Job was intentionally stopped.", time.Now()
		return true
	case one.status != jobRunning:
		return false
	}
	one.stopped = true
	go endAll(one.dir)
	return true
}

func (j *jobs) remove(one *job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Contains([]string{jobStopped, jobSucceeded, jobFailed}, one.status) {
		return fmt.Errorf("RuntimeError: Attempted to delete job '%s', but it is in a non-terminal state %s.", one.id, one.status) //nolint:staticcheck // Ray's own words
	}
	j.jobs = slices.DeleteFunc(j.jobs, func(other *job) bool { return other == one })
	return os.RemoveAll(one.dir)
}

// stopAll ends all jobs and waits for their ends.
func (j *jobs) stopAll() {
	j.mu.Lock()
	all := slices.Clone(j.jobs)
	j.mu.Unlock()
	for _, one := range all {
		if j.stop(one) && one.command != nil {
			<-one.ended
		}
	}
}

func (j *jobs) details(one *job) object {
	j.mu.Lock()
	defer j.mu.Unlock()
	answer := object{
		"type": "SUBMISSION", "job_id": nil, "submission_id": one.id, "driver_info": nil, "status": one.status, "entrypoint": one.entrypoint,
		"message": one.message, "error_type": nil, "start_time": one.start.UnixMilli(), "end_time": nil, "metadata": one.metadata,
		"runtime_env": one.runtimeEnv, "driver_agent_http_address": nil, "driver_node_id": nil, "driver_exit_code": one.exitCode,
	}
	if !one.end.IsZero() {
		answer["end_time"] = one.end.UnixMilli()
	}
	if one.metadata == nil {
		answer["metadata"] = object{}
	}
	if one.runtimeEnv == nil {
		answer["runtime_env"] = object{}
	}
	return answer
}

// logs is what the job printed, as the head's faults let it be seen.
func (j *jobs) logs(one *job) (any, error) {
	raw, err := os.ReadFile(filepath.Join(one.dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	switch faults := j.look().faults; {
	case faults[JobsNoisy]:
		raw = append(bytes.Repeat([]byte("(raylet) a line that nobody asked for\n"), noiseBytes/38), raw...)
	case faults[JobsHalf]:
		raw = raw[:len(raw)/2]
	}
	return object{"logs": strings.ToValidUTF8(string(raw), "\uFFFD")}, nil
}
