package notify

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/rayslice/rayslice"
)

// What a mail server says to a recipient.
var (
	later = &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "come again"}
	never = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "nobody of that name"}
)

// letter is one mail that was taken.
type letter struct {
	from, to, raw string
	encrypted     bool
	user          string // who signed in
}

func (l letter) message(t *testing.T) *netmail.Message {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(l.raw))
	if err != nil {
		t.Fatalf("%v\n%s", err, l.raw)
	}
	return m
}

func (l letter) subject(t *testing.T) string {
	t.Helper()
	subject, err := new(mime.WordDecoder).DecodeHeader(l.message(t).Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	return subject
}

// plain returns the text part.
func (l letter) plain(t *testing.T) string { return l.part(t, "text/plain") }

func (l letter) part(t *testing.T, want string) string {
	t.Helper()
	m := l.message(t)
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err != nil {
			t.Fatalf("no part %s: %v", want, err)
		}
		if kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); kind == want {
			text, err := io.ReadAll(quotedprintable.NewReader(part))
			if err != nil {
				t.Fatal(err)
			}
			return strings.ReplaceAll(string(text), "\r\n", "\n")
		}
	}
}

// mailServer is a real SMTP server on loopback.
type mailServer struct {
	t       *testing.T
	server  *smtp.Server
	addr    string
	trust   *tls.Config // for its clients
	mu      sync.Mutex
	letters []letter
	says    func(to string) error
}

const mailUser, mailPassword = "portal", "hidden-password"

// newMailServer takes mail in clear, over STARTTLS, or from implicit on over TLS.
func newMailServer(t *testing.T, change ...func(*smtp.Server)) *mailServer {
	t.Helper()
	certificate := httptest.NewTLSServer(nil)
	certificate.Close()
	pool := x509.NewCertPool()
	pool.AddCert(certificate.Certificate())
	s := &mailServer{t: t, trust: &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}}
	s.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: s, conn: c}, nil
	}))
	s.server.TLSConfig = &tls.Config{Certificates: certificate.TLS.Certificates}
	s.server.Domain = "mail.example.org"
	s.server.ErrorLog = quietLog{}
	for _, f := range change {
		f(s.server)
	}
	s.listen(nil)
	return s
}

type quietLog struct{}

func (quietLog) Printf(string, ...any) {}
func (quietLog) Println(...any)        {}

// listen serves on one more address; wrap may encrypt it.
func (s *mailServer) listen(wrap func(net.Listener) net.Listener) string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	addr := l.Addr().String()
	if s.addr == "" {
		s.addr = addr
	}
	if wrap != nil {
		l = wrap(l)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.server.Serve(l) }() // ends with Close
	s.t.Cleanup(func() { _ = s.server.Close(); <-done })
	return addr
}

func (s *mailServer) settings() Mail {
	return Mail{Addr: s.addr, From: "rayslice <rayslice@example.org>", TLS: TLSStart, Config: s.trust, Timeout: 2 * time.Second}
}

// answer sets what is said to recipients from now on; nil takes every mail.
func (s *mailServer) answer(f func(to string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says = f
}

func (s *mailServer) got() []letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]letter(nil), s.letters...)
}

type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	letter letter
}

func (m *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (m *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != mailUser || password != mailPassword {
			return smtp.ErrAuthFailed
		}
		m.letter.user = user
		return nil
	}), nil
}

func (m *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	m.letter.from = from
	return nil
}

func (m *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	m.letter.to = to
	m.server.mu.Lock()
	says := m.server.says
	m.server.mu.Unlock()
	if says == nil {
		return nil
	}
	return says(to)
}

func (m *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.letter.raw = string(raw)
	_, m.letter.encrypted = m.conn.TLSConnectionState()
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	m.server.letters = append(m.server.letters, m.letter)
	return nil
}

func (m *mailSession) Reset()        {}
func (m *mailSession) Logout() error { return nil }

func testMessage() message {
	return message{
		notice: rayslice.Notice{ID: 42, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Code: rayslice.NewsReady, Team: "vision", RequestID: "aaaaaaaaaaaa"},
		text:   Text{Title: "“x” is ready", Body: "More about <it>", Open: "Open", Why: "Because. Change it:"},
		url:    baseURL + "/clusters/aaaaaaaaaaaa", settings: baseURL + "/account/notifications",
	}
}

var recipient = rayslice.User{ID: 1, Name: "Ada", Email: "ada@example.org"}

func mustMailer(t *testing.T, m Mail) *mailer {
	t.Helper()
	mailer, err := newMailer(m, baseURL)
	if err != nil {
		t.Fatal(err)
	}
	return mailer
}

func TestWaysToTheMailServer(t *testing.T) {
	s := newMailServer(t)
	implicit := s.listen(func(l net.Listener) net.Listener { return tls.NewListener(l, s.server.TLSConfig) })
	withoutTLS := newMailServer(t, func(s *smtp.Server) { s.TLSConfig = nil })
	insecureAuth := newMailServer(t, func(s *smtp.Server) { s.TLSConfig, s.AllowInsecureAuth = nil, true })
	for name, tc := range map[string]struct {
		server        *mailServer
		change        func(*Mail)
		wantEncrypted bool
		wantUser      string
		wantErr       bool
	}{
		"STARTTLS":                             {server: s, wantEncrypted: true},
		"STARTTLS with signing in":             {server: s, change: func(m *Mail) { m.User, m.Password = mailUser, mailPassword }, wantEncrypted: true, wantUser: mailUser},
		"TLS from the first byte":              {server: s, change: func(m *Mail) { m.TLS, m.Addr = TLSImplicit, implicit }, wantEncrypted: true},
		"TLS with signing in":                  {server: s, change: func(m *Mail) { m.TLS, m.Addr, m.User, m.Password = TLSImplicit, implicit, mailUser, mailPassword }, wantEncrypted: true, wantUser: mailUser},
		"in clear":                             {server: s, change: func(m *Mail) { m.TLS = TLSNone }},
		"a wrong password":                     {server: s, change: func(m *Mail) { m.User, m.Password = mailUser, "hidden-wrong" }, wantErr: true},
		"STARTTLS that the server has not":     {server: withoutTLS, wantErr: true},
		"a certificate nobody trusts":          {server: s, change: func(m *Mail) { m.Config = &tls.Config{ServerName: "127.0.0.1"} }, wantErr: true},
		"no password over a wire in clear":     {server: insecureAuth, change: func(m *Mail) { m.TLS, m.User, m.Password = TLSNone, mailUser, mailPassword }, wantErr: true},
		"a port on which nothing is spoken":    {server: s, change: func(m *Mail) { m.Addr = "127.0.0.1:1" }, wantErr: true},
		"TLS where the server begins in clear": {server: s, change: func(m *Mail) { m.TLS = TLSImplicit }, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			settings := tc.server.settings()
			if tc.change != nil {
				tc.change(&settings)
			}
			before := len(tc.server.got())
			err := mustMailer(t, settings).send(t.Context(), recipient, testMessage())
			got := tc.server.got()[before:]
			switch {
			case tc.wantErr && (err == nil || len(got) > 0):
				t.Errorf("error %v, %d mails; want an error and none", err, len(got))
			case tc.wantErr && (strings.Contains(err.Error(), "hidden-") || errors.As(err, new(permanent))):
				t.Errorf("error %v: names the password, or is not worth another try", err)
			case tc.wantErr:
			case err != nil || len(got) != 1 || got[0].encrypted != tc.wantEncrypted || got[0].user != tc.wantUser || got[0].to != recipient.Email:
				t.Errorf("error %v, mails %+v; want one, encrypted %v, as %q", err, got, tc.wantEncrypted, tc.wantUser)
			}
		})
	}
}

func TestRefusedRecipients(t *testing.T) {
	s := newMailServer(t)
	for name, tc := range map[string]struct {
		says  error
		email string
		final bool
	}{
		"for now":                 {later, recipient.Email, false},
		"for good":                {never, recipient.Email, true},
		"an address that is none": {nil, "not an address", true},
		"an address with a name":  {nil, "x <ada@example.org>, eve@example.org", true},
		"no address":              {nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s.answer(func(string) error { return tc.says })
			err := mustMailer(t, s.settings()).send(t.Context(), rayslice.User{Name: "Ada", Email: tc.email}, testMessage())
			if err == nil || errors.As(err, new(permanent)) != tc.final {
				t.Errorf("got %v, want it permanent: %v", err, tc.final)
			}
		})
	}
	if got := s.got(); len(got) != 0 {
		t.Errorf("%d mails were taken", len(got))
	}
}

// TestAMailServerThatHangs says hello and then nothing.
func TestAMailServerThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "220 mail.example.org\r\n")
		_, _ = bufio.NewReader(conn).ReadString(0) // until the other side gives up
	}()
	defer func() { _ = l.Close(); <-done }()
	settings := Mail{Addr: l.Addr().String(), From: "rayslice@example.org", TLS: TLSNone, Timeout: 200 * time.Millisecond}
	err = mustMailer(t, settings).send(t.Context(), recipient, testMessage())
	if err == nil || errors.As(err, new(permanent)) {
		t.Errorf("got %v, want an error that is worth another try", err)
	}
}

// TestWordsCannotForgeHeaders puts line breaks into every name.
func TestWordsCannotForgeHeaders(t *testing.T) {
	s := newMailServer(t)
	m := testMessage()
	m.text.Title = "ready\r\nBcc: eve@example.org\r\n\r\n<b>body</b>"
	m.text.Body = "line one\r\n.\r\nMAIL FROM:<eve@example.org>"
	who := rayslice.User{Name: "Ada\r\nBcc: eve@example.org\u2028\x00 \"quoted\" <x@y.z>", Email: recipient.Email}
	if err := mustMailer(t, s.settings()).send(t.Context(), who, m); err != nil {
		t.Fatal(err)
	}
	got := s.got()
	if len(got) != 1 || got[0].to != recipient.Email {
		t.Fatalf("got %+v", got)
	}
	header := got[0].message(t).Header
	for name := range header {
		switch name {
		case "Date", "From", "To", "Subject", "Message-Id", "Mime-Version", "Content-Type", "Auto-Submitted", "List-Unsubscribe", "User-Agent", "X-Mailer":
		default:
			t.Errorf("header %s: %q is not ours", name, header.Get(name))
		}
	}
	to, err := header.AddressList("To")
	if err != nil || len(to) != 1 || to[0].Address != recipient.Email || to[0].Name != `Ada Bcc: eve@example.org "quoted" <x@y.z>` {
		t.Errorf("to %+v, %v", to, err)
	}
	if header.Get("Message-Id") != "<notice-42@portal.example>" || header.Get("List-Unsubscribe") != "<"+m.settings+">" {
		t.Errorf("header %v", header)
	}
	if html := got[0].part(t, "text/html"); strings.Contains(html, "<b>") {
		t.Errorf("markup of others in\n%s", html)
	}
	if plain := got[0].plain(t); !strings.Contains(plain, "\n.\nMAIL FROM:<eve@example.org>") || !strings.HasSuffix(plain, "-- \nBecause. Change it: "+m.settings+"\n") {
		t.Errorf("the text is\n%s", plain)
	}
}

func TestMailSettingsThatCannotBe(t *testing.T) {
	for name, m := range map[string]Mail{
		"no port":        {Addr: "mail.example.org", From: "a@example.org"},
		"a named port":   {Addr: "mail.example.org:submission", From: "a@example.org"},
		"no sender":      {Addr: "mail.example.org:587"},
		"a sender of no": {Addr: "mail.example.org:587", From: "rayslice"},
	} {
		if _, err := newMailer(m, baseURL); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if m, err := newMailer(Mail{}, baseURL); m != nil || err != nil {
		t.Errorf("without a server: %v, %v", m, err)
	}
}
