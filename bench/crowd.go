package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
)

// The portal lets a session have eight streams and a person forty.
const (
	tabsPerSession = 8
	tabsPerPerson  = 40
)

// peopleFor is how many people may have so many tabs open.
func peopleFor(tabs int) int { return (tabs + tabsPerPerson - 1) / tabsPerPerson }

// WriteRoster writes a file for --teams with the people that so many tabs need, all of one team with the namespace.
func WriteRoster(path string, tabs int, namespace string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "teams:\n  - {name: %s, namespace: %s, limit_gib: 100}\npeople:\n", Team, namespace)
	for i := range peopleFor(tabs) {
		fmt.Fprintf(&b, "  - {name: Ada %d, email: ada%d@example.org, roles: {%s: member}}\n", i, i, Team)
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

// A Crowd is people in front of a portal whose tabs all show one cluster. Close it.
type Crowd struct {
	Store   *store.Store
	Request rayslice.Request // for the cluster, of 2 workers
	Page    string           // address of its page

	portal *Process
	people []rayslice.User
}

// Gather waits until the portal leads, and asks for the cluster in the name of the first of its people.
func Gather(ctx context.Context, portal *Process, database, catalogueFile string) (*Crowd, error) {
	err := Until(ctx, 2*time.Minute, "the portal answers and leads", func() (bool, error) {
		now, err := portal.Metrics(ctx)
		return err == nil && now["rayslice_leader"] == 1, nil
	})
	if err != nil {
		return nil, err
	}
	catalogue, err := Catalogue(catalogueFile)
	if err != nil {
		return nil, err
	}
	draft, err := Draft(catalogue, 2)
	if err != nil {
		return nil, err
	}
	c := &Crowd{portal: portal}
	if c.Store, err = store.Open(ctx, database); err != nil {
		return nil, err
	}
	if err := c.ask(ctx, draft); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Crowd) ask(ctx context.Context, draft rayslice.RequestDraft) (err error) {
	if c.people, err = c.Store.Personas(ctx, rayslice.System); err != nil {
		return err
	}
	if len(c.people) == 0 {
		return errors.New("the portal has no people")
	}
	requests, err := Ask(ctx, c.Store, c.people[0], draft, 1)
	if err != nil {
		return err
	}
	c.Request, c.Page = requests[0], c.portal.URL+"/clusters/"+requests[0].ID
	return nil
}

// Close ends the connections to the database.
func (c *Crowd) Close() { c.Store.Close() }

// Cookies begins as many sessions as so many tabs need, and returns each tab's.
func (c *Crowd) Cookies(ctx context.Context, tabs int) ([]*http.Cookie, error) {
	cookies := make([]*http.Cookie, tabs)
	if len(c.people) < peopleFor(tabs) {
		return nil, fmt.Errorf("%d people for %d tabs", len(c.people), tabs)
	}
	for i := range cookies {
		if i%tabsPerSession != 0 {
			cookies[i] = cookies[i-1]
			continue
		}
		who := c.people[i/tabsPerPerson]
		err := Until(ctx, time.Minute, "signing in", func() (done bool, err error) { // so many at once from one address have to wait
			cookies[i], err = c.signIn(ctx, who)
			return cookies[i] != nil, err
		})
		if err != nil {
			return nil, err
		}
	}
	return cookies, nil
}

// stay does not follow to where an answer leads.
var stay = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// signIn returns a new session's cookie; nil when it is too early for one more.
func (c *Crowd) signIn(ctx context.Context, who rayslice.User) (*http.Cookie, error) {
	form := url.Values{"user": {strconv.FormatInt(who.ID, 10)}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.portal.URL+"/signin", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", c.portal.URL)
	answer, err := stay.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusTooManyRequests:
		return nil, nil //nolint:nilnil // it is neither a cookie nor a failure
	case len(answer.Cookies()) == 0:
		return nil, fmt.Errorf("signing in as %s: %s, no cookie", who.Name, answer.Status)
	}
	return answer.Cookies()[0], nil
}
