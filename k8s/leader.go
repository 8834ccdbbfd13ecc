package k8s

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is the Lease that says which replica acts.
const leaseName = "rayslice"

// How leadership passes on. A replica killed without warning is replaced within leaseDuration plus leaseRetry.
const (
	leaseDuration = 10 * time.Second
	leaseRenew    = 7 * time.Second
	leaseRetry    = 2 * time.Second
)

// elect stands for leader until ctx ends and leads whenever elected; what one term began has ended before the next.
func (c *Controller) elect(ctx context.Context) error {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:            c.lock(),
			LeaseDuration:   leaseDuration,
			RenewDeadline:   leaseRenew,
			RetryPeriod:     leaseRetry,
			ReleaseOnCancel: true,
			Name:            leaseName,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: c.serveTerm,
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			return err
		}
		elector.Run(ctx)
		c.term.Lock() //nolint:staticcheck // SA2001: waits until serveTerm is done, and that is all
		c.term.Unlock()
	}
	return nil
}

func (c *Controller) serveTerm(ctx context.Context) {
	c.term.Lock()
	defer c.term.Unlock()
	if ctx.Err() != nil {
		return
	}
	c.log.InfoContext(ctx, "leading", "identity", c.cfg.Identity)
	c.lead(ctx)
	c.log.InfoContext(ctx, "no longer leading", "identity", c.cfg.Identity)
}

func (c *Controller) lock() resourcelock.Interface {
	return &lease{controller: c, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.cfg.Namespace, Name: leaseName},
		Client:     c.clients.lease.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.cfg.Identity},
	}}
}

// lease is client-go's lock, which only logs what goes wrong; here it shows in Health.
type lease struct {
	resourcelock.Interface
	controller *Controller
}

// Get reads the Lease.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if !apierrors.IsNotFound(err) {
		l.note(err)
	}
	return record, raw, err
}

// Create makes the Lease, and its namespace where that is allowed.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	if apierrors.IsNotFound(err) && l.controller.cfg.CreateNamespaces {
		if err = l.controller.ensureNamespace(ctx, l.controller.cfg.Namespace, nil); err == nil {
			err = l.Interface.Create(ctx, record)
		}
	}
	l.note(err)
	return err
}

// Update renews or takes the Lease.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	if !apierrors.IsConflict(err) { // a conflict only means that another replica was quicker
		l.note(err)
	}
	return err
}

func (l *lease) note(err error) {
	if err == nil {
		l.controller.leaseError.Store(nil)
		return
	}
	text := "lease " + l.Describe() + ": " + clean(err.Error())
	l.controller.leaseError.Store(&text)
}
