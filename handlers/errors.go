package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// statusOf maps the kinds every floor speaks to HTTP.
var statusOf = map[rayslice.Kind]int{
	rayslice.KindInvalid:     http.StatusUnprocessableEntity,
	rayslice.KindNotFound:    http.StatusNotFound,
	rayslice.KindForbidden:   http.StatusForbidden,
	rayslice.KindConflict:    http.StatusConflict,
	rayslice.KindOverQuota:   http.StatusConflict,
	rayslice.KindUnavailable: http.StatusServiceUnavailable,
}

// retryAfter is how long to wait before trying again after a 429 or 503.
const retryAfter = 5 * time.Second

// refusal is a refusal that only HTTP knows, such as a wrong content type: it has a status and no kind.
type refusal struct {
	status  int
	problem *rayslice.Error
}

// Error returns a terse text for the log.
func (r *refusal) Error() string { return r.problem.Error() }

// refuse returns a refusal; cause is for the log only.
func refuse(status int, code string, args map[string]any, cause error) error {
	return &refusal{status, &rayslice.Error{Code: code, Args: args, Err: cause}}
}

// statusClientGone is what the log and the metrics say when the other side left before its answer; nginx uses the same.
const statusClientGone = 499

// explain finds what may be said about an error, and the status to say it with. Whatever is not known is "internal".
func explain(err error) (int, *rayslice.Error) {
	var (
		refused  *refusal
		known    *rayslice.Error
		tooLarge *http.MaxBytesError
		ofEcho   *echo.HTTPError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return statusClientGone, &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "unavailable"}
	case errors.As(err, &refused):
		return refused.status, refused.problem
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, &rayslice.Error{Code: "too_large", Args: map[string]any{"max_kib": maxBody >> 10}}
	case errors.As(err, &known) && statusOf[known.Kind] != 0:
		return statusOf[known.Kind], known
	case errors.As(err, &ofEcho) && ofEcho.Code == http.StatusNotFound:
		return http.StatusNotFound, &rayslice.Error{Kind: rayslice.KindNotFound, Code: "not_found", Args: map[string]any{"what": "page"}}
	case errors.As(err, &ofEcho) && ofEcho.Code == http.StatusMethodNotAllowed:
		return http.StatusMethodNotAllowed, &rayslice.Error{Code: "method_not_allowed"}
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, &rayslice.Error{Kind: rayslice.KindUnavailable, Code: "unavailable"}
	}
	return http.StatusInternalServerError, &rayslice.Error{Code: "internal"}
}

// answerError is the one place where an error becomes an answer: problem details for programs, a page for people. The
// cause stays in the log, joined by the request id.
func (s *Server) answerError(err error, c echo.Context) {
	v := visitOf(c)
	v.failure = err
	if c.Response().Committed {
		return
	}
	status, problem := explain(err)
	switch status {
	case statusClientGone:
		c.Response().WriteHeader(status) // nobody reads it; log and metrics see that nothing of ours failed
		return
	case http.StatusUnauthorized:
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Bearer realm="rayslice"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		c.Response().Header().Set(echo.HeaderRetryAfter, seconds(retryAfter))
	}
	var failed error
	switch {
	case v.onCluster:
		failed = s.answerClusterError(c, status, problem)
	case wantsProblem(c.Request()):
		failed = answerProblem(c, status, problem)
	case status == http.StatusUnauthorized:
		failed = askToSignIn(c)
	case status == http.StatusMethodNotAllowed && safeMethod(c.Request().Method):
		failed = c.Redirect(http.StatusSeeOther, s.pageAbove(c.Request().URL.EscapedPath()))
	default:
		if status == http.StatusNotFound && v.identity.user.ID == 0 {
			v.identity, _ = s.identityOf(c.Request()) // an address without a route has asked nobody yet; without an answer the page is nobody's
		}
		p := web.ErrorPage{Frame: s.frame(c), Status: status, Problem: problem}
		if status == http.StatusRequestEntityTooLarge {
			p.Back = s.formOfRequest(c)
			if p.Back == importPath {
				p.Problem = &rayslice.Error{Code: "import_too_large", Args: problem.Args}
			}
		}
		failed = page(c, status, web.ErrorView(p))
	}
	if failed != nil {
		s.config.Logger.LogAttrs(c.Request().Context(), slog.LevelError, "answering an error failed",
			slog.String("request_id", v.id), slog.String("error", failed.Error()))
	}
}

// wantsProblem reports whether a program asks: by the API, by a token, or for an event stream, which cannot show a page.
func wantsProblem(r *http.Request) bool {
	return isAPI(r) || bearerToken(r) != "" || strings.HasPrefix(r.Header.Get(echo.HeaderAccept), "text/event-stream")
}

// isAPI reports whether an address is for programs; the page about it is for people.
func isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Path != "/api/docs"
}

// askToSignIn sends a visitor to the sign-in page and remembers where they wanted to go.
func askToSignIn(c echo.Context) error {
	page := "/signin?"
	if visitOf(c).identity.again && safeMethod(c.Request().Method) { // form-action forbids a form to end up at the provider
		page = "/signin/oidc?" // which knows them still, and mostly asks nothing
	}
	target := page + url.Values{"next": {returnTo(c.Request())}}.Encode()
	if c.Request().Header.Get("HX-Request") == "true" {
		c.Response().Header().Set("HX-Redirect", target) // a redirect would be swapped into the page
		return c.NoContent(http.StatusUnauthorized)
	}
	return c.Redirect(http.StatusSeeOther, target)
}

// formOfRequest returns the page whose form was sent: at the same address, or the closest above it.
func (s *Server) formOfRequest(c echo.Context) string {
	for _, route := range s.echo.Routes() {
		if route.Path == c.Path() && route.Method == http.MethodGet {
			return c.Request().URL.EscapedPath()
		}
	}
	return s.pageAbove(c.Request().URL.EscapedPath())
}

// pageAbove returns the closest page above an address that only takes forms, for who loads the answer to a form again:
// /clusters/ID for /clusters/ID/reply.
func (s *Server) pageAbove(address string) string {
	for above := path.Dir(address); above != "/"; above = path.Dir(above) {
		for _, route := range s.echo.Routes() {
			if matched, _ := path.Match(routeParam.ReplaceAllString(route.Path, "*"), above); matched && route.Method == http.MethodGet {
				return above
			}
		}
	}
	return "/"
}

var routeParam = regexp.MustCompile(`:[a-z]+`)

// problemType is what the type of a problem begins with; the code follows.
const problemType = "urn:rayslice:problem:"

// problemDetails is RFC 9457's object with our members.
type problemDetails struct {
	Type      string         `json:"type"`
	Code      string         `json:"code"` // the end of Type; stable
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"` // in the caller's language
	RequestID string         `json:"request_id"`
	Errors    []problemField `json:"errors,omitempty"`
	*overQuota
}

// problemField names one bad field.
type problemField struct {
	Field  string `json:"field"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// overQuota are the numbers of a refusal for want of quota.
type overQuota struct {
	Team  string          `json:"team"`
	Limit rayslice.Charge `json:"limit"`
	Used  rayslice.Charge `json:"used"`
	Held  rayslice.Charge `json:"held"`
	Asked rayslice.Charge `json:"asked"`
	Left  rayslice.Charge `json:"left"`
}

// numbersOf returns the numbers of a refusal for want of quota, nil for any other.
func numbersOf(problem *rayslice.Error) *overQuota {
	if problem.Kind != rayslice.KindOverQuota {
		return nil
	}
	number := func(name string) int { n, _ := problem.Args[name].(int); return n }
	charge := func(name string) rayslice.Charge {
		return rayslice.Charge{GiB: number(name + "_gib"), Cards: number(name + "_cards")}
	}
	team, _ := problem.Args["team"].(string)
	return &overQuota{Team: team, Limit: charge("limit"), Used: charge("used"), Held: charge("held"), Asked: charge("asked"), Left: charge("left")}
}

func answerProblem(c echo.Context, status int, problem *rayslice.Error) error {
	v := visitOf(c)
	details := problemDetails{
		Type: problemType + problem.Code, Code: problem.Code, Title: http.StatusText(status), Status: status,
		Detail: v.locale.Problem(problem), RequestID: v.id, overQuota: numbersOf(problem),
	}
	for _, f := range problem.Fields {
		details.Errors = append(details.Errors, problemField{f.Field, f.Code, v.locale.Field(f)})
	}
	c.Response().Header().Set("Content-Language", v.locale.Code())
	body, err := json.Marshal(details)
	if err != nil {
		return err
	}
	return c.Blob(status, "application/problem+json", body)
}
