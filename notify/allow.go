package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"

	"github.com/rayslice/rayslice"
)

// Allow names the private places that webhooks may reach. Its zero value is none.
type Allow struct {
	hosts    []string       // names, lower case
	networks []netip.Prefix // addresses
}

// ParseAllow reads host names, addresses and networks in CIDR form, separated by commas. What it names may also be
// reached without TLS.
func ParseAllow(text string) (Allow, error) {
	var a Allow
	for _, entry := range strings.Split(text, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "" {
			continue
		}
		if network, err := netip.ParsePrefix(entry); err == nil {
			a.networks = append(a.networks, network.Masked())
		} else if addr, err := netip.ParseAddr(entry); err == nil {
			a.networks = append(a.networks, netip.PrefixFrom(addr, addr.BitLen()))
		} else if strings.ContainsAny(entry, "/:@ ") {
			return Allow{}, fmt.Errorf("%q is no host name, address or network", entry)
		} else {
			a.hosts = append(a.hosts, entry)
		}
	}
	return a, nil
}

// CheckURL refuses what can be known to be wrong from the address alone: no TLS, or a private address written out.
// Where a name leads is looked at when it is dialled. The error is an invalid field "webhook_url".
func (a Allow) CheckURL(text string) error {
	bad := func(code string) error {
		return rayslice.Invalid(rayslice.FieldError{Field: "webhook_url", Code: code})
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") {
		return bad(rayslice.CodeWebhookURL)
	}
	addr, err := netip.ParseAddr(u.Hostname())
	literal := err == nil
	switch {
	case a.host(u.Hostname()), literal && a.addr(addr):
		return nil
	case literal && !public(addr), strings.EqualFold(u.Hostname(), "localhost"):
		return bad(rayslice.CodeWebhookPrivate)
	case u.Scheme != "https" && len(a.networks) == 0: // a name may lead into an allowed network; the dialler sees
		return bad(rayslice.CodeWebhookHTTPS)
	}
	return nil
}

func (a Allow) host(name string) bool { return slices.Contains(a.hosts, strings.ToLower(name)) }

func (a Allow) addr(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(a.networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// What the dialler refuses.
var (
	errPrivate = errors.New("the address leads into a private network")
	errClear   = errors.New("the address leads into the internet without TLS")
)

// dialer returns a dial function that looks at every address after the name was looked up and right before it is
// connected to, so that no second look-up can put another in its place. In clear it goes to allowed places only.
func (a Allow) dialer(resolver *net.Resolver, inClear bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	check := func(_ context.Context, _, address string, _ syscall.RawConn) error {
		found, err := netip.ParseAddrPort(address)
		switch {
		case err == nil && a.addr(found.Addr()):
			return nil
		case err != nil || !public(found.Addr()):
			return errPrivate
		case inClear:
			return errClear
		}
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{Resolver: resolverOf(resolver), ControlContext: check}
		if host, _, err := net.SplitHostPort(address); err == nil && a.host(host) {
			d.ControlContext = nil
		}
		return d.DialContext(ctx, network, address)
	}
}

// public reports whether an address is one of the public internet: in IPv4 none of IANA's special-purpose registry, in IPv6
// of the block that IANA gives out, but for what the registry has in it. So no form in which an IPv4 address hides in an
// IPv6 one is public, but for the mapped one, which is judged by what it hides.
func public(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	special := ssrf.IPv4DeniedPrefixes
	if addr.Is6() {
		special = ssrf.IPv6DeniedPrefixes
	}
	return addr.IsValid() && (addr.Is4() || ssrf.IPv6GlobalUnicast.Contains(addr)) &&
		!slices.ContainsFunc(special, func(n netip.Prefix) bool { return n.Contains(addr) })
}
