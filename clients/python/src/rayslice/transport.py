"""HTTP as the portal speaks it, with the standard library."""

from __future__ import annotations

import http.client
import json
import math
import random
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from . import answers, arguments, faults
from .errors import BusyError, PortalError, UnreachableError, from_problem

#: For how long something that may be sent twice is sent again, in seconds: a portal that is restarted, or that moves to
#: another machine, is back by then. One that has never answered has less, as most likely its address is wrong.
PATIENCE, FIRST_PATIENCE = 60.0, 8.0
#: The longest pause between two tries, in seconds.
LONGEST_PAUSE = 20.0


class Answer(NamedTuple):
    """One answer: status 304 has no data."""

    status: int
    data: Any
    etag: str


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to whoever it names."""

    def http_error_302(self, *args: Any, **named: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Proxies(urllib.request.ProxyHandler):
    """The proxies of the environment, but none to this machine."""

    def proxy_open(self, req: urllib.request.Request, proxy: str, type: str) -> Any:
        if faults.is_here(urllib.parse.urlsplit(req.full_url).hostname or ""):
            return None
        return super().proxy_open(req, proxy, type)


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
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Connection, req)


class Transport:
    """Sends requests in the name of one token."""

    def __init__(
        self, url: str, token: str, timeout: float, language: str, pause: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url, self.timeout, self.pause, self.now = url.rstrip("/"), timeout, pause, now
        self._headers = {"Authorization": "Bearer " + token, "Accept": "application/json", "User-Agent": "rayslice-python"}
        if language:
            self._headers["Accept-Language"] = language
        self._opener = urllib.request.build_opener(_NoRedirects, _Proxies, _Handler)
        self._answered = False

    def send(
        self, method: str, path: str, body: Any = None, headers: Optional[Mapping[str, str]] = None, again: bool = False, wait: float = 0.0,
        query: Optional[Mapping[str, Any]] = None, expects: answers.Shape = None, text: bool = False, patience: float = PATIENCE, within: float = math.inf,
    ) -> Answer:
        """Send one request; path may be a whole address. ``again`` says that sending it twice does no harm: then it is, for
        ``patience`` seconds, when there was no answer or the portal could not answer. One that came too soon after others was
        not looked at, and is always sent again. ``wait`` is how long the portal may hold the answer back, in seconds, and
        ``within`` when it is wanted. ``expects`` is what its answer must have, or it is none of the portal's; an answer that is
        no JSON is none either, but where ``text`` says that it may be."""
        url = path if "://" in path else self.url + path
        if query:
            url += "?" + urllib.parse.urlencode({k: v for k, v in query.items() if v is not None}, doseq=True)
        data, began, tried, sent = _encode(body, method), self.now(), 0, headers or {}
        while True:
            try:
                answer = self._once(method, url, data, sent, min(self.timeout + wait, max(within, wait + 5.0)), text)
                if answer.status == 304 and "If-None-Match" not in sent:
                    raise faults.no_portal(url, "it answers with 304, which nobody has asked for")
                found = answers.wrong(expects, answer.data) if expects and answer.status != 304 else ""
                if found:
                    raise faults.other_answer(url, found)
                self._answered = True
                return answer
            except (BusyError, UnreachableError) as err:
                tried, self._answered = tried + 1, self._answered or isinstance(err, BusyError)
                pause = self.pause_after(err, tried)
                left = (patience if self._answered else min(patience, FIRST_PATIENCE)) - (self.now() - began)
                if not (again or err.status == 429) or not err.passes or pause > left:
                    raise
            self.pause(pause)

    @staticmethod
    def pause_after(err: PortalError, tried: int) -> float:
        """How long to wait after so many tries, in seconds: at least as long as the portal says, and never the same as others
        who were cut off at the same time."""
        own: float = min(LONGEST_PAUSE, 0.25 * 2.0 ** min(tried, 10)) * (1 + random.random() / 4)
        return own if not isinstance(err, BusyError) else max(own, err.retry_after * (1 + random.random() / 10))

    def _once(self, method: str, url: str, data: Optional[bytes], headers: Mapping[str, str], timeout: float, text: bool) -> Answer:
        sent = {**self._headers, **headers}
        if data:
            sent["Content-Type"] = "application/json"
        try:
            request = urllib.request.Request(url, data=data, method=method, headers=sent)
            try:
                with self._opener.open(request, timeout=timeout) as response:
                    return Answer(response.status, _decode(url, response.headers, response.read(), text), response.headers.get("ETag") or "")
            except urllib.error.HTTPError as err:
                with err:
                    if err.code == 304:
                        return Answer(304, None, err.headers.get("ETag") or "")
                    raise _refusal(url, err, err.read()) from None
        except (OSError, http.client.HTTPException, ValueError) as err:  # ValueError: of addresses, the proxy's too
            raise faults.no_answer(url, err) from err


def _encode(body: Any, method: str) -> Optional[bytes]:
    """The body of a request. Numbers of numpy are numbers; what has no form in JSON is a bad field."""
    if body is None:
        return None if method == "GET" else b""
    try:
        return json.dumps(body, default=arguments.number, allow_nan=False).encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as err:
        raise arguments.bad("body", body, f"JSON: {err}") from None


def _decode(url: str, headers: Any, body: bytes, text: bool) -> Any:
    kind = headers.get_content_type()
    if not body:
        return None
    if "json" not in kind:
        if text:
            return body.decode(errors="replace")
        raise faults.no_portal(url, f"it answers with {kind}")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as err:
        raise faults.broken(url) from err


def _refusal(url: str, err: urllib.error.HTTPError, text: bytes) -> PortalError:
    if 300 <= err.code < 400:
        return faults.leads_elsewhere(url, err.code, err.headers.get("Location") or "")
    if err.code in (407, 511):
        return faults.proxy_refuses(url, err.code)
    problem: Dict[str, Any] = {}
    try:
        found = json.loads(text)
        problem = found if isinstance(found, dict) else {}
    except (ValueError, RecursionError):
        if err.headers.get_content_type() == "text/html":
            problem = {"detail": f"{faults.host(url)} answers with {err.code} and a page instead of the portal's JSON: a proxy on the way, perhaps."}
        elif text:
            problem = {"detail": text[:500].decode(errors="replace").strip()}
    return from_problem(err.code, problem, err.headers.get("Retry-After"))
