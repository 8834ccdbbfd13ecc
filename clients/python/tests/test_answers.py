"""What answers is held against what each call expects: half a portal, another program and an old portal are errors of this package."""

import copy
import json

import pytest
from server import CLUSTER, OBSERVED, OPTIONS, QUOTA, Server, good, problem

from rayslice import Account, Cluster, ForbiddenError, NotFoundError, PortalError, QuotaError, UnreachableError
from rayslice.answers import CAPACITY, REQUEST, wrong
from rayslice.cli import main
from rayslice.job import Job
from rayslice.reports import Options
from rayslice.show import escape, plain

JSON = {"Content-Type": "application/json"}
CALLS = {
    "account": lambda c: c.portal.account(), "options": lambda c: c.portal.options(), "capacity": lambda c: c.portal.capacity(),
    "clusters": lambda c: c.portal.clusters(), "cluster": lambda c: c.portal.cluster("aaaaaaaaaaaa"), "request": lambda c: c.portal.request(purpose="x"),
    "plan": lambda c: c.portal.plan(purpose="x"), "wait": lambda c: c.wait(5), "refresh": lambda c: c.refresh(), "stop": lambda c: c.stop(),
    "reply": lambda c: c.reply("x"), "usage": lambda c: c.usage(), "verification": lambda c: c.verification(), "verify": lambda c: c.verify(),
    "audit": lambda c: c.audit(), "submit": lambda c: c.submit("true"), "jobs": lambda c: c.jobs(), "job.info": lambda c: Job(c, "x").info(),
    "job.logs": lambda c: Job(c, "x").logs(), "job.status": lambda c: Job(c, "x").status(), "job.stop": lambda c: Job(c, "x").stop(), "job.wait": lambda c: Job(c, "x").wait(5),
}
ANSWERS = {
    "a page": (200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"), "nothing": (200, JSON, b""), "no content": (204, {}, b""), "a list": (200, JSON, b"[1]"),
    "text": (200, {"Content-Type": "text/plain"}, b"ok"), "a number": (200, JSON, b"7"), "a string": (200, JSON, b'"x"'), "null": (200, JSON, b"null"),
    "deep": (200, JSON, b"[" * 100000), "not modified": (304, {}, b""), "no UTF-8": (200, JSON, b'{"id": "\xff"}'), "a redirect": (307, {**JSON, "Location": "https://sso.example/"}, b'{"code": "x"}'),
    "errors": (422, JSON, b'{"errors": ["a"]}'), "an error of another kind": (400, JSON, b"[]"), "quota": (409, JSON, b'{"code": "over_quota", "limit": {}, "left": {"gib": "x", "cards": 1}}'),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_every_call(name, answer):
    """Whatever answers, a call raises a PortalError that says what to do."""
    with Server(answer) as server:
        cluster = Cluster(server.portal, {**CLUSTER, "state": "ready", "dashboard_url": server.portal.transport.url})
        with pytest.raises(PortalError) as refused:
            CALLS[name](cluster)
        assert refused.value.what_to_do and refused.value.code and "<html>" not in str(refused.value)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("clusters", "job.info", "job.logs", "job.status", "job.stop", "submit", "job.wait")])
def test_an_empty_object(name):
    """{} is no answer of the portal's; it names what is missing."""
    with Server(good({})) as server:
        cluster = Cluster(server.portal, {**CLUSTER, "dashboard_url": server.portal.transport.url, "state": "ready"})
        with pytest.raises(UnreachableError) as refused:
            CALLS[name](cluster)
        assert refused.value.code == "not_a_portal" and ("has no '" in refused.value.detail or "no list" in refused.value.detail)


def test_pages_without_an_end():
    """A page of nothing that names another is the last."""
    with Server(good({"requests": [], "next": "a"})) as server:
        assert server.portal.clusters() == [] and len(server.seen) == 1


def test_text_of_the_head():
    """Only jobs_api may be answered with text."""
    with Server((200, {"Content-Type": "text/plain"}, "späť".encode())) as server:
        cluster = Cluster(server.portal, {**CLUSTER, "dashboard_url": server.portal.transport.url})
        assert cluster.jobs_api("GET", "/api/v0/logs/file?node_id=1") == "späť"
        with pytest.raises(UnreachableError, match="text/plain"):
            cluster.jobs()


def test_every_member_is_looked_at():
    """Each member that is read is named when it is missing or of another kind; others may come and go."""
    whole = {**CLUSTER, "cluster": {**OBSERVED, "connect": {"client": "ray://x"}}, "pending": {"text": "x", "stage": "head", "conditions": [{"code": "x"}]}, "ends_at": "2026-01-02T03:04:05Z"}
    assert wrong(REQUEST, {**whole, "more": object()}) == ""
    for name in CLUSTER:
        if name not in ("python_version", "dashboard_url"):
            less = copy.deepcopy(whole)
            del less[name]
            assert wrong(REQUEST, less) == f"its answer has no {name!r}"
        assert repr(name)[:-1] in wrong(REQUEST, {**whole, name: {"x": 1} if name not in ("cluster", "charge") else 5})
    assert "ends_at" in wrong(REQUEST, {**whole, "ends_at": "tomorrow"}) and "cluster.connect.client" in wrong(REQUEST, {**whole, "cluster": {**OBSERVED, "connect": {}}})
    assert "revision" in wrong(REQUEST, {**whole, "revision": True}) and "'pools'" in wrong(CAPACITY, [])


def test_quota_without_numbers():
    """A refusal for want of quota whose numbers cannot be read is one all the same."""
    with Server(good(OPTIONS), problem(409, code="over_quota", limit={"gib": 40, "cards": 0}, left={})) as server:
        with pytest.raises(QuotaError) as refused:
            server.portal.request(purpose="x")
        assert refused.value.limit.gib == 40 and refused.value.left is None and "None" in str(refused.value)


def test_a_redirect_says_where_to():
    """A redirect is one, also with JSON in it."""
    with Server((307, {**JSON, "Location": "https://rayslice.example/x"}, b'{"detail": "moved"}')) as server:
        with pytest.raises(UnreachableError) as refused:
            server.portal.clusters()
        assert "leads elsewhere" in refused.value.detail and '"https://rayslice.example"' in refused.value.what_to_do


def test_nothing_turns_writing_around():
    """Names come from people: neither a terminal nor a page is told to turn its writing around."""
    assert plain("a\u202eb\ud800\x1b") == "a\ufffdb\ufffd\ufffd" and escape("\u202e<b>\u2066") == "\ufffd&lt;b&gt;\ufffd"
    name = "<b>\u202eesrever"
    cluster = Cluster(None, {**CLUSTER, "name": name, "id": "<i>", "reason": {"text": name}})
    options = Options({"teams": [{"team": name, "quota": {**QUOTA, "team": name}, "pools": []}]})
    for html in (cluster._repr_html_(), Job(cluster, name, name)._repr_html_(), options._repr_html_()):
        assert "\u202e" not in html and "<b>" not in html and "<i>" not in html and "\ufffd" in html


PERSON = {"id": 1, "name": "Mei \u202e<b>Lin", "email": "mei@rayslice.example", "admin": False, "roles": {"vision": "member", "nlp": "lead"}, "scopes": ["read", "stop"]}


def test_account(capsys, monkeypatch):
    """Who asks, with what scopes: in a notebook, as text, and by rayslice-client whoami."""
    with Server(good(PERSON)) as server:
        account = server.portal.account()
        assert isinstance(account, Account) and (account.email, account.admin, account.roles["nlp"]) == ("mei@rayslice.example", False, "lead")
        assert account.scopes == ["read", "stop"] and account.may("stop") and not account.may("request")
        for shown in (str(account), account._repr_html_()):
            assert "lead of nlp, member of vision" in shown and "read, stop" in shown and "\u202e" not in shown
        assert "<b>" not in account._repr_html_()
        monkeypatch.setenv("RAYSLICE_URL", server.portal.transport.url)
        monkeypatch.setenv("RAYSLICE_TOKEN", "x")
        assert main(["whoami"]) == 0 and "mei@rayslice.example" in capsys.readouterr().out
        assert main(["whoami", "--json"]) == 0 and json.loads(capsys.readouterr().out) == PERSON
    person = Account({**PERSON, "scopes": None, "roles": {}, "admin": True})
    assert person.scopes is None and person.may("request") and "all that you may" in str(person) and "admin" in str(person)


def test_account_of_an_old_portal():
    """A portal that does not know who asks says that it is old; a token that may not, that it may not."""
    with Server(problem(404, code="not_found")) as server:
        with pytest.raises(NotFoundError) as refused:
            server.portal.account()
        assert refused.value.code == "no_account" and refused.value.status == 404 and "older" in refused.value.what_to_do
    with Server(problem(403, code="token_scope")) as server:
        with pytest.raises(ForbiddenError):
            server.portal.account()
