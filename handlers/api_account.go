package handlers

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// ShowAccount says who asks.
func (p program) ShowAccount(ctx context.Context, _ api.ShowAccountRequestObject) (api.ShowAccountResponseObject, error) {
	u := user(echoOf(ctx))
	answer := api.ShowAccount200JSONResponse{Id: u.ID, Name: u.Name, Email: u.Email, Admin: u.Admin, Roles: map[string]rayslice.Role{}}
	for _, team := range u.Teams() {
		answer.Roles[team] = u.Roles[team]
	}
	if u.TokenID != 0 {
		scopes := append([]rayslice.Scope{}, u.Scopes...)
		answer.Scopes = &scopes
	}
	return answer, nil
}

// ListTokens lists the caller's API tokens.
func (p program) ListTokens(ctx context.Context, _ api.ListTokensRequestObject) (api.ListTokensResponseObject, error) {
	tokens, err := p.config.Store.Tokens(ctx, user(echoOf(ctx)))
	return api.ListTokens200JSONResponse{Tokens: each(tokens, tokenOf)}, err
}

func tokenOf(t rayslice.Token) api.Token {
	return api.Token{Id: t.ID, Name: t.Name, Team: said(t.Team), Prefix: t.Prefix, Scopes: append([]rayslice.Scope{}, t.Scopes...),
		CreatedAt: t.CreatedAt, EndsAt: t.EndsAt, UsedAt: known(t.UsedAt), RevokedAt: known(t.RevokedAt)}
}

// CreateToken makes an API token and shows its secret, this once.
func (p program) CreateToken(ctx context.Context, asked api.CreateTokenRequestObject) (api.CreateTokenResponseObject, error) {
	var body struct {
		Name   string           `json:"name"`
		Team   *string          `json:"team"`
		Scopes []rayslice.Scope `json:"scopes"`
		Days   int              `json:"days"`
	}
	c := echoOf(ctx)
	if err := readJSON(c, asked.Body, &body, "name", "days"); err != nil {
		return nil, err
	}
	if err := choose("scopes", rayslice.Scopes(), body.Scopes...); err != nil {
		return nil, err
	}
	draft := rayslice.TokenDraft{Name: body.Name, Team: orNone(body.Team), Scopes: body.Scopes, Days: body.Days}
	draft.Normalize()
	if err := draft.Validate(); err != nil {
		return nil, err
	}
	secret, token, err := p.config.Store.CreateToken(ctx, user(c), draft)
	return api.CreateToken201JSONResponse{Secret: secret, Token: tokenOf(token)}, err
}

// RevokeToken revokes one of the caller's tokens.
func (p program) RevokeToken(ctx context.Context, _ api.RevokeTokenRequestObject) (api.RevokeTokenResponseObject, error) {
	c := echoOf(ctx)
	id, err := idOf(c, "token", "token")
	if err != nil {
		return nil, err
	}
	return api.RevokeToken204Response{}, p.config.Store.RevokeToken(ctx, user(c), user(c).ID, id)
}

// EndOwnSessions signs the caller out everywhere, here too.
func (p program) EndOwnSessions(ctx context.Context, _ api.EndOwnSessionsRequestObject) (api.EndOwnSessionsResponseObject, error) {
	actor := user(echoOf(ctx))
	return api.EndOwnSessions204Response{}, p.config.Store.EndSessions(ctx, actor, actor.ID)
}

// ShowNotificationSettings says how the caller is told.
func (p program) ShowNotificationSettings(ctx context.Context, _ api.ShowNotificationSettingsRequestObject) (api.ShowNotificationSettingsResponseObject, error) {
	settings, err := p.notificationSettings(echoOf(ctx))
	return api.ShowNotificationSettings200JSONResponse(settings), err
}

func (s *Server) notificationSettings(c echo.Context) (api.NotificationSettings, error) {
	n, err := s.config.Store.NotificationSettings(c.Request().Context(), user(c))
	settings := api.NotificationSettings{Mail: n.Mail, WebhookUrl: said(n.WebhookURL), WebhookForm: n.WebhookForm, HasSecret: n.WebhookSecret != "",
		Send: []rayslice.NewsKind{}, Failure: reasonOf(c, n.Failure), FailedAt: known(n.FailedAt)}
	for _, kind := range rayslice.NewsKinds() {
		if kind.Concerns(user(c)) && !n.Mutes(kind) {
			settings.Send = append(settings.Send, kind)
		}
	}
	return settings, err
}

// SetNotificationSettings sets how the caller is told.
func (p program) SetNotificationSettings(ctx context.Context, asked api.SetNotificationSettingsRequestObject) (api.SetNotificationSettingsResponseObject, error) {
	var body struct {
		Mail   bool                `json:"mail"`
		URL    *string             `json:"webhook_url"`
		Form   string              `json:"webhook_form"`
		Secret string              `json:"webhook_secret"`
		Send   []rayslice.NewsKind `json:"send"`

		// What was read with the rest, and is not for anybody to set.
		HasSecret any `json:"has_secret"`
		Failure   any `json:"failure"`
		FailedAt  any `json:"failed_at"`
	}
	c := echoOf(ctx)
	if err := readJSON(c, asked.Body, &body, "mail", "webhook_form", "send"); err != nil {
		return nil, err
	}
	form := web.NotificationForm{Mail: body.Mail, WebhookURL: orNone(body.URL), WebhookForm: body.Form, WebhookSecret: body.Secret}
	if err := choose("send", rayslice.NewsKinds(), body.Send...); err != nil {
		return nil, err
	}
	for _, kind := range body.Send {
		form.Send = append(form.Send, string(kind))
	}
	before, err := p.config.Store.NotificationSettings(ctx, user(c))
	if err == nil {
		err = p.setNotifications(ctx, user(c), form, before)
	}
	if err != nil {
		return nil, err
	}
	settings, err := p.notificationSettings(c)
	return api.SetNotificationSettings200JSONResponse(settings), err
}

// TryNotification sends the caller a test message.
func (p program) TryNotification(ctx context.Context, _ api.TryNotificationRequestObject) (api.TryNotificationResponseObject, error) {
	return api.TryNotification204Response{}, p.sendTest(ctx, user(echoOf(ctx)))
}

// ListNotifications lists what the caller was told.
func (p program) ListNotifications(ctx context.Context, _ api.ListNotificationsRequestObject) (api.ListNotificationsResponseObject, error) {
	c := echoOf(ctx)
	r := &filterReader{query: c.QueryParams()}
	filter := store.NoticeFilter{Unread: r.flag("unread"), Before: r.row(), Limit: r.limit(listLength)}
	if err := rayslice.Invalid(r.bad...); err != nil {
		return nil, err
	}
	found, err := p.config.Store.Notices(ctx, user(c), filter)
	if err != nil {
		return nil, err
	}
	notices := each(found.Notices, func(n rayslice.Notice) api.Notice { return noticeOf(c, n) })
	return api.ListNotifications200JSONResponse{Notices: notices, Next: said(rowID(found.Next))}, nil
}

func noticeOf(c echo.Context, n rayslice.Notice) api.Notice {
	l := visitOf(c).locale
	return api.Notice{Id: n.ID, At: n.At, Code: n.Code, Title: l.NoticeTitle(n), Body: said(l.NoticeBody(n)), Team: said(n.Team), RequestId: said(n.RequestID),
		Link: said(n.Link), ReadAt: known(n.ReadAt)}
}

// ReadNotifications marks notices as read.
func (p program) ReadNotifications(ctx context.Context, asked api.ReadNotificationsRequestObject) (api.ReadNotificationsResponseObject, error) {
	var body struct {
		IDs  []int64 `json:"ids"`
		UpTo int64   `json:"up_to"`
	}
	c := echoOf(ctx)
	if err := readJSON(c, asked.Body, &body); err != nil {
		return nil, err
	}
	switch {
	case len(body.IDs) == 0 && body.UpTo == 0:
		return nil, rayslice.Invalid(rayslice.FieldError{Field: "ids", Code: rayslice.CodeRequired})
	case len(body.IDs) > store.MaxPage:
		return nil, rayslice.Invalid(rayslice.FieldError{Field: "ids", Code: rayslice.CodeRange, Args: map[string]any{"min": 1, "max": store.MaxPage}})
	}
	return api.ReadNotifications204Response{}, p.config.Store.ReadNotices(ctx, user(c), body.IDs, body.UpTo)
}
