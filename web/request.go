package web

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rayslice/rayslice"
)

// StopTakesLong is how long a stop may take before the page says that it is unusual.
const StopTakesLong = 5 * time.Minute

// maxPods is how many pods a page lists; the ones with something to say come first.
const maxPods = 60

// step is one stop of the timeline.
type step struct {
	label string
	tone  string    // "done", "now", "bad", or "" = not yet
	at    time.Time // when it happened; zero = not known or not yet
	note  string
	until time.Time // a moment to come, with the time left; zero = none
}

// current returns the value of aria-current.
func (s step) current() string {
	if s.tone == "now" || s.tone == "bad" {
		return "step"
	}
	return "false"
}

// steps returns the timeline: requested → approved → workers joined → ready → ends.
func steps(p RequestPage) []step {
	l, r := p.Locale, p.Request
	requested := step{label: l.T("step_requested"), tone: "done", at: r.CreatedAt}
	if r.State == rayslice.StateRejected || r.State == rayslice.StateCancelled {
		return []step{requested, {label: l.State(r.State), tone: "bad", at: r.DecidedAt}}
	}
	return []step{requested, approvedStep(p), workersStep(p), readyStep(p), endStep(p)}
}

func approvedStep(p RequestPage) step {
	if p.Request.State.Open() {
		return step{label: p.Locale.T("step_approval"), tone: "now", at: p.Request.SentAt}
	}
	return step{label: p.Locale.T("step_approved"), tone: "done", at: p.Request.DecidedAt,
		note: p.Locale.T("step_granted", Args{"Duration": p.Locale.Duration(p.Request.Lifetime())})}
}

func workersStep(p RequestPage) step {
	l, r := p.Locale, p.Request
	s := step{label: l.T("step_workers")}
	known := !p.Cluster.ObservedAt.IsZero()
	if known && r.State.Live() {
		s.note = l.T("step_workers_of", Args{"Have": p.Cluster.ReadyWorkers(), "Want": r.Draft.MinWorkers()})
	}
	switch {
	case !r.ReadyAt.IsZero():
		s.tone, s.at, s.note = "done", r.ReadyAt, l.T("step_after", Args{"Duration": l.Duration(r.ReadyAt.Sub(r.DecidedAt))})
	case r.State == rayslice.StateAttention:
		s.tone = "bad"
	case r.State == rayslice.StateApproved || r.State == rayslice.StateProvisioning:
		s.tone = "now"
	}
	return s
}

func readyStep(p RequestPage) step {
	s := step{label: p.Locale.T("step_ready"), at: p.Request.ReadyAt}
	switch {
	case p.Request.ReadyAt.IsZero():
	case p.Request.State == rayslice.StateAttention:
		return step{label: p.Locale.State(rayslice.StateAttention), tone: "bad", at: p.Request.StateSince}
	case p.Request.State == rayslice.StateReady:
		s.tone = "now"
	default:
		s.tone = "done"
	}
	return s
}

func endStep(p RequestPage) step {
	l, r := p.Locale, p.Request
	switch {
	case r.State == rayslice.StateStopped:
		return step{label: l.State(r.State), tone: "done", at: r.StoppedAt}
	case r.State == rayslice.StateStopping:
		return step{label: l.State(r.State), tone: "now", at: r.StoppingAt}
	case r.EndsAt.IsZero():
		return step{label: l.T("step_ends"), note: l.T("ends_after", Args{"Duration": l.Duration(r.Lifetime())})}
	}
	return step{label: l.T("step_ends"), until: r.EndsAt}
}

// now is what the page says about the present moment.
type now struct {
	sentence string
	tone     string
	reason   rayslice.Reason // for what is over
	unmet    []rayslice.Condition
	remedy   string
	since    time.Time // how long it has waited; zero = it does not
}

// situation returns what is going on, in words; nothing when all is well.
func situation(p RequestPage) now {
	l, r := p.Locale, p.Request
	switch r.State {
	case rayslice.StateStopped:
		return now{sentence: stopped(l, r), reason: r.Reason}
	case rayslice.StateRejected, rayslice.StateCancelled:
		return now{sentence: l.T("now_" + string(r.State)), reason: r.Reason}
	}
	return waiting(p, pendingOf(p))
}

// waitsFor says whose decision a request waits for.
func waitsFor(p RequestPage) string {
	if len(p.Deciders) == 0 {
		return p.Locale.T("now_pending_nobody")
	}
	return p.Locale.T("now_pending_for", Args{"Who": names(p.Locale, p.Deciders)})
}

func stopped(l *Localizer, r rayslice.Request) string {
	if r.Charge == (rayslice.Charge{}) {
		return l.T("now_stopped_free")
	}
	return l.T("now_stopped", Args{"Charge": chargeText(l, r.Charge), "Team": r.Team})
}

// stopText says what stopping does.
func stopText(p RequestPage) string {
	switch {
	case p.Request.State.Open():
		return p.Locale.T("stop_text_pending")
	case p.Request.Charge == (rayslice.Charge{}):
		return p.Locale.T("stop_text_free")
	}
	return p.Locale.T("stop_text", Args{"Charge": chargeText(p.Locale, p.Request.Charge), "Team": p.Request.Team})
}

// stopWord is what the stop button says.
func stopWord(p RequestPage) string {
	if p.Request.State.Open() {
		return p.Locale.T("take_back")
	}
	return p.Locale.T("stop")
}

func stopHeading(p RequestPage) string {
	name := Args{"Name": p.Request.Draft.Name}
	if p.Request.State.Open() {
		return p.Locale.T("stop_heading_pending", name)
	}
	return p.Locale.T("stop_heading", name)
}

// podRow is one pod of the workers table.
type podRow struct {
	rayslice.Worker
	head   bool
	number int // of the worker, from 1
}

// pods returns the head and the workers, the ones that are not ready first when there are too many to show.
func pods(c rayslice.Cluster) []podRow {
	var head, waiting, running []podRow
	if c.Head != nil {
		head = append(head, podRow{Worker: *c.Head, head: true})
	}
	for i, w := range c.Workers {
		row := podRow{Worker: w, number: i + 1}
		if len(c.Workers) > maxPods && !w.Ready {
			waiting = append(waiting, row)
		} else {
			running = append(running, row)
		}
	}
	rows := append(append(head, waiting...), running...)
	return rows[:min(len(rows), maxPods)]
}

func hiddenPods(c rayslice.Cluster) int { return c.Pods() - len(pods(c)) }

func podLabel(l *Localizer, pod podRow) string {
	if pod.head {
		return l.T("pod_head")
	}
	return l.T("pod_worker", Args{"N": pod.number})
}

// podState is the word for what a pod does.
func podState(l *Localizer, w rayslice.Worker) string {
	switch {
	case w.Deleting:
		return l.T("phase_deleting")
	case w.Ready:
		return l.T("phase_ready")
	}
	switch w.Phase {
	case rayslice.PodPending, rayslice.PodRunning, rayslice.PodSucceeded, rayslice.PodFailed:
		return l.T("phase_" + strings.ToLower(string(w.Phase)))
	}
	return l.T("phase_unknown")
}

func podTone(w rayslice.Worker) string {
	switch {
	case w.Deleting:
		return "warn"
	case w.Ready:
		return "ok"
	case w.Phase == rayslice.PodFailed:
		return "bad"
	case !w.Problem.IsZero():
		return "warn"
	case w.Phase == rayslice.PodPending || w.Phase == rayslice.PodRunning:
		return "busy"
	}
	return "plain"
}

// cardText says which cards a worker's slice lies on.
func cardText(l *Localizer, w rayslice.Worker) string {
	if w.Slice.IsZero() {
		return l.T("size_cpu")
	}
	if len(w.Placements) == 0 {
		return l.T("card_unknown")
	}
	parts := make([]string, 0, len(w.Placements))
	for _, p := range w.Placements {
		if p.GiB > 0 {
			parts = append(parts, l.T("card_gib", Args{"Card": p.Card, "GiB": p.GiB}))
		} else {
			parts = append(parts, l.T("card", Args{"Card": p.Card}))
		}
	}
	return strings.Join(parts, ", ")
}

// askedSlice returns what was approved for the pod's group.
func askedSlice(d rayslice.RequestDraft, pod podRow) (rayslice.Slice, bool) {
	for _, g := range d.Groups {
		if !pod.head && g.Name == pod.Group {
			return g.Slice, true
		}
	}
	return rayslice.Slice{}, false
}

// tail keeps the last n characters, where names of pods and nodes differ.
func tail(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	return "…" + string(runes[len(runes)-n:])
}

func eventTone(e rayslice.Event) string {
	if e.Warning {
		return "warn"
	}
	return "plain"
}

// noPods says why there are no pods to list.
func noPods(p RequestPage) string {
	switch {
	case p.Request.ClusterUID == "" && (p.Request.State.Open() || p.Request.State.Final()):
		return p.Locale.T("workers_never")
	case p.Request.State.Final():
		return p.Locale.T("workers_gone")
	case p.Cluster.ObservedAt.IsZero():
		return p.Locale.T("workers_unknown")
	}
	return p.Locale.T("workers_none")
}

// connect holds what people copy to reach their cluster.
type connect struct {
	answers   bool   // the head answers
	versions  string // which Python and Ray the other side needs
	client    string // address for ray.init
	dashboard string // "" = it is opened through the portal
	notebook  string
	job       string
	forward   string
	opens     bool // the visitor can open the dashboard through the portal
	views     bool // and may only look
}

// connection returns how to reach the cluster; false when there is nothing to reach.
func connection(p RequestPage) (connect, bool) {
	state := p.Request.State
	reachable := state == rayslice.StateProvisioning || state == rayslice.StateReady || state == rayslice.StateAttention
	if p.Cluster.Service == "" || !reachable {
		return connect{}, false
	}
	addresses := AddressesOf(p.Cluster.Service, p.Way)
	c := connect{
		answers: state == rayslice.StateReady || p.Cluster.HeadAnswers,
		client:  addresses.Client, dashboard: addresses.Dashboard, job: strings.Join(addresses.JobSubmit, " \\\n  "),
	}
	version := rayVersion(p)
	c.versions = p.Locale.T("connect_versions", Args{"Ray": version})
	if image, ok := p.Catalogue.Image(p.Request.Draft.Image); ok && image.Python != "" {
		c.versions = p.Locale.T("connect_versions_python", Args{"Ray": version, "Python": image.Python})
	}
	c.notebook = fmt.Sprintf("# pip install \"ray[default]==%s\"\nimport ray\nray.init(%q)", version, c.client)
	ports := "10001:10001 8265:8265"
	if p.Way.Host != "" {
		c.dashboard, ports = "", "10001:10001"
		c.opens, c.views = p.Way.Access != rayslice.AccessNone, p.Way.Access != rayslice.AccessFull
	}
	service, _, _ := strings.Cut(p.Cluster.Service, ".")
	c.forward = fmt.Sprintf("kubectl -n %s port-forward service/%s %s", p.Request.Namespace, service, ports)
	return c, true
}

// Addresses are where a cluster can be reached.
type Addresses struct {
	Client    string   // for ray.init, from inside Kubernetes
	Dashboard string   // of the dashboard and the Jobs API: through the portal where there is a way, else inside Kubernetes
	JobSubmit []string // the command that sends a job there, in parts that can stand on lines of their own
}

// AddressesOf returns where the cluster with this head service can be reached.
func AddressesOf(service string, way Way) Addresses {
	a := Addresses{Client: "ray://" + service + ":10001", Dashboard: "http://" + service + ":8265"}
	job := "--working-dir . -- python train.py"
	if way.Host == "" {
		a.JobSubmit = []string{"ray job submit --address " + a.Dashboard + " " + job}
		return a
	}
	address, headers := jobThrough(way)
	a.Dashboard, a.JobSubmit = way.Host, []string{"ray job submit --address " + address, "--headers " + headers, job}
	return a
}

// jobThrough returns to which address a job is sent through the portal, and the headers that it needs, as a shell reads them: it
// fills in the token. Few programs resolve names below localhost, so on one's own machine the name of the host goes into a header.
func jobThrough(w Way) (address, headers string) {
	headers = `{"Authorization": "Bearer $RAYSLICE_TOKEN"}`
	address = w.Host
	if u, err := url.Parse(w.Host); err == nil && strings.HasSuffix(u.Hostname(), ".localhost") {
		address, headers = w.Portal, `{"Host": "`+u.Host+`", "Authorization": "Bearer $RAYSLICE_TOKEN"}`
	}
	return address, `"` + strings.ReplaceAll(headers, `"`, `\"`) + `"`
}

// rayVersion returns what the head answered, else what was asked for.
func rayVersion(p RequestPage) string {
	if p.Cluster.RayVersion != "" {
		return p.Cluster.RayVersion
	}
	return p.Request.Draft.RayVersion
}

func noConnection(p RequestPage) string {
	if p.Request.State.Final() || p.Request.State == rayslice.StateStopping {
		return p.Locale.T("connect_gone")
	}
	return p.Locale.T("connect_later")
}

// auditText says what an entry records.
func auditText(l *Localizer, e rayslice.AuditEntry) string {
	if e.Action == "escalate" || e.Action == "open" || e.Action == "verify" {
		return actionText(l, e.Action)
	}
	if e.Action == "resend" {
		return l.T("audit_resent")
	}
	if e.Action == "refuse" {
		return l.T("audit_refused")
	}
	if e.To != "" && e.From != "" {
		return l.T("audit_moved", Args{"From": l.State(e.From), "To": l.State(e.To)})
	}
	if e.To == rayslice.StatePending {
		return l.T("audit_created")
	}
	if e.To != "" {
		return l.T("audit_became", Args{"To": l.State(e.To)})
	}
	return l.T("audit_other", Args{"Action": strconv.Quote(e.Action)})
}
