package rayslice

import "time"

// MaxLimit bounds every limit, in GiB or cards, so that sums cannot overflow.
const MaxLimit = 1_000_000

// Charge is what a request costs its team: GiB of slices and whole cards, counted apart.
type Charge struct {
	GiB   int `json:"gib"`   // GiB of slices
	Cards int `json:"cards"` // whole cards
}

// Add returns the sum of both charges.
func (c Charge) Add(d Charge) Charge { return Charge{c.GiB + d.GiB, c.Cards + d.Cards} }

// Times returns the charge of n workers.
func (c Charge) Times(n int) Charge { return Charge{c.GiB * n, c.Cards * n} }

// Quota is a team's limit and what counts against it.
type Quota struct {
	Team  string `json:"team"`
	Limit Charge `json:"limit"`
	Used  Charge `json:"used"` // all live charges, held ones included
	Held  Charge `json:"held"` // the part of Used whose requests wait for a decision
}

// Left returns what can still be asked for; never negative, also when a limit was lowered below what is used.
func (q Quota) Left() Charge {
	return Charge{max(0, q.Limit.GiB-q.Used.GiB), max(0, q.Limit.Cards-q.Used.Cards)}
}

// Allow reports whether the team may hold n more: exactly up to the limit.
func (q Quota) Allow(n Charge) bool {
	left := q.Left()
	return n.GiB <= left.GiB && n.Cards <= left.Cards
}

// OverQuota returns the refusal with the numbers people need: limit, used, held, asked and what would fit.
func (q Quota) OverQuota(asked Charge) error {
	left := q.Left()
	return &Error{Kind: KindOverQuota, Code: "over_quota", Args: map[string]any{
		"team":      q.Team,
		"limit_gib": q.Limit.GiB, "used_gib": q.Used.GiB, "held_gib": q.Held.GiB, "asked_gib": asked.GiB, "left_gib": left.GiB,
		"limit_cards": q.Limit.Cards, "used_cards": q.Used.Cards, "held_cards": q.Held.Cards, "asked_cards": asked.Cards, "left_cards": left.Cards,
	}}
}

// NamespaceLimit is what the pods of a team's namespace may hold, whoever made them: the team's limit, or what its requests
// hold where that is more, so that nothing of a running cluster is ever refused.
type NamespaceLimit struct {
	Team      string
	Namespace string
	Charge    Charge
}

// A Grant is a part of a team's limit: the base that an admin sets, or more on top of it, until an end or for good. The
// limit is the sum of the grants that hold now.
type Grant struct {
	ID     int64     `json:"id"`
	Team   string    `json:"team"`
	Charge Charge    `json:"charge"`
	Base   bool      `json:"base"`  // the one that an admin sets; a new base replaces it
	Since  time.Time `json:"since"` // when it began to hold
	Until  time.Time `json:"until"` // it ends by itself then; zero = it does not
	Ended  time.Time `json:"ended"` // replaced, taken back, or over and counted so; zero = it was not
	By     string    `json:"by"`    // name of the admin; "rayslice" = the file of teams
	Note   string    `json:"note"`  // what the admin said
}

// Holds reports whether the grant counts at the given time.
func (g Grant) Holds(now time.Time) bool {
	return g.Ended.IsZero() && (g.Until.IsZero() || g.Until.After(now))
}

// RaiseState is where a lead's wish for more quota stands.
type RaiseState string

// The states of a raise.
const (
	RaisePending   RaiseState = "pending"
	RaiseGranted   RaiseState = "granted"
	RaiseDenied    RaiseState = "denied"
	RaiseWithdrawn RaiseState = "withdrawn"
)

// A Raise is a lead's wish for more quota.
type Raise struct {
	ID        int64      `json:"id"`
	Team      string     `json:"team"`
	By        User       `json:"by"`     // who asked; ID, Name and Email are filled
	Charge    Charge     `json:"charge"` // how much more
	Until     time.Time  `json:"until"`  // until when; zero = for good
	Purpose   string     `json:"purpose"`
	State     RaiseState `json:"state"`
	AskedAt   time.Time  `json:"asked_at"`
	DecidedAt time.Time  `json:"decided_at"` // zero = not yet
	DecidedBy string     `json:"decided_by"`
	Answer    string     `json:"answer"`
	Grant     *Grant     `json:"grant"` // what was granted; nil = nothing
}

// RaiseDraft is what a lead may set when asking for more quota.
type RaiseDraft struct {
	Team    string
	Charge  Charge
	Until   time.Time // zero = for good
	Purpose string
}

// MaxRaise is the longest time a raise may be asked for, unless it is for good.
const MaxRaise = 366 * 24 * time.Hour

// CodePast is the field code of a date that is over.
const CodePast = "past"

// Validate names every bad field; nil when there is none.
func (d RaiseDraft) Validate(now time.Time) error {
	v := &validation{}
	v.raise(d.Charge, d.Until, now)
	v.text("purpose", d.Purpose, MaxPurposeLength, true)
	return Invalid(v.fields...)
}

// raise checks an addition to a limit and its end.
func (v *validation) raise(c Charge, until, now time.Time) {
	v.within("gib", c.GiB, 0, MaxLimit)
	v.within("cards", c.Cards, 0, MaxLimit)
	if c == (Charge{}) {
		v.bad("gib", CodeRequired, nil)
	}
	switch {
	case until.IsZero():
	case !until.After(now):
		v.bad("until", CodePast, nil)
	case until.Sub(now) > MaxRaise:
		v.bad("until", CodeRange, map[string]any{"min": 1, "max": int(MaxRaise / (24 * time.Hour))})
	}
}

// RaiseDecision is what an admin decides about a raise: all of it, less, for a shorter time, or nothing.
type RaiseDecision struct {
	Grant  bool
	Charge Charge    // how much is granted; at most what was asked for
	Until  time.Time // zero = for good; only where that was asked for
	Answer string    // required where nothing is granted
}

// Validate names every bad field of a decision about the raise; nil when there is none. More or longer than what was
// asked for is refused: the numbers that a lead has given a purpose for are the most.
func (d RaiseDecision) Validate(asked Raise, now time.Time) error {
	v := &validation{}
	v.text("answer", d.Answer, MaxAnswerLength, !d.Grant)
	if !d.Grant {
		return Invalid(v.fields...)
	}
	v.within("gib", d.Charge.GiB, 0, asked.Charge.GiB)
	v.within("cards", d.Charge.Cards, 0, asked.Charge.Cards)
	if d.Charge == (Charge{}) {
		v.bad("gib", CodeRequired, nil)
	}
	switch {
	case d.Until.IsZero() && asked.Until.IsZero():
	case d.Until.IsZero():
		v.bad("until", CodeRequired, nil)
	case !d.Until.After(now):
		v.bad("until", CodePast, nil)
	case !asked.Until.IsZero() && d.Until.After(asked.Until):
		v.bad("until", CodeLater, map[string]any{"until": asked.Until.UTC().Format(time.DateOnly)})
	case d.Until.Sub(now) > MaxRaise:
		v.bad("until", CodeRange, map[string]any{"min": 1, "max": int(MaxRaise / (24 * time.Hour))})
	}
	return Invalid(v.fields...)
}

// CodeLater is the field code of a date after what was asked for; Args: until.
const CodeLater = "later_than_asked"

// Codes of what happened to a team's limit; the sentences stand in the catalogues as reason_<code>. Args: gib, cards, and
// where there is one until; note, purpose or answer is what people said.
const (
	ReasonTeamCreated    = "team_created" // Args also: namespace
	ReasonLimitSet       = "limit_set"    // Args also: was_gib and was_cards, the base before
	ReasonRaiseAsked     = "raise_asked"
	ReasonRaiseGranted   = "raise_granted"
	ReasonRaiseDenied    = "raise_denied"
	ReasonRaiseWithdrawn = "raise_withdrawn"
	ReasonGrantTakenBack = "grant_taken_back" // before its end
	ReasonGrantEnded     = "grant_ended"      // by itself
)
