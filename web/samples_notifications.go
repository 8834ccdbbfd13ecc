package web

import (
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// sampleNotices returns one notice of every kind, the first few unread.
func sampleNotices(now time.Time) []rayslice.Notice {
	ends := now.Add(52 * time.Minute).UTC().Format(time.RFC3339)
	args := map[string]any{"name": "ablation-7", "who": "Maya Okafor", "answer": "", "ends": ends, "gib": 32, "cards": 0, "role": "lead", "nodes": "cn-hangzhou.10.0.12.35"}
	var all []rayslice.Notice
	for i, kind := range append(rayslice.NewsKinds(), rayslice.NewsTryMessage) {
		n := rayslice.Notice{ID: int64(100 - i), At: now.Add(-time.Duration(i*i+3) * time.Minute), Code: kind, Team: "vision",
			RequestID: "k5d2m7qxw3ab", Args: map[string]any{}, Link: "/clusters/k5d2m7qxw3ab"}
		for name, value := range args {
			n.Args[name] = value
		}
		if kind != rayslice.NewsEnding && kind != rayslice.NewsTokenEnds {
			delete(n.Args, "ends")
		}
		switch kind {
		case rayslice.NewsWaiting:
			n.Reason = rayslice.Reason{Code: rayslice.ReasonNeedsLeadHours, Args: map[string]any{"asked": 72, "most": 24}}
		case rayslice.NewsReturned:
			n.Args["answer"] = "Do you need all four workers at the same time, or would two for twice as long do?"
		case rayslice.NewsAttention:
			n.Reason = rayslice.Reason{Code: rayslice.ReasonHeadLost}
		case rayslice.NewsIdle:
			n.Reason = rayslice.Reason{Code: rayslice.ReasonIdle, Args: map[string]any{"hours": 7}}
		case rayslice.NewsEscalated:
			n.Args["minutes"] = 240
		case rayslice.NewsRaiseAsked:
			n.Args["purpose"] = "Camera-ready experiments until the deadline"
		}
		if i > 4 {
			n.ReadAt = now.Add(-time.Minute)
		}
		all = append(all, n)
	}
	return all
}

func notificationSamples() []Sample {
	list := func(f Frame, unread int, notices ...rayslice.Notice) NotificationsPage {
		f = at(f, "/notifications")
		f.Unread = unread
		return NotificationsPage{Frame: f, Notices: notices}
	}
	settings := func(f Frame) NotificationSettingsPage {
		return NotificationSettingsPage{Frame: at(f, "/account/notifications"), Form: NotificationFormOf(rayslice.DefaultNotificationSettings())}
	}
	return []Sample{
		{"notifications", func(f Frame) templ.Component {
			p := list(f, 5, sampleNotices(f.Now)...)
			p.Next = "/notifications?before=81"
			return NotificationsView(p)
		}},
		{"notifications-many-unread", func(f Frame) templ.Component {
			p := list(f, 100, sampleNotices(f.Now)[:5]...)
			p.UnreadOnly, p.First = true, "/notifications?unread=1"
			return NotificationsView(p)
		}},
		{"notifications-none", func(f Frame) templ.Component { return NotificationsView(list(f, 0)) }},
		{"notifications-none-unread", func(f Frame) templ.Component {
			p := list(f, 0)
			p.UnreadOnly = true
			return NotificationsView(p)
		}},
		{"notification-settings", func(f Frame) templ.Component { return NotificationSettingsView(settings(f)) }},
		{"notification-settings-failing", func(f Frame) templ.Component {
			p := settings(f)
			p.HasSecret = true
			p.Failure, p.FailedAt = rayslice.Reason{Code: rayslice.ReasonWebhookRefused, Args: map[string]any{"number": 310000}}, f.Now.Add(-4*time.Minute)
			p.Form.WebhookURL, p.Form.WebhookForm, p.Form.Send = "https://oapi.dingtalk.com/robot/send?access_token=0123456789", "dingtalk", p.Form.Send[2:]
			return NotificationSettingsView(p)
		}},
		{"notification-settings-tested", func(f Frame) templ.Component {
			p := settings(f)
			p.Saved, p.Tested, p.Form.WebhookURL = true, true, "https://hooks.example.org/rayslice"
			return NotificationSettingsView(p)
		}},
		{"notification-settings-wrong", func(f Frame) templ.Component {
			p := settings(f)
			p.MailOff, p.Form.WebhookURL = true, "http://10.0.0.7/hook"
			p.Problem = &rayslice.Error{Kind: rayslice.KindInvalid, Code: "invalid_fields", Fields: []rayslice.FieldError{
				{Field: "webhook_url", Code: rayslice.CodeWebhookPrivate},
				{Field: "webhook_secret", Code: rayslice.CodeTooShort, Args: map[string]any{"min": rayslice.MinWebhookSecret}},
			}}
			return NotificationSettingsView(p)
		}},
	}
}
