"""What needs no portal: versions, times, sizes, and a server that misbehaves."""

from datetime import datetime, timezone

import pytest
from server import CLUSTER, OPTIONS, Server, good, problem

from rayslice import BusyError, Charge, FieldError, Portal, PortalError, UnreachableError
from rayslice.cluster import Cluster, ClusterList
from rayslice.transport import PATIENCE
from rayslice.values import ago, slice_gib, when
from rayslice.versions import compare

def test_tries_again():
    """A busy portal is asked again, after as long as it says; a lost answer too."""
    with Server(problem(503, {"Retry-After": "7"}), problem(429), (0, {}, b""), good()) as server:
        assert server.portal.clusters() == []
        assert len(server.seen) == 4 and server.paused[0] >= 7


def test_gives_up():
    """It does not go on for ever."""
    with Server(problem(503, {"Retry-After": "1"})) as server:
        with pytest.raises(BusyError) as busy:
            server.portal.clusters()
        assert busy.value.retry_after == 1 and 5 < len(server.seen) < 20 and 30 < sum(server.paused) <= PATIENCE


def test_asks_with_one_key():
    """Tries of one wish carry one key, and two wishes have two."""
    with Server(good(OPTIONS), problem(503), good(CLUSTER), good(OPTIONS), good(CLUSTER)) as server:
        server.portal.request(purpose="x")
        server.portal.request(purpose="x")
        keys = [headers["Idempotency-Key"] for method, _, headers, _ in server.seen if method == "POST"]
        assert len(keys) == 3 and keys[0] == keys[1] != keys[2]


def test_refusals_are_final():
    """What was refused for a reason is not sent again."""
    for status in (400, 401, 403, 404, 409, 422, 500):
        with Server(problem(status)) as server:
            with pytest.raises(PortalError) as refused:
                server.portal.clusters()
            assert refused.value.status == status and len(server.seen) == 1


def test_token_goes_nowhere_else():
    """A redirect is an error: it would carry the token elsewhere."""
    with Server((302, {"Location": "http://127.0.0.1:9/"}, b"")) as server:
        with pytest.raises(UnreachableError) as refused:
            server.portal.clusters()
        assert refused.value.code == "not_a_portal" and len(server.seen) == 1


@pytest.mark.parametrize("answer", [(200, {"Content-Type": "application/json"}, b"{"), (502, {"Content-Type": "text/html"}, b"<html>bad gateway</html>")])
def test_no_portal(answer):
    """Something that is no portal is an error of this package, whatever it says."""
    with Server(answer) as server:
        with pytest.raises(PortalError):
            server.portal.clusters()


def test_localhost_names():
    """Names below .localhost are this machine, also where the resolver does not know them."""
    with Server(good({"jobs": 1})) as server:
        port = server.server.server_port
        answer = server.portal.transport.send("GET", f"http://aaaaaaaaaaaa.clusters.localhost:{port}/api/jobs/")
        assert answer.data == {"jobs": 1} and server.seen[0][2]["Host"] == f"aaaaaaaaaaaa.clusters.localhost:{port}"


def test_versions():
    """The exact pins, and nothing about what is unknown."""
    assert compare("2.52.0", "3.11", "2.52.0", "3.11") == ([], [])
    assert compare("2.52.0", None, "2.52.0", "3.13") == ([], [])
    wrong, pins = compare("2.52.0", "3.11", "2.51.1", "3.9")
    assert pins == ["use Python 3.11", 'pip install "ray[client]==2.52.0"'] and "2.51.1 here" in wrong[0]
    assert compare("2.52.0", "3.11", None, "3.11")[0] == ["Ray is not installed here and 2.52.0 on the cluster"]


def test_times():
    """RFC 3339 as Go writes it, on every Python."""
    want = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)
    assert when("2026-01-02T03:04:05.678901234Z") == want == when("2026-01-02T04:04:05.678901+01:00")
    assert when("2026-01-02T03:04:05.6Z").microsecond == 600000 and when("2026-01-02T03:04:05Z").second == 5 and when(None) is None
    assert ago(want, want.replace(minute=7)) == "3 min ago" and ago(want.replace(hour=5), want) == "in 2 h" and ago(None) == "never"


def test_slices():
    """Whole GiB, whole cards, or no GPU."""
    assert (slice_gib("8GiB"), slice_gib("8 GiB"), slice_gib("8"), slice_gib(8), slice_gib("card"), slice_gib(None)) == (8, 8, 8, 8, 0, None)
    for bad in ("0.25", "8G", "8gb", "", " ", "-8GiB", "８", 0.5, False, [8]):
        with pytest.raises(FieldError):
            slice_gib(bad)


def test_charge():
    """As people say it."""
    assert [str(Charge(*c)) for c in ((8, 0), (0, 1), (0, 2), (8, 1), (0, 0))] == ["8 GiB", "1 card", "2 cards", "8 GiB + 1 card", "0 GiB"]


def test_a_cluster_says_whether_its_slices_are_enforced():
    request = {
        "id": "k5d2m7qxw3ab", "name": "ablation <7>", "team": "vision", "state": "ready", "reason": None, "charge": {"gib": 16, "cards": 0}, "hours": 8,
        "ends_at": None, "groups": [], "cluster": None, "ray_version": "2.52.0", "python_version": None,
    }
    cases = [
        ({}, None, "not verified"),
        ({"verification": None}, None, "not verified"),
        ({"verification": {"enforcement": "enforced", "workers": 2, "enforced": 2}}, "enforced", "enforced, 2 of 2"),
        ({"verification": {"enforcement": "not_enforced", "workers": 2, "enforced": 1}}, "not_enforced", "not enforced, 1 of 2"),
    ]
    for given, enforcement, words in cases:
        cluster = Cluster(None, {**request, **given})
        assert cluster.enforcement == enforcement
        for shown in (str(ClusterList([cluster])), ClusterList([cluster])._repr_html_()):
            assert words in shown
        assert (words in str(cluster)) == (words in cluster._repr_html_()) == (enforcement is not None)
    assert "not verified" not in str(ClusterList([Cluster(None, {**request, "state": "stopped"})]))
