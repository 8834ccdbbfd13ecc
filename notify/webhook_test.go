package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
)

// at is when the tests post.
var at = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

func testPoster(t *testing.T, allow string, change ...func(*Webhook)) *poster {
	t.Helper()
	a, err := ParseAllow(allow)
	if err != nil {
		t.Fatal(err)
	}
	w := Webhook{Allow: a, Timeout: 2 * time.Second}
	for _, f := range change {
		f(&w)
	}
	p := newPoster(w)
	p.now = func() time.Time { return at }
	return p
}

// hmacOf computes what a receiver computes, apart from the code under test.
func hmacOf(key, text string) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(h, text)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// postOnce posts the test message to a receiver and returns what arrived.
func postOnce(t *testing.T, settings rayslice.NotificationSettings, m message, reply string) (post, error) {
	t.Helper()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, reply) })
	settings.WebhookURL = r.URL + "/hook?a=1"
	err := testPoster(t, "127.0.0.1").post(t.Context(), settings, m)
	got := r.got()
	if len(got) != 1 {
		t.Fatalf("%d posts (%v), want 1", len(got), err)
	}
	return got[0], err
}

func TestGenericForm(t *testing.T) {
	key := []byte("thirty-two bytes of real secrecy")
	for name, tc := range map[string]struct{ secret, key string }{
		"a secret as people type it": {"a secret that people type", "a secret that people type"},
		"a secret as libraries make": {"whsec_" + base64.StdEncoding.EncodeToString(key), string(key)},
		"not base64 after all":       {"whsec_%%%", "whsec_%%%"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := postOnce(t, rayslice.NotificationSettings{WebhookForm: rayslice.WebhookGeneric, WebhookSecret: tc.secret}, testMessage(), "")
			if err != nil {
				t.Fatal(err)
			}
			id, timestamp := got.header.Get("webhook-id"), got.header.Get("webhook-timestamp")
			if want := "v1," + hmacOf(tc.key, id+"."+timestamp+"."+got.body); got.header.Get("webhook-signature") != want {
				t.Errorf("signature %q, want %q", got.header.Get("webhook-signature"), want)
			}
			if id != "notice-42" || timestamp != strconv.FormatInt(at.Unix(), 10) || got.header.Get("Content-Type") != "application/json; charset=utf-8" {
				t.Errorf("headers %v", got.header)
			}
			want := `{"id":42,"kind":"ready","at":"2026-01-02T03:04:05Z","team":"vision","request_id":"aaaaaaaaaaaa","title":"“x” is ready",` +
				`"text":"More about \u003cit\u003e","url":"https://portal.example/clusters/aaaaaaaaaaaa"}`
			if got.body != want {
				t.Errorf("body\n%s, want\n%s", got.body, want)
			}
		})
	}
}

func TestDingTalkForm(t *testing.T) {
	got, err := postOnce(t, rayslice.NotificationSettings{WebhookForm: rayslice.WebhookDingTalk, WebhookSecret: "SEC000"}, testMessage(), `{"errcode":0,"errmsg":"ok"}`)
	if err != nil {
		t.Fatal(err)
	}
	timestamp := strconv.FormatInt(at.UnixMilli(), 10)
	if q := got.query; fmt.Sprint(q["a"], q["timestamp"], q["sign"]) != fmt.Sprint([]string{"1"}, []string{timestamp}, []string{hmacOf("SEC000", timestamp+"\nSEC000")}) {
		t.Errorf("query %v", q)
	}
	var body struct {
		Msgtype string
		Link    struct{ Title, Text, MessageURL string }
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || body.Msgtype != "link" || body.Link.Title != "“x” is ready" ||
		body.Link.Text != "More about <it>" || body.Link.MessageURL != testMessage().url {
		t.Errorf("%v, body %s", err, got.body)
	}
	without, err := postOnce(t, rayslice.NotificationSettings{WebhookForm: rayslice.WebhookDingTalk}, testMessage(), `{"errcode":0}`)
	if err != nil || len(without.query) != 1 {
		t.Errorf("without a secret: %v, query %v", err, without.query)
	}
}

func TestFeishuForm(t *testing.T) {
	m := testMessage()
	m.language = "zh-CN"
	got, err := postOnce(t, rayslice.NotificationSettings{WebhookForm: rayslice.WebhookFeishu, WebhookSecret: "feishu-secret"}, m, `{"code":0,"msg":"success"}`)
	if err != nil {
		t.Fatal(err)
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	want := map[string]any{
		"timestamp": timestamp, "sign": hmacOf(timestamp+"\nfeishu-secret", ""), "msg_type": "post",
		"content": map[string]any{"post": map[string]any{"zh_cn": map[string]any{"title": "“x” is ready", "content": []any{
			[]any{map[string]any{"tag": "text", "text": "More about <it>"}},
			[]any{map[string]any{"tag": "a", "text": "Open", "href": m.url}},
		}}}},
	}
	var body any
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || fmt.Sprint(body) != fmt.Sprint(want) {
		t.Errorf("%v, body %v, want %v", err, body, want)
	}
}

func TestSlackForm(t *testing.T) {
	m := testMessage()
	m.text.Title = "<!channel> & <https://evil.example|click> is ready"
	got, err := postOnce(t, rayslice.NotificationSettings{WebhookForm: rayslice.WebhookSlack}, m, "ok")
	var body struct{ Text string }
	want := "&lt;!channel&gt; &amp; &lt;https://evil.example|click&gt; is ready\nMore about &lt;it&gt;\n<https://portal.example/clusters/aaaaaaaaaaaa|Open>"
	if jsonErr := json.Unmarshal([]byte(got.body), &body); err != nil || jsonErr != nil || body.Text != want {
		t.Errorf("%v, %v, text\n%s, want\n%s", err, jsonErr, body.Text, want)
	}
}

func TestWhatReceiversAnswer(t *testing.T) {
	const taken, later, never = "taken", "later", "never"
	for name, tc := range map[string]struct {
		form   rayslice.WebhookForm
		status int
		reply  string
		want   string
	}{
		"taken":                     {rayslice.WebhookGeneric, 204, "", taken},
		"not there":                 {rayslice.WebhookGeneric, 404, "", never},
		"elsewhere":                 {rayslice.WebhookGeneric, 302, "", never},
		"too many":                  {rayslice.WebhookSlack, 429, "", later},
		"down":                      {rayslice.WebhookSlack, 503, "", later},
		"DingTalk takes it":         {rayslice.WebhookDingTalk, 200, `{"errcode":0}`, taken},
		"DingTalk does not":         {rayslice.WebhookDingTalk, 200, `{"errcode":310000,"errmsg":"sign not match"}`, later},
		"Feishu takes it":           {rayslice.WebhookFeishu, 200, `{"code":0}`, taken},
		"Feishu takes it, old form": {rayslice.WebhookFeishu, 200, `{"StatusCode":0,"StatusMessage":"success"}`, taken},
		"Feishu does not":           {rayslice.WebhookFeishu, 200, `{"code":19021,"msg":"sign match fail"}`, later},
		"Feishu is a proxy's page":  {rayslice.WebhookFeishu, 200, `<html>`, later},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.reply)
			})
			err := testPoster(t, "127.0.0.1").post(t.Context(), rayslice.NotificationSettings{WebhookURL: r.URL, WebhookForm: tc.form}, testMessage())
			got := taken
			if errors.As(err, new(permanent)) {
				got = never
			} else if err != nil {
				got = later
			}
			if got != tc.want || len(r.got()) != 1 {
				t.Errorf("got %s (%v) with %d posts, want %s with 1", got, err, len(r.got()), tc.want)
			}
		})
	}
}

// TestPeopleSeeWhyNot breaks a webhook and mends it.
func TestPeopleSeeWhyNot(t *testing.T) {
	o := open(t)
	var status atomic.Int32
	status.Store(http.StatusForbidden)
	hook := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	o.choose(o.Bob, rayslice.NotificationSettings{WebhookURL: hook.URL, WebhookForm: rayslice.WebhookSlack})
	try := func(want rayslice.Reason) {
		t.Helper()
		o.must(o.store.TryNotification(t.Context(), o.Bob))
		o.untilDone()
		settings, err := o.store.NotificationSettings(t.Context(), o.Bob)
		if err != nil || !cmp.Equal(settings.Failure, want) || settings.FailedAt.IsZero() != want.IsZero() {
			t.Errorf("got %+v, %v; want %v", settings, err, want)
		}
	}
	o.run()
	try(rayslice.Reason{Code: rayslice.ReasonWebhookStatus, Args: map[string]any{"status": 403}})
	status.Store(http.StatusOK)
	try(rayslice.Reason{})
	for err, want := range map[error]string{
		refusal(310000):                          rayslice.ReasonWebhookRefused,
		permanent{&net.OpError{Err: errPrivate}}: rayslice.ReasonWebhookPrivate,
		context.DeadlineExceeded:                 rayslice.ReasonWebhookSlow,
		io.ErrUnexpectedEOF:                      rayslice.ReasonWebhookUnreachable,
	} {
		if got := whyNot(err).Code; got != want {
			t.Errorf("%v is told as %s, want %s", err, got, want)
		}
	}
}

// TestEndlessAnswers sends more than anybody reads, and another answer that never ends.
func TestEndlessAnswers(t *testing.T) {
	large := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
		}
	})
	settings := rayslice.NotificationSettings{WebhookURL: large.URL, WebhookForm: rayslice.WebhookSlack}
	if err := testPoster(t, "127.0.0.1").post(t.Context(), settings, testMessage()); err != nil {
		t.Errorf("a large answer: %v", err)
	}
	release := make(chan struct{})
	endless := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	defer close(release)
	settings.WebhookURL = endless.URL
	err := testPoster(t, "127.0.0.1", func(w *Webhook) { w.Timeout = 100 * time.Millisecond }).post(t.Context(), settings, testMessage())
	if err == nil || errors.As(err, new(permanent)) {
		t.Errorf("an endless answer: %v, want an error that is worth another try", err)
	}
}
