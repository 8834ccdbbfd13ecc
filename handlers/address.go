package handlers

import (
	"net"
	"net/netip"

	"github.com/labstack/echo/v4"
)

// extractor finds a visitor's address: behind trusted proxies the nearest in X-Forwarded-For that is none of them, as only
// that one was written by a proxy of ours; else the one that connects.
func extractor(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)} // only what was named
	for _, p := range trusted {
		p = p.Masked()
		options = append(options, echo.TrustIPRange(&net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// addressOf returns what limits per address count by: for IPv6 the /64, of which one visitor has every address.
func addressOf(c echo.Context) string {
	addr, err := netip.ParseAddr(c.RealIP())
	if err != nil {
		return c.RealIP()
	}
	if addr = addr.Unmap(); addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}
