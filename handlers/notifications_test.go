package handlers

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/notify"
	"github.com/rayslice/rayslice/store"
)

// tell tells one person something.
func (p *portal) tell(id int64, who rayslice.User, n rayslice.News) {
	p.t.Helper()
	n.At, n.For = time.Now(), who.ID
	if _, err := p.store.Spread(p.t.Context(), rayslice.System, id, n); err != nil {
		p.t.Fatal(err)
	}
}

func TestReadingNotifications(t *testing.T) {
	t.Parallel()
	p := open(t)
	for i := range int64(60) {
		p.tell(i, p.Ada, rayslice.News{Code: rayslice.NewsApproved, Team: "vision", RequestID: "aaaaaaaaaaaa", Args: map[string]any{"name": "<b>x</b>", "who": "Lea", "answer": "well done"}})
	}
	ada := p.as(p.Ada)
	first := ada.get("/notifications").want(http.StatusOK).page()
	if got := first.Find(".bell .count").Text(); got != "60" {
		t.Errorf("the bell says %q", got)
	}
	row := first.Find(".notices > li.unread").First()
	if first.Find(".notices > li").Length() != listLength || !strings.Contains(row.Text(), "Lea approved “<b>x</b>”") || !strings.Contains(row.Text(), "“well done”") {
		t.Errorf("%d rows, the first is %q", first.Find(".notices > li").Length(), row.Text())
	}
	next, _ := first.Find(`a[rel=next]`).Attr("href")
	if got := ada.get(next).want(http.StatusOK).page().Find(".notices > li").Length(); got != 10 {
		t.Errorf("%d on the second page %s, want 10", got, next)
	}

	id, _ := row.Find("input[name=id]").First().Attr("value")
	opened := ada.post("/notifications/read", url.Values{"id": {id}, "next": {"/clusters/aaaaaaaaaaaa"}}).want(http.StatusSeeOther)
	if opened.location() != "/clusters/aaaaaaaaaaaa" {
		t.Errorf("opening leads to %s", opened.location())
	}
	unread := ada.get("/notifications?unread=1").want(http.StatusOK).page()
	if unread.Find(".bell .count").Text() != "59" || unread.Find("#notice-"+id).Length() != 0 {
		t.Errorf("the bell says %q, and what was opened is unread: %d", unread.Find(".bell .count").Text(), unread.Find("#notice-"+id).Length())
	}
	upTo, _ := unread.Find("input[name=up_to]").Attr("value")
	p.tell(100, p.Ada, rayslice.News{Code: rayslice.NewsExpired, Args: map[string]any{"name": "came meanwhile"}})
	back := ada.post("/notifications/read", url.Values{"up_to": {upTo}, "next": {"https://evil.example/"}}).want(http.StatusSeeOther)
	if back.location() != "/clusters" {
		t.Errorf("went to %s", back.location())
	}
	if n, err := p.store.Unread(t.Context(), p.Ada); err != nil || n != 1 {
		t.Errorf("%d unread (%v), want the one that came meanwhile", n, err)
	}
}

func TestNotificationsOfOthers(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.tell(1, p.Ada, rayslice.News{Code: rayslice.NewsExpired, Args: map[string]any{"name": "private-matter"}})
	page, err := p.store.Notices(t.Context(), p.Ada, store.NoticeFilter{})
	if err != nil || len(page.Notices) != 1 {
		t.Fatal(page, err)
	}
	for _, who := range []rayslice.User{p.Sam, p.Bob, p.Root} {
		other := p.as(who)
		if got := other.get("/notifications").want(http.StatusOK).page(); strings.Contains(got.Text(), "private-matter") || got.Find(".bell .count").Length() != 0 {
			t.Errorf("%s sees it", who.Name)
		}
		other.post("/notifications/read", url.Values{"id": {strconv.FormatInt(page.Notices[0].ID, 10)}}).want(http.StatusSeeOther)
	}
	if n, err := p.store.Unread(t.Context(), p.Ada); err != nil || n != 1 {
		t.Errorf("%d unread (%v), want 1", n, err)
	}
}

func TestNotificationQueries(t *testing.T) {
	t.Parallel()
	p := open(t)
	ada := p.as(p.Ada)
	for _, path := range []string{"/notifications?before=x", "/notifications?before=-1", "/notifications?before=99999999999999999999"} {
		ada.get(path).want(http.StatusUnprocessableEntity)
	}
	for _, form := range []url.Values{{}, {"id": {"x"}}, {"id": {"0"}}, {"up_to": {"1", "2"}}, {"id": strings.Split(strings.Repeat("1,", 300)+"1", ",")}} {
		ada.post("/notifications/read", form).want(http.StatusUnprocessableEntity)
	}
}

func TestChoosingHowToBeTold(t *testing.T) {
	t.Parallel()
	p := open(t, func(c *Config) { c.CheckWebhook = notify.Allow{}.CheckURL })
	ada := p.as(p.Ada)
	settings := func() rayslice.NotificationSettings {
		t.Helper()
		got, err := p.store.NotificationSettings(t.Context(), p.Ada)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	page := ada.get("/account/notifications").want(http.StatusOK).page()
	if _, checked := page.Find("#f-mail").Attr("checked"); !checked || !strings.Contains(page.Text(), "ada@example.org") || !strings.Contains(page.Text(), "no mail server") {
		t.Errorf("mail is not offered as it is:\n%s", page.Find("section").First().Text())
	}
	if page.Find("#f-send-ready[checked]").Length() != 1 || page.Find("#f-send-waiting").Length() != 0 {
		t.Error("a member chooses among what members are told")
	}

	form := url.Values{"webhook_url": {" https://hooks.example.org/x "}, "webhook_form": {"feishu"}, "webhook_secret": {"hidden-secret"}, "send": {"ready", "attention"}}
	saved := ada.post("/account/notifications", form).want(http.StatusSeeOther)
	got := settings()
	if got.Mail || got.WebhookURL != "https://hooks.example.org/x" || got.WebhookForm != rayslice.WebhookFeishu || got.WebhookSecret != "hidden-secret" ||
		got.Mutes(rayslice.NewsReady) || !got.Mutes(rayslice.NewsExpired) || got.Mutes(rayslice.NewsWaiting) {
		t.Errorf("saved %+v", got)
	}
	page = ada.get(saved.location()).want(http.StatusOK).page()
	if html, _ := page.Html(); strings.Contains(html, "hidden-secret") || !strings.Contains(page.Find("[role=status]").Text(), "Saved.") {
		t.Error("the secret is shown, or that it was saved is not")
	}
	form.Set("webhook_secret", "")
	ada.post("/account/notifications", form).want(http.StatusSeeOther)
	if settings().WebhookSecret != "hidden-secret" {
		t.Error("an empty field has removed the secret")
	}

	before := settings()
	for name, tc := range map[string]struct{ field, value, want string }{
		"an address inside":       {"webhook_url", "https://10.0.0.1/", "webhook_url"},
		"without TLS":             {"webhook_url", "http://hooks.example.org/", "webhook_url"},
		"no address":              {"webhook_url", "javascript:alert(1)", "webhook_url"},
		"an unknown form":         {"webhook_form", "fax", "webhook_form"},
		"a secret without an end": {"webhook_secret", strings.Repeat("hidden-", 100), "webhook_secret"},
	} {
		wrong := url.Values{"webhook_url": form["webhook_url"], "webhook_form": form["webhook_form"], "send": form["send"]}
		wrong.Set(tc.field, tc.value)
		page := ada.post("/account/notifications", wrong).want(http.StatusUnprocessableEntity).page()
		if html, _ := page.Html(); page.Find("#e-"+tc.want+" li").Length() != 1 || strings.Contains(html, "hidden-") {
			t.Errorf("%s: %s", name, page.Find("form").Text())
		}
	}
	if diff := cmp.Diff(before, settings()); diff != "" {
		t.Errorf("a refused form changed something:\n%s", diff)
	}

	ada.post("/account/notifications", url.Values{"mail": {"on"}, "webhook_form": {"generic"}}).want(http.StatusSeeOther)
	if got := settings(); !got.Mail || got.WebhookURL != "" || got.WebhookSecret != "" {
		t.Errorf("without an address there is still %+v", got)
	}
}

func TestTryingNotificationsOut(t *testing.T) {
	t.Parallel()
	p := open(t, func(c *Config) { c.Mail = true })
	ada := p.as(p.Ada)
	tried := ada.post("/account/notifications/test", url.Values{}).want(http.StatusSeeOther)
	if text := ada.get(tried.location()).page().Find("[role=status]").Text(); !strings.Contains(text, "A mail goes to ada@example.org.") {
		t.Errorf("the page says %q", text)
	}
}

// TestLanguageOfMessages follows the language that was chosen last; a visitor who is not signed in changes nobody's.
func TestLanguageOfMessages(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.as(p.Ada).post("/language", url.Values{"lang": {"zh-CN"}}).want(http.StatusSeeOther)
	p.nobody().post("/language", url.Values{"lang": {"en"}}).want(http.StatusSeeOther)
	p.tell(1, p.Ada, rayslice.News{Code: rayslice.NewsExpired})
	page, err := p.store.Notices(t.Context(), p.Ada, store.NoticeFilter{})
	if err != nil || len(page.Notices) != 1 {
		t.Fatal(page, err)
	}
	letter, err := p.store.Letter(t.Context(), rayslice.System, page.Notices[0].ID)
	if err != nil || letter.Language != "zh-CN" {
		t.Errorf("language %q, %v", letter.Language, err)
	}
}
