package web

import (
	"fmt"
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// leadFrame is the frame of a lead of the team vision.
func leadFrame(f Frame, path string) Frame {
	f.User, f.Path, f.Waiting = sampleLead, path, 3
	return f
}

func sampleApproval(now time.Time, i int, name, purpose string, workers, gib, hours int) ApprovalRow {
	r := SampleRow(now, rayslice.StatePending).Request
	r.ID, r.Draft.Name, r.Draft.Purpose, r.Draft.Hours, r.Revision = fmt.Sprintf("sample%06d", i), name, purpose, hours, 1
	r.Draft.Groups[0].Workers, r.Draft.Groups[0].GiB = workers, gib
	r.Draft.Groups[0].MinWorkers, r.Draft.Groups[0].MaxWorkers = workers, workers
	r.Charge, r.SentAt = r.Draft.Charge(), now.Add(-time.Duration(40-7*i)*time.Minute)
	r.Reason = rayslice.Reason{Code: rayslice.ReasonNeedsLeadGiB, Args: Args{"asked": r.Charge.GiB, "most": 8}}
	return ApprovalRow{
		Request: r, Quota: rayslice.Quota{Team: "vision", Limit: rayslice.Charge{GiB: 96}, Used: rayslice.Charge{GiB: 48 + 16 + r.Charge.GiB}, Held: rayslice.Charge{GiB: 16 + r.Charge.GiB}},
		Record: rayslice.Record{Grants: 5, Granted: rayslice.Hours{GiB: 320}, Held: rayslice.Hours{GiB: 237}},
		Fit:    rayslice.FitResult{Known: true, Fits: true, OnCards: 6}, Form: NewDecisionForm(r),
	}
}

func sampleApprovals(now time.Time) []ApprovalRow {
	rows := []ApprovalRow{
		sampleApproval(now, 0, "ablation-7", "Ablation of the new loss for the March paper", 2, 8, 8),
		sampleApproval(now, 1, "sweep-12", "hyper-parameter sweep", 4, 4, 24),
		sampleApproval(now, 2, "消融实验：新的损失函数", "对比学习率预热", 1, 16, 30),
		sampleApproval(now, 3, "my own run", "the baseline", 2, 8, 8),
	}
	rows[0].Open = true
	rows[1].Fit = rayslice.FitResult{Known: true, OnCards: 1, Missing: 2}
	rows[1].Request.State = rayslice.StateReturned
	rows[1].Talk = sampleTalk(now)[:1]
	rows[1].Request.EscalatedAt = now.Add(-time.Minute)
	rows[2].Record, rows[2].Fit = rayslice.Record{}, rayslice.FitResult{}
	rows[3].Request.Owner = sampleLead
	rows[3].Refusal = problemOf(rayslice.Forbidden("decide_own"))
	return rows
}

func sampleTalk(now time.Time) []rayslice.AuditEntry {
	said := func(who, text string) rayslice.AuditEntry {
		return rayslice.AuditEntry{At: now, Actor: who, Reason: rayslice.Reason{Args: Args{"answer": text}}}
	}
	return []rayslice.AuditEntry{said("Maya Okafor", "Do you need all four? Two were idle last week."), said("Lin Wei", "Two will do until Friday; the others are for the second seed.")}
}

func sampleDecided(now time.Time) []ApprovalRow {
	rows := sampleApprovals(now)
	for i := range rows {
		r := &rows[i].Request
		r.State, r.DecidedBy, r.DecidedAt = rayslice.StateReady, "Maya Okafor", now.Add(-time.Duration(i)*5*time.Hour)
	}
	asked := rows[0].Request.Draft
	rows[0].Request.Asked, rows[0].Request.Answer = &asked, "One is enough for a start."
	rows[0].Request.Draft.Groups = []rayslice.Group{asked.Groups[0]}
	rows[0].Request.Draft.Groups[0].Workers, rows[0].Request.Draft.Groups[0].MinWorkers, rows[0].Request.Draft.Groups[0].MaxWorkers = 1, 1, 1
	rows[1].Request.State, rows[1].Request.Answer = rayslice.StateRejected, "The cards are needed for the deadline on Friday."
	rows[2].Request.State = rayslice.StateCancelled
	return rows
}

func approvalSamples() []Sample {
	waiting := func(f Frame) ApprovalsPage {
		rows := sampleApprovals(f.Now)
		return ApprovalsPage{Frame: leadFrame(f, "/approvals"), Catalogue: SampleCatalogue(), Rows: rows, Waiting: 3, Teams: []string{"vision"}}
	}
	return []Sample{
		{"approvals", func(f Frame) templ.Component { return ApprovalsView(waiting(f)) }},
		{"approvals-news", func(f Frame) templ.Component {
			p := waiting(f)
			p.News, p.Done = ApprovalNews{Fresh: 2, Changed: 1}, &sampleDecided(f.Now)[0]
			p.First, p.Next = "/approvals", "/approvals?cursor=abc"
			return ApprovalsView(p)
		}},
		{"approvals-empty", func(f Frame) templ.Component {
			p := ApprovalsPage{Frame: leadFrame(f, "/approvals")}
			p.Frame.Waiting = 0
			return ApprovalsView(p)
		}},
		{"approvals-nothing-matches", func(f Frame) templ.Component {
			return ApprovalsView(ApprovalsPage{Frame: leadFrame(f, "/approvals?q=x"), Filter: ApprovalsFilter{Team: "vision", Search: "x"}, Teams: []string{"speech", "vision"}, Waiting: 120})
		}},
		{"approvals-several", func(f Frame) templ.Component {
			p := waiting(f)
			p.Batch = BatchForm{IDs: []string{BatchValue(p.Rows[1].Request)}, Answer: "See the plan for this week."}
			p.Together, p.Crowded = rayslice.FitResult{Known: true, Missing: 3}, rayslice.FitResult{Known: true, Missing: 1}
			p.Outcomes = []Outcome{{ID: "sample000007", Name: "sweep-13", State: rayslice.StateApproved},
				{ID: "sample000001", Name: "sweep-12", Problem: &rayslice.Error{Kind: rayslice.KindConflict, Code: "revision_changed"}}}
			return ApprovalsView(p)
		}},
		{"approvals-several-refused", func(f Frame) templ.Component {
			p := waiting(f)
			p.BatchBad = problemOf(rayslice.Invalid(rayslice.FieldError{Field: "ids", Code: "nothing_chosen"}, rayslice.FieldError{Field: "answer", Code: rayslice.CodeRequired}))
			return ApprovalsView(p)
		}},
		{"approvals-decided", func(f Frame) templ.Component {
			return ApprovalsView(ApprovalsPage{Frame: leadFrame(f, "/approvals?decided=1"), Catalogue: SampleCatalogue(), Filter: ApprovalsFilter{Decided: true}, Rows: sampleDecided(f.Now), Pages: Pages{Next: "/approvals?decided=1&cursor=abc"}})
		}},
		{"approvals-decided-empty", func(f Frame) templ.Component {
			return ApprovalsView(ApprovalsPage{Frame: leadFrame(f, "/approvals?decided=1"), Filter: ApprovalsFilter{Decided: true}})
		}},
		{"approval-refused", func(f Frame) templ.Component { return refusedSample(f, mixedWish) }},
		{"approval-too-late", func(f Frame) templ.Component { return refusedSample(f, tooLate) }},
	}
}

func refusedSample(f Frame, change func(*ApprovalRow)) templ.Component {
	row := sampleApproval(f.Now, 0, "ablation-7", "Ablation of the new loss for the March paper", 2, 8, 8)
	row.Open = true
	change(&row)
	return ApprovalView(ApprovalPage{Frame: leadFrame(f, "/approvals/"+row.Request.ID), Catalogue: SampleCatalogue(), Row: row})
}

// mixedWish has slices, whole cards and workers without a GPU, and something wrong in every field.
func mixedWish(row *ApprovalRow) {
	d := &row.Request.Draft
	d.Groups = append(d.Groups, rayslice.Group{Name: "a100-x2", Slice: rayslice.Slice{Pool: "a100", Cards: 2}, Workers: 1, MinWorkers: 1, MaxWorkers: 1},
		rayslice.Group{Name: "cpu", Workers: 1, MinWorkers: 1, MaxWorkers: 4})
	row.Request.Charge = d.Charge()
	row.Quota.Limit.Cards, row.Quota.Used.Cards, row.Quota.Held.Cards = 2, 3, 2
	row.Form = NewDecisionForm(row.Request)
	row.Form.Hours, row.Form.Groups[0].Workers, row.Form.Answer = "99", "7", "Take one for now."
	row.Talk = sampleTalk(row.Request.SentAt)
	row.Problem = problemOf(rayslice.Invalid(rayslice.FieldError{Field: "hours", Code: rayslice.CodeRange, Args: Args{"min": 1, "max": 8}},
		rayslice.FieldError{Field: "groups[0].workers", Code: rayslice.CodeRange, Args: Args{"min": 1, "max": 2}},
		rayslice.FieldError{Field: "groups[0].slice_gib", Code: rayslice.CodeSizeNotOffered, Args: Args{"sizes": "4, 8, 16"}},
		rayslice.FieldError{Field: "answer", Code: rayslice.CodeTooLong, Args: Args{"max": 1000}}))
}

func tooLate(row *ApprovalRow) {
	row.Request.State, row.Request.DecidedBy = rayslice.StateRejected, "Sam Rivera"
	row.Form.Answer = "Two for the weekend, then one."
	row.Problem = &rayslice.Error{Kind: rayslice.KindConflict, Code: "decided_already", Args: Args{"state": rayslice.StateRejected, "who": "Sam Rivera"}}
}

// decisionSamples are the owner's and the lead's sides of a request's page, and the forms that lead there.
func decisionSamples() []Sample {
	return []Sample{
		requestSample("request-pending-lead", rayslice.StatePending, func(p *RequestPage) {
			p.Frame = leadFrame(p.Frame, p.Path)
			row := sampleApproval(p.Now, 0, p.Request.Draft.Name, p.Request.Draft.Purpose, 2, 8, 8)
			row.Request.ID = p.Request.ID
			row.Open, row.Back = true, true
			p.Request, p.Decision, p.Deciders, p.CanStop = row.Request, &row, []string{"Maya Okafor"}, true
		}),
		requestSample("request-returned", rayslice.StatePending, returned),
		requestSample("request-returned-refused", rayslice.StatePending, func(p *RequestPage) {
			returned(p)
			p.Reply = ReplyForm{Problem: problemOf(rayslice.Invalid(rayslice.FieldError{Field: "reply", Code: rayslice.CodeRequired}))}
		}),
		requestSample("request-answered-twice", rayslice.StatePending, func(p *RequestPage) {
			p.Reply = ReplyForm{Reply: "Two, for the seeds.", Problem: &rayslice.Error{Kind: rayslice.KindConflict, Code: "answered_already"}}
		}),
		requestSample("request-denied", rayslice.StateRejected, func(p *RequestPage) {
			d := rayslice.Decision{Verdict: rayslice.VerdictReject, Answer: "The cards are needed for the deadline on Friday."}
			p.Request.Reason, p.Request.DecidedBy, p.Request.Answer = d.Reason("Maya Okafor"), "Maya Okafor", d.Answer
		}),
		requestSample("request-granted-less", rayslice.StateReady, func(p *RequestPage) {
			asked := p.Request.Draft
			p.Request.Asked, p.Request.DecidedBy, p.Request.Answer = &asked, "Maya Okafor", "One is enough for a start."
			p.Request.Draft.Hours = 4
		}),
		{"new-needs-lead", func(f Frame) templ.Component {
			p := samplePage(f, sampleForm())
			p.YAML, p.Grants, p.Deciders = sampleYAML, sampleGrants(f.Now), []string{"Maya Okafor", "Sam Rivera"}
			p.Decision = rayslice.Reason{Code: rayslice.ReasonNeedsLeadGiB, Args: Args{"asked": 16, "most": 8}}
			return NewRequestView(p)
		}},
		{"new-needs-lead-share", func(f Frame) templ.Component {
			p := samplePage(f, sampleForm())
			p.YAML, p.Deciders = sampleYAML, []string{"Maya Okafor"}
			p.Decision = rayslice.Reason{Code: rayslice.ReasonNeedsLeadShare, Args: Args{"unit": "gib", "asked": 16, "held": 24, "most": 32}}
			return NewRequestView(p)
		}},
		{"edit", func(f Frame) templ.Component {
			p := samplePage(f, sampleForm())
			p.Path, p.YAML, p.Quotas = "/clusters/k5d2m7qxw3ab/edit", sampleYAML, p.Quotas[1:]
			request := SampleRow(f.Now, rayslice.StatePending).Request
			request.State, request.DecidedBy, request.Answer = rayslice.StateReturned, "Maya Okafor", "Do you need both? One was idle last week."
			p.Edit = &RequestEdit{Request: request, Revision: "1", Reply: "Two seeds at once"}
			p.Decision = rayslice.Reason{Code: rayslice.ReasonNeedsLeadGiB, Args: Args{"asked": 16, "most": 8}}
			return NewRequestView(p)
		}},
		{"edit-too-late", func(f Frame) templ.Component {
			p := samplePage(f, sampleForm())
			p.Edit = &RequestEdit{Request: SampleRow(f.Now, rayslice.StateRejected).Request, Revision: "1"}
			p.Problem = &rayslice.Error{Kind: rayslice.KindConflict, Code: "decided_already", Args: Args{"state": rayslice.StateRejected, "who": "Maya Okafor"}}
			return NewRequestView(p)
		}},
	}
}

func returned(p *RequestPage) {
	d := rayslice.Decision{Verdict: rayslice.VerdictReturn, Answer: "Do you need both? One was idle last week."}
	p.Request.State, p.Request.DecidedBy, p.Request.Answer, p.Request.Reason = rayslice.StateReturned, "Maya Okafor", d.Answer, d.Reason("Maya Okafor")
	p.Request.SentAt, p.CanChange, p.Request.Revision = p.Request.CreatedAt, true, 1
}

func sampleGrants(now time.Time) []rayslice.Grant {
	return []rayslice.Grant{
		{Team: "vision", Charge: rayslice.Charge{GiB: 64}, Base: true, Since: now.AddDate(0, -9, 0), By: "Sam Rivera"},
		{Team: "vision", Charge: rayslice.Charge{GiB: 32}, Since: now.AddDate(0, -1, 0), Until: now.AddDate(0, 1, 0), By: "Sam Rivera"},
	}
}
