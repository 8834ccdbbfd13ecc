package rayslice

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"
)

// A Request is what a person asked for and what became of it. Postgres owns it.
type Request struct {
	ID          string        // twelve lower-case letters and digits; the Kubernetes object is named after it
	Draft       RequestDraft  // what counts: as asked, or the part of it that was granted
	Asked       *RequestDraft // as asked, where less was granted; nil = Draft is what was asked
	Revision    int           // grows whenever what is asked for changes; a decision names the one it is about
	Team        string        // team that is charged
	Namespace   string        // the team's Kubernetes namespace
	Owner       User          // who asked; ID, Name and Email are filled
	State       State
	Reason      Reason // why the state is what it is; zero when there is nothing to say
	Charge      Charge // what it costs its team while it lives
	Released    bool   // the charge has been given back
	ClusterUID  string // UID of the RayCluster once seen; "" = never seen
	CreatedAt   time.Time
	SentAt      time.Time // when it was last sent for a decision
	EscalatedAt time.Time // when admins were told that nobody decides; zero = they were not
	DecidedAt   time.Time // approved, rejected or cancelled; zero = not yet
	DecidedBy   string    // name of the person who approved, asked back or rejected; "" = nobody did
	Answer      string    // what that person said; "" = nothing
	ReadyAt     time.Time // first time ready; zero = never
	EndsAt      time.Time // hard end; zero until approved
	StoppingAt  time.Time // when it began to stop; zero = not yet
	StoppedAt   time.Time // pods confirmed gone; zero = not yet
	StateSince  time.Time // when the present state began
}

// Reason says why something is as it is: Code picks the sentence from the catalogues, Args fill it in, Detail is
// raw text from Kubernetes (untrusted: show it escaped and cut).
type Reason struct {
	Code   string         `json:"code"`
	Args   map[string]any `json:"args,omitempty"`
	Detail string         `json:"detail,omitempty"`
}

// UnmarshalJSON reads whole numbers in Args back as int, as they were written, so that the same reason makes the same
// sentence before and after it was stored.
func (r *Reason) UnmarshalJSON(raw []byte) error {
	type plain Reason
	if err := json.Unmarshal(raw, (*plain)(r)); err != nil {
		return err
	}
	wholeNumbers(r.Args)
	return nil
}

// IsZero reports whether there is nothing to say.
func (r Reason) IsZero() bool { return r.Code == "" }

// NewRequestID returns a fresh random id: twelve characters of a–z and 2–7, 60 bits.
func NewRequestID() string { return strings.ToLower(rand.Text()[:12]) }

// ObjectName returns the name of the request's RayCluster. It comes from the id alone, so that applying twice is
// applying once and a display name can be used again (ray-project/kuberay#3489); always a legal name of 15 characters.
func (r Request) ObjectName() string { return "rs-" + r.ID }

// Lifetime returns how long the cluster may live from approval.
func (r Request) Lifetime() time.Duration { return time.Duration(r.Draft.Hours) * time.Hour }

// An AuditEntry is one transition or refusal; it is never changed.
type AuditEntry struct {
	At        time.Time
	ID        int64  // grows with time
	Actor     string // name of the user, or "rayslice"
	Via       string // prefix of the API token that acted for the user; "" = the person
	Action    string // "create", "approve", "transition", "refuse", …
	Subject   string // what else it is about, e.g. a person's name or a token's; "" = nothing
	RequestID string // "" when it is not about one request
	Team      string // "" when it is about no team
	From, To  State  // "" when no state changed
	Reason    Reason
}

// ArgTried is the argument of a refusal's reason that names the action which was refused.
const ArgTried = "tried"

// Tried returns the action that was refused; "" when it has no name, or when nothing was refused.
func (e AuditEntry) Tried() string {
	tried, _ := e.Reason.Args[ArgTried].(string)
	return tried
}
