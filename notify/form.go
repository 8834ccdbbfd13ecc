package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
)

// signed is a message in one of the forms.
type signed struct {
	query map[string]string // added to the address
	body  any
}

// sign writes a message in the form that the settings ask for. The generic form is signed over its bytes, see signBody;
// Slack knows no signature.
func sign(settings rayslice.NotificationSettings, m message, now time.Time) signed {
	switch settings.WebhookForm {
	case rayslice.WebhookDingTalk:
		return signed{query: dingTalkQuery(settings.WebhookSecret, now), body: dingTalkBody(m)}
	case rayslice.WebhookFeishu:
		return signed{body: feishuBody(m, settings.WebhookSecret, now)}
	case rayslice.WebhookSlack:
		return signed{body: map[string]any{"text": slackText(m)}}
	}
	return signed{body: genericBody(m)}
}

// generic is the form for programs. Fields are only ever added.
type generic struct {
	ID        int64  `json:"id"`
	Kind      string `json:"kind"` // one of rayslice.NewsKinds, or try_message
	At        string `json:"at"`   // RFC 3339
	Team      string `json:"team,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Title     string `json:"title"` // in the person's language
	Text      string `json:"text,omitempty"`
	URL       string `json:"url"`
}

func genericBody(m message) generic {
	n := m.notice
	return generic{ID: n.ID, Kind: string(n.Code), At: n.At.UTC().Format(time.RFC3339), Team: n.Team, RequestID: n.RequestID,
		Title: m.text.Title, Text: m.text.Body, URL: m.url}
}

// signBody signs as standardwebhooks.com says, for which most languages have a library that verifies.
func signBody(header http.Header, secret string, id int64, now time.Time, body []byte) {
	delivery, timestamp := "notice-"+strconv.FormatInt(id, 10), strconv.FormatInt(now.Unix(), 10)
	header.Set("Webhook-Id", delivery)
	header.Set("Webhook-Timestamp", timestamp)
	header.Set("Webhook-Signature", "v1,"+mac(keyOf(secret), delivery+"."+timestamp+"."+string(body)))
}

// keyOf returns the bytes of a secret: what is behind whsec_ is base64, anything else is taken as it is.
func keyOf(secret string) []byte {
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return key
		}
	}
	return []byte(secret)
}

// mac returns the HMAC-SHA256 in base64.
func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// dingTalkQuery is what a robot with the security setting "sign" asks for: milliseconds, and their signature.
func dingTalkQuery(secret string, now time.Time) map[string]string {
	if secret == "" {
		return nil
	}
	timestamp := strconv.FormatInt(now.UnixMilli(), 10)
	return map[string]string{"timestamp": timestamp, "sign": mac([]byte(secret), timestamp+"\n"+secret)}
}

// dingTalkBody is a link message: its texts are plain, so that a name cannot smuggle in a link of its own.
func dingTalkBody(m message) any {
	return map[string]any{"msgtype": "link", "link": map[string]string{
		"title": m.text.Title, "text": cut(textOr(m.text.Body, m.text.Open), 400), "messageUrl": m.url, "picUrl": "",
	}}
}

// feishuBody is a post of plain text and one link. Its signature has the secret in the key and signs nothing.
func feishuBody(m message, secret string, now time.Time) any {
	language := "en_us"
	if strings.HasPrefix(m.language, "zh") {
		language = "zh_cn"
	}
	var lines [][]map[string]string
	if m.text.Body != "" {
		lines = append(lines, []map[string]string{{"tag": "text", "text": m.text.Body}})
	}
	lines = append(lines, []map[string]string{{"tag": "a", "text": m.text.Open, "href": m.url}})
	body := map[string]any{"msg_type": "post", "content": map[string]any{"post": map[string]any{
		language: map[string]any{"title": m.text.Title, "content": lines},
	}}}
	if secret != "" {
		timestamp := strconv.FormatInt(now.Unix(), 10)
		body["timestamp"], body["sign"] = timestamp, mac([]byte(timestamp+"\n"+secret), "")
	}
	return body
}

// slackEscape keeps people's words from becoming links or mentions.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func slackText(m message) string {
	text := slackEscape.Replace(m.text.Title)
	if m.text.Body != "" {
		text += "\n" + slackEscape.Replace(m.text.Body)
	}
	return text + "\n<" + m.url + "|" + slackEscape.Replace(m.text.Open) + ">"
}

func textOr(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// cut shortens text to n characters.
func cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}
