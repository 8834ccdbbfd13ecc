package bench

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"

	"github.com/rayslice/rayslice"
)

// SignIn begins a session of a persona at a portal that is known as publicURL, and returns its cookie.
func SignIn(server http.Handler, publicURL string, who rayslice.User) (*http.Cookie, error) {
	form := url.Values{"user": {strconv.FormatInt(who.ID, 10)}}
	r := httptest.NewRequest(http.MethodPost, publicURL+"/signin", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", publicURL)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	cookies := w.Result().Cookies()
	if len(cookies) == 0 {
		return nil, errors.New("sign-in gave no cookie: " + w.Body.String())
	}
	return cookies[0], nil
}
