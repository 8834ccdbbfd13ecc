package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// NotificationsPage lists what the user was told.
// Form: POST /notifications/read with id (one or more) or up_to (all that old), and next.
type NotificationsPage struct {
	Frame
	Pages
	Notices    []rayslice.Notice // newest first
	UnreadOnly bool              // ?unread=1
}

// NotificationSettingsPage is the form about how the user wants to be told.
// Forms: POST /account/notifications saves it, POST /account/notifications/test sends a test message.
type NotificationSettingsPage struct {
	Frame
	Form      NotificationForm
	HasSecret bool            // there is one, which is not shown
	Failure   rayslice.Reason // why the webhook's receiver did not take the last message; zero = it did
	FailedAt  time.Time
	Problem   *rayslice.Error // why the form came back; nil = it did not
	MailOff   bool            // the portal has no mail server
	Saved     bool            // ?saved=1
	Tested    bool            // ?tested=1
}

// NotificationForm is the form of NotificationSettingsPage as it was typed.
type NotificationForm struct {
	Mail          bool
	WebhookURL    string
	WebhookForm   string
	WebhookSecret string   // "" = leave as it is
	Send          []string // kinds that are sent
}

// ParseNotificationForm reads the form as posted.
func ParseNotificationForm(values url.Values) NotificationForm {
	return NotificationForm{Mail: values.Get("mail") == "on", WebhookURL: strings.TrimSpace(values.Get("webhook_url")), WebhookForm: values.Get("webhook_form"),
		WebhookSecret: strings.TrimSpace(values.Get("webhook_secret")), Send: values["send"]}
}

// NotificationFormOf returns the form that shows the settings, without the secret.
func NotificationFormOf(s rayslice.NotificationSettings) NotificationForm {
	f := NotificationForm{Mail: s.Mail, WebhookURL: s.WebhookURL, WebhookForm: string(s.WebhookForm)}
	for _, kind := range rayslice.NewsKinds() {
		if !s.Mutes(kind) {
			f.Send = append(f.Send, string(kind))
		}
	}
	return f
}

// Settings returns what the form asks for. What it does not show stays as it was: the secret, and kinds that cannot
// concern the user. Without an address there is no secret either.
func (f NotificationForm) Settings(user rayslice.User, before rayslice.NotificationSettings) rayslice.NotificationSettings {
	s := rayslice.NotificationSettings{Mail: f.Mail, WebhookURL: f.WebhookURL, WebhookForm: rayslice.WebhookForm(f.WebhookForm), WebhookSecret: f.WebhookSecret}
	if s.WebhookSecret == "" && s.WebhookURL != "" {
		s.WebhookSecret = before.WebhookSecret
	}
	for _, kind := range rayslice.NewsKinds() {
		shown := kind.Concerns(user)
		if shown && !slices.Contains(f.Send, string(kind)) || !shown && before.Mutes(kind) {
			s.Muted = append(s.Muted, kind)
		}
	}
	return s
}

// NoticeTitle returns what happened in one line. Mail and webhooks say the same.
func (l *Localizer) NoticeTitle(n rayslice.Notice) string {
	return l.T("notice_"+string(n.Code), l.noticeArgs(n))
}

// NoticeBody returns more about it, "" when the title says all.
func (l *Localizer) NoticeBody(n rayslice.Notice) string {
	var lines []string
	args := l.noticeArgs(n)
	for _, part := range []string{"answer", "purpose"} {
		if text, _ := n.Args[part].(string); text != "" {
			lines = append(lines, "“"+text+"”")
		}
	}
	if minutes, ok := n.Args["minutes"].(int); ok {
		lines = append(lines, l.T("notice_since", Args{"Duration": l.Duration(time.Duration(minutes) * time.Minute)}))
	}
	if ends, ok := args["ends"]; ok {
		lines = append(lines, l.T("notice_ends", Args{"At": ends}))
	}
	if !n.Reason.IsZero() {
		lines = append(lines, l.Reason(n.Reason))
	}
	if n.Code == rayslice.NewsTryMessage {
		lines = append(lines, l.T("notice_try_body"))
	}
	return strings.Join(lines, "\n")
}

// noticeArgs returns the arguments in words.
func (l *Localizer) noticeArgs(n rayslice.Notice) Args {
	args := Args{"team": n.Team}
	for name, value := range n.Args {
		args[name] = value
	}
	number := func(name string) int { i, _ := n.Args[name].(int); return i }
	args["amount"] = chargeText(l, rayslice.Charge{GiB: number("gib"), Cards: number("cards")})
	if role, _ := n.Args["role"].(string); role != "" {
		args["role"] = l.T("role_" + role)
	}
	if text, _ := n.Args["ends"].(string); text != "" {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			args["ends"] = at.UTC().Format("2006-01-02 15:04 UTC")
		}
	}
	return args
}

// unreadText returns the number on the bell.
func unreadText(n int) string {
	if n > 99 {
		return "99+"
	}
	return strconv.Itoa(n)
}

// newest returns the id up to which "all" have been seen.
func newest(notices []rayslice.Notice) string {
	if len(notices) == 0 {
		return ""
	}
	return strconv.FormatInt(notices[0].ID, 10)
}

func anyUnread(notices []rayslice.Notice) bool {
	return slices.ContainsFunc(notices, func(n rayslice.Notice) bool { return n.ReadAt.IsZero() })
}

// noticeTone returns the class that colours a kind.
func noticeTone(k rayslice.NewsKind) string {
	switch k {
	case rayslice.NewsAttention, rayslice.NewsRejected, rayslice.NewsCancelled, rayslice.NewsStopped, rayslice.NewsRaiseDenied:
		return "bad"
	case rayslice.NewsWaiting, rayslice.NewsReturned, rayslice.NewsEnding, rayslice.NewsIdle, rayslice.NewsEscalated, rayslice.NewsTokenEnds, rayslice.NewsRaiseAsked:
		return "warn"
	case rayslice.NewsReady, rayslice.NewsApproved, rayslice.NewsSmaller, rayslice.NewsRaiseGranted:
		return "ok"
	}
	return "plain"
}

// concerning returns the kinds the user may choose from.
func concerning(u rayslice.User) []rayslice.NewsKind {
	return slices.DeleteFunc(rayslice.NewsKinds(), func(k rayslice.NewsKind) bool { return !k.Concerns(u) })
}

// settingErrors returns what is wrong with one field.
func settingErrors(p NotificationSettingsPage, field string) []string {
	var texts []string
	if p.Problem == nil {
		return nil
	}
	for _, f := range p.Problem.Fields {
		if f.Field == field {
			texts = append(texts, p.Locale.Field(f))
		}
	}
	return texts
}

func invalidSetting(p NotificationSettingsPage, field string) string {
	return fmt.Sprint(len(settingErrors(p, field)) > 0)
}

func sends(f NotificationForm, k rayslice.NewsKind) bool { return slices.Contains(f.Send, string(k)) }

func secretPlaceholder(p NotificationSettingsPage) string {
	if p.HasSecret {
		return p.Locale.T("notify_secret_set")
	}
	return p.Locale.T("notify_secret_none")
}

// testedText says where the test message will appear.
func testedText(p NotificationSettingsPage) string {
	places := []string{p.Locale.T("notify_tested_list")}
	if p.Form.Mail && !p.MailOff {
		places = append(places, p.Locale.T("notify_tested_mail", Args{"Address": p.User.Email}))
	}
	if u, err := url.Parse(p.Form.WebhookURL); err == nil && u.Host != "" {
		places = append(places, p.Locale.T("notify_tested_webhook", Args{"Host": u.Host}))
	}
	return p.Locale.T("notify_tested") + " " + strings.Join(places, " ")
}

// NoticeOpen returns the words of the link that a message has to the portal.
func (l *Localizer) NoticeOpen() string { return l.T("notice_open") }

// NoticeWhy returns why a message comes; the address where that can be changed follows.
func (l *Localizer) NoticeWhy() string { return l.T("notice_why") }
