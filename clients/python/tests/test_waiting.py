"""Waits go on while the portal is away, end with what ends them, and leave nothing to guess."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest
from server import CLUSTER, Server, good, problem

from rayslice import BusyError, Cluster, EndedError, FieldError, Portal, PortalError, SignInError, UnreachableError, WaitTimeout
from rayslice.cli import main
from rayslice.job import Job
from rayslice.transport import PATIENCE

GONE = (0, {}, b"")
READY = {**CLUSTER, "state": "ready"}
PAGE = (503, {"Content-Type": "text/html"}, b"<html>back soon</html>")
CROWDED = problem(429, {"Retry-After": "7"}, code="too_many_streams")


def test_an_upgrade_overnight():
    """T04: without an end of its own a wait goes on for hours, says since when there is no answer, and then that there is one."""
    seen = []
    with Server(good(CLUSTER), good(CLUSTER), *[GONE, PAGE, problem(503), problem(502)] * 100, good(READY)) as server:
        cluster = server.portal.cluster("aaaaaaaaaaaa").wait(progress=lambda c: seen.append((c.unanswered is not None, c.progress_text())))
        assert cluster.state == "ready" and sum(server.paused) > 3600 and cluster.unanswered is None
    assert [away for away, _ in seen] == [False, True, False] and "has not answered since 20" in seen[1][1] and "answered" not in seen[2][1]


def test_a_blink_is_no_absence():
    """One lost answer is not worth a line."""
    seen = []
    with Server(good(CLUSTER), good(CLUSTER), GONE, good(READY)) as server:
        server.portal.cluster("aaaaaaaaaaaa").wait(progress=lambda c: seen.append(c.unanswered))
    assert seen == [None, None]


def test_too_often_is_an_answer():
    """A portal that says "not so often" is there, and is asked less often."""
    seen = []
    with Server(good(CLUSTER), good(CLUSTER), *[problem(429, {"Retry-After": "9"}, code="too_many_requests")] * 5, good(READY)) as server:
        server.portal.cluster("aaaaaaaaaaaa").wait(progress=lambda c: seen.append(c.unanswered))
        assert len(server.paused) == 5 and min(server.paused) >= 9
    assert seen == [None, None]


def test_progress_says_it(capsys):
    """On a terminal too."""
    with Server(good(CLUSTER), good(CLUSTER), GONE, GONE, good(READY)) as server:
        server.portal.cluster("aaaaaaaaaaaa").wait()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and "the portal has not answered since" in lines[1] and lines[2].startswith("x: ready")


@pytest.mark.parametrize("answer", [GONE, PAGE, problem(503, {"Retry-After": "300"})])
def test_own_time_is_kept(answer):
    """A wait ends at its own time, also while nobody answers, and says that."""
    with Server(good(CLUSTER), good(CLUSTER), answer) as server:
        with pytest.raises(WaitTimeout) as late:
            server.portal.cluster("aaaaaaaaaaaa").wait(timeout=600, progress=False)
        assert 590 < sum(server.paused) <= 600 and late.value.code == "wait_timeout" and "after 600 s" in late.value.detail
        assert "no answer since 20" in late.value.detail and isinstance(late.value.__cause__, PortalError)


def test_nobody_answers_in_time():
    """Somebody who takes the question and never answers does not hold the wait up."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        portal = Portal(f"http://127.0.0.1:{silent.getsockname()[1]}", "x")
        began = time.monotonic()
        with pytest.raises(WaitTimeout, match="no answer since 20"):
            Cluster(portal, CLUSTER).wait(timeout=0.5, progress=False)
        assert time.monotonic() - began < 8


def test_absence_does_not_stop_the_cluster():
    """In a with block the cluster is stopped at its end, and not because the portal was away."""
    with Server(good(CLUSTER), good(CLUSTER), *[GONE] * 40, good(READY), good({**READY, "state": "stopping"})) as server:
        with server.portal.cluster("aaaaaaaaaaaa") as cluster:
            cluster.wait(progress=False)
            assert [method for method, *_ in server.seen].count("POST") == 0
        assert [method for method, *_ in server.seen].count("POST") == 1 and sum(server.paused) > PATIENCE


def test_others_keep_their_bounds():
    """What is no wait gives up after a minute."""
    for call in (lambda c: c.usage(), lambda c: c.stop(), lambda c: c.refresh(), lambda c: c.submit("true")):
        with Server(good({**READY, "dashboard_url": "x"}), GONE) as server:
            cluster = server.portal.cluster("aaaaaaaaaaaa")
            cluster.data["dashboard_url"] = server.portal.transport.url
            with pytest.raises(UnreachableError):
                call(cluster)
            assert sum(server.paused) <= PATIENCE


@pytest.mark.parametrize("answer, error", [
    (problem(401, code="bad_token"), SignInError), (problem(404), PortalError), ((200, {"Content-Type": "text/html"}, b"<html>"), UnreachableError),
    (good({**CLUSTER, "state": "rejected"}), EndedError),
])
def test_what_ends_a_wait(answer, error):
    """B122: a token that ends, a cluster that is over and somebody else's answer end it at once."""
    with Server(good(CLUSTER), good(CLUSTER), answer) as server:
        with pytest.raises(error) as ended:
            server.portal.cluster("aaaaaaaaaaaa").wait(progress=False)
        assert server.paused == [] and ended.value.what_to_do


def test_more_waits_than_the_portal_holds():
    """Refused to be told of changes, a wait asks now and then, as often as the portal says, and later tries again to be told."""
    with Server(good(CLUSTER), good(CLUSTER), CROWDED, *[good(CLUSTER)] * 12, good(READY)) as server:
        assert server.portal.cluster("aaaaaaaaaaaa").wait(progress=False).state == "ready"
        paths = [path.partition("?")[2] for _, path, _, _ in server.seen]
        assert paths[2] == "wait=50" and paths[3:8] == [""] * 5 and "wait=50" in paths[8:] and all(7 <= pause <= 9 for pause in server.paused[:5])
    with Server(good(CLUSTER), good(CLUSTER), CROWDED, good(CLUSTER)) as server:
        with pytest.raises(WaitTimeout):
            server.portal.cluster("aaaaaaaaaaaa").wait(timeout=20, progress=False)
        assert sum(server.paused) <= 20.5


def test_a_portal_that_does_not_hold_answers_back():
    """It is not asked without a pause."""
    with Server(good(CLUSTER)) as server:
        with pytest.raises(WaitTimeout):
            server.portal.cluster("aaaaaaaaaaaa").wait(timeout=30, progress=False)
        assert len(server.seen) < 40


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300, 60])
def test_times_that_are_meant(timeout):
    """Infinity is for as long as it takes."""
    with Server(good(CLUSTER), good(CLUSTER), good(READY)) as server:
        assert server.portal.cluster("aaaaaaaaaaaa").wait(timeout, progress=False).state == "ready"


def test_times_that_are_none():
    """A wait is refused before anything is asked, with the argument's name."""
    with Server(good({**READY, "dashboard_url": "http://127.0.0.1:9"})) as server:
        cluster = server.portal.cluster("aaaaaaaaaaaa")
        for timeout in (float("nan"), -1, "10", True, [], 1j):
            for call in (lambda: cluster.wait(timeout), lambda: Job(cluster, "x").wait(timeout)):
                with pytest.raises(FieldError) as refused:
                    call()
                assert refused.value.fields[0].field == "timeout" and "0 or more" in str(refused.value)
        with pytest.raises(FieldError, match="progress"):
            cluster.wait(progress="yes")
        assert len(server.seen) == 1


def job(server):
    cluster = server.portal.cluster("aaaaaaaaaaaa")
    cluster.data["dashboard_url"] = server.portal.transport.url
    return Job(cluster, "rayslice-x")


def test_a_job_outlives_an_upgrade():
    """Waiting for a job goes on too; of a head that is gone for good, the portal says that its cluster is over."""
    answers = [GONE, GONE, good({"status": "RUNNING"})]
    with Server(good(READY), good({"status": "RUNNING"}), *answers * 20, good({"status": "SUCCEEDED"})) as server:
        assert job(server).wait() == "SUCCEEDED"
    with Server(good(READY), problem(503), good({**CLUSTER, "state": "stopped"})) as server:
        with pytest.raises(EndedError) as ended:
            job(server).wait()
        assert ended.value.code == "ended_stopped"
    with Server(good(READY), GONE) as server:
        with pytest.raises(WaitTimeout, match="no answer since 20"):
            job(server).wait(timeout=300)
        assert 290 < sum(server.paused) <= 300


@pytest.mark.parametrize("answer", [GONE, problem(403), (200, {"Content-Type": "text/html"}, b"<html>")])
@pytest.mark.parametrize("inside", [ZeroDivisionError, KeyboardInterrupt])
def test_end_of_with(answer, inside):
    """What went wrong inside is what is raised; that the cluster still runs, and how to stop it, is a warning, once."""
    with Server(good(CLUSTER), answer) as server:
        with pytest.warns(RuntimeWarning) as warned, pytest.raises(inside):
            with server.portal.cluster("rs-aaaaaaaaaaaa"):
                raise inside
    (one,) = warned
    assert "aaaaaaaaaaaa" in str(one.message) and "rayslice-client stop aaaaaaaaaaaa" in str(one.message) and one.filename == __file__
    with Server(good(CLUSTER), answer) as server:
        with pytest.raises(PortalError):
            with server.portal.cluster("aaaaaaaaaaaa"):
                pass


def test_end_of_with_where_warnings_are_errors(capsys):
    """The warning does not hide it either."""
    with Server(good(CLUSTER), problem(403)) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ZeroDivisionError):
            with server.portal.cluster("aaaaaaaaaaaa"):
                raise ZeroDivisionError
    assert "still runs" in capsys.readouterr().err


def test_threads_share_a_portal():
    """Several waits of one portal."""
    with Server(good(CLUSTER), *[good(CLUSTER)] * 12, good(READY)) as server:
        clusters = [server.portal.cluster("aaaaaaaaaaaa") for _ in range(6)]
        threads = [threading.Thread(target=cluster.wait, args=(60, False)) for cluster in clusters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [cluster.state for cluster in clusters] == ["ready"] * 6


def test_busy_is_still_an_error_elsewhere():
    """Only a wait has another way."""
    with Server(CROWDED) as server:
        with pytest.raises(BusyError) as busy:
            server.portal.clusters()
        assert busy.value.code == "too_many_streams"


def test_interrupt(capsys, monkeypatch):
    """Ctrl-C ends the wait and not the wish: a line, and 130."""
    monkeypatch.setattr("rayslice.cli._run", lambda _: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert main(["list"]) == 130 and "stands" in capsys.readouterr().err


def test_interrupt_of_a_process():
    """The same by a signal, while it waits."""
    asked = threading.Event()
    with Server(good(CLUSTER), good(CLUSTER), (200, {"Content-Type": "application/json", "Content-Length": "9999"}, b"{")) as server:
        env = {**os.environ, "RAYSLICE_URL": server.portal.transport.url, "RAYSLICE_TOKEN": "x"}
        with subprocess.Popen([sys.executable, "-m", "rayslice.cli", "wait", "aaaaaaaaaaaa"], env=env, stderr=subprocess.PIPE) as waiting:
            first = waiting.stderr.readline()  # the progress: it waits by now
            asked.wait(0.3)
            waiting.send_signal(signal.SIGINT)
            rest = waiting.stderr.read().decode()
        assert waiting.returncode == 130 and b"approved" in first and "Traceback" not in rest
        assert rest.splitlines()[-1] == "rayslice-client: interrupted; what was asked for stands"
