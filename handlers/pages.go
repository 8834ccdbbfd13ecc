package handlers

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/static"
	"github.com/rayslice/rayslice/web"
)

// page renders into a buffer first, so that a component that fails half-way still becomes a whole error page.
func page(c echo.Context, status int, component templ.Component) error {
	var b bytes.Buffer
	ctx := context.WithoutCancel(c.Request().Context()) // it is cancelled when reading the request fails, of which the page may tell
	if err := component.Render(ctx, &b); err != nil {
		return err
	}
	return c.HTMLBlob(status, b.Bytes())
}

// frame returns what every page has around its content, as far as it is known without asking the database.
func (s *Server) frame(c echo.Context) web.Frame {
	v := visitOf(c)
	return web.Frame{
		Locale: v.locale, User: v.identity.user, Path: pathOfPage(c.Request()), Now: s.now(), Done: c.QueryParam("done"),
		Demo: s.config.Demo, Version: s.config.Version, RequestID: v.id,
	}
}

// pathOfPage returns where the language switch comes back to: a form's answer has no address of its own.
func pathOfPage(r *http.Request) string {
	if safeMethod(r.Method) {
		return r.URL.RequestURI()
	}
	return r.URL.Path
}

// liveFrame returns the frame with what is known about the Kubernetes cluster as a whole, and what waits for the visitor.
func (s *Server) liveFrame(c echo.Context) (web.Frame, error) {
	frame, _, err := s.frameAndFleet(c)
	return frame, err
}

// bareFrame returns the frame of what a stream draws: without what waits for the visitor, which only whole pages show.
func (s *Server) bareFrame(c echo.Context) (web.Frame, error) {
	fleet, err := s.config.Store.Fleet(c.Request().Context(), user(c))
	return withFleet(s.frame(c), fleet), err
}

// frameAndFleet returns the frame with all that it shows, and the fleet it was made from.
func (s *Server) frameAndFleet(c echo.Context) (web.Frame, rayslice.Fleet, error) {
	ctx := c.Request().Context()
	fleet, err := s.config.Store.Fleet(ctx, user(c))
	if err != nil {
		return web.Frame{}, fleet, err
	}
	frame := withFleet(s.frame(c), fleet)
	if frame.Waiting, err = s.config.Store.Waiting(ctx, user(c)); err != nil {
		return frame, fleet, err
	}
	if frame.Unread, err = s.config.Store.Unread(ctx, user(c)); err != nil || !user(c).CanAdmin() {
		return frame, fleet, err
	}
	frame.Raises, err = s.config.Store.PendingRaises(ctx, user(c))
	return frame, fleet, err
}

func withFleet(frame web.Frame, fleet rayslice.Fleet) web.Frame {
	frame.Problems = fleet.Problems
	frame.DataUnknown = fleet.ObservedAt.IsZero()
	if !frame.DataUnknown {
		frame.DataAge = frame.Now.Sub(fleet.ObservedAt)
	}
	return frame
}

// formValues reads a posted form. Query parameters do not count, and any other content type is refused.
func formValues(c echo.Context) (url.Values, error) {
	r := c.Request()
	if mediaType(r) != echo.MIMEApplicationForm {
		return nil, refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", map[string]any{"want": echo.MIMEApplicationForm}, nil)
	}
	if err := r.ParseForm(); err != nil {
		return nil, rayslice.Invalid(rayslice.FieldError{Field: "body", Code: rayslice.CodeCharacters})
	}
	return r.PostForm, nil
}

// together joins what is wrong with a form: what could not be read, and what was read and is out of bounds. A field that is
// bad for several reasons is named with the first. An error of another kind stands for itself.
func together(errs ...error) error {
	var bad []rayslice.FieldError
	for _, err := range errs {
		var problem *rayslice.Error
		if err == nil {
			continue
		}
		if !errors.As(err, &problem) || problem.Kind != rayslice.KindInvalid {
			return err
		}
		known := bad
		for _, f := range problem.Fields {
			if !slices.ContainsFunc(known, func(k rayslice.FieldError) bool { return k.Field == f.Field }) {
				bad = append(bad, f)
			}
		}
	}
	return rayslice.Invalid(bad...)
}

func mediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	if err != nil {
		return ""
	}
	return t
}

// withQuery returns an address with its query, if any.
func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// pages returns the addresses around one page of a list, whose place stands in the given parameter; next is the place of the
// page after it, "" = there is none. The rest of the query stays as it is.
func pages(path string, query url.Values, place, next string) (p web.Pages) {
	rest := without(query, place)
	if query.Get(place) != "" {
		p.First = withQuery(path, rest)
	}
	if next != "" {
		rest.Set(place, next)
		p.Next = withQuery(path, rest)
	}
	return p
}

// rowID returns a place that is the id of a row, "" for 0.
func rowID(id int64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatInt(id, 10)
}

// without returns a copy of the query that lacks one parameter.
func without(query url.Values, name string) url.Values {
	rest := maps.Clone(query)
	rest.Del(name)
	return rest
}

var staticFiles = static.Handler()

// showStatic serves the embedded files, which are the same for everybody.
func showStatic(c echo.Context) error {
	c.Response().Header().Del("Vary")
	staticFiles.ServeHTTP(c.Response(), c.Request())
	return nil
}
