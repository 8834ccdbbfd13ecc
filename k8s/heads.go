package k8s

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/rayslice/rayslice"
)

// HeadAccess is how the portal reaches the HTTP API of Ray heads.
type HeadAccess string

// The ways to a head.
const (
	HeadAccessAuto        HeadAccess = "auto"        // direct when the portal runs in a pod, else port-forward
	HeadAccessDirect      HeadAccess = "direct"      // straight to the pod's address
	HeadAccessPortForward HeadAccess = "portforward" // through the API server; needs the right to create pods/portforward
)

// Bounds of what a head may do to us: it is run by users of the cluster.
const (
	dashboardPort   = 8265
	headTimeout     = 3 * time.Second
	maxHeadAnswer   = 64 << 10
	headWorkers     = 4
	headRecheck     = 30 * time.Second // a head that answered is asked again; later when there are very many
	headRecheckEach = 50 * time.Millisecond
	headFirst       = time.Second // a head that has not answered yet; waits longer each time
	headSlowest     = 10 * time.Second
	headMisses      = 3 // failures in a row until a head that answered counts as silent
)

// serviceAccountToken is where a pod finds its token: with it, the portal runs in the cluster it serves.
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// A HeadAddress says where a Ray head is.
type HeadAddress struct {
	Namespace string
	Pod       string
	IP        string // of the pod
}

// Heads is the way to the Ray heads, and knows which of them answer. They are asked in the background, a few at a time;
// the number of viewers never adds a question.
type Heads struct {
	dial    func(ctx context.Context, to HeadAddress) (net.Conn, error)
	changed func(id string) // called when what is known about a request's head has changed
	log     *slog.Logger

	mu    sync.Mutex
	known map[string]*headState // by request id
	queue workqueue.TypedDelayingInterface[string]
}

// headState is what is known about the head of one request.
type headState struct {
	uid     string // of the pod; another pod starts from nothing
	address HeadAddress
	version string // of Ray, as last answered
	answers bool
	misses  int // failures in a row
}

func newHeads(access HeadAccess, config *rest.Config, log *slog.Logger, changed func(id string)) (*Heads, error) {
	h := &Heads{changed: changed, log: log, known: map[string]*headState{}}
	if access == HeadAccessAuto {
		access = HeadAccessPortForward
		if config.BearerTokenFile == serviceAccountToken {
			access = HeadAccessDirect
		}
	}
	switch access {
	case HeadAccessDirect:
		h.dial = dialDirect
	case HeadAccessPortForward:
		h.dial = (&forwarder{config: config}).dial
	default:
		return nil, fmt.Errorf("head access %q is unknown: use auto, direct or portforward", access)
	}
	return h, nil
}

// DirectHeads returns the way to heads whose pods this process reaches by their addresses.
func DirectHeads(log *slog.Logger) *Heads {
	return &Heads{dial: dialDirect, changed: func(string) {}, log: log, known: map[string]*headState{}}
}

func dialDirect(ctx context.Context, to HeadAddress) (net.Conn, error) {
	if net.ParseIP(to.IP) == nil {
		return nil, fmt.Errorf("head pod %s has no address yet", to.Pod)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(to.IP, strconv.Itoa(dashboardPort)))
}

// Transport returns the way to one head. It goes nowhere else, whatever host a request names, and keeps no connection
// open.
func (h *Heads) Transport(to HeadAddress) http.RoundTripper {
	return &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return h.dial(ctx, to) },
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeadAnswer,
	}
}

// Get asks one head for the JSON at path: bounded in time and size, without following redirects.
func (h *Heads) Get(ctx context.Context, to HeadAddress, path string) ([]byte, error) {
	return h.call(ctx, to, http.MethodGet, path, nil, maxHeadAnswer)
}

// A headStatus is an answer of a head that is no success.
type headStatus struct {
	path   string
	status int
	said   string // begin of what it said, untrusted
}

func (e *headStatus) Error() string {
	return fmt.Sprintf("head answers %s with status %d", e.path, e.status)
}

// call sends one request to a head and returns the JSON that it answers, at most so many bytes: bounded in time, without
// following redirects. What goes wrong is a *useError; an answer that is no success has a *headStatus in it.
func (h *Heads) call(ctx context.Context, to HeadAddress, method, path string, body []byte, most int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://ray-head"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{
		Transport:     h.Transport(to),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, &useError{Reason: rayslice.Reason{Code: ReasonUseHeadSilent}, Err: err}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return nil, &useError{Reason: rayslice.Reason{Code: ReasonUseHeadRefused, Args: map[string]any{"status": response.StatusCode}},
			Err: &headStatus{path, response.StatusCode, string(said)}}
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "application/json" {
		return nil, unreadable(fmt.Errorf("head answers %s with %q instead of JSON", path, clean(kind)))
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	switch {
	case len(answer) > most:
		return nil, &useError{Reason: rayslice.Reason{Code: ReasonUseAnswerTooLarge, Args: map[string]any{"kib": most >> 10}},
			Err: fmt.Errorf("head answers %s with more than %d KiB", path, most>>10)}
	case err != nil:
		return nil, &useError{Reason: rayslice.Reason{Code: ReasonUseHeadSilent}, Err: err}
	}
	return answer, nil
}

var rayVersionText = regexp.MustCompile(`^[0-9A-Za-z.+-]{1,40}$`)

// version asks a head for its Ray version.
func (h *Heads) version(ctx context.Context, to HeadAddress) (string, error) {
	body, err := h.Get(ctx, to, "/api/version")
	if err != nil {
		return "", err
	}
	var answer struct {
		RayVersion string `json:"ray_version"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", err
	}
	if !rayVersionText.MatchString(answer.RayVersion) {
		return "", errors.New("head names no Ray version")
	}
	return answer.RayVersion, nil
}

// watch keeps asking the request's head from now on, and returns what is known about it.
func (h *Heads) watch(request rayslice.Request, have rayslice.Cluster) (answers bool, version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !askable(have) {
		delete(h.known, request.ID)
		return false, ""
	}
	address := HeadAddress{Namespace: request.Namespace, Pod: have.Head.Name, IP: have.Head.IP}
	state := h.known[request.ID]
	if state == nil || state.uid != have.Head.UID {
		state = &headState{uid: have.Head.UID}
		h.known[request.ID] = state
	}
	if state.address != address {
		state.address = address
		h.ask(request.ID, 0)
	}
	return state.answers, state.version
}

func askable(have rayslice.Cluster) bool {
	head := have.Head
	return head != nil && head.Phase == rayslice.PodRunning && head.IP != "" && !head.Deleting
}

// recall takes over what an earlier process had found out, until the head is asked again.
func (h *Heads) recall(before rayslice.Cluster) {
	if before.Head == nil || !before.HeadAnswers {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known[before.RequestID] == nil {
		h.known[before.RequestID] = &headState{uid: before.Head.UID, answers: true, version: before.RayVersion}
	}
}

// prune forgets the heads of requests that are not needed any more.
func (h *Heads) prune(needed map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.known {
		if !needed[id] {
			delete(h.known, id)
		}
	}
}

// ask puts a question on the list; h.mu is held.
func (h *Heads) ask(id string, after time.Duration) {
	if h.queue != nil {
		h.queue.AddAfter(id, after)
	}
}

// run asks heads until ctx ends.
func (h *Heads) run(ctx context.Context) {
	queue := workqueue.NewTypedDelayingQueue[string]()
	h.mu.Lock()
	h.queue = queue
	for id := range h.known {
		h.ask(id, 0)
	}
	h.mu.Unlock()
	var workers sync.WaitGroup
	for range headWorkers {
		workers.Go(func() {
			for {
				id, stop := queue.Get()
				if stop {
					return
				}
				h.askNow(ctx, id)
				queue.Done(id)
			}
		})
	}
	<-ctx.Done()
	h.mu.Lock()
	h.queue = nil
	h.mu.Unlock()
	queue.ShutDown()
	workers.Wait()
}

func (h *Heads) askNow(ctx context.Context, id string) {
	h.mu.Lock()
	state := h.known[id]
	if state == nil || state.address.Pod == "" {
		h.mu.Unlock()
		return
	}
	uid, address := state.uid, state.address
	h.mu.Unlock()

	version, err := h.version(ctx, address)
	if ctx.Err() != nil {
		return // not the head's fault
	}
	news := h.note(id, uid, version, err)
	h.log.DebugContext(ctx, "asked a head", "request", id, "version", version, "error", err, "news", news)
	if news {
		h.changed(id)
	}
}

// note records an answer, or that there was none, and reports whether that is news.
func (h *Heads) note(id, uid, version string, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.known[id]
	if state == nil || state.uid != uid {
		return false // another pod by now
	}
	before := *state
	if err == nil {
		state.answers, state.version, state.misses = true, version, 0
		h.ask(id, max(headRecheck, time.Duration(len(h.known))*headRecheckEach))
	} else {
		state.misses++
		state.answers = state.answers && state.misses < headMisses
		h.ask(id, min(headFirst+time.Duration(state.misses)*headFirst/2, headSlowest))
	}
	return state.answers != before.answers || state.version != before.version
}
