package handlers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
	"github.com/rayslice/rayslice/store"
)

// maxWait is the longest a call may be held back until something has changed; balancers cut it soon after.
const maxWait = 60 * time.Second

// ShowRequest shows one request, with ?wait= when it has changed.
func (p program) ShowRequest(ctx context.Context, asked api.ShowRequestRequestObject) (api.ShowRequestResponseObject, error) {
	c := echoOf(ctx)
	wait, err := readWait(asked.Params.Wait)
	if err != nil {
		return nil, err
	}
	id, err := requestID(c)
	if err != nil {
		return nil, err
	}
	seen := c.Request().Header.Get("If-None-Match")
	var one api.OneRequestJSONResponse
	look := func() error {
		request, err := p.config.Store.Request(ctx, user(c), id)
		if err != nil {
			return err
		}
		one, err = p.observed(c, request)
		return err
	}
	if wait == 0 || c.Request().Method == http.MethodHead {
		err = look()
	} else {
		err = p.await(c, id, wait, look, untilChanged(seen, &one))
	}
	switch {
	case err != nil:
		return nil, err
	case matchesETag(seen, one.Headers.ETag):
		return api.ShowRequest304Response{Headers: api.ShowRequest304ResponseHeaders{ETag: one.Headers.ETag}}, nil
	}
	return api.ShowRequest200JSONResponse{OneRequestJSONResponse: one}, nil
}

// readWait reads how long a call may be held back; 0 = not at all.
func readWait(asked *string) (time.Duration, error) {
	if asked == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(*asked)
	switch most := int(maxWait / time.Second); {
	case err != nil:
		return 0, rayslice.Invalid(rayslice.FieldError{Field: "wait", Code: rayslice.CodeType, Args: map[string]any{"want": "int", "got": "text"}})
	case n < 0 || n > most:
		return 0, rayslice.Invalid(rayslice.FieldError{Field: "wait", Code: rayslice.CodeRange, Args: map[string]any{"min": 0, "max": most}})
	}
	return time.Duration(n) * time.Second, nil
}

// untilChanged returns what ends a wait: another version than the caller has seen or, when they have seen none, another
// state than at first. What is over does not change.
func untilChanged(seen string, now *api.OneRequestJSONResponse) func() bool {
	var first rayslice.State
	return func() bool {
		if seen != "" {
			return !matchesETag(seen, now.Headers.ETag)
		}
		if first == "" {
			first = now.Body.State
		}
		return now.Body.State != first || first.Final()
	}
}

// await looks at a request now and after every change of it, until done, or for as long as may be. It ends with an error when
// the caller's session or token does (argoproj/argo-cd#9527), and like any stream when the portal stops. It counts as a
// stream.
func (s *Server) await(c echo.Context, id string, longest time.Duration, look func() error, done func() bool) error {
	sub, err := s.streams.subscribe(visitOf(c).identity, func(change store.Change) marks { return changesOf(id)(change) & markState })
	if err != nil {
		return err
	}
	defer s.streams.unsubscribe(sub)
	over, recheck, rested := time.NewTimer(longest), time.NewTicker(s.timing.recheck), time.NewTimer(s.timing.rest)
	defer over.Stop()
	defer recheck.Stop()
	defer rested.Stop()
	var wake chan struct{} // sub.wake, or nil while it rests
	for err = look(); err == nil && !done(); err = look() {
		for rests := true; rests; {
			rests = false
			select {
			case <-c.Request().Context().Done():
				return c.Request().Context().Err()
			case <-s.context.Done():
				return nil
			case <-over.C:
				return nil
			case <-rested.C:
				wake, rests = sub.wake, true
			case <-recheck.C: // and a look, for a change whose announcement was lost
				if !s.stillSignedIn(c) {
					return errSignedOut(c)
				}
			case <-wake:
				wake = nil
				rested.Reset(s.timing.rest)
			}
		}
	}
	return err
}

// errSignedOut is what a call hears whose session or token has ended meanwhile.
func errSignedOut(c echo.Context) error {
	if visitOf(c).identity.bearer != "" {
		return errBadToken
	}
	return refuse(http.StatusUnauthorized, "sign_in", nil, nil)
}

// etagOf names the version of a request. It is a weak one: when the cluster was last looked at, and sentences that say how
// long ago something was, are left out, or every look would be a change.
func etagOf(r api.Request) string {
	r.ObservedAt = nil
	if r.Pending != nil {
		pending := *r.Pending
		pending.Text, pending.Conditions = "", slices.Clone(pending.Conditions)
		for i := range pending.Conditions {
			pending.Conditions[i].Text, pending.Conditions[i].Next = "", ""
		}
		r.Pending = &pending
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	sum := sha256.Sum256(text)
	return `W/"` + hex.EncodeToString(sum[:8]) + `"`
}

// matchesETag reports whether the header If-None-Match names the version.
func matchesETag(header, etag string) bool {
	return header == "*" || slices.ContainsFunc(strings.Split(header, ","), func(one string) bool {
		return strings.TrimPrefix(strings.TrimSpace(one), "W/") == strings.TrimPrefix(etag, "W/")
	})
}
