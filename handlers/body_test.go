package handlers

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// lateBody is a form of which the rest arrives after something has happened.
type lateBody struct {
	io.Reader
	happen func()
}

func (b *lateBody) Read(p []byte) (int, error) {
	if b.happen != nil {
		b.happen()
		b.happen = nil
	}
	return b.Reader.Read(p)
}

// TestRightsAfterTheBody takes rights away while a request is on its way: what counts is when it could be carried out.
func TestRightsAfterTheBody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		who    func(p *portal) rayslice.User
		path   string
		form   url.Values
		happen string
		status int
	}{
		"a lead who leads no more": {
			who: func(p *portal) rayslice.User { return p.Lea }, path: "/approvals/:id", form: verdict("approve"),
			happen: `UPDATE roles SET role = 'member' WHERE user_id = $1`, status: http.StatusForbidden},
		"an admin who is kept out": {
			who: func(p *portal) rayslice.User { return p.Root }, path: "/admin/people/:sam/roles", form: url.Values{"role": {"admin"}},
			happen: `UPDATE users SET disabled = true WHERE id = $1`, status: http.StatusSeeOther},
		"a member whose sessions were ended": {
			who: func(p *portal) rayslice.User { return p.Ada }, path: "/clusters/:id/stop",
			happen: `UPDATE users SET session_epoch = session_epoch + 1 WHERE id = $1`, status: http.StatusSeeOther},
		"somebody who signs in as a persona that is gone": {
			who: func(p *portal) rayslice.User { return p.Bob }, path: "/signin", form: url.Values{"user": {":bob"}},
			happen: `UPDATE users SET disabled = true WHERE id = $1`, status: http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			p.needLead(0)
			request := p.create(p.Ada, storetest.Draft(1, 4))
			names := strings.NewReplacer(":id", request.ID, ":sam", fmt.Sprint(p.Sam.ID), ":bob", fmt.Sprint(p.Bob.ID), "%3Abob", fmt.Sprint(p.Bob.ID))
			who := tc.who(p)
			body := &lateBody{strings.NewReader(names.Replace(tc.form.Encode())), func() { storetest.Exec(t, tc.happen, who.ID) }}
			got := p.as(who).with("Content-Type", "application/x-www-form-urlencoded").send(http.MethodPost, names.Replace(tc.path), body).want(tc.status)
			if tc.status == http.StatusSeeOther && !strings.HasPrefix(got.location(), "/signin") {
				t.Errorf("sent to %s, want the sign-in page", got.location())
			}
			if now := p.request(request.ID); now.State != request.State {
				t.Errorf("the request is %s", now.State)
			}
			if sam, err := p.store.User(t.Context(), rayslice.System, p.Sam.ID); err != nil || sam.Admin {
				t.Errorf("Sam: %+v, %v", sam, err)
			}
		})
	}
}

// TestBodyThatNeverEnds gives a request a time to arrive in, and says so when it is over.
func TestBodyThatNeverEnds(t *testing.T) {
	t.Parallel()
	p := open(t)
	web := httptest.NewUnstartedServer(p.server)
	web.Config.ReadTimeout = 500 * time.Millisecond
	web.Start()
	t.Cleanup(web.Close)
	for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "POST /language HTTP/1.1\r\nHost: portal.example\r\nSec-Fetch-Site: same-origin\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\n%s\r\n\r\n", length)
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("%s: %v, got %.200s", length, err, answer)
		}
	}
}
