package k8s

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s/probe"
)

const (
	jobEvery  = 500 * time.Millisecond // between looks at a job
	jobGiveUp = 20 * time.Second       // a Jobs API that answers nothing for so long is called broken
	maxJobLog = 16 << 20               // bytes of a job's log that are read
)

// jobs runs the probe as a job of Ray's, through the head's Jobs API (ray/dashboard/modules/job/job_head.py): no right to
// run anything in a pod is needed.
type jobs struct{ heads *Heads }

// jobState is what the Jobs API says about one job.
type jobState struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func (s jobState) over() bool {
	return s.Status == "SUCCEEDED" || s.Status == "FAILED" || s.Status == "STOPPED"
}

// ask has the targets measured and returns the evidence, or why there is none. The job bears the run's name: one that is
// there already is waited for instead of sent again. most is the run's whole time, ctx ends it.
func (j jobs) ask(ctx context.Context, to HeadAddress, run string, targets []rayslice.Target, most time.Duration) (rayslice.Evidence, rayslice.Reason) {
	state, err := j.wait(ctx, to, run, targets, most)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return rayslice.Evidence{}, rayslice.Reason{Code: rayslice.ReasonVerifyLate, Args: map[string]any{"seconds": int(most.Seconds())}}
	}
	if err != nil {
		return rayslice.Evidence{}, rayslice.Reason{Code: rayslice.ReasonVerifyNoJobs, Detail: clean(err.Error())}
	}
	log, err := j.log(ctx, to, run)
	if err != nil {
		return rayslice.Evidence{}, rayslice.Reason{Code: rayslice.ReasonVerifyNoAnswer, Detail: clean(err.Error())}
	}
	evidence, err := rayslice.DecodeEvidence(strings.NewReader(log), run)
	switch {
	case err == nil:
		return evidence, rayslice.Reason{}
	case state.Status != "SUCCEEDED":
		return evidence, rayslice.Reason{Code: rayslice.ReasonVerifyJob, Detail: clean(state.Message)}
	}
	return evidence, rayslice.Reason{Code: rayslice.ReasonVerifyNoAnswer, Detail: clean(log[max(0, len(log)-maxText):])}
}

// wait sends the job, unless it is there, and returns when it is over. A Jobs API that only fails for jobGiveUp is given up.
func (j jobs) wait(ctx context.Context, to HeadAddress, run string, targets []rayslice.Target, most time.Duration) (jobState, error) {
	ticker := time.NewTicker(jobEvery)
	defer ticker.Stop()
	worked := time.Now()
	for {
		state, err := j.state(ctx, to, run)
		var answer *headStatus
		if errors.As(err, &answer) && answer.status == http.StatusNotFound {
			err = j.submit(ctx, to, run, targets, most)
		}
		switch {
		case err == nil && state.over():
			return state, nil
		case err == nil:
			worked = time.Now()
		case errors.As(err, &answer) && answer.status == http.StatusBadRequest, time.Since(worked) > jobGiveUp:
			return state, saidBy(err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return state, ctx.Err()
		}
	}
}

// saidBy adds what the head said to the error.
func saidBy(err error) error {
	var answer *headStatus
	if errors.As(err, &answer) {
		lines := strings.Split(strings.TrimSpace(answer.said), "\n")
		return fmt.Errorf("%w: %s", err, lines[len(lines)-1]) // Ray answers with a traceback, whose last line says what it is
	}
	return err
}

func (j jobs) state(ctx context.Context, to HeadAddress, run string) (state jobState, err error) {
	body, err := j.heads.call(ctx, to, http.MethodGet, jobPath(run), nil, maxHeadAnswer)
	if err == nil {
		err = json.Unmarshal(body, &state)
	}
	return state, err
}

func (j jobs) submit(ctx context.Context, to HeadAddress, run string, targets []rayslice.Target, most time.Duration) error {
	spec := probe.SpecOf(run, targets)
	spec.Seconds = int(max(most/2, most-15*time.Second).Seconds()) // so that it says itself what it could not do in time
	spec.CallSeconds = min(20, max(4, spec.Seconds/14))            // so that one that hangs leaves time for the others
	entrypoint, err := probe.Entrypoint(spec)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"entrypoint": entrypoint, "submission_id": submissionID(run), "metadata": map[string]string{"rayslice": "verification"}}); err != nil {
		return err
	}
	_, err = j.heads.call(ctx, to, http.MethodPost, "/api/jobs/", body.Bytes(), maxHeadAnswer)
	var answer *headStatus
	if errors.As(err, &answer) && strings.Contains(answer.said, "already exists") {
		return nil // another replica has just sent it
	}
	return err
}

func (j jobs) log(ctx context.Context, to HeadAddress, run string) (string, error) {
	body, err := j.heads.call(ctx, to, http.MethodGet, jobPath(run)+"/logs", nil, maxJobLog)
	if err != nil {
		return "", err
	}
	var answer struct {
		Logs string `json:"logs"`
	}
	err = json.Unmarshal(body, &answer)
	return answer.Logs, err
}

// forget takes the job out of the cluster's list; one that stays does no harm.
func (j jobs) forget(ctx context.Context, to HeadAddress, run string) {
	_, _ = j.heads.call(ctx, to, http.MethodDelete, jobPath(run), nil, maxHeadAnswer)
}

func submissionID(run string) string { return "rayslice-verify-" + run }
func jobPath(run string) string      { return "/api/jobs/" + submissionID(run) }
