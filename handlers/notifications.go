package handlers

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

const (
	notificationsPath = "/notifications"
	settingsPath      = "/account/notifications"
)

// showNotifications lists what the visitor was told.
func (s *Server) showNotifications(c echo.Context) error {
	query := c.QueryParams()
	filter := store.NoticeFilter{Unread: query.Get("unread") == "1", Limit: listLength}
	if text := query.Get("before"); text != "" {
		var err error
		if filter.Before, err = strconv.ParseInt(text, 10, 64); err != nil || filter.Before < 1 {
			return rayslice.Invalid(rayslice.FieldError{Field: "before", Code: rayslice.CodeCharacters})
		}
	}
	found, err := s.config.Store.Notices(c.Request().Context(), user(c), filter)
	if err != nil {
		return err
	}
	frame, err := s.liveFrame(c)
	if err != nil {
		return err
	}
	p := web.NotificationsPage{Frame: frame, Notices: found.Notices, UnreadOnly: filter.Unread}
	p.Pages = pages(notificationsPath, query, "before", rowID(found.Next))
	return page(c, http.StatusOK, web.NotificationsView(p))
}

// readNotifications marks notices as read and goes on to where one leads, or back to the list.
func (s *Server) readNotifications(c echo.Context) error {
	form, err := formValues(c)
	if err != nil {
		return err
	}
	ids, err := noticeIDs(form["id"])
	if err != nil {
		return err
	}
	upTo, err := noticeIDs(form["up_to"])
	if err != nil {
		return err
	}
	if len(ids)+len(upTo) == 0 || len(upTo) > 1 {
		return rayslice.Invalid(rayslice.FieldError{Field: "id", Code: rayslice.CodeRequired})
	}
	var all int64
	if len(upTo) == 1 {
		all = upTo[0]
	}
	if err := s.config.Store.ReadNotices(c.Request().Context(), user(c), ids, all); err != nil {
		return err
	}
	next := notificationsPath
	if form.Get("next") != "" {
		next = localPath(form.Get("next"))
	}
	return c.Redirect(http.StatusSeeOther, next)
}

func noticeIDs(texts []string) ([]int64, error) {
	if len(texts) > store.MaxPage {
		return nil, rayslice.Invalid(rayslice.FieldError{Field: "id", Code: rayslice.CodeRange, Args: map[string]any{"min": 1, "max": store.MaxPage}})
	}
	ids := make([]int64, 0, len(texts))
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 {
			return nil, rayslice.Invalid(rayslice.FieldError{Field: "id", Code: rayslice.CodeCharacters})
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// showNotificationSettings shows how the visitor is told.
func (s *Server) showNotificationSettings(c echo.Context) error {
	settings, err := s.config.Store.NotificationSettings(c.Request().Context(), user(c))
	if err != nil {
		return err
	}
	p, err := s.settingsPage(c, web.NotificationFormOf(settings), settings)
	if err != nil {
		return err
	}
	p.Saved, p.Tested = c.QueryParam("saved") == "1", c.QueryParam("tested") == "1"
	return page(c, http.StatusOK, web.NotificationSettingsView(p))
}

func (s *Server) settingsPage(c echo.Context, form web.NotificationForm, now rayslice.NotificationSettings) (web.NotificationSettingsPage, error) {
	frame, err := s.liveFrame(c)
	frame.Path = settingsPath // the language switch does not say "saved" once more
	form.WebhookSecret = ""   // goes in and never out
	return web.NotificationSettingsPage{
		Frame: frame, Form: form, HasSecret: now.WebhookSecret != "", Failure: now.Failure, FailedAt: now.FailedAt, MailOff: !s.config.Mail,
	}, err
}

// saveNotificationSettings sets how the visitor is told. A refused form comes back filled in, but for the secret.
func (s *Server) saveNotificationSettings(c echo.Context) error {
	ctx, actor := c.Request().Context(), user(c)
	values, err := formValues(c)
	if err != nil {
		return err
	}
	before, err := s.config.Store.NotificationSettings(ctx, actor)
	if err != nil {
		return err
	}
	form := web.ParseNotificationForm(values)
	err = s.setNotifications(ctx, actor, form, before)
	if rayslice.KindOf(err) == rayslice.KindInvalid {
		p, frameErr := s.settingsPage(c, form, before)
		if frameErr != nil {
			return frameErr
		}
		var status int
		status, p.Problem = explain(err)
		return page(c, status, web.NotificationSettingsView(p))
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, withQuery(settingsPath, url.Values{"saved": {"1"}}))
}

// setNotifications checks how somebody wants to be told, and has it so.
func (s *Server) setNotifications(ctx context.Context, actor rayslice.User, form web.NotificationForm, before rayslice.NotificationSettings) error {
	settings := form.Settings(actor, before)
	err := settings.Validate()
	if settings.WebhookURL != "" && s.config.CheckWebhook != nil {
		err = together(err, s.config.CheckWebhook(settings.WebhookURL))
	}
	if err != nil {
		return err
	}
	return s.config.Store.SetNotificationSettings(ctx, actor, settings)
}

// tryNotification sends the visitor a test message.
func (s *Server) tryNotification(c echo.Context) error {
	if _, err := formValues(c); err != nil {
		return err
	}
	if err := s.sendTest(c.Request().Context(), user(c)); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, withQuery(settingsPath, url.Values{"tested": {"1"}}))
}

// sendTest sends a test message by every way the actor has chosen, now and then: each is work for receivers that others
// wait for too.
func (s *Server) sendTest(ctx context.Context, actor rayslice.User) error {
	if !s.limits.tests.allow(strconv.FormatInt(actor.ID, 10)) {
		return refuse(http.StatusTooManyRequests, "test_too_soon", map[string]any{"seconds": int(testEvery.Seconds())}, nil)
	}
	return s.config.Store.TryNotification(ctx, actor)
}

// rememberLanguage keeps the language that a person's messages are written in. Nobody is kept from changing the pages'
// language because that failed.
func (s *Server) rememberLanguage(c echo.Context, language string) {
	id, err := s.identityOf(c.Request())
	if err == nil && id.user.ID != 0 {
		err = s.config.Store.SetLanguage(c.Request().Context(), id.user, language)
	}
	visitOf(c).failure = err
}
