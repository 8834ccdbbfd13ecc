"""Arguments are looked at where they come in: what cannot be meant is a FieldError that names it, and nothing is sent."""

import os
import subprocess
import sys

import pytest
from server import CLUSTER, OPTIONS, Server, good

from rayslice import FieldError, Portal, PortalError, SignInError, UnreachableError
from rayslice.cli import main
from rayslice.faults import check_url
from rayslice.job import Job

HALF = "\ud800"  # half a character, as a bad file name has it
LOOP = []
LOOP.append(LOOP)


@pytest.mark.parametrize("call, field", [
    (lambda p, c: p.request(purpose="x", key="中"), "key"), (lambda p, c: p.request(purpose="x", key="a\nb"), "key"), (lambda p, c: p.request(purpose="x", key=5), "key"),
    (lambda p, c: p.request(purpose=None), "purpose"), (lambda p, c: p.request(purpose=HALF), "purpose"), (lambda p, c: p.request(purpose="x", name=7), "name"),
    (lambda p, c: p.request(purpose="x", env={1, 2}), "env"), (lambda p, c: p.request(purpose="x", env=["A"]), "env"), (lambda p, c: p.plan(purpose="x", env=float("inf")), "env"),
    (lambda p, c: p.request(purpose="x", team=5), "team"), (lambda p, c: p.request(purpose="x", groups=LOOP), "groups"), (lambda p, c: p.request(purpose="x", pool=b"a10"), "pool"),
    (lambda p, c: p.request(purpose="x", workers={2}), "workers"), (lambda p, c: p.request(purpose="x", hours=float("nan")), "hours"),
    (lambda p, c: p.cluster("ä"), "id"), (lambda p, c: p.cluster(""), "id"), (lambda p, c: p.cluster("../x"), "id"), (lambda p, c: p.cluster(5), "id"), (lambda p, c: p.cluster("²"), "id"),
    (lambda p, c: p.clusters(state=5), "state"), (lambda p, c: p.clusters(state=["ready", 5]), "state"), (lambda p, c: p.clusters(search=HALF), "search"),
    (lambda p, c: p.clusters(most="x"), "most"), (lambda p, c: p.clusters(most=-1), "most"), (lambda p, c: p.clusters(most=1.5), "most"), (lambda p, c: p.clusters(team=b"x"), "team"),
    (lambda p, c: c.reply(5), "text"), (lambda p, c: c.submit(["python"]), "entrypoint"), (lambda p, c: c.submit("x", env={1, 2}), "env"), (lambda p, c: c.submit("x", env={1: "x"}), "a key of env"),
    (lambda p, c: c.submit("x", env={"A": {1}}), "env.A"), (lambda p, c: c.submit("x", runtime_env=5), "runtime_env"), (lambda p, c: c.submit("x", {"A": "b"}, {"env_vars": 5}), "runtime_env.env_vars"),
    (lambda p, c: c.jobs_api("GET", "api"), "path"), (lambda p, c: c.jobs_api("GET", "/ä b"), "path"), (lambda p, c: c.jobs_api("G T", "/"), "method"), (lambda p, c: c.jobs_api(None, "/"), "method"),
    (lambda p, c: Job(c, "x").wait(every=0), "every"), (lambda p, c: Job(c, "x").wait(every="1"), "every"), (lambda p, c: c.jobs_api("POST", "/", {1}), "body"),
])
def test_arguments(call, field):
    """Nothing was sent, and the error says which argument it is and what it must be."""
    with Server(good({**CLUSTER, "state": "ready"}), good(OPTIONS)) as server:
        cluster = server.portal.cluster("aaaaaaaaaaaa")
        cluster.data["dashboard_url"] = server.portal.transport.url
        with pytest.raises(FieldError) as refused:
            call(server.portal, cluster)
        assert [f.field for f in refused.value.fields] == [field] and " is not " in refused.value.fields[0].detail and refused.value.what_to_do
        assert len(server.seen) == 1


@pytest.mark.parametrize("named, field", [
    ({"language": "a\nb"}, "language"), ({"language": "中"}, "language"), ({"language": 5}, "language"), ({"url": 5}, "url"), ({"token": b"rayslice_pat_X"}, "token"), ({"team": 5}, "team"),
    ({"timeout": float("nan")}, "timeout"), ({"timeout": float("inf")}, "timeout"), ({"timeout": -1}, "timeout"), ({"timeout": 0}, "timeout"), ({"timeout": "5"}, "timeout"), ({"timeout": 1e12}, "timeout"),
])
def test_arguments_of_a_portal(named, field):
    """The same for the portal itself; a token is not shown."""
    with pytest.raises(FieldError) as refused:
        Portal(**{"url": "https://rayslice.example", "token": "rayslice_pat_X", **named})
    assert [f.field for f in refused.value.fields] == [field] and "rayslice_pat_X" not in str(refused.value)


@pytest.mark.parametrize("url", [
    "http://mei:secret@rayslice.example", "http://secret@rayslice.example", "ftp://mei:secret@rayslice.example", "mei:secret@rayslice.example", "http://mei:sec ret@rayslice.example",
    "http://mei:secret@[::1", "http://mei:a/secret@rayslice.example", "http://mei:a?secret@rayslice.example", "http://mei:a#secret@rayslice.example", "http://mei:secret@rayslice.example:x",
])
def test_a_password_in_the_address(monkeypatch, url):
    """It is refused, and nothing of it is shown."""
    monkeypatch.setenv("RAYSLICE_URL", url)
    with pytest.raises(UnreachableError) as refused:
        Portal(token="x")
    assert refused.value.code == "no_url" and "RAYSLICE_TOKEN" in refused.value.what_to_do
    assert not any(part in str(refused.value) for part in ("secret", "mei", "sec ret"))


@pytest.mark.parametrize("url", ["http://[::1", "http://" + "a" * 70 + ".example", "http://a..b", "http://.", "http://[x]", "http://%"])
def test_addresses_that_cannot_be_asked(url):
    """An address that no library takes is refused, at once or when it is asked."""
    with pytest.raises(PortalError) as refused:
        portal = Portal(url, "x")
        portal.transport.pause = lambda _: None
        portal.clusters()
    assert refused.value.what_to_do


def test_schemes_are_of_any_case():
    """HTTP://Host is an address."""
    assert check_url("HTTP://Rayslice.example:8080/") == "http://Rayslice.example:8080" and check_url("HTTPS://x") == "https://x"


@pytest.mark.parametrize("proxy", ["http://mei:secret@[::1", "http://mei:secret@proxy:port", "http:///secret", "http://mei:se/cret@127.0.0.1:1"])
def test_a_bad_proxy(monkeypatch, proxy):
    """An address of a proxy that cannot be read is an error without its password."""
    monkeypatch.setenv("http_proxy", proxy)
    portal = Portal("http://rayslice.example", "x")
    portal.transport.pause = lambda _: None
    with pytest.raises(UnreachableError) as refused:
        portal.clusters()
    assert "secret" not in str(refused.value) and "PROXY" in refused.value.what_to_do


def test_no_token():
    """A token of blanks is none."""
    with pytest.raises(SignInError):
        Portal("https://rayslice.example", " ")


@pytest.fixture
def shell(monkeypatch):
    """rayslice-client as a process, with a portal."""
    with Server(good({"requests": [CLUSTER] * 9, "next": None})) as server:
        env = {**os.environ, "RAYSLICE_URL": server.portal.transport.url, "RAYSLICE_TOKEN": "x", "PYTHONIOENCODING": "ascii"}
        yield lambda *args, **named: subprocess.run([sys.executable, "-m", "rayslice.cli", *args], env=env, stderr=subprocess.PIPE, check=False, timeout=30, **named)


@pytest.mark.parametrize("time", ["inf", "nan", "-1", "x", "1e999"])
def test_times_in_a_shell(capsys, time):
    """A time that is none is a wrong command line, with a line that says so."""
    with pytest.raises(SystemExit) as wrong:
        main(["wait", "aaaaaaaaaaaa", f"--timeout={time}"])
    assert wrong.value.code == 2 and "--timeout" in capsys.readouterr().err.splitlines()[-1]


def test_letters_in_a_shell(shell):
    """An id with a letter that no id has, also one that the terminal cannot show."""
    for id in ("ä", b"\xff", "中"):
        done = shell("wait", id, stdout=subprocess.PIPE)
        assert done.returncode == 1 and b"Traceback" not in done.stderr and b"id: " in done.stderr


@pytest.mark.parametrize("args", [["list"], ["list", "--json"], ["--help"], ["--version"]])
def test_closed_pipes(shell, args):
    """A reader that leaves, as head does, is no error to show."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        done = shell(*args, stdout=closed)
    assert done.stderr == b"" and done.returncode == 0


def test_outputs_that_take_nothing(shell):
    """A full disk is an error in one line; no output at all is none."""
    with open("/dev/full", "wb") as full:
        done = shell("list", stdout=full)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"could not be written" in done.stderr
    done = shell("list", preexec_fn=lambda: os.close(1))
    assert done.returncode == 0 and done.stderr == b""
