package rayslice

import (
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
)

// NewsKind says what happened that somebody should hear of. The sentences stand in the catalogues as notice_<kind>.
type NewsKind string

// The kinds of news, with the Args that fill in their sentences. Every kind about a request has name, its display name.
const (
	NewsWaiting   NewsKind = "waiting"   // a request waits for a decision; Args: who
	NewsReturned  NewsKind = "returned"  // a lead asked back; Args: who, answer
	NewsApproved  NewsKind = "approved"  // a person approved it; Args: who, answer
	NewsSmaller   NewsKind = "smaller"   // a person approved less than was asked for; Args: who, answer
	NewsRejected  NewsKind = "rejected"  // a person said no; Args: who, answer
	NewsCancelled NewsKind = "cancelled" // the portal took it back, Reason says why
	NewsReady     NewsKind = "ready"     // the cluster of a request that had to wait for a lead can be used
	NewsAttention NewsKind = "attention" // something is wrong with the cluster, Reason says what
	NewsEnding    NewsKind = "ending"    // the cluster ends within an hour; Args: ends, RFC 3339
	NewsIdle      NewsKind = "idle"      // the cluster does nothing for long, Reason says for how long
	NewsExpired   NewsKind = "expired"   // its time is over
	NewsStopped   NewsKind = "stopped"   // somebody other than its owner stopped it, or took it away outside the portal; Args: who, or Reason

	NewsEscalated NewsKind = "escalated" // nobody decides a request; Args: who, minutes

	NewsRaiseAsked   NewsKind = "raise_asked"   // a lead asks for more quota; Args: who, gib, cards, purpose
	NewsRaiseGranted NewsKind = "raise_granted" // Args: who, gib, cards, answer
	NewsRaiseDenied  NewsKind = "raise_denied"  // Args: who, gib, cards, answer
	NewsRaiseEnded   NewsKind = "raise_ended"   // an addition to the limit is over; Args: gib, cards

	NewsNotEnforced NewsKind = "not_enforced" // workers on a node that should enforce their slices can take more; Args: nodes, name and request

	NewsRole       NewsKind = "role"        // the person's role in a team is another; Args: who, role, "" = none any more; Team "" = the whole portal
	NewsTokenEnds  NewsKind = "token_ends"  // an API token of the person ends soon; Args: name, ends, RFC 3339
	NewsTryMessage NewsKind = "try_message" // somebody tries out their settings
)

// NewsKinds returns every kind that can be muted, in the order people choose from.
func NewsKinds() []NewsKind {
	return []NewsKind{NewsWaiting, NewsReturned, NewsApproved, NewsSmaller, NewsRejected, NewsCancelled, NewsReady, NewsAttention,
		NewsEnding, NewsIdle, NewsExpired, NewsStopped, NewsEscalated, NewsRaiseAsked, NewsRaiseGranted, NewsRaiseDenied, NewsRaiseEnded,
		NewsNotEnforced, NewsRole, NewsTokenEnds}
}

// Audience is whom a piece of news is for.
type Audience string

// The audiences.
const (
	AudiencePerson Audience = "person" // News.For
	AudienceLeads  Audience = "leads"  // who leads News.Team now, deputies included; the admins when nobody else does
	AudienceAdmins Audience = "admins"
)

// Audience returns whom news of the kind is for.
func (k NewsKind) Audience() Audience {
	switch k {
	case NewsWaiting, NewsRaiseGranted, NewsRaiseDenied, NewsRaiseEnded:
		return AudienceLeads
	case NewsEscalated, NewsRaiseAsked, NewsNotEnforced:
		return AudienceAdmins
	}
	return AudiencePerson
}

// Concerns reports whether news of the kind can ever be for the user: a member of no team they lead has no use for
// muting what only leads hear.
func (k NewsKind) Concerns(u User) bool {
	switch k.Audience() {
	case AudienceLeads:
		return u.Admin || len(u.LeadTeams()) > 0
	case AudienceAdmins:
		return u.Admin
	}
	return true
}

// News is something that happened, as it is put into the outbox together with what it tells of.
type News struct {
	Code      NewsKind       `json:"code" river:"unique"`
	At        time.Time      `json:"at"`
	Team      string         `json:"team,omitempty"`
	RequestID string         `json:"request_id,omitempty" river:"unique"`
	Node      string         `json:"node,omitempty" river:"unique"` // it is about, whosever cluster showed it; "" = about none
	For       int64          `json:"for,omitempty"`                 // id of the person it is for; 0 = whom the kind is for
	By        int64          `json:"by,omitempty"`                  // id of the person who did it, who is not told; 0 = the portal
	Args      map[string]any `json:"args,omitempty"`
	Reason    Reason         `json:"reason,omitzero"`
}

// Kind names the job that spreads news.
func (News) Kind() string { return "news" }

// Link returns the page of the portal where the news can be seen.
func (n News) Link() string {
	switch request, _ := n.Args["request"].(string); {
	case n.RequestID != "":
		return "/clusters/" + n.RequestID
	case n.Code == NewsNotEnforced && request != "":
		return "/clusters/" + request + "#verification"
	case n.Code == NewsTokenEnds:
		return "/account"
	case n.Code == NewsTryMessage:
		return "/account/notifications"
	case n.Code == NewsRaiseAsked:
		return "/admin/raises"
	case n.Team != "":
		return "/teams/" + url.PathEscape(n.Team)
	}
	return ""
}

// A Mailing is the job that mails one notice.
type Mailing struct {
	NoticeID int64 `json:"notice_id"`
}

// Kind names the job.
func (Mailing) Kind() string { return "mail" }

// A Posting is the job that sends one notice to its person's webhook.
type Posting struct {
	NoticeID int64 `json:"notice_id"`
	UserID   int64 `json:"user_id"` // whose webhook it is: nobody's messages hold up others'
}

// Kind names the job.
func (Posting) Kind() string { return "webhook" }

// A Notice is a piece of news as one person is told it.
type Notice struct {
	ID        int64
	At        time.Time // when it happened
	Code      NewsKind
	Team      string // "" = about no team
	RequestID string // "" = about no request
	Args      map[string]any
	Reason    Reason
	Link      string    // path of the page where it can be seen; "" = none
	ReadAt    time.Time // zero = not read yet
}

// A Letter is one notice with everything that sending it needs.
type Letter struct {
	Notice   Notice
	User     User   // ID, Name, Email and Disabled are filled
	Language string // BCP 47; "" = not chosen
	Settings NotificationSettings
	Mailed   bool // it has been mailed
	Posted   bool // the webhook's receiver took it
}

// WebhookForm is how a webhook's message is written and signed.
type WebhookForm string

// The forms.
const (
	WebhookGeneric  WebhookForm = "generic"
	WebhookDingTalk WebhookForm = "dingtalk"
	WebhookFeishu   WebhookForm = "feishu"
	WebhookSlack    WebhookForm = "slack"
)

// WebhookForms returns every form.
func WebhookForms() []WebhookForm {
	return []WebhookForm{WebhookGeneric, WebhookDingTalk, WebhookFeishu, WebhookSlack}
}

// NotificationSettings are how a person wants to be told. In the portal they are always told.
type NotificationSettings struct {
	Mail          bool
	WebhookURL    string // "" = no webhook
	WebhookForm   WebhookForm
	WebhookSecret string     // signs the messages; never shown again
	Muted         []NewsKind // not sent by mail or webhook
	Failure       Reason     // why the webhook's receiver did not take the last message; zero = it did, or there was none
	FailedAt      time.Time  // when that was
}

// Codes of why a webhook's receiver did not take a message.
const (
	ReasonWebhookStatus      = "webhook_status"      // it answered something else than 2xx; Args: status
	ReasonWebhookRefused     = "webhook_refused"     // a chat robot said no; Args: number
	ReasonWebhookPrivate     = "webhook_private"     // the address leads into a private network
	ReasonWebhookSlow        = "webhook_slow"        // it did not answer in time
	ReasonWebhookUnreachable = "webhook_unreachable" // it cannot be reached
)

// DefaultNotificationSettings are those of somebody who has chosen nothing.
func DefaultNotificationSettings() NotificationSettings {
	return NotificationSettings{Mail: true, WebhookForm: WebhookGeneric}
}

// Mutes reports whether news of the kind is only shown in the portal.
func (s NotificationSettings) Mutes(k NewsKind) bool { return slices.Contains(s.Muted, k) }

// Bounds of a webhook.
const (
	MaxWebhookURL    = 2000
	MaxWebhookSecret = 200
	MinWebhookSecret = 16 // of the generic form, whose secret people choose themselves
)

// Field codes of a webhook.
const (
	CodeWebhookURL     = "webhook_url"     // no http address, or one with a name or password in it
	CodeWebhookHTTPS   = "webhook_https"   // must be https
	CodeWebhookPrivate = "webhook_private" // leads into a private network
	CodeTooShort       = "too_short"       // Args: min
)

// Validate names every bad field; nil when there is none. Where the address leads is looked at when it is used.
func (s NotificationSettings) Validate() error {
	v := &validation{}
	v.text("webhook_secret", s.WebhookSecret, MaxWebhookSecret, false)
	if !slices.Contains(WebhookForms(), s.WebhookForm) {
		v.bad("webhook_form", CodeRequired, nil)
	}
	for _, k := range s.Muted {
		if !slices.Contains(NewsKinds(), k) {
			v.bad("muted", CodeCharacters, nil)
			break
		}
	}
	if s.WebhookURL != "" {
		v.webhook(s)
	}
	return Invalid(v.fields...)
}

func (v *validation) webhook(s NotificationSettings) {
	u, err := url.Parse(s.WebhookURL)
	switch {
	case len(s.WebhookURL) > MaxWebhookURL:
		v.bad("webhook_url", CodeTooLong, map[string]any{"max": MaxWebhookURL})
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.User != nil, u.Opaque != "", strings.ContainsAny(s.WebhookURL, " \\\t\r\n"):
		v.bad("webhook_url", CodeWebhookURL, nil)
	}
	switch {
	case s.WebhookForm != WebhookGeneric:
	case s.WebhookSecret == "":
		v.bad("webhook_secret", CodeSecretNeeded, map[string]any{"min": MinWebhookSecret})
	case len(s.WebhookSecret) < MinWebhookSecret:
		v.bad("webhook_secret", CodeTooShort, map[string]any{"min": MinWebhookSecret})
	}
}

// CodeSecretNeeded is the field code of a webhook that has no secret and needs one; Args: min.
const CodeSecretNeeded = "secret_needed"

// wholeNumbers turns whole numbers back into int, as they were before they were JSON.
func wholeNumbers(args map[string]any) {
	for name, value := range args {
		if f, ok := value.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			args[name] = int(f)
		}
	}
}
