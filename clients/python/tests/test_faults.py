"""Networks and proxies as they are: each fault is an error of this package that says what to do, and none waits for ever."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest
from server import CLUSTER, OBSERVED, OPTIONS, Server, good, problem

from rayslice import BusyError, Capacity, FieldError, Options, Portal, PortalError, SignInError, UnreachableError, VersionError
from rayslice.cli import main
from rayslice.transport import FIRST_PATIENCE, PATIENCE

GONE = (0, {}, b"")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    """The tests' own environment has no say."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("url, says", [
    ("", 'Set RAYSLICE_URL'), ("rayslice.example", '"https://rayslice.example"'), ("//rayslice.example", '"https://rayslice.example"'),
    ("rayslice.example:8080/clusters", "https://rayslice.example:8080/clusters"), ("ftp://rayslice.example", "http or https"), ("https://", "a host"),
    ("https://rayslice.example/clusters?mine=1", '"https://rayslice.example"'), ("https://rayslice.example/#x", '"https://rayslice.example"'),
    ("https://rayslice.example:99999", "a port"), ("https://rayslice.example:http", "a port"), ("https://[::1", "a host"),
    ("https://mei:secret@rayslice.example", "RAYSLICE_TOKEN"), ("https://rayslice\n.example", "line break"), ("https://ray slice.example", "space"),
    ("https://rаyslice.example", "letter"), ("https://rayslice.example:0", "a port"),
])
def test_addresses(monkeypatch, url, says):
    """An address that is none is refused before anything is sent, with the one that is meant where that is clear."""
    monkeypatch.delenv("RAYSLICE_URL", raising=False)
    with pytest.raises(UnreachableError) as refused:
        Portal(url, "rayslice_pat_X")
    assert refused.value.code == "no_url" and says in refused.value.what_to_do and "secret" not in str(refused.value)


@pytest.mark.parametrize("slash", ["", "/", "//", " \n"])
def test_addresses_that_are_meant(slash):
    """A slash or a line's end behind the address does not matter."""
    with Server(good()) as server:
        portal = Portal(server.portal.transport.url + slash, " rayslice_pat_X\n")
        assert portal.clusters() == [] and server.seen[0][1].startswith("/api/v1/requests?")
        assert server.seen[0][2]["Authorization"] == "Bearer rayslice_pat_X"


@pytest.mark.parametrize("token, code", [("", "no_token"), (" \n", "no_token"), ("rayslice_pat_A\nB", "token_malformed"), ("rayslice_pat_A\r\nX-Evil: 1", "token_malformed"),
                                         ("rayslice_pat_é", "token_malformed"), ("Bearer rayslice_pat_A", "token_malformed"), ("a\0b", "token_malformed")])
def test_tokens(monkeypatch, token, code):
    """A token with a line break cannot become a header; what was copied badly is told from what is missing."""
    monkeypatch.delenv("RAYSLICE_TOKEN", raising=False)
    with pytest.raises(SignInError) as refused:
        Portal("https://rayslice.example", token)
    assert refused.value.code == code and "RAYSLICE_TOKEN" in refused.value.what_to_do
    assert not token.strip() or token not in str(refused.value)


def test_header_values():
    """A language or a key that cannot be sent is a bad field."""
    with pytest.raises(FieldError) as refused:
        Portal("https://rayslice.example", "x", language="en\r\nX-Evil: 1")
    assert refused.value.fields[0].field == "language"
    with Server(good(OPTIONS)) as server:
        for key in ("ключ", "", "a b", "x" * 256):
            with pytest.raises(FieldError) as refused:
                server.portal.request(purpose="x", key=key)
            assert refused.value.fields[0].field == "key"
        assert server.seen == []


def test_numbers_of_numpy():
    """A number that is not Python's own is sent as one; what is no JSON is a bad field."""
    class Int64:
        def __index__(self):
            return 2

        def __int__(self):
            return 2

    with Server(good(OPTIONS), good(CLUSTER), good(OPTIONS)) as server:
        server.portal.request(workers=Int64(), purpose="x")
        assert json.loads(server.seen[1][3])["workers"] == 2
        for bad in (float("nan"), object(), {1, 2}):
            with pytest.raises(FieldError):
                server.portal.request(workers=bad, purpose="x")
        assert [method for method, *_ in server.seen].count("POST") == 1


def test_restart():
    """T04: a portal that is restarted is waited for; a wish that was sent meanwhile has one key throughout."""
    with Server(good(OPTIONS), GONE, GONE, problem(502), (503, {"Content-Type": "text/html"}, b"<html>"), GONE, good(CLUSTER)) as server:
        assert server.portal.request(purpose="x").id == "aaaaaaaaaaaa"
        keys = {headers["Idempotency-Key"] for method, _, headers, _ in server.seen if method == "POST"}
        assert len(keys) == 1 and len(server.seen) == 7 and sum(server.paused) < PATIENCE


def test_never_answered():
    """An address where nobody has ever answered is not asked for a minute."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        portal, paused = Portal(f"http://127.0.0.1:{closed.getsockname()[1]}", "x"), []
        portal.transport.pause, portal.transport.now = paused.append, lambda: time.monotonic() + sum(paused)
        with pytest.raises(UnreachableError) as refused:
            portal.capacity()
        assert refused.value.code == "unreachable" and 0 < sum(paused) <= FIRST_PATIENCE and "RAYSLICE_URL" in refused.value.what_to_do


def test_no_such_host():
    """A slip in the name is no reason to wait."""
    portal, paused = Portal("https://no-such-host.invalid", "x"), []
    portal.transport.pause, portal.transport.now = paused.append, lambda: time.monotonic() + sum(paused)
    with pytest.raises(UnreachableError) as refused:
        portal.capacity()
    assert refused.value.code in ("no_such_host", "unreachable") and sum(paused) <= FIRST_PATIENCE
    assert refused.value.code == "unreachable" or paused == []


def test_lost_answer_is_not_sent_twice():
    """What may not be sent twice is sent once; what was not looked at, again."""
    with Server(good(CLUSTER), GONE) as server:
        with pytest.raises(UnreachableError):
            server.portal.cluster("aaaaaaaaaaaa").reply("x")
        assert len(server.seen) == 2
    with Server(good(CLUSTER), problem(429, {"Retry-After": "3"}), good(CLUSTER)) as server:
        server.portal.cluster("aaaaaaaaaaaa").reply("x")
        assert len(server.seen) == 3 and 3 <= server.paused[0] < 4


@pytest.mark.parametrize("answer", [GONE, problem(503), problem(400)])
def test_lost_answer_of_a_job(answer):
    """A job whose answer was lost is looked for, and not sent twice."""
    with Server(good({**CLUSTER, "state": "ready"}), answer, good({"status": "PENDING"})) as server:
        cluster = server.portal.cluster("aaaaaaaaaaaa")
        cluster.data["dashboard_url"] = server.portal.transport.url
        if answer[0] == 400:
            with pytest.raises(PortalError):
                cluster.submit("true")
        else:
            assert cluster.submit("true").status() == "PENDING"
        assert [method for method, *_ in server.seen].count("POST") == 1


@pytest.mark.parametrize("value, least, most", [
    ("7", 7, 8), ("0", 0.5, 1), ("x", 5, 6), ("", 5, 6), ("-1", 5, 6), ("nan", 5, 6), ("1e3", 5, 6), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.5, 1),
])
def test_retry_after(value, least, most):
    """Retry-After is waited for, in seconds or as a date."""
    for status in (429, 503):
        with Server(problem(status, {"Retry-After": value}), good()) as server:
            server.portal.clusters()
            assert least <= server.paused[0] <= most


@pytest.mark.parametrize("value", ["61", "86400", "99999999999999999999", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_retry_after_is_bounded(value):
    """Nobody waits for an hour in a cell: what takes too long is an error that says how long."""
    with Server(problem(503, {"Retry-After": value})) as server:
        with pytest.raises(BusyError) as busy:
            server.portal.clusters()
        assert server.paused == [] and 60 < busy.value.retry_after <= 3600


HTML = {"Content-Type": "text/html; charset=utf-8"}
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("answer, code, says", [
    ((200, HTML, b"<html>Sign in to the network</html>"), "not_a_portal", "text/html"), ((200, {}, b"hello"), "not_a_portal", "text/plain"),
    ((200, JSON, b"[]"), "not_a_portal", "'requests'"), ((200, JSON, b'{"status": "ok"}'), "not_a_portal", "'requests'"), ((200, JSON, b"null"), "not_a_portal", "'requests'"),
    ((204, {}, b""), "not_a_portal", "'requests'"),
    ((301, {"Location": "https://rayslice.example/api"}, b""), "not_a_portal", '"https://rayslice.example"'), ((302, {"Location": "http://["}, b""), "not_a_portal", "not sent"),
    ((407, {"Proxy-Authenticate": "Basic"}, b""), "proxy", "HTTPS_PROXY"), ((511, HTML, b"<html>"), "proxy", "browser"),
    ((403, HTML, b"<html>blocked</html>"), "http_403", "a proxy on the way"), ((404, HTML, b"<html>nginx</html>"), "http_404", "a proxy on the way"),
    ((500, JSON, b'{"code": 7, "detail": ["x"], "errors": "no"}'), "7", "request id"), ((422, JSON, b'{"code": "x", "errors": ["a", {"field": 1}]}'), "x", "options"),
    ((409, JSON, b'{"code": "over_quota", "limit": 1}'), "over_quota", "left"),
])
def test_somebody_else_answers(answer, code, says):
    """A proxy's page, a redirect, another program: a typed error, at once, and never half an object."""
    with Server(answer) as server:
        with pytest.raises(PortalError) as refused:
            server.portal.clusters()
        assert refused.value.code == code and says in str(refused.value) and refused.value.what_to_do and server.paused == []
        assert "<html>" not in str(refused.value)


@pytest.mark.parametrize("answer", [(200, JSON, b'{"requests": [{"id": "a'), (200, {**JSON, "Content-Length": "5000"}, b'{"requests": []'), (503, {**JSON, "Content-Length": "5000"}, b"{")])
def test_cut_answers(answer):
    """An answer that breaks off is asked for again, and then an error of this package."""
    with Server(answer, good()) as server:
        assert server.portal.clusters() == [] and len(server.paused) == 1
    with Server(answer) as server:
        with pytest.raises((UnreachableError, BusyError)) as refused:
            server.portal.clusters()
        assert refused.value.what_to_do


def test_slow():
    """No answer within the time is no answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        portal, paused = Portal(f"http://127.0.0.1:{listening.getsockname()[1]}", "x", timeout=0.2), []
        portal.transport.pause, portal.transport.now = paused.append, lambda: time.monotonic() + sum(paused)
        with pytest.raises(UnreachableError, match="took too long"):
            portal.capacity()


def certificate(folder, name):
    """A certificate that nobody has signed."""
    assert shutil.which("openssl"), "openssl is missing: install it (Debian: openssl)"
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={name}",
                    "-addext", f"subjectAltName=DNS:{name}"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


@pytest.mark.parametrize("name, trusted, says", [("localhost", False, "SSL_CERT_FILE"), ("elsewhere.example", True, "the name")])
def test_certificates(tmp_path, monkeypatch, name, trusted, says):
    """A certificate that is not trusted, or another's: nothing is sent, and not again."""
    context, cert = certificate(tmp_path, name)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with Server(good()) as server:
        server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
        portal = Portal(f"https://localhost:{server.server.server_port}", "x")
        portal.transport.pause = lambda _: pytest.fail("tried again")
        with pytest.raises(UnreachableError) as refused:
            portal.clusters()
        assert refused.value.code == "tls" and says in refused.value.what_to_do and server.seen == []


def test_trusted_certificate(tmp_path, monkeypatch):
    """With SSL_CERT_FILE it works."""
    context, cert = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with Server(good()) as server:
        server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
        assert Portal(f"https://localhost:{server.server.server_port}", "x").clusters() == []


def test_https_where_none_is():
    """https:// to a port that speaks HTTP."""
    with Server(good()) as server:
        portal = Portal(f"https://127.0.0.1:{server.server.server_port}", "x")
        portal.transport.pause = lambda _: pytest.fail("tried again")
        with pytest.raises(UnreachableError) as refused:
            portal.clusters()
        assert refused.value.code == "tls" and "http://" in refused.value.what_to_do


def test_proxies(monkeypatch):
    """The proxies of the environment are used, but none to this machine; errors name them, and not their passwords."""
    with Server(good()) as proxy, Server(good()) as server:
        monkeypatch.setenv("http_proxy", f"http://mei:secret@127.0.0.1:{proxy.server.server_port}")
        assert Portal("http://rayslice.example", "x").clusters() == []
        assert proxy.seen[0][1].startswith("http://rayslice.example/api/v1/requests") and proxy.seen[0][2]["Proxy-Authorization"].startswith("Basic ")
        port = server.server.server_port
        for name in ("127.0.0.1", "localhost"):
            assert Portal(f"http://{name}:{port}", "x").clusters() == []
        server.portal.transport.send("GET", f"http://aaaaaaaaaaaa.clusters.localhost:{port}/api/jobs/")
        assert len(server.seen) == 3 and len(proxy.seen) == 1
    with Server((407, {}, b"")) as proxy:
        monkeypatch.setenv("http_proxy", f"http://mei:secret@127.0.0.1:{proxy.server.server_port}")
        monkeypatch.setenv("https_proxy", f"http://mei:secret@127.0.0.1:{proxy.server.server_port}")
        for scheme in ("http", "https"):
            with pytest.raises(UnreachableError) as refused:
                Portal(f"{scheme}://rayslice.example", "x").clusters()
            assert refused.value.code == "proxy" and "NO_PROXY=rayslice.example" in refused.value.what_to_do and "secret" not in str(refused.value)


def test_versions_before_connecting(capsys, monkeypatch):
    """The exact pin is printed with the address, and stops connect."""
    ready = {**CLUSTER, "state": "ready", "cluster": {**OBSERVED, "ray_version": "2.52.1", "connect": {"client": "ray://x:10001"}}}
    monkeypatch.setattr("rayslice.versions.local_ray", lambda: "2.51.0")
    monkeypatch.setattr("rayslice.versions.local_python", lambda: "3.9")
    with Server(good(ready)) as server:
        cluster = server.portal.cluster("aaaaaaaaaaaa")
        assert cluster.address == "ray://x:10001"
        printed = capsys.readouterr().err
        assert 'pip install "ray[client]==2.52.1"' in printed and "use Python 3.11" in printed
        with pytest.raises(VersionError) as refused:
            cluster.connect()
        assert 'ray[client]==2.52.1' in refused.value.what_to_do


def test_threads():
    """One portal serves several threads, as notebooks have them."""
    with Server(good()) as server:
        found = []
        threads = [threading.Thread(target=lambda: found.append(server.portal.clusters())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [[]] * 8


def test_command_line_says_what_to_do(capsys, monkeypatch):
    """In a shell an error is its sentence, its code and the remedy; --json may stand on either side."""
    monkeypatch.delenv("RAYSLICE_URL", raising=False)
    assert main(["list"]) == 1 and "[no_url]\nSet RAYSLICE_URL" in capsys.readouterr().err
    with Server(good()) as server:
        monkeypatch.setenv("RAYSLICE_URL", server.portal.transport.url)
        monkeypatch.setenv("RAYSLICE_TOKEN", "x")
        for line in (["--json", "list"], ["list", "--json"]):
            assert main(line) == 0 and json.loads(capsys.readouterr().out) == []
        assert main(["list"]) == 0 and capsys.readouterr().out == "no clusters\n"
    with Server(problem(403, detail="\x1b[2Jno")) as server:
        monkeypatch.setenv("RAYSLICE_URL", server.portal.transport.url)
        assert main(["wait", "rs-aaaaaaaaaaaa"]) == 1 and "\x1b" not in capsys.readouterr().err
        assert server.seen[0][1] == "/api/v1/requests/aaaaaaaaaaaa"


def test_terminal_without_our_characters():
    """A terminal of ASCII only, and a reader that leaves."""
    with Server(good({"requests": [{**CLUSTER, "name": "训练"}] * 99, "next": None})) as server:
        env = {**os.environ, "RAYSLICE_URL": server.portal.transport.url, "RAYSLICE_TOKEN": "x", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        command = [sys.executable, "-m", "rayslice.cli", "list"]
        done = subprocess.run(command, env=env, capture_output=True, check=False)
        assert done.returncode == 0 and b"??" in done.stdout, done.stderr
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as left:
            left.stdout.close()
            assert left.stderr.read() == b""
        assert left.returncode == 0


def test_capacity_has_bars():
    """In a notebook a pool has a bar; what is not known has none."""
    pool = {"pool": "a10", "model": "A10", "mode": "cgpu", "nodes": 1, "cards": 2, "gib": 44, "given_gib": 11, "free_gib": 33, "free": 1, "sizes": []}
    cards = {**pool, "pool": "a100", "mode": "whole"}
    html = Capacity({"pods_known": True, "pools": [pool, cards, {**pool, "nodes": 0}]})._repr_html_()
    assert "width:25.00%" in html and "11 of 44 GiB given, 33 surely free" in html and "1 of 2 cards free" in html and "no nodes" in html
    assert "width" not in Capacity({"pods_known": False, "pools": [pool]})._repr_html_()
    quota = {"limit": {"gib": 40, "cards": 0}, "used": {"gib": 10, "cards": 0}, "held": {"gib": 2, "cards": 0}, "left": {"gib": 30, "cards": 0}}
    html = Options({"teams": [{"team": "vision", "quota": quota, "pools": []}]})._repr_html_()
    assert "10 of 40 GiB used, 2 of it held" in html and "width:20.00%" in html
