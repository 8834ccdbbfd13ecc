package handlers

import (
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// pendingJSON says what a request that is not ready waits for. Texts are in the caller's language; detail and message are
// Kubernetes' own words, and untrusted.
type pendingJSON struct {
	Stage      rayslice.Stage  `json:"stage"`
	Since      *time.Time      `json:"since"` // when the stage began, as far as is known
	Text       string          `json:"text"`  // all of it in one sentence
	Conditions []conditionJSON `json:"conditions"`
	Attempts   []attemptJSON   `json:"attempts"` // oldest first; empty in lists
}

// conditionJSON is one thing that has to change.
type conditionJSON struct {
	Code   string          `json:"code"`
	Text   string          `json:"text"`
	Detail *string         `json:"detail"`
	Pods   int             `json:"pods"` // that it holds up; 0 = it is not about single pods
	Next   string          `json:"next"` // what to do
	Who    *rayslice.Party `json:"who"`  // who can: owner, lead or admin; null = nobody has to
}

// attemptJSON is what Kubernetes has tried again and again.
type attemptJSON struct {
	Reason  string    `json:"reason"`
	Kind    string    `json:"kind"`
	Objects int       `json:"objects"`
	Count   int       `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Warning bool      `json:"warning"`
	Message string    `json:"message"`
}

// toPendingJSON returns nil for what waits for nothing.
func toPendingJSON(l *web.Localizer, pending rayslice.Pending, at time.Time) *pendingJSON {
	if pending.Stage == "" {
		return nil
	}
	j := &pendingJSON{Stage: pending.Stage, Since: known(pending.Since), Text: web.PendingText(l, pending, at),
		Conditions: make([]conditionJSON, 0, len(pending.Conditions)), Attempts: make([]attemptJSON, 0, len(pending.Attempts))}
	for _, c := range pending.Conditions {
		condition := conditionJSON{Code: c.Reason.Code, Text: web.ConditionText(l, c), Detail: said(c.Reason.Detail), Pods: c.Pods, Next: web.NextText(l, c)}
		if c.Who != rayslice.PartyNobody {
			condition.Who = &c.Who
		}
		j.Conditions = append(j.Conditions, condition)
	}
	for _, a := range pending.Attempts {
		j.Attempts = append(j.Attempts, attemptJSON{Reason: a.Reason, Kind: a.Kind, Objects: a.Objects, Count: a.Count,
			First: a.First, Last: a.Last, Warning: a.Warning, Message: a.Message})
	}
	return j
}
