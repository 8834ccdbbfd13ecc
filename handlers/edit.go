package handlers

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// changeable returns the request in the path when it is the visitor's own; whether it still waits is for the store to say.
func (s *Server) changeable(c echo.Context) (rayslice.Request, error) {
	id, err := requestID(c)
	if err != nil {
		return rayslice.Request{}, err
	}
	request, err := s.config.Store.Request(c.Request().Context(), user(c), id)
	if err == nil && !user(c).CanChange(request) {
		err = s.config.Store.Refuse(c.Request().Context(), user(c), about(c, request), rayslice.Forbidden("change_not_owner"))
	}
	return request, err
}

// about names a request in the audit log.
func about(c echo.Context, r rayslice.Request) rayslice.AuditEntry {
	return rayslice.AuditEntry{Subject: attempt(c.Request()), RequestID: r.ID, Team: r.Team}
}

// editRequest shows the form that changes what a waiting request asks for.
func (s *Server) editRequest(c echo.Context) error {
	request, err := s.changeable(c)
	if err != nil {
		return err
	}
	if !request.State.Open() {
		return decidedAlready(request)
	}
	if len(request.Draft.Groups) > web.MaxFormGroups { // the form would silently drop the rest
		return refuse(http.StatusUnprocessableEntity, "form_groups", map[string]any{"max": web.MaxFormGroups}, nil)
	}
	p, err := s.editPage(c, request, web.FormFromDraft(request.Draft, s.config.Catalogue), "")
	if err != nil {
		return err
	}
	return s.answerFirstForm(c, p)
}

func decidedAlready(r rayslice.Request) error {
	return &rayslice.Error{Kind: rayslice.KindConflict, Code: "decided_already", Args: map[string]any{"state": r.State, "who": r.DecidedBy}}
}

// editPage returns the page of the form that changes a request. What the request holds already is left out of its team's
// quota, as the change takes its place.
func (s *Server) editPage(c echo.Context, request rayslice.Request, form web.RequestForm, reply string) (web.NewRequestPage, error) {
	form.Team = request.Team // it stays with the team that it was sent for
	p, err := s.newRequestPage(c, form, rand.Text())
	if err != nil {
		return p, err
	}
	p.Edit = &web.RequestEdit{Request: request, Revision: strconv.Itoa(request.Revision), Reply: reply}
	for _, q := range p.Quotas {
		if q.Team != request.Team {
			continue
		}
		if request.State.Open() {
			q.Used, q.Held = less(q.Used, request.Charge), less(q.Held, request.Charge)
		}
		p.Quotas = []rayslice.Quota{q}
		break
	}
	return p, nil
}

func less(c, by rayslice.Charge) rayslice.Charge {
	return rayslice.Charge{GiB: max(0, c.GiB-by.GiB), Cards: max(0, c.Cards-by.Cards)}
}

// previewEdit shows what the changed form would cost and apply, and what would follow, and writes nothing.
func (s *Server) previewEdit(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	request, err := s.changeable(c)
	if err != nil {
		return err
	}
	p, err := s.editPage(c, request, web.ParseRequestForm(values), replyOf(values))
	if err != nil {
		return err
	}
	p.Edit.Revision = values.Get("revision") // a look is no reason to forget what the form was made from
	return s.answerPreview(c, p)
}

func replyOf(values url.Values) string {
	return strings.TrimSpace(strings.ReplaceAll(values.Get("reply"), "\r\n", "\n"))
}

// resendRequest changes what the visitor's waiting request asks for and sends it again. A refused form comes back filled
// in; when the request has changed or was decided meanwhile, with what is true now.
func (s *Server) resendRequest(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	request, err := s.changeable(c)
	if err != nil {
		return err
	}
	form, reply := web.ParseRequestForm(values), replyOf(values)
	form.Team = request.Team
	err = s.resend(c, request, form, values.Get("revision"), reply)
	if err == nil {
		return c.Redirect(http.StatusSeeOther, "/clusters/"+request.ID)
	}
	return s.answerRefused(c, err, func() (web.NewRequestPage, error) {
		now, err := s.config.Store.Request(c.Request().Context(), user(c), request.ID)
		if err != nil {
			return web.NewRequestPage{}, err
		}
		return s.editPage(c, now, form, reply)
	})
}

func (s *Server) resend(c echo.Context, request rayslice.Request, form web.RequestForm, revision, reply string) error {
	ctx := c.Request().Context()
	seen, err := strconv.Atoi(revision)
	if err != nil {
		seen = 0 // a form without a revision has seen none
	}
	if !request.State.Open() {
		return decidedAlready(request)
	}
	if err := rayslice.CheckReply(reply); err != nil {
		return err
	}
	fleet, err := s.config.Store.Fleet(ctx, user(c))
	if err != nil {
		return err
	}
	draft, err := s.draftOf(c.Request().Context(), user(c), form, fleet)
	if err != nil {
		return err
	}
	_, err = s.config.Store.ResendRequest(ctx, user(c), request.ID, seen, draft, reply)
	return err
}

// replyToLead answers a lead's question and sends the request again as it is.
func (s *Server) replyToLead(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	request, err := s.changeable(c)
	if err != nil {
		return err
	}
	reply := replyOf(values)
	seen, _ := strconv.Atoi(values.Get("revision"))
	if err = rayslice.CheckReply(reply); err == nil && reply == "" {
		err = rayslice.Invalid(rayslice.FieldError{Field: "reply", Code: rayslice.CodeRequired})
	}
	if !request.State.Open() {
		err = decidedAlready(request)
	}
	if err == nil {
		_, err = s.config.Store.ResendRequest(c.Request().Context(), user(c), request.ID, seen, request.Draft, reply)
	}
	if err == nil {
		return c.Redirect(http.StatusSeeOther, "/clusters/"+request.ID)
	}
	status, problem := explain(err)
	if problem.Kind != rayslice.KindInvalid && problem.Kind != rayslice.KindConflict && problem.Kind != rayslice.KindOverQuota {
		return err
	}
	p, failed := s.requestPage(c, s.liveFrame)
	if failed != nil {
		return failed
	}
	visitOf(c).failure, p.Reply = err, web.ReplyForm{Reply: reply, Problem: problem}
	return s.answerRequestPage(c, status, p)
}
