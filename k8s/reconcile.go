package k8s

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayslice/rayslice"
)

// refusedAgain is when an apply that was refused is tried again: somebody may have mended the namespace.
const refusedAgain = 30 * time.Second

// reconcile does the next thing for one request and returns when to look again; 0 = when something happens. Doing it
// twice is harmless, and so is being killed between any two lines: the next look starts from what is.
func (c *Controller) reconcile(ctx context.Context, id string) (time.Duration, error) {
	request, err := c.cfg.Store.Work(ctx, rayslice.System, id)
	if rayslice.KindOf(err) == rayslice.KindNotFound {
		return 0, nil // an object without a row is an orphan: listed by the sweep, never touched
	}
	if err != nil {
		return 0, err
	}
	if err := c.recall(ctx, request); err != nil {
		return 0, err
	}
	have := c.look(request, c.caches.see(request))
	have.Confirmed = neverApplied(request, have)
	if have.Verification, err = c.verify.see(ctx, &c.begun, request, have); err != nil {
		return 0, err
	}
	step := rayslice.Plan(request, have, time.Now())
	if step.Action == rayslice.ActionConfirm {
		if have, err = c.confirm(ctx, request); err != nil {
			return 0, err
		}
		step = rayslice.Plan(request, have, time.Now())
	}
	if have.Unguarded, err = c.guard(ctx, request, have); err != nil {
		return 0, err
	}
	if err := c.save(ctx, request, have); err != nil {
		return 0, err
	}
	return c.do(ctx, request, have, step)
}

// neverApplied reports whether the cache is enough to say that there is no object yet. Should it be behind, the apply
// only repeats itself, so no call to the API server is spent on it. Before anything is called gone, one is.
func neverApplied(request rayslice.Request, have rayslice.Cluster) bool {
	return request.ClusterUID == "" && request.State != rayslice.StateStopping && !have.Exists
}

// look turns a sighting into a Cluster, with what the heads and the renderer know about it.
func (c *Controller) look(request rayslice.Request, seen sighting) rayslice.Cluster {
	have := observe(request, seen, time.Now())
	have.HeadAnswers, have.RayVersion = c.heads.watch(request, have)
	if have.Exists && have.Ours {
		if desired, err := Render(request, c.cfg.Catalogue); err == nil { // the catalogue may have lost the pool since
			have.Drift = Drift(desired, seen.cluster)
		}
	}
	return have
}

// confirm reads the RayCluster, and where the answer depends on them its pods, from the API server itself: a cache may
// be behind, and what is called gone gives its quota back.
func (c *Controller) confirm(ctx context.Context, request rayslice.Request) (rayslice.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	seen := c.caches.see(request)
	live, err := c.clients.ray.RayV1().RayClusters(request.Namespace).Get(ctx, request.ObjectName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		seen.cluster = nil
	case err != nil:
		return rayslice.Cluster{}, &apiError{err}
	default:
		slim, _ := slimCluster(live)
		seen.cluster = slim.(*rayv1.RayCluster)
	}
	if request.State == rayslice.StateStopping {
		if seen.pods, err = c.livePods(ctx, request); err != nil {
			return rayslice.Cluster{}, err
		}
	}
	have := c.look(request, seen)
	have.Confirmed = true
	return have, nil
}

func (c *Controller) livePods(ctx context.Context, request rayslice.Request) ([]*podView, error) {
	list, err := c.clients.core.CoreV1().Pods(request.Namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelRequest + "=" + request.ID})
	if err != nil {
		return nil, &apiError{err}
	}
	pods := make([]*podView, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, viewPod(&list.Items[i]))
	}
	return pods, nil
}

// do takes the one step that Plan decided.
func (c *Controller) do(ctx context.Context, request rayslice.Request, have rayslice.Cluster, step rayslice.Step) (time.Duration, error) {
	switch step.Action {
	case rayslice.ActionApply:
		return c.apply(ctx, request, step)
	case rayslice.ActionDelete:
		return step.After, c.remove(ctx, request, have)
	case rayslice.ActionMove:
		return c.move(ctx, request, step, uidOf(have))
	}
	return step.After, nil
}

// uidOf returns the UID to record: never that of somebody else's object.
func uidOf(have rayslice.Cluster) string {
	if have.Exists && have.Ours {
		return have.UID
	}
	return ""
}

// move records a new state and asks for another look, for the next step may be due at once.
func (c *Controller) move(ctx context.Context, request rayslice.Request, step rayslice.Step, uid string) (time.Duration, error) {
	err := c.cfg.Store.Move(ctx, rayslice.System, request.ID, request.State, step.To, step.Reason, uid)
	if err != nil {
		return 0, err
	}
	c.log.InfoContext(ctx, "request moved", "request", request.ID, "from", request.State, "to", step.To, "reason", step.Reason.Code)
	if request.State == step.To {
		return step.After, nil // only the reason is new
	}
	c.Wake(request.ID)
	return step.After, nil
}

// apply creates the RayCluster. Plan asks for it only when no object has that name; should one have just appeared,
// force=false makes the API server refuse rather than overwrite what others wrote.
func (c *Controller) apply(ctx context.Context, request rayslice.Request, step rayslice.Step) (time.Duration, error) {
	manifest, err := c.manifest(request)
	if err != nil {
		return c.refused(ctx, request, rayslice.Reason{Code: rayslice.ReasonInvalidSpec, Detail: clean(err.Error())}, err)
	}
	applied, err := c.send(ctx, request, manifest)
	if err == nil {
		if _, err := c.guardCluster(ctx, request, applied.UID); err != nil {
			return 0, err
		}
		return c.move(ctx, request, step, string(applied.UID))
	}
	if reason := refusal(err, request.Namespace); !reason.IsZero() {
		return c.refused(ctx, request, reason, err)
	}
	return 0, &apiError{err}
}

func (c *Controller) manifest(request rayslice.Request) ([]byte, error) {
	desired, err := Render(request, c.cfg.Catalogue)
	if err != nil {
		return nil, err
	}
	return Manifest(desired)
}

func (c *Controller) send(ctx context.Context, request rayslice.Request, manifest []byte) (*rayv1.RayCluster, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if c.cfg.CreateNamespaces {
		if err := c.ensureNamespace(ctx, request.Namespace, map[string]string{LabelTeam: request.Team}); err != nil {
			return nil, err
		}
	}
	if _, err := c.guardNamespace(ctx, request); err != nil {
		return nil, err
	}
	defer c.metrics.timeApply(time.Now())
	force := false
	return c.clients.ray.RayV1().RayClusters(request.Namespace).Patch(ctx, request.ObjectName(), types.ApplyPatchType, manifest,
		metav1.PatchOptions{FieldManager: FieldManager, Force: &force})
}

// refused records why Kubernetes did not take the object. The administrator finds the raw answer in the log; people get
// the reason. It is tried again, for the cause lies outside the request.
func (c *Controller) refused(ctx context.Context, request rayslice.Request, reason rayslice.Reason, cause error) (time.Duration, error) {
	c.log.WarnContext(ctx, "RayCluster refused", "request", request.ID, "namespace", request.Namespace, "reason", reason.Code, "error", cause)
	c.namespaces.Delete(request.Namespace)
	if request.State == rayslice.StateAttention && request.Reason.Code == reason.Code {
		return refusedAgain, nil
	}
	step := rayslice.Step{To: rayslice.StateAttention, Reason: reason}
	if err := c.cfg.Store.Move(ctx, rayslice.System, request.ID, request.State, step.To, step.Reason, ""); err != nil {
		return 0, err
	}
	return refusedAgain, nil
}

// remove deletes exactly the object that was seen, in the foreground: it stays visible until the pods it owns are gone,
// and KubeRay makes no new ones meanwhile.
func (c *Controller) remove(ctx context.Context, request rayslice.Request, have rayslice.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	uid, foreground := types.UID(have.UID), metav1.DeletePropagationForeground
	err := c.clients.ray.RayV1().RayClusters(request.Namespace).Delete(ctx, request.ObjectName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &foreground,
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another object by now; the watch will say
	}
	if err != nil {
		return &apiError{err}
	}
	return nil
}

// savedCluster remembers what was last saved, and when.
type savedCluster struct {
	digest [sha256.Size]byte
	at     time.Time
}

// save keeps what was observed, when it is news or the last save has become old.
func (c *Controller) save(ctx context.Context, request rayslice.Request, have rayslice.Cluster) error {
	digest, err := digestOf(have)
	if err != nil {
		return err
	}
	c.mu.Lock()
	last, known := c.saved[have.RequestID]
	c.mu.Unlock()
	if !known && request.ClusterUID == "" && !have.Exists && have.Pods() == 0 {
		return nil // nothing yet, and nothing to take back
	}
	if known && last.digest == digest && time.Since(last.at) < c.cfg.Resync {
		return nil
	}
	if err := c.cfg.Store.SaveCluster(ctx, rayslice.System, have); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved[have.RequestID] = savedCluster{digest, time.Now()}
	return nil
}

// digestOf ignores when it was looked.
func digestOf(have rayslice.Cluster) ([sha256.Size]byte, error) {
	have.ObservedAt = time.Time{}
	text, err := json.Marshal(have)
	return sha256.Sum256(text), err
}

// recall reads once what an earlier process knew about the head, so that a restart does not look like a silent head.
func (c *Controller) recall(ctx context.Context, request rayslice.Request) error {
	c.mu.Lock()
	_, known := c.saved[request.ID]
	c.mu.Unlock()
	if known || request.ClusterUID == "" {
		return nil
	}
	before, err := c.cfg.Store.Cluster(ctx, rayslice.System, request.ID)
	if err != nil {
		return err
	}
	c.heads.recall(before)
	return nil
}
