"""What can go wrong on the way to the portal, put into errors that say what to do."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.parse
import urllib.request
from typing import Any

from . import show
from .errors import SignInError, UnreachableError

EXAMPLE = "https://rayslice.example"


def host(url: str) -> str:
    """Host and port of an address, without what may be secret."""
    return show.plain(urllib.parse.urlsplit(url).netloc.rpartition("@")[2])


def is_here(name: str) -> bool:
    """Whether a host is this machine."""
    name = name.rstrip(".").lower()
    return name in ("localhost", "::1") or name.endswith(".localhost") or name.startswith("127.")


def check_url(url: str) -> str:
    """The portal's address, without a slash at its end; UnreachableError when it is none."""
    url = url.strip()
    if not url:
        raise _no_url("There is no address of a portal.", f'Set RAYSLICE_URL, e.g. "{EXAMPLE}".')
    if "@" in url:  # a name or a password stands before it, whatever is in them: nothing of it is shown
        raise _no_url(
            "The address of the portal has a name or a password in it.",
            f'Write its address alone into RAYSLICE_URL, e.g. "{EXAMPLE}", and your token into RAYSLICE_TOKEN: nothing else says who you are.',
        )
    bare = "".join(c for c in url if c.isprintable() and not c.isspace())
    if bare != url or not url.isascii():
        raise _no_url(f"{url!r} is no address of a portal.", "RAYSLICE_URL has a space, a line break or a letter that no address has: write it anew.")
    if "://" not in url:
        bare = url.lstrip("/")
        raise _no_url(f"{url!r} does not say how to speak to the portal.", f'Write "{_scheme(bare)}://{bare}" into RAYSLICE_URL.')
    try:
        parts = urllib.parse.urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and parts.hostname.encode("idna")
    except ValueError:  # UnicodeError is one: a part of the name is empty or too long
        sound = False
    if not sound:
        raise _no_url(f"{_short(url)} is no address of a portal.", f'RAYSLICE_URL is like "{EXAMPLE}": http or https, a host, and a port if it has one.')
    own = f"{parts.scheme}://{host(url)}"
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise _no_url(f"{_short(url)} is a page of the portal.", f'Write its address alone into RAYSLICE_URL: "{own}".')
    return own


def _scheme(bare: str) -> str:
    """How a portal at an address without a scheme most likely speaks: on this machine without TLS."""
    try:
        return "http" if is_here(urllib.parse.urlsplit("//" + bare).hostname or "") else "https"
    except ValueError:
        return "https"


def check_token(token: str) -> str:
    """The token, without blanks around it; SignInError when it is none."""
    token = token.strip()
    if not token:
        raise SignInError("There is no token.", "no_token")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SignInError(
            "The token has a space, a line break or a letter that no token has.", "token_malformed",
            what_to_do="Copy it again, all of it and nothing else, into RAYSLICE_TOKEN; or make another under your name in the portal, at Account.",
        )
    return token


def no_answer(url: str, err: BaseException) -> UnreachableError:
    """Nobody answered, or the answer broke off."""
    cause: Any = getattr(err, "reason", None) or err
    where = host(url)
    if isinstance(err, (ValueError, http.client.InvalidURL)):  # what it says may have the proxy's password in it
        return UnreachableError(f"{where} cannot be asked: its address, or the proxy's, cannot be read.", "no_url", passes=False, what_to_do="Look at RAYSLICE_URL and at HTTP_PROXY and HTTPS_PROXY for a slip.")
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):  # those broke off
        return _tls(where, cause)
    text = show.plain(cause) or type(cause).__name__
    if isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN:
        return UnreachableError(f"There is no host {where}: {text}", "no_such_host", passes=False, what_to_do="Look at RAYSLICE_URL for a slip, and whether this machine is in the network that knows the name." + _by_proxy(url))
    if "Tunnel connection failed" in text:
        return UnreachableError(f"The proxy does not lead to {where}: {text}", "proxy", passes=" 5" in text, what_to_do=_by_proxy(url).strip() or UnreachableError.what_to_do)
    if isinstance(cause, (socket.timeout, TimeoutError)):
        text = "it took too long"
    return UnreachableError(f"{where} does not answer: {text}", "unreachable", what_to_do=UnreachableError.what_to_do + _by_proxy(url))


def _tls(where: str, err: ssl.SSLError) -> UnreachableError:
    text = show.plain(getattr(err, "verify_message", "") or err.reason or err)
    if isinstance(err, ssl.SSLCertVerificationError) and "match" in text.lower():
        todo = "RAYSLICE_URL must have the name that the portal's certificate is for."
    elif isinstance(err, ssl.SSLCertVerificationError):
        todo = "If your organisation has a certificate authority of its own, set SSL_CERT_FILE to its certificates (PEM). Do not switch checking off: the token would go to whoever answers."
    elif err.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        todo = "What answers there speaks no TLS: look at the port in RAYSLICE_URL, and whether it is an http:// address."
    else:
        todo = "Look at the port in RAYSLICE_URL, and whether something on the way, such as a proxy, takes TLS apart."
    return UnreachableError(f"The connection to {where} is not safe, so nothing was sent: {text}", "tls", passes=False, what_to_do=todo)


def no_portal(url: str, why: str) -> UnreachableError:
    """Somebody answered who is no portal, such as a proxy's sign-in page."""
    return UnreachableError(
        f"{host(url)} is no portal: {show.plain(why)}.", "not_a_portal", passes=False,
        what_to_do="Look whether RAYSLICE_URL is the portal's address, and open it in a browser: a proxy or a sign-in page may stand before it." + _by_proxy(url),
    )


def other_answer(url: str, why: str) -> UnreachableError:
    """JSON, but not what a portal says."""
    return UnreachableError(
        f"{host(url)} does not answer as a portal: {show.plain(why)}.", "not_a_portal", passes=False,
        what_to_do="Look whether RAYSLICE_URL is the portal's address. If it is, its version and this client's do not go together: upgrade the older." + _by_proxy(url),
    )


def broken(url: str) -> UnreachableError:
    """JSON that breaks off."""
    return UnreachableError(f"The answer of {host(url)} breaks off.", "answer_broken", what_to_do="Try again; if it stays so, something between here and the portal cuts answers short." + _by_proxy(url))


def leads_elsewhere(url: str, status: int, location: str) -> UnreachableError:
    """A redirect, which is not followed."""
    todo, was = "", urllib.parse.urlsplit(url)
    try:
        target = urllib.parse.urljoin(url, location)
        if (own := f"{urllib.parse.urlsplit(target).scheme}://{host(target)}") != f"{was.scheme}://{host(url)}":
            todo = f'If you trust it, set RAYSLICE_URL to "{own}".'
    except ValueError:
        pass  # it leads nowhere
    return UnreachableError(f"{host(url)} leads elsewhere ({status}); the token is not sent there.", "not_a_portal", status, passes=False, what_to_do=todo)


def proxy_refuses(url: str, status: int) -> UnreachableError:
    """A proxy wants somebody to sign in."""
    return UnreachableError(
        f"A proxy on the way to {host(url)} wants you to sign in ({status}).", "proxy", status, passes=False,
        what_to_do="Put the proxy's name and password into HTTPS_PROXY, or sign in to the network by browser." + _by_proxy(url),
    )


def _by_proxy(url: str) -> str:
    """What to do when a proxy is in the way; "" when none is used."""
    parts = urllib.parse.urlsplit(url)
    name = parts.hostname or ""
    if parts.scheme not in urllib.request.getproxies() or is_here(name) or urllib.request.proxy_bypass(name):
        return ""
    return f" It was asked by the proxy in {parts.scheme.upper()}_PROXY; set NO_PROXY={show.plain(name)} where it is reached without."


def _no_url(text: str, todo: str) -> UnreachableError:
    return UnreachableError(text, "no_url", passes=False, what_to_do=todo)


def _short(url: str) -> str:
    return repr(url if len(url) <= 80 else url[:79] + "…")
