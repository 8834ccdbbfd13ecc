"""HTTP as the portal speaks it, with the standard library."""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from .errors import BusyError, PortalError, UnreachableError, from_problem

#: How often something that may be sent twice is sent, and the longest pause in between, in seconds.
TRIES, LONGEST_PAUSE = 5, 20.0


class Answer(NamedTuple):
    """One answer: status 304 has no data."""

    status: int
    data: Any
    etag: str


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to whoever it names."""

    def redirect_request(self, *args: Any, **named: Any) -> None:
        return None


def _connect(address: Any, *args: Any, **named: Any) -> socket.socket:
    """Open a connection; names below .localhost are this machine (RFC 6761), whatever the resolver says."""
    host, port = address
    if host.rstrip(".").endswith(".localhost"):
        host = "localhost"
    return socket.create_connection((host, port), *args, **named)


class _Connection(http.client.HTTPConnection):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._create_connection = _connect


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_Connection, request)


class Transport:
    """Sends requests in the name of one token."""

    def __init__(self, url: str, token: str, timeout: float, language: str, pause: Callable[[float], None] = time.sleep) -> None:
        self.url, self.timeout, self.pause = url.rstrip("/"), timeout, pause
        self._headers = {"Authorization": "Bearer " + token, "Accept": "application/json", "User-Agent": "rayslice-python"}
        if language:
            self._headers["Accept-Language"] = language
        self._opener = urllib.request.build_opener(_NoRedirects, _Handler)

    def send(
        self, method: str, path: str, body: Any = None, headers: Optional[Mapping[str, str]] = None, again: bool = False, wait: float = 0.0,
        query: Optional[Mapping[str, Any]] = None,
    ) -> Answer:
        """Send one request; path may be a whole address. ``again`` says that sending it twice does no harm: then it is, when
        there was no answer or the portal was busy. ``wait`` is how long the portal may hold the answer back, in seconds."""
        url = path if "://" in path else self.url + path
        if query:
            url += "?" + urllib.parse.urlencode({k: v for k, v in query.items() if v is not None}, doseq=True)
        for tried in range(1, TRIES + 1):
            try:
                return self._once(method, url, body, headers or {}, self.timeout + wait)
            except (BusyError, UnreachableError) as err:
                if not again or tried == TRIES or getattr(err, "code", "") == "not_a_portal":
                    raise
                least = err.retry_after if isinstance(err, BusyError) else 0.0
                self.pause(min(LONGEST_PAUSE, max(least, 0.25 * 2**tried)) * (1 + random.random() / 4))
        raise AssertionError("unreachable")

    def _once(self, method: str, url: str, body: Any, headers: Mapping[str, str], timeout: float) -> Answer:
        data, sent = None, {**self._headers, **headers}
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif method != "GET":
            data = b""
        request = urllib.request.Request(url, data=data, method=method, headers=sent)
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return Answer(response.status, _decode(response), response.headers.get("ETag") or "")
        except urllib.error.HTTPError as err:
            with err:
                if err.code == 304:
                    return Answer(304, None, err.headers.get("ETag") or "")
                raise _refusal(err) from None
        except (OSError, http.client.HTTPException) as err:
            reason = getattr(err, "reason", None) or err
            raise UnreachableError(f"{_host(url)} does not answer: {reason}", "unreachable") from err


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc


def _decode(response: Any) -> Any:
    text = response.read()
    if not text:
        return None
    if "json" not in (response.headers.get("Content-Type") or ""):
        return text.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError as err:
        raise UnreachableError("The answer is not JSON.", "not_a_portal") from err


def _refusal(err: urllib.error.HTTPError) -> PortalError:
    problem: Dict[str, Any] = {}
    text = err.read()
    try:
        found = json.loads(text)
        problem = found if isinstance(found, dict) else {}
    except ValueError:
        if 300 <= err.code < 400:
            return UnreachableError(f"{_host(err.url)} leads elsewhere ({err.code}); the token is not sent there.", "not_a_portal", err.code)
        if text:
            problem = {"detail": text[:500].decode(errors="replace").strip()}
    return from_problem(err.code, problem, err.headers.get("Retry-After"))
