package k8s

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s/probe"
)

// VerificationStore is what verifications are kept in.
type VerificationStore interface {
	// VerificationWork returns what there is to verify of one request.
	VerificationWork(ctx context.Context, actor rayslice.User, requestID string) (rayslice.VerificationWork, error)
	// StartVerification begins the request's open run, or a new one of that name, and returns it as it is.
	StartVerification(ctx context.Context, actor rayslice.User, requestID, run string, pods []string) (rayslice.Verification, error)
	// FinishVerification ends a run with what it found out; doing so twice changes nothing.
	FinishVerification(ctx context.Context, actor rayslice.User, run string, reason rayslice.Reason, certificates []rayslice.Certificate) error
}

const (
	verifiers    = 16              // runs at the same time
	verifyEach   = 8 * time.Second // a run may take this longer for every worker, because those on one card take turns; but
	verifyAtMost = 5 * time.Minute // never after this
)

// verifier runs the probe on workers that nobody has looked at, and on those of whoever asks. What it does stands in the
// store, so that another replica goes on where this one ended, and two that do the same do it once.
type verifier struct {
	store   VerificationStore
	jobs    jobs
	targets func(have rayslice.Cluster, pods []string) []rayslice.Target
	look    func(request rayslice.Request) rayslice.Cluster // as it is now
	least   time.Duration                                   // a run ends after this, and a little later for every worker
	changed func(id string)
	off     bool // nothing is verified by itself
	log     *slog.Logger
	metrics verifyMetrics

	slots   chan struct{}
	mu      sync.Mutex
	running map[string]bool // by request id
}

func newVerifier(c *Controller, m verifyMetrics) *verifier {
	return &verifier{
		store: c.cfg.Store, jobs: jobs{c.heads}, off: c.cfg.Unverified, changed: c.Wake, log: c.log, metrics: m,
		targets: func(have rayslice.Cluster, pods []string) []rayslice.Target {
			targets := targetsOf(have, pods, c.cfg.Catalogue, c.nodes(), sharersOf(c.pods(), c.caches.foreign.all()))
			for i := range targets {
				if !c.caches.foreign.read() {
					targets[i].NeighboursMiB = nil
				}
			}
			return targets
		},
		look: func(request rayslice.Request) rayslice.Cluster {
			return observe(request, c.caches.see(request), time.Now())
		},
		least: c.cfg.VerifyLimit,
		slots: make(chan struct{}, verifiers), running: map[string]bool{},
	}
}

// see says how far the verification of a cluster is, and begins one where it is due. parts counts what it begins, which ends
// with ctx.
func (v *verifier) see(ctx context.Context, parts *sync.WaitGroup, request rayslice.Request, have rayslice.Cluster) (rayslice.VerificationState, error) {
	pods := have.VerifiablePods()
	if request.State != rayslice.StateProvisioning && request.State != rayslice.StateReady && request.State != rayslice.StateAttention {
		return "", nil
	}
	if !have.HeadAnswers || !have.Ours || have.Deleting || len(pods) == 0 || have.ReadyWorkers() < request.Draft.MinWorkers() {
		return "", v.giveUp(ctx, request.ID)
	}
	work, err := v.store.VerificationWork(ctx, rayslice.System, request.ID)
	if err != nil {
		return "", err
	}
	work.Off = work.Off || v.off
	due := work.Due(pods, time.Now())
	switch {
	case work.Open != nil && work.Open.StartedAt.IsZero():
		due = pods // somebody has asked for all
	case work.Open != nil:
		due = work.Open.Pods
	}
	if work.Open != nil || len(due) > 0 {
		v.begin(ctx, parts, request, have, due)
	}
	switch {
	case work.Off:
		return rayslice.VerificationOff, nil
	case len(work.Unseen(pods)) > 0:
		return rayslice.VerificationDue, nil
	}
	return rayslice.VerificationDone, nil
}

// giveUp ends an open run of a cluster that could not be verified for long: what was asked for would seem under way for ever.
func (v *verifier) giveUp(ctx context.Context, id string) error {
	work, err := v.store.VerificationWork(ctx, rayslice.System, id)
	if err != nil || work.Open == nil || time.Since(work.Open.AskedAt) < 2*verifyAtMost || time.Since(work.Open.StartedAt) < 2*verifyAtMost {
		return err
	}
	return v.store.FinishVerification(ctx, rayslice.System, work.Open.Run, rayslice.Reason{Code: rayslice.ReasonVerifyGone}, nil)
}

// begin runs one verification of the request in the background, unless one runs here already.
func (v *verifier) begin(ctx context.Context, parts *sync.WaitGroup, request rayslice.Request, have rayslice.Cluster, pods []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.running[request.ID] {
		return
	}
	v.running[request.ID] = true
	parts.Go(func() {
		defer v.ended(request.ID)
		select {
		case v.slots <- struct{}{}:
			defer func() { <-v.slots }()
		case <-ctx.Done():
			return
		}
		if err := v.run(ctx, request, have, pods); err != nil && ctx.Err() == nil {
			v.log.WarnContext(ctx, "verification could not be kept, will try again", "request", request.ID, "error", err)
		}
	})
}

func (v *verifier) ended(id string) {
	v.mu.Lock()
	delete(v.running, id)
	v.mu.Unlock()
	v.changed(id)
}

// run does one verification. Killed anywhere, the next one does the rest: the job has the run's name, and the run ends once.
func (v *verifier) run(ctx context.Context, request rayslice.Request, have rayslice.Cluster, pods []string) error {
	run, err := v.store.StartVerification(ctx, rayslice.System, request.ID, rayslice.NewRequestID(), pods)
	if rayslice.KindOf(err) == rayslice.KindConflict {
		return nil // it has been stopped
	}
	if err != nil {
		return err
	}
	targets := v.targets(have, run.Pods)
	if len(targets) == 0 {
		return v.store.FinishVerification(ctx, rayslice.System, run.Run, rayslice.Reason{Code: rayslice.ReasonVerifyGone}, nil)
	}
	most := min(verifyAtMost, v.least+time.Duration(len(targets))*verifyEach)
	begun := run.StartedAt
	if time.Since(begun) > most/2 { // another replica began it and was killed: its job may be lost, and this one needs time too
		begun = time.Now()
	}
	limited, cancel := context.WithDeadline(ctx, begun.Add(most))
	defer cancel()
	head := HeadAddress{Namespace: request.Namespace, Pod: have.Head.Name, IP: have.Head.IP}
	evidence, reason := v.jobs.ask(limited, head, run.Run, targets, most)
	if ctx.Err() != nil {
		return nil // the next leader goes on
	}
	settle(targets, evidence, have, v.look(request))
	certificates := certify(targets, evidence, reason)
	if err := v.store.FinishVerification(ctx, rayslice.System, run.Run, reason, certificates); err != nil {
		return err
	}
	v.metrics.ended(time.Since(run.StartedAt), certificates)
	v.jobs.forget(ctx, head, run.Run)
	v.log.InfoContext(ctx, "verified", "request", request.ID, "run", run.Run, "workers", len(targets), "reason", reason.Code)
	return nil
}

// certify judges every target by the evidence; reason says why there is none.
func certify(targets []rayslice.Target, evidence rayslice.Evidence, reason rayslice.Reason) []rayslice.Certificate {
	var all []rayslice.Certificate
	for _, target := range targets {
		c := rayslice.Certificate{At: time.Now().UTC(), Probe: probe.Version, Target: target} // not by the cluster's clock
		if !reason.IsZero() {
			c.Judgement = rayslice.Judgement{Enforcement: rayslice.Inconclusive, Reason: reason, Rows: []rayslice.ProofRow{}}
		} else {
			c.Judgement = rayslice.Judge(target, evidence)
		}
		if w, ok := evidence.Worker(target); ok {
			c.Driver = clean(w.SMI.Driver)
			if len(w.SMI.Cards) == 1 {
				c.CardUUID = clean(w.SMI.Cards[0].UUID)
			}
		}
		all = append(all, c)
	}
	return all
}
