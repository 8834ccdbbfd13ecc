package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/riverqueue/river"

	"github.com/rayslice/rayslice"
)

// Webhook says where messages may be sent. The zero Webhook lets them go to https addresses in the public internet only.
type Webhook struct {
	Allow    Allow
	Timeout  time.Duration // of one message; 0 = ten seconds
	Resolver *net.Resolver // optional
	TLS      *tls.Config   // optional: whom to trust
}

// Bounds of one message.
const (
	postTimeout = 10 * time.Second
	maxReply    = 64 << 10
)

// poster sends messages to webhooks.
type poster struct {
	allow   Allow
	clients map[string]*http.Client // by scheme
	now     func() time.Time
}

func newPoster(w Webhook) *poster {
	if w.Timeout == 0 {
		w.Timeout = postTimeout
	}
	return &poster{allow: w.Allow, now: time.Now, clients: map[string]*http.Client{"https": w.client(false), "http": w.client(true)}}
}

// client follows no redirect and uses no proxy, which would look names up where nobody checks what comes out.
func (w Webhook) client(inClear bool) *http.Client {
	return &http.Client{
		Timeout: w.Timeout,
		Transport: &http.Transport{
			DialContext:            w.Allow.dialer(w.Resolver, inClear),
			TLSClientConfig:        w.TLS,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxReply,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// webhookWorker sends one notice to its person's webhook.
type webhookWorker struct {
	river.WorkerDefaults[rayslice.Posting]
	n *Notifier
}

// Work sends the notice, unless that was done before or is not wanted any more, and puts it off while another of the
// person's is being sent, which is not one of its tries. A receiver tells a message that comes twice by its id.
func (w *webhookWorker) Work(ctx context.Context, job *river.Job[rayslice.Posting]) error {
	n := w.n
	if wait := n.turns.take(job.Args.UserID); wait > 0 {
		return river.JobSnooze(wait)
	}
	defer n.turns.give(job.Args.UserID)
	letter, wanted, err := n.letter(ctx, job.Args.NoticeID)
	if err != nil || !wanted || letter.Posted || letter.Settings.WebhookURL == "" {
		return err
	}
	if err := n.settle(ctx, "webhook", letter.Notice.ID, n.poster.post(ctx, letter.Settings, n.message(letter))); err != nil {
		// Not with ctx, which may have ended with the message's time.
		return errors.Join(err, n.config.Store.NotPosted(context.WithoutCancel(ctx), rayslice.System, letter.Notice.ID, whyNot(err)))
	}
	return n.config.Store.Posted(ctx, rayslice.System, letter.Notice.ID)
}

// post sends one message. Its errors name no address: in those of chat robots lies the right to write.
func (p *poster) post(ctx context.Context, settings rayslice.NotificationSettings, m message) error {
	if err := p.allow.CheckURL(settings.WebhookURL); err != nil {
		return permanent{err}
	}
	request, err := p.request(ctx, settings, m)
	if err != nil {
		return permanent{withoutURL(err)}
	}
	response, err := p.clients[request.URL.Scheme].Do(request)
	switch {
	case errors.Is(err, errPrivate), errors.Is(err, errClear):
		return permanent{withoutURL(err)}
	case err != nil:
		return withoutURL(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return withoutURL(err)
	}
	return taken(settings.WebhookForm, response.StatusCode, reply)
}

func (p *poster) request(ctx context.Context, settings rayslice.NotificationSettings, m message) (*http.Request, error) {
	address, err := url.Parse(settings.WebhookURL)
	if err != nil {
		return nil, err
	}
	signed := sign(settings, m, p.now())
	query := address.Query()
	for name, value := range signed.query {
		query.Set(name, value)
	}
	if len(signed.query) > 0 {
		address.RawQuery = query.Encode()
	}
	body, err := json.Marshal(signed.body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("User-Agent", "rayslice")
	if settings.WebhookForm == rayslice.WebhookGeneric {
		signBody(request.Header, settings.WebhookSecret, m.notice.ID, p.now(), body)
	}
	return request, nil
}

// taken reports whether the receiver took the message. Chat robots answer 200 and say in the body that they did not.
func taken(form rayslice.WebhookForm, status int, reply []byte) error {
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return badStatus(status)
	case status < 200 || status > 299:
		return permanent{badStatus(status)}
	case form != rayslice.WebhookDingTalk && form != rayslice.WebhookFeishu:
		return nil
	}
	var said struct {
		Errcode *int // DingTalk
		Code    *int // Feishu
	}
	if err := json.Unmarshal(reply, &said); err != nil {
		return errors.New("the receiver's answer is not JSON")
	}
	for _, code := range []*int{said.Errcode, said.Code} {
		if code != nil && *code != 0 {
			return refusal(*code)
		}
	}
	return nil
}

// badStatus is an answer that is not 2xx.
type badStatus int

// Error names the status.
func (s badStatus) Error() string { return fmt.Sprintf("the receiver answers %d", int(s)) }

// refusal is the number by which a chat robot says no.
type refusal int

// Error names the number.
func (r refusal) Error() string { return fmt.Sprintf("the receiver answers with its code %d", int(r)) }

// whyNot returns what the person whose webhook it is hears about a failure: nothing that would tell them what else is
// to be found at the address.
func whyNot(err error) rayslice.Reason {
	var status badStatus
	var refused refusal
	var slow net.Error
	switch {
	case errors.As(err, &status):
		return rayslice.Reason{Code: rayslice.ReasonWebhookStatus, Args: map[string]any{"status": int(status)}}
	case errors.As(err, &refused):
		return rayslice.Reason{Code: rayslice.ReasonWebhookRefused, Args: map[string]any{"number": int(refused)}}
	case errors.Is(err, errPrivate):
		return rayslice.Reason{Code: rayslice.ReasonWebhookPrivate}
	case errors.As(err, &slow) && slow.Timeout():
		return rayslice.Reason{Code: rayslice.ReasonWebhookSlow}
	}
	return rayslice.Reason{Code: rayslice.ReasonWebhookUnreachable}
}

// withoutURL returns what went wrong without the address that net/http puts in front.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
