package notify

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river"

	"github.com/rayslice/rayslice"
)

// Times of what is done again and again, by the replica that river elects.
const (
	dueEvery   = 30 * time.Second
	idleEvery  = 10 * time.Minute
	cleanEvery = time.Hour
	keepNotice = 90 * 24 * time.Hour
)

// due is the job that does what the time asks for: the portal's sweep, and news of what ends soon.
type due struct{}

// Kind names the job.
func (due) Kind() string { return "due" }

// idle is the job that tells of clusters that do nothing.
type idle struct{}

// Kind names the job.
func (idle) Kind() string { return "idle" }

// clean is the job that forgets old notices.
type clean struct{}

// Kind names the job.
func (clean) Kind() string { return "clean" }

// periodicJobs do not pile up: one that waits stands for the next.
func periodicJobs() []*river.PeriodicJob {
	every := func(interval time.Duration, args river.JobArgs) *river.PeriodicJob {
		job := func() (river.JobArgs, *river.InsertOpts) {
			return args, &river.InsertOpts{Queue: queueDue, MaxAttempts: 1, UniqueOpts: river.UniqueOpts{ByPeriod: interval}}
		}
		return river.NewPeriodicJob(river.PeriodicInterval(interval), job, &river.PeriodicJobOpts{RunOnStart: true})
	}
	return []*river.PeriodicJob{every(dueEvery, due{}), every(idleEvery, idle{}), every(cleanEvery, clean{})}
}

type dueWorker struct {
	river.WorkerDefaults[due]
	n *Notifier
}

// Work does each part, also when another has failed.
func (w *dueWorker) Work(ctx context.Context, _ *river.Job[due]) error {
	var sweepErr error
	if w.n.config.Sweep != nil {
		sweepErr = w.n.config.Sweep(ctx)
	}
	_, err := w.n.config.Store.TellEndings(ctx, rayslice.System)
	return errors.Join(sweepErr, err)
}

type idleWorker struct {
	river.WorkerDefaults[idle]
	n *Notifier
}

// Work tells owners.
func (w *idleWorker) Work(ctx context.Context, _ *river.Job[idle]) error {
	_, err := w.n.config.Store.TellIdle(ctx, rayslice.System)
	return err
}

type cleanWorker struct {
	river.WorkerDefaults[clean]
	n *Notifier
}

// Work forgets what nobody looks for any more.
func (w *cleanWorker) Work(ctx context.Context, _ *river.Job[clean]) error {
	_, err := w.n.config.Store.CleanNotices(ctx, rayslice.System, time.Now().Add(-keepNotice))
	return err
}
