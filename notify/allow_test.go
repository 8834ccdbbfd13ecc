package notify

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/rayslice/rayslice"
)

func TestPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "47.92.1.1": true, "2400:3200::1": true, "2606:4700:4700::1111": true, "::ffff:8.8.8.8": true,
		"fe80::1%eth0": false, "::127.0.0.1": false, "fec0::1": false, "fd00:ec2::254": false,
		"100.100.100.200": false, "169.254.169.254": false, // where clouds keep what only the machine may know
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false,
	} {
		if got := public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v, want %v", text, got, want)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// TestSpecialNetworks holds the first and the last address of every network that IANA's special-purpose registries have
// (iana-ipv4-special-registry, iana-ipv6-special-registry), of multicast, and of what hides an IPv4 address.
func TestSpecialNetworks(t *testing.T) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
		"::/128", "::1/128", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23",
		"2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		network := netip.MustParsePrefix(text)
		last := network.Addr().AsSlice()
		for bit := network.Bits(); bit < 8*len(last); bit++ {
			last[bit/8] |= 0x80 >> (bit % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		for _, addr := range []netip.Addr{network.Addr(), end} {
			if public(addr) {
				t.Errorf("%s of %s is public", addr, text)
			}
		}
	}
}

func TestCheckURL(t *testing.T) {
	for name, tc := range map[string]struct{ allow, url, want string }{
		"a public address":                 {"", "https://hooks.example.org/x", ""},
		"a public number":                  {"", "https://8.8.8.8/x", ""},
		"without TLS":                      {"", "http://hooks.example.org/x", rayslice.CodeWebhookHTTPS},
		"another scheme":                   {"", "file:///etc/passwd", rayslice.CodeWebhookURL},
		"a loopback number":                {"", "https://127.0.0.1/", rayslice.CodeWebhookPrivate},
		"a mapped loopback":                {"", "https://[::ffff:127.0.0.1]/", rayslice.CodeWebhookPrivate},
		"a link-local with a zone":         {"", "https://[fe80::1%25eth0]/", rayslice.CodeWebhookPrivate},
		"the metadata service":             {"", "https://100.100.100.200/latest", rayslice.CodeWebhookPrivate},
		"localhost by name":                {"", "https://LOCALHOST:8080/", rayslice.CodeWebhookPrivate},
		"a name in front of the host":      {"", "https://hooks.example.org@127.0.0.1/", rayslice.CodeWebhookURL},
		"a name and password":              {"", "https://a:b@hooks.example.org/", rayslice.CodeWebhookURL},
		"an allowed network":               {"10.0.0.0/8", "http://10.1.2.3:9000/", ""},
		"an allowed network, mapped":       {"10.0.0.0/8", "http://[::ffff:10.1.2.3]/", ""},
		"beside an allowed network":        {"10.0.0.0/8", "https://192.168.0.1/", rayslice.CodeWebhookPrivate},
		"an allowed name":                  {" Hooks.internal , 10.0.0.1", "http://hooks.INTERNAL/", ""},
		"a name that ends like an allowed": {"hooks.internal", "http://evil-hooks.internal/", rayslice.CodeWebhookHTTPS},
	} {
		t.Run(name, func(t *testing.T) {
			allow, err := ParseAllow(tc.allow)
			if err != nil {
				t.Fatal(err)
			}
			err = allow.CheckURL(tc.url)
			var invalid *rayslice.Error
			got := ""
			if errors.As(err, &invalid) {
				got = invalid.Fields[0].Code
			}
			if got != tc.want || (err == nil) != (tc.want == "") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	for _, text := range []string{"10.0.0.0/99", "http://x", "a@b", "a b"} {
		if _, err := ParseAllow(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// nameServer answers each look-up of a name with the next of its addresses; the last one stays.
type nameServer struct {
	mu      sync.Mutex
	answers []string
	asked   int
}

// resolver starts the server and returns a resolver that asks it and nobody else.
func (s *nameServer) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		packet := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if reply := s.answer(packet[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) answer(packet []byte) []byte {
	var query dnsmessage.Message
	if query.Unpack(packet) != nil || len(query.Questions) != 1 {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}, Questions: query.Questions}
	if q := query.Questions[0]; q.Type == dnsmessage.TypeA {
		s.mu.Lock()
		addr := s.answers[min(s.asked, len(s.answers)-1)]
		s.asked++
		s.mu.Unlock()
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()},
		}}
	}
	raw, err := reply.Pack()
	if err != nil {
		return nil
	}
	return raw
}

// TestNamesThatLeadInside posts to names whose look-up leads to a receiver on loopback, which must hear nothing.
func TestNamesThatLeadInside(t *testing.T) {
	hook := newReceiver(t, nil)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(hook.URL, "http://"))
	for name, tc := range map[string]struct {
		allow   string
		url     string
		answers []string
		reached bool
	}{
		"a name that leads inside":                   {"", "https://hooks.example:" + port, []string{"127.0.0.1"}, false},
		"a name whose answer changed after the form": {"", "https://hooks.example:" + port, []string{"192.0.2.1", "127.0.0.1"}, false},
		"in clear, through another allowed network":  {"10.0.0.0/8", "http://hooks.example:" + port, []string{"127.0.0.1"}, false},
		"in clear into the internet":                 {"10.0.0.0/8", "http://hooks.example:" + port, []string{"8.8.8.8"}, false},
		"a number written as one":                    {"", "https://2130706433:" + port, []string{"127.0.0.1"}, false},
		"a number in octal":                          {"", "https://0177.0.0.1:" + port, []string{"127.0.0.1"}, false},
		"a name with a dot behind, of localhost":     {"", "https://localhost.:" + port, []string{"127.0.0.1"}, false},
		"an allowed name":                            {"hooks.example", "http://hooks.example:" + port, []string{"127.0.0.1"}, true},
		"an allowed network behind any name":         {"127.0.0.0/8", "http://hooks.example:" + port, []string{"127.0.0.1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(hook.got())
			server := &nameServer{answers: tc.answers}
			p := testPoster(t, tc.allow, func(w *Webhook) { w.Resolver = server.resolver(t) })
			err := p.post(t.Context(), rayslice.NotificationSettings{WebhookURL: tc.url, WebhookForm: rayslice.WebhookSlack}, testMessage())
			if tc.answers[0] == "192.0.2.1" { // the second try hears the other answer
				err = p.post(t.Context(), rayslice.NotificationSettings{WebhookURL: tc.url, WebhookForm: rayslice.WebhookSlack}, testMessage())
			}
			if reached := len(hook.got()) > before; reached != tc.reached || (err == nil) != tc.reached {
				t.Errorf("reached: %v (%v), want %v", reached, err, tc.reached)
			}
			if err != nil && !errors.Is(err, errPrivate) && !errors.Is(err, errClear) && !errors.As(err, new(*net.DNSError)) {
				t.Errorf("neither refused by the dialler nor unknown to the name server: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "hooks.example:"+port) {
				t.Errorf("the error names the address: %v", err)
			}
		})
	}
}
