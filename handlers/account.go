package handlers

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// showAccount shows the visitor's own roles, tokens and sessions.
func (s *Server) showAccount(c echo.Context) error {
	p, err := s.accountPage(c)
	if err != nil {
		return err
	}
	p.Confirm = c.QueryParam("confirm")
	return page(c, http.StatusOK, web.AccountView(p))
}

func (s *Server) accountPage(c echo.Context) (web.AccountPage, error) {
	ctx, actor := c.Request().Context(), user(c)
	frame, err := s.liveFrame(c)
	if err != nil {
		return web.AccountPage{}, err
	}
	p := web.AccountPage{Frame: frame, Form: web.NewTokenDraft()}
	if p.Grants, err = s.config.Store.RoleGrants(ctx, actor); err != nil {
		return p, err
	}
	p.Tokens, err = s.config.Store.Tokens(ctx, actor)
	return p, err
}

// createToken makes an API token and shows its secret, this once: nothing could show it after a redirect.
func (s *Server) createToken(c echo.Context) error {
	values, err := formValues(c)
	if err != nil {
		return err
	}
	draft := readTokenDraft(values)
	var secret string
	if err = draft.Validate(); err == nil {
		secret, _, err = s.config.Store.CreateToken(c.Request().Context(), user(c), draft)
	}
	if err != nil {
		return s.refuseToken(c, draft, err)
	}
	p, err := s.accountPage(c)
	if err != nil {
		return err
	}
	p.Secret = secret
	return page(c, http.StatusCreated, web.AccountView(p))
}

func readTokenDraft(values url.Values) rayslice.TokenDraft {
	days, _ := strconv.Atoi(values.Get("days")) // 0 is refused like any other bad number
	draft := rayslice.TokenDraft{Name: values.Get("name"), Team: values.Get("team"), Days: days}
	for _, scope := range values["scope"] {
		draft.Scopes = append(draft.Scopes, rayslice.Scope(scope))
	}
	draft.Normalize()
	return draft
}

// refuseToken answers with the form, filled in, where changing it or revoking another token can help.
func (s *Server) refuseToken(c echo.Context, draft rayslice.TokenDraft, cause error) error {
	status, problem := explain(cause)
	if problem.Kind != rayslice.KindInvalid && problem.Kind != rayslice.KindConflict {
		return cause
	}
	p, err := s.accountPage(c)
	if err != nil {
		return err
	}
	visitOf(c).failure, p.Form, p.Problem = cause, draft, problem
	return page(c, status, web.AccountView(p))
}

// revokeToken ends one of the visitor's tokens.
func (s *Server) revokeToken(c echo.Context) error {
	id, err := idOf(c, "token", "token")
	if err != nil {
		return err
	}
	if err := s.config.Store.RevokeToken(c.Request().Context(), user(c), user(c).ID, id); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/account?done=token_revoked")
}

// endOwnSessions signs the visitor out everywhere, here too.
func (s *Server) endOwnSessions(c echo.Context) error {
	if err := s.config.Store.EndSessions(c.Request().Context(), user(c), user(c).ID); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/signin")
}
