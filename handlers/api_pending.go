package handlers

import (
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/web"
)

// What a request that is not ready waits for, in the specification's types.
type (
	pendingJSON   = api.Pending
	conditionJSON = api.Condition
	attemptJSON   = api.Attempt
)

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
