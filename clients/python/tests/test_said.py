"""What somebody reads who is new here: warnings, remedies that lead on, and tables that say each thing once."""

import json
import warnings

import pytest
from server import CLUSTER, OBSERVED, OPTIONS, Server, good, problem

from rayslice import Capacity, Cluster, EndedError, FieldError, ForbiddenError, NotReadyError, QuotaError, ReturnedError, UnreachableError, Usage
from rayslice.cli import in_shell, main
from rayslice.cluster import _Progress
from rayslice.errors import from_problem
from rayslice.faults import check_url
from rayslice.job import Job

QUOTA = {
    "code": "over_quota", "team": "vision", "limit": {"gib": 40, "cards": 0}, "used": {"gib": 10, "cards": 0}, "held": {"gib": 2, "cards": 0},
    "asked": {"gib": 800, "cards": 0}, "left": {"gib": 30, "cards": 0},
}
POOLS = {**OPTIONS["teams"][0], "pools": [{"name": "a10", "model": "A10", "card_gib": 22, "sizes": [8], "whole": False, "core_percent": False, "open": True, "closed": None}]}


@pytest.fixture
def shell(monkeypatch):
    """rayslice-client against a server."""
    def run(server, *args):
        monkeypatch.setenv("RAYSLICE_URL", server.portal.transport.url)
        monkeypatch.setenv("RAYSLICE_TOKEN", "x")
        return main(args)

    return run


def test_no_gpu_is_said_once():
    """A wish without a slice warns where it stands, once; one that names a slice, a pool or groups does not."""
    with Server(good(OPTIONS), good(CLUSTER), good(OPTIONS), good(CLUSTER)) as server:
        with pytest.warns(UserWarning, match='slice="8GiB"') as warned:
            server.portal.request(purpose="x")
            server.portal.request(purpose="x")
        assert len(warned) == 1 and warned[0].filename == __file__
    for wish in ({"slice": 8}, {"pool": "a10"}, {"groups": []}):
        with Server(good({"teams": [POOLS]}), good(CLUSTER)) as server, warnings.catch_warnings():
            warnings.simplefilter("error")
            assert server.portal.request(purpose="x", **wish).id == CLUSTER["id"]


def test_no_gpu_in_a_shell(capsys, shell):
    """The same in a line, in the words of a shell."""
    with Server(good(OPTIONS), good(CLUSTER)) as server:
        assert shell(server, "request", "--purpose", "x") == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "no GPU" in said and "--slice 8GiB" in said
    with Server(good({"teams": [POOLS]}), good(CLUSTER)) as server:
        assert shell(server, "request", "--slice", "8GiB", "--purpose", "x") == 0
    assert capsys.readouterr().err == ""


def test_capacity_says_what_may_be_asked_for():
    """A pool that nobody may ask for never says yes; each row says once whether and when."""
    sizes = [{"slice_gib": 8, "fits": True, "on_cards": 1, "text": "now, on 1 card"}, {"slice_gib": 16, "fits": False, "text": "no room for 1 worker now"}, {"slice_gib": 20, "fits": None}]
    pool = {"pool": "a10", "model": "A10", "mode": "cgpu", "nodes": 1, "cards": 2, "gib": 44, "given_gib": 11, "free_gib": 33, "free": 1, "sizes": sizes}
    found = Capacity({"pools": [pool, {**pool, "pool": "shut", "offered": False, "blocked": {"text": "no admin has opened it"}}, {**pool, "pool": "mixed", "offered": True, "blocked": {"text": "units are mixed"}}]})
    rows = {(row[0], row[2]): row[3] for row in found.rows()}
    assert rows["a10", "8 GiB"] == "yes, on 1 card" and rows["a10", "16 GiB"] == "no room for 1 worker now" and rows["a10", "20 GiB"] == "unknown"
    assert rows["shut", "8 GiB"] == "not offered: no admin has opened it" and rows["mixed", "8 GiB"] == "units are mixed"
    assert str(found).count("yes") == 1 and found.fits(8) is True
    assert Capacity({"pools": [{**pool, "offered": False}]}).fits(8) is None and "yes" not in str(Capacity({"pools": [{**pool, "offered": False}]}))


@pytest.mark.parametrize("state, error", [("stopping", EndedError), ("stopped", EndedError), ("rejected", EndedError), ("returned", ReturnedError), ("approved", NotReadyError)])
def test_what_cannot_be_used(state, error):
    """Waiting is recommended only where something can follow."""
    cluster = Cluster(None, {**CLUSTER, "state": state})
    for call in (lambda: cluster.submit("true"), lambda: cluster.address):
        with pytest.raises(error) as refused:
            call()
        assert ("cluster.wait()" in refused.value.what_to_do) == (error is NotReadyError)


def test_who_may():
    """Another token is recommended only where its scope was what was missing."""
    with Server(problem(403, code="token_scope", detail="This API token lacks the scope “stop”.")) as server:
        with pytest.raises(ForbiddenError) as refused:
            server.portal.clusters()
        assert "RAYSLICE_TOKEN" in refused.value.what_to_do
    with Server(problem(403, code="stop_not_allowed", detail="Only its owner may stop it.", request_id="r1")) as server:
        with pytest.raises(ForbiddenError) as refused:
            server.portal.clusters()
        assert refused.value.what_to_do == "Only its owner may stop it." and str(refused.value) == "Only its owner may stop it. [stop_not_allowed] (request id r1)"


@pytest.mark.parametrize("url, want", [("127.0.0.1:8080", "http"), ("localhost:8080", "http"), ("[::1]:8080", "http"), ("a.localhost", "http"), ("rayslice.example:8080", "https"), ("[::1", "https")])
def test_scheme(url, want):
    """On this machine a portal most likely speaks HTTP."""
    with pytest.raises(UnreachableError) as refused:
        check_url(url)
    assert f'"{want}://{url}"' in refused.value.what_to_do


def test_fields_have_the_names_of_arguments(capsys, shell):
    """With one group a field is called as its argument; what was sent stays in field."""
    sent = [{"field": name, "code": "range", "detail": "No."} for name in ("groups[0].workers", "groups[0].slice_gib", "groups[0].per_pod", "head.cpu", "hours")]
    refusal = problem(422, code="invalid", errors=sent)
    with Server(good({"teams": [POOLS]}), refusal) as server:
        with pytest.raises(FieldError) as refused:
            server.portal.request(slice=8, purpose="x")
        assert [f.field for f in refused.value.fields] == [f["field"] for f in sent]
        assert [f.argument for f in refused.value.fields] == ["workers", "slice", "cards", "head_cpu", ""]
        assert "  workers (groups[0].workers): No. [range]" in str(refused.value) and "  hours: No." in str(refused.value)
    with Server(good({"teams": [POOLS]}), refusal) as server:
        with pytest.raises(FieldError) as refused:
            server.portal.plan(groups=[{}], purpose="x")
        assert not any(f.argument for f in refused.value.fields)
    with Server(good({"teams": [POOLS]}), refusal) as server:
        assert shell(server, "request", "--json", "--slice", "8GiB", "--purpose", "x") == 1
    found = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert found["status"] == 422 and found["errors"][0] == {**sent[0], "argument": "workers"} and "rayslice-client options" in found["what_to_do"]


def test_quota_says_its_numbers_once(capsys, shell):
    """The portal's sentence has the numbers and the advice; where it has none, they are added."""
    detail = "Team vision has 30 of 40 GiB left, and this asks for 800 GiB. Ask for at most 30 GiB. Your lead can ask for more quota."
    told = from_problem(409, {**QUOTA, "detail": detail}, None)
    assert isinstance(told, QuotaError) and str(told) == detail + " [over_quota]" and told.what_to_do
    bare = str(from_problem(409, {**QUOTA, "detail": "Too much."}, None))
    assert "asked 800 GiB" in bare and "have a lead ask" in bare
    with Server(good({"teams": [POOLS]}), problem(409, **QUOTA)) as server:
        assert shell(server, "request", "--json", "--slice", "8GiB", "--purpose", "x") == 3
    found = json.loads(capsys.readouterr().err)
    assert found["code"] == "over_quota" and found["left"] == {"gib": 30, "cards": 0} and found["team"] == "vision"


def test_a_shell_names_commands(capsys, shell):
    """No call of Python is recommended in a shell, and what is recommended is there."""
    for error in (NotReadyError, FieldError, ReturnedError, from_problem(404, {}, None), from_problem(409, {}, None)):
        said = in_shell(error.what_to_do)
        assert "()" not in said and "cluster." not in said and "portal." not in said
    with Server(good({"teams": [POOLS]})) as server:
        assert shell(server, "options") == 0 and "a10" in capsys.readouterr().out
    with Server(good({"pools": []})) as server:
        assert shell(server, "capacity", "--json") == 0 and json.loads(capsys.readouterr().out) == {"pools": []}
    with Server(good(OPTIONS)) as server:
        assert shell(server, "request", "--slice", "10G") == 1 and "--slice 8GiB" in capsys.readouterr().err


def test_usage_that_is_not_there_yet():
    """An empty table says when there is more."""
    assert "within 30 s" in str(Usage({"now": {"problem": None, "samples": []}}))


def test_jobs_and_audit_are_tables():
    """They stay lists of dicts, and show themselves like everything else."""
    entries = [{"at": "2026-01-02T03:04:05Z", "actor": "Mei <b>", "via": None, "action": "stop", "from": "ready", "to": "stopping", "reason": {"code": "x", "text": "done"}}]
    with Server(good({"entries": entries})) as server:
        audit = Cluster(server.portal, CLUSTER).audit()
        assert audit == entries and "ready → stopping" in str(audit) and "done" in repr(audit) and "<b>" not in audit._repr_html_()
    listed = [{"submission_id": "rayslice-1", "status": "RUNNING", "entrypoint": "python <i>", "start_time": 1767323045000}, {"job_id": "02000000", "submission_id": None, "start_time": 10**30}]
    with Server(good(listed)) as server:
        jobs = Cluster(server.portal, {**CLUSTER, "state": "ready", "dashboard_url": server.portal.transport.url}).jobs()
        assert jobs == listed and "RUNNING" in str(jobs) and "02000000    unknown  unknown" in str(jobs) and "<i>" not in jobs._repr_html_()


def test_a_job_shows_its_status():
    """The one that was last seen."""
    with Server(good({"status": "SUCCEEDED"})) as server:
        job = Job(Cluster(server.portal, {**CLUSTER, "state": "ready", "dashboard_url": server.portal.transport.url}), "rayslice-1", "true")
        assert str(job) == "Job rayslice-1 on x: true"
        job.wait(5)
        assert str(job) == "Job rayslice-1 on x, SUCCEEDED: true" and "<b>SUCCEEDED</b>" in job._repr_html_()


@pytest.mark.parametrize("much, little, bare", [("Workers start, for 12 s now.", "Workers start, for 1 s now.", "Workers start."), ("启动中，已等待 2 分钟。", "启动中，已等待 0 秒。", "启动中。")])
def test_progress_is_news(capsys, much, little, bare):
    """A few seconds are not worth saying, and a line that differs by nothing else is none."""
    def cluster(text, stage):
        return Cluster(None, {**CLUSTER, "state": "provisioning", "cluster": OBSERVED, "pending": {"text": text, "stage": stage}})

    assert cluster(little, "workers").progress_text().endswith(bare) and cluster(much, "workers").progress_text().endswith(much)
    told = _Progress()
    for text, stage in ((little, "workers"), (much, "pods"), (much, "workers"), ("Ray answers.", "ray")):
        told(cluster(text, stage))
    assert [line.rpartition("  ")[2] for line in capsys.readouterr().err.splitlines()] == [bare, "Ray answers."]
