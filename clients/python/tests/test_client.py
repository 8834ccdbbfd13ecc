"""The client against a running portal with a real control plane."""

import json
import re
import threading
import uuid

import pytest

import rayslice
from rayslice import Charge, EndedError, FieldError, NotFoundError, NotReadyError, Portal, PortalError, QuotaError, ReturnedError, SignInError, UnreachableError, WaitTimeout
from rayslice.cli import main


def test_story(portal):
    """Ask, wait, look, stop: with all that a notebook shows."""
    seen = []
    with portal.request(slice="4GiB", workers=2, hours=2, purpose="a <b>story</b>") as cluster:
        assert cluster.wait(timeout=120, progress=lambda c: seen.append(c.progress_text())) is cluster
        assert cluster.state == "ready" and cluster.charge == Charge(8, 0)
        assert cluster.address == f"ray://{cluster.data['object']['name']}-head-svc.{cluster.data['object']['namespace']}.svc:10001"
        assert cluster.id in [c.id for c in portal.clusters(mine=True)]
        assert cluster.audit()[0]["action"] == "create" and cluster.audit()[0]["via"]
    assert cluster.state in ("stopping", "stopped")
    assert seen[-1].startswith("ready") and "2 of 2 workers" in seen[-1]
    with pytest.raises(EndedError) as ended:
        cluster.wait(timeout=60)
    assert ended.value.code.startswith("ended_")


def test_what_runs(portal):
    """A job through the way in, what the slices use, and whether they are enforced."""
    capacity = portal.capacity()
    assert capacity.fits(4) is True and capacity.fits(7) is None and "<table>" in capacity._repr_html_()
    with portal.request(slice="4GiB", workers=1, hours=1, purpose="what runs") as cluster:
        with pytest.raises(NotReadyError):
            cluster.submit("true")
        cluster.wait(timeout=180, progress=False)
        job = cluster.submit("python -c 'print(\"<b>bold</b>\")'", env={"WHO": "Mei Lin"})
        assert job.wait(timeout=120) == "SUCCEEDED" and "<b>bold</b>" in job.logs() and job.id in repr(job)
        assert job.info()["runtime_env"]["env_vars"] == {"WHO": "Mei Lin"} and "<b>bold" not in job._repr_html_()
        assert job.id in [j["submission_id"] for j in cluster.jobs()]
        failing = cluster.submit("python -c 'raise SystemExit(3)'")
        with pytest.raises(EndedError) as ended:
            failing.wait(timeout=120)
        assert ended.value.code == "job_failed"
        found = cluster.verification()
        assert found.enforced is True and "enforced" in str(found)
        cluster.verify()
        use = cluster.usage()
        assert "worker" in str(use) and "<table>" in use._repr_html_()
        for sample in use.samples:
            assert sample["limit_mib"] is None or sample["limit_mib"] >= 4096


def test_shows_itself(portal):
    """Names come from people: in HTML they are escaped, in a terminal they move nothing."""
    cluster = portal.request(slice="4GiB", purpose="x", name="<script>alert(1)</script> \u202eesrever")
    try:
        for html in (cluster._repr_html_(), portal.clusters()._repr_html_()):
            assert "<script>" not in html and "&lt;script&gt;" in html
        assert "\u202e" not in repr(cluster) + str(cluster) + str(portal.clusters())
        assert "4 GiB" in str(cluster) and cluster.id in repr(portal.clusters())
    finally:
        cluster.stop()


def test_plan(portal):
    """A plan says what would follow, and writes nothing."""
    before = len(portal.clusters(state=""))
    plan = portal.plan(slice="8GiB", workers=2, purpose="plan")
    assert plan.charge == Charge(16, 0) and plan.fits_quota and plan.starts_at_once is True
    assert "kind: RayCluster" in plan.yaml and "16 of" not in plan.yaml
    assert "GiB asked" in plan._repr_html_() or "16 asked" in plan._repr_html_()
    too_much = portal.plan(slice="16GiB", workers=50, purpose="plan")
    assert not too_much.fits_quota and too_much.starts_at_once is None and "refused" in str(too_much)
    assert len(portal.clusters(state="")) == before


def test_options(portal):
    """The options are enough to draw a form."""
    options = portal.options()
    assert options.teams == ["vision"] and "a10" in str(options) and "<table>" in options._repr_html_()
    assert options.quota("vision").gib > 0
    with pytest.raises(FieldError, match="vision"):
        options.team("no-such")


def test_over_quota(portal):
    """A refusal for want of quota has the numbers."""
    with pytest.raises(QuotaError) as refused:
        portal.request(slice="16GiB", workers=50, purpose="too much")
    err = refused.value
    assert err.asked == Charge(800, 0) and err.team == "vision" and err.left.gib <= err.limit.gib
    assert err.code == "over_quota" and err.status == 409 and "800 GiB" in str(err) and "have a lead ask" in err.what_to_do


@pytest.mark.parametrize("size", ["10G", "10Gi", "8.5", 8.5, 0, -1, "1e3", "٨", "8\0", "", True, "5GiB", 9223372036854775808], ids=repr)
def test_sizes(portal, size):
    """B019, T25: a size that is none is refused here, with what there is."""
    with pytest.raises(FieldError) as refused:
        portal.request(slice=size, purpose="x")
    assert [f.field for f in refused.value.fields] == ["slice"] and refused.value.fields[0].detail


@pytest.mark.parametrize("wish, field", [
    ({"slice": "8GiB", "workers": 0}, "groups[0].workers"), ({"slice": "8GiB", "workers": 801}, "groups[0].workers"),
    ({"slice": "8GiB", "hours": 9999}, "hours"), ({"slice": "8GiB", "env": {"CUDA_VISIBLE_DEVICES": "3"}}, "env.CUDA_VISIBLE_DEVICES"),
    ({"slice": "8GiB", "no_such": 1}, "no_such"), ({"slice": "8GiB", "team": "no-such"}, "team"), ({"slice": "8GiB", "workers": "two"}, "workers"),
])
def test_fields(portal, wish, field):
    """What the portal refuses names the field, and is not sent again."""
    with pytest.raises(FieldError) as refused:
        portal.request(purpose="fields", **wish)
    assert [f.field for f in refused.value.fields] == [field]


def test_asking_twice_asks_once(portal):
    """T04: the same key with the same wish is the same cluster; with another wish it is refused."""
    key = uuid.uuid4().hex
    first = portal.request(slice="4GiB", purpose="twice", key=key)
    try:
        assert portal.request(slice="4GiB", purpose="twice", key=key).id == first.id
        with pytest.raises(FieldError) as refused:
            portal.request(slice="4GiB", purpose="another", key=key)
        assert refused.value.code == "idempotency_key_reused"
    finally:
        first.stop()


def test_lead_asks_back(portal, lead):
    """A request that needs a lead waits; asked back, it says the question; answered, it goes on."""
    cluster = portal.request(slice="8GiB", workers=3, hours=2, purpose="needs a lead")
    try:
        assert cluster.state == "pending"
        threading.Timer(0.5, lead.decide, (cluster, "return", "What for?")).start()
        with pytest.raises(ReturnedError, match="What for"):
            cluster.wait(timeout=60, progress=False)
        assert cluster.reply("Figure 3").state == "pending"
        threading.Timer(0.5, lead.decide, (cluster, "approve")).start()
        assert cluster.wait(timeout=120, progress=False).state == "ready"
    finally:
        cluster.stop()


def test_lead_says_no(portal, lead):
    """Waiting for what was rejected ends with what the lead has said."""
    cluster = portal.request(slice="8GiB", workers=3, purpose="needs a lead")
    threading.Timer(0.5, lead.decide, (cluster, "reject", "Not this week.")).start()
    with pytest.raises(EndedError) as ended:
        cluster.wait(timeout=60, progress=False)
    assert ended.value.code == "ended_rejected" and cluster.data["answer"] == "Not this week."


def test_wait_gives_up(portal):
    """A wait that takes longer than wanted says so; the request stands."""
    cluster = portal.request(slice="8GiB", workers=3, purpose="nobody decides")
    try:
        with pytest.raises(WaitTimeout):
            cluster.wait(timeout=1.5, progress=False)
        assert cluster.refresh().state == "pending"
    finally:
        assert cluster.stop().state == "cancelled"


def test_who_asks(portal):
    """A wrong token, no token and no portal are told apart, each with a remedy."""
    good = portal.transport.url
    wrong = Portal(good, "rayslice_pat_" + "A" * 33)
    with pytest.raises(SignInError) as refused:
        wrong.clusters()
    assert refused.value.code == "bad_token" and refused.value.status == 401 and "RAYSLICE_TOKEN" in refused.value.what_to_do
    with pytest.raises(NotFoundError):
        portal.cluster("aaaaaaaaaaaa")
    with pytest.raises(FieldError):
        portal.cluster("../admin")


def test_account(portal):
    """Whose token it is, and its scopes: those that this file needs."""
    account = portal.account()
    assert account.name == "Mei Lin" and account.roles["vision"] == "member" and not account.admin
    assert all(account.may(scope) for scope in ("read", "request", "stop")) and "vision" in account._repr_html_()


def test_more_waits_than_the_portal_holds(portal):
    """The portal holds eight answers of one token back at once; the ninth to twelfth wait all the same."""
    cluster = portal.request(slice="8GiB", workers=3, purpose="nobody decides")
    ended = []

    def wait():
        try:
            portal.cluster(cluster.id).wait(timeout=12, progress=False)
        except PortalError as err:
            ended.append(type(err))

    try:
        threads = [threading.Thread(target=wait) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ended == [WaitTimeout] * 12
    finally:
        cluster.stop()


def test_no_address(monkeypatch):
    """Without an address or a token nothing is asked."""
    monkeypatch.delenv("RAYSLICE_URL")
    with pytest.raises(UnreachableError, match="RAYSLICE_URL"):
        Portal()
    with pytest.raises(SignInError):
        Portal("https://rayslice.example", "two\nlines")


def test_pages(portal):
    """Lists go on behind the first page."""
    made = [portal.request(workers=1, purpose=f"page {n}") for n in range(3)]
    try:
        sent = []
        send = portal.transport.send
        portal.transport.send = lambda *args, **named: sent.append(named.get("query")) or send(*args, **named)
        assert len(portal.clusters(search="page ", most=2)) == 2
        assert len(sent) == 1 and sent[0]["limit"] == 2
    finally:
        for cluster in made:
            cluster.stop()


def test_command_line(capsys, portal):
    """rayslice-client request, list, wait and stop."""
    assert main(["--json", "request", "--slice", "4GiB", "--purpose", "from a shell", "--hours", "1"]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert main(["wait", asked["id"], "--timeout", "120"]) == 0
    assert re.match(rf"{asked['id']}  ready", capsys.readouterr().out)
    assert main(["list", "--mine"]) == 0 and asked["id"] in capsys.readouterr().out
    assert main(["request", "--slice", "8GiB", "--dry-run", "--purpose", "x"]) == 0 and "costs" in capsys.readouterr().out
    assert main(["stop", asked["id"]]) == 0 and re.match(rf"{asked['id']}  stop", capsys.readouterr().out)
    assert main(["request", "--slice", "10G"]) == 1
    assert "slice: '10G' is no size" in capsys.readouterr().err
    assert main(["request", "--slice", "16GiB", "--workers", "50", "--purpose", "x"]) == 3
    with pytest.raises(SystemExit) as wrong:
        main(["frobnicate"])
    assert wrong.value.code == 2


def test_version_is_that_of_the_package():
    """The version stands in one more place."""
    from importlib import metadata

    assert metadata.version("rayslice") == rayslice.__version__
