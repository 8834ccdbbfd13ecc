package web

import (
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// pendingOf says what the page's request waits for.
func pendingOf(p RequestPage) rayslice.Pending {
	return rayslice.Explain(p.Request, p.Cluster, p.Problems, p.Now)
}

// waiting puts what a request waits for into words; nothing when it does not wait.
func waiting(p RequestPage, pending rayslice.Pending) now {
	n := now{sentence: stageSentence(p, pending), unmet: pending.Conditions, since: pending.Since}
	if len(n.unmet) > 0 {
		n.tone = "warn"
	}
	switch p.Request.State {
	case rayslice.StatePending:
		n.tone, n.remedy = "warn", p.Locale.T("now_pending")
	case rayslice.StateReturned:
		n.tone, n.remedy = "warn", p.Locale.T("now_returned_remedy", Args{"Hours": int(rayslice.ReturnedLimit.Hours())})
		n.sentence, n.unmet = p.Locale.Reason(p.Request.Reason), nil
	case rayslice.StateAttention:
		n.sentence, n.tone = p.Locale.T("now_attention"), "bad"
		if len(n.unmet) == 0 {
			n.remedy = p.Locale.T("now_attention_remedy")
		}
	case rayslice.StateStopping:
		return stopping(p, n)
	}
	return n
}

func stopping(p RequestPage, n now) now {
	n.since, n.reason = time.Time{}, p.Request.Reason
	if since := p.Request.StoppingAt; !since.IsZero() && p.Now.Sub(since) >= StopTakesLong {
		n.tone, n.remedy = "warn", p.Locale.T("now_stopping_long", Args{"Duration": p.Locale.Duration(p.Now.Sub(since))})
	}
	return n
}

// stageSentence says on the request's own page how far it has come.
func stageSentence(p RequestPage, pending rayslice.Pending) string {
	l, args := p.Locale, Args{"Have": pending.Have, "Want": pending.Want}
	switch pending.Stage {
	case rayslice.StageDecision:
		return waitsFor(p)
	case rayslice.StageCreate:
		return l.T("now_approved")
	case rayslice.StageUnseen:
		return l.T("now_unseen")
	case rayslice.StageOperator:
		return l.T("now_no_head")
	case rayslice.StageHead:
		return l.T("now_head", args)
	case rayslice.StageWorkers:
		return l.T("now_workers", args)
	case rayslice.StageRay:
		return l.T("now_answer")
	case rayslice.StageStopping:
		return l.N("now_stopping", p.Cluster.Pods())
	}
	return ""
}

// stageText says in a few words how far a request has come that somebody may not know.
func stageText(l *Localizer, pending rayslice.Pending) string {
	return l.T("stage_"+string(pending.Stage), Args{"Have": pending.Have, "Want": pending.Want})
}

// ConditionText says what has to change before a request goes on, how many pods that holds up, and nothing of its raw text.
func ConditionText(l *Localizer, c rayslice.Condition) string {
	text := l.Reason(c.Reason)
	if c.Pods > 1 {
		text = l.Reason(c.Reason.WithoutPod())
	}
	return capital(text)
}

// NextText says what to do about a condition.
func NextText(l *Localizer, c rayslice.Condition) string { return l.T("todo_" + string(c.Next)) }

// PendingText says in one sentence what a request waits for: stage, how long, each unmet condition. "" when it waits for
// nothing.
func PendingText(l *Localizer, pending rayslice.Pending, at time.Time) string {
	if pending.Stage == "" {
		return ""
	}
	text := stageText(l, pending)
	if !pending.Since.IsZero() {
		text = l.T("pending_for", Args{"Stage": text, "Duration": l.Duration(distance(pending.Since, at))})
	}
	conditions := make([]string, 0, len(pending.Conditions))
	for _, c := range pending.Conditions {
		conditions = append(conditions, ConditionText(l, c))
	}
	if len(conditions) == 0 {
		return l.T("pending_plain", Args{"Text": text})
	}
	return l.T("pending_because", Args{"Text": text, "Why": strings.Join(conditions, " ")})
}

// capital makes a sentence that began with a pod's name begin like one.
func capital(s string) string {
	for i, r := range s {
		if i > 0 {
			return strings.ToUpper(s[:i]) + s[i:]
		}
		if r < 'a' || r > 'z' || strings.HasPrefix(s, "rs-") {
			return s
		}
	}
	return s
}

// rowPending says in a list what a request waits for, in one short line; "" when it waits for nothing.
func rowPending(f Frame, row ClusterRow) (text string, since time.Time) {
	pending := rayslice.Explain(row.Request, row.Cluster, f.Problems, f.Now)
	if pending.Stage == "" || row.Request.State == rayslice.StateStopping {
		return "", time.Time{}
	}
	text = stageText(f.Locale, pending)
	if len(pending.Conditions) > 0 {
		first := pending.Conditions[0]
		first.Reason = first.Reason.WithoutPod()
		text = ConditionText(f.Locale, first)
	}
	if more := len(pending.Conditions) - 1; more > 0 {
		text += " " + f.Locale.N("pending_more", more)
	}
	return text, pending.Since
}

func attemptTone(a rayslice.Attempt) string {
	if a.Warning {
		return "warn"
	}
	return "plain"
}

// attemptObjects says what was tried with, e.g. "3 × Pod".
func attemptObjects(l *Localizer, a rayslice.Attempt) string {
	return l.T("attempt_objects", Args{"N": a.Objects, "Kind": cut(a.Kind, 40)})
}
