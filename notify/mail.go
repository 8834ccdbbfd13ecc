package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html/template"
	"net"
	netmail "net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/riverqueue/river"
	"github.com/wneessen/go-mail"

	"github.com/rayslice/rayslice"
)

// How the connection to the mail server is encrypted.
const (
	TLSStart    = "starttls" // begins in clear and must change to TLS
	TLSImplicit = "tls"      // TLS from the first byte
	TLSNone     = "none"     // in clear; then the server must be next door
)

// Mail says how to reach the mail server. The zero Mail sends none.
type Mail struct {
	Addr     string // host:port; "" = no mail
	User     string // "" = without signing in
	Password string
	From     string      // sender, e.g. "rayslice <rayslice@example.org>"
	TLS      string      // TLSStart, TLSImplicit or TLSNone; "" = TLSStart
	Config   *tls.Config // optional: whom to trust
	Timeout  time.Duration
}

// mailTimeout is the longest that the server may take for one step.
const mailTimeout = 15 * time.Second

type mailer struct {
	mail Mail
	from *netmail.Address
	host string // of message ids
	dial []mail.Option
	name string // of the server
}

// newMailer returns nil when there is no mail server.
func newMailer(m Mail, baseURL string) (*mailer, error) {
	if m.Addr == "" {
		return nil, nil
	}
	host, portText, err := net.SplitHostPort(m.Addr)
	if err != nil {
		return nil, fmt.Errorf("mail server %q: want host:port", m.Addr)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("mail server %q: want a port number", m.Addr)
	}
	from, err := netmail.ParseAddress(m.From)
	if err != nil {
		return nil, fmt.Errorf("mail sender %q: want an address, e.g. rayslice <rayslice@example.org>", m.From)
	}
	if m.Timeout == 0 {
		m.Timeout = mailTimeout
	}
	portal, err := url.Parse(baseURL)
	if err != nil {
		return nil, err
	}
	return &mailer{mail: m, from: from, host: portal.Hostname(), name: host, dial: m.options(int(port))}, nil
}

func (m Mail) options(port int) []mail.Option {
	options := []mail.Option{mail.WithPort(port), mail.WithTimeout(m.Timeout), mail.WithoutRset()} // one mail, one connection
	switch m.TLS {
	case TLSImplicit: // see connect
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	case TLSNone:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if m.Config != nil {
		options = append(options, mail.WithTLSConfig(m.Config))
	}
	if m.User != "" {
		options = append(options, m.signIn(), mail.WithUsername(m.User), mail.WithPassword(m.Password))
	}
	return options
}

// signIn picks the best way that the server offers; in clear only ways that do not show the password.
func (m Mail) signIn() mail.Option {
	if m.TLS == TLSNone {
		return mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover)
	}
	return mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthSCRAMSHA1, mail.SMTPAuthPlain, mail.SMTPAuthLogin, mail.SMTPAuthCramMD5)
}

// connect dials the server. The connection is closed by the function, whatever becomes of the conversation, and when ctx
// ends: go-mail leaves one open that fails before it is signed in.
func (m *mailer) connect(ctx context.Context) (net.Conn, func(), error) {
	dialer := &net.Dialer{Timeout: m.mail.Timeout}
	dial := dialer.DialContext
	if m.mail.TLS == TLSImplicit {
		config := m.mail.Config.Clone()
		if config == nil {
			config = &tls.Config{ServerName: m.name}
		}
		dial = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext
	}
	conn, err := dial(ctx, "tcp", m.mail.Addr)
	if err != nil {
		return nil, nil, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, func() { unhook(); _ = conn.Close() }, nil // nothing more is to be said on it
}

// mailWorker mails one notice.
type mailWorker struct {
	river.WorkerDefaults[rayslice.Mailing]
	n *Notifier
}

// Work mails the notice, unless that was done before or is not wanted any more. A server that took the mail and a
// portal that was killed before it wrote so down make two mails with one Message-ID: SMTP cannot do better.
func (w *mailWorker) Work(ctx context.Context, job *river.Job[rayslice.Mailing]) error {
	n := w.n
	letter, wanted, err := n.letter(ctx, job.Args.NoticeID)
	if err != nil || !wanted || letter.Mailed || !letter.Settings.Mail || n.mailer == nil {
		return err
	}
	if err := n.settle(ctx, "mail", letter.Notice.ID, n.mailer.send(ctx, letter.User, n.message(letter))); err != nil {
		return err
	}
	return n.config.Store.Mailed(ctx, rayslice.System, letter.Notice.ID)
}

// send hands one mail to the server. Only what the server says before it has taken the mail is an error.
func (m *mailer) send(ctx context.Context, to rayslice.User, what message) error {
	letter, err := m.compose(to, what)
	if err != nil {
		return permanent{err}
	}
	conn, hangUp, err := m.connect(ctx)
	if err != nil {
		return fmt.Errorf("reach the mail server: %w", err)
	}
	defer hangUp()
	given := mail.WithDialContextFunc(func(context.Context, string, string) (net.Conn, error) { return conn, nil })
	client, err := mail.NewClient(m.name, append(slices.Clone(m.dial), given)...)
	if err != nil {
		return err
	}
	connection, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reach the mail server: %w", err)
	}
	defer func() {
		_ = client.CloseWithSMTPClient(connection) // whether the mail was taken is known already
	}()
	err = client.SendWithSMTPClient(connection, letter)
	var refused *mail.SendError
	switch {
	case err == nil || letter.IsDelivered():
		return nil
	case errors.As(err, &refused) && !refused.IsTemp() && refused.ErrorCode() >= 500:
		return permanent{fmt.Errorf("the mail server refuses for good: %d %s", refused.ErrorCode(), refused.EnhancedStatusCode())}
	}
	return fmt.Errorf("the mail server did not take it: %w", err)
}

func (m *mailer) compose(to rayslice.User, what message) (*mail.Msg, error) {
	address, err := netmail.ParseAddress(to.Email)
	if err != nil || address.Name != "" {
		return nil, fmt.Errorf("the person's address is none: %w", errors.Join(err))
	}
	address.Name = oneLine(to.Name)
	letter := mail.NewMsg()
	letter.FromMailAddress(m.from)
	letter.ToMailAddress(address)
	letter.Subject(oneLine(what.text.Title))
	letter.SetDateWithValue(what.notice.At)
	letter.SetMessageIDWithValue(fmt.Sprintf("notice-%d@%s", what.notice.ID, m.host))
	letter.SetGenHeader("Auto-Submitted", "auto-generated") // no out-of-office answers, please
	letter.SetGenHeader(mail.HeaderListUnsubscribe, "<"+what.settings+">")
	letter.SetBodyString(mail.TypeTextPlain, plainText(what))
	html, err := htmlText(what)
	if err != nil {
		return nil, err
	}
	letter.AddAlternativeString(mail.TypeTextHTML, html)
	return letter, nil
}

// oneLine makes text fit for a header: names come from people and identity providers, and a line break in one must not
// begin another header.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == ' ' || r == '\u2028' || r == '\u2029' }), " ")
}

func plainText(m message) string {
	parts := []string{m.text.Title}
	if m.text.Body != "" {
		parts = append(parts, m.text.Body)
	}
	parts = append(parts, m.text.Open+": "+m.url, "-- \n"+m.text.Why+" "+m.settings)
	return strings.Join(parts, "\n\n") + "\n"
}

var htmlLetter = template.Must(template.New("letter").Parse(`<!DOCTYPE html>
<html lang="{{.Language}}"><body style="font-family:sans-serif;line-height:1.5;max-width:40em">
<p style="font-size:1.1em"><strong>{{.Text.Title}}</strong></p>
{{with .Text.Body}}<p style="white-space:pre-line">{{.}}</p>
{{end}}<p><a href="{{.URL}}">{{.Text.Open}}</a></p>
<p style="color:#666;font-size:.85em">{{.Text.Why}} <a href="{{.Settings}}">{{.Settings}}</a></p>
</body></html>
`))

func htmlText(m message) (string, error) {
	var b strings.Builder
	language := m.language
	if language == "" {
		language = "en"
	}
	err := htmlLetter.Execute(&b, struct {
		Language, URL, Settings string
		Text                    Text
	}{language, m.url, m.settings, m.text})
	return b.String(), err
}
