package web

import (
	"slices"
	"strings"

	"github.com/rayslice/rayslice"
)

// RequestEdit is the waiting request that a form changes.
// Form: POST /clusters/ID/edit with the fields of the request, revision and reply.
type RequestEdit struct {
	Request  rayslice.Request
	Revision string // as it was when the form was drawn
	Reply    string // to the lead who asked back
}

// ReplyForm answers a lead's question without changing the request.
// Form: POST /clusters/ID/reply with revision and reply.
type ReplyForm struct {
	Reply   string
	Problem *rayslice.Error // why the form came back; nil = it did not
}

// action is where the form is sent.
func (p NewRequestPage) action() string {
	if p.Edit != nil {
		return "/clusters/" + p.Edit.Request.ID + "/edit"
	}
	return "/clusters"
}

// preview is where the form is sent for a look at what would follow.
func (p NewRequestPage) preview() string {
	if p.Edit != nil {
		return "/clusters/" + p.Edit.Request.ID + "/preview"
	}
	return "/clusters/preview"
}

func formTitle(p NewRequestPage) string {
	if p.Edit != nil {
		return p.Locale.T("edit_title", Args{"Name": p.Edit.Request.Draft.Name})
	}
	return p.Locale.T("new_title")
}

func formLead(p NewRequestPage) string {
	if p.Edit != nil {
		return p.Locale.T("edit_lead")
	}
	return p.Locale.T("new_lead")
}

// question returns what the lead asked back; "" = nothing.
func question(r rayslice.Request) string {
	if r.State == rayslice.StateReturned {
		return r.Answer
	}
	return ""
}

// needsLead reports whether somebody would have to decide about the form as it stands.
func needsLead(p NewRequestPage) bool {
	return !p.Decision.IsZero() && p.Decision.Code != rayslice.ReasonAutoApproved
}

// names joins names: "Arjun Rao", "Arjun Rao or Wei Zhang", "Arjun Rao, Wei Zhang or Mei Lin".
func names(l *Localizer, all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	last := len(all) - 1
	return l.T("names_or", Args{"Names": strings.Join(all[:last], l.T("names_comma")), "Last": all[last]})
}

// limitOrigin says how a limit came about: who granted what, until when; "" = there is nothing to tell.
func limitOrigin(l *Localizer, grants []rayslice.Grant) string {
	parts := make([]string, 0, len(grants))
	for _, g := range grants {
		args := Args{"What": chargeText(l, g.Charge), "Since": g.Since.Format(l.T("date_layout")), "By": g.By}
		switch {
		case g.Base && g.By == rayslice.System.Name:
			parts = append(parts, l.T("limit_first", args))
		case g.Base:
			parts = append(parts, l.T("limit_base", args))
		case g.Until.IsZero():
			parts = append(parts, l.T("limit_more", args))
		default:
			args["Until"] = g.Until.Format(l.T("date_layout"))
			parts = append(parts, l.T("limit_until", args))
		}
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return ""
	}
	return l.T("limit_why", Args{"Parts": strings.Join(parts, l.T("names_comma"))})
}

// grantsText says in words what was asked for and what of it was granted; "" = all of it.
func grantsText(l *Localizer, r rayslice.Request, c rayslice.Catalogue) string {
	if r.Asked == nil {
		return ""
	}
	return l.T("asked_granted", Args{"Asked": wish(l, *r.Asked, c), "Granted": wish(l, r.Draft, c)})
}

// saidText says who decided and what they said; "" = nobody did, or it still waits.
func saidText(l *Localizer, r rayslice.Request) string {
	if r.DecidedBy == "" || r.State.Open() || r.State == rayslice.StateRejected || r.State == rayslice.StateCancelled {
		return ""
	}
	return l.Reason(rayslice.Reason{Code: rayslice.ReasonApproved, Args: Args{"who": r.DecidedBy, "answer": r.Answer}})
}
