"""The portal, as one person's token sees it."""

from __future__ import annotations

import os
import re
import uuid
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import answers, arguments, faults
from .cluster import Cluster, ClusterList
from .errors import Field, FieldError, NotFoundError
from .reports import Account, Capacity, Options, Plan, closed_why
from .transport import Answer, Transport
from .values import slice_gib


#: What is said once, when nothing says that a GPU is wanted.
NO_GPU = 'slice was left out, so the workers have no GPU; for one of 8 GiB each write slice="8GiB", for whole cards slice="card"'

_LANGUAGE = re.compile(r"[A-Za-z0-9-]{1,35}")
_ID = re.compile(r"[A-Za-z0-9]{1,64}")
_KEY = re.compile(r"[!-~]{1,255}")


class Portal:
    """A rayslice portal, in the name of the person whose token it is.

    ``url`` and ``token`` default to ``RAYSLICE_URL`` and ``RAYSLICE_TOKEN``, ``team`` to ``RAYSLICE_TEAM`` and then to your only
    one. ``timeout`` is for one answer, in seconds. ``language`` is that of sentences, e.g. ``"zh-CN"``. Raises SignInError or
    UnreachableError at once when one of them is missing; the portal is asked only when something is.
    """

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, team: Optional[str] = None, timeout: float = 30.0, language: str = "") -> None:
        url = faults.check_url(arguments.text("url", url or os.environ.get("RAYSLICE_URL") or ""))
        if token is not None and not isinstance(token, str):
            raise FieldError.of(Field("token", "type", "a token is text, a str"))  # and is never shown
        token = faults.check_token(token or os.environ.get("RAYSLICE_TOKEN") or "")
        if language and not _LANGUAGE.fullmatch(arguments.text("language", language)):
            raise arguments.bad("language", language, 'a language tag, e.g. "en" or "zh-CN"', "characters")
        self.team = arguments.text("team", team or os.environ.get("RAYSLICE_TEAM") or "")
        self.transport = Transport(url, token, arguments.answer_time("timeout", timeout), language)
        self._warned = False  # that a cluster has no GPU

    def account(self) -> Account:
        """Whose token it is: their teams and roles, and the scopes of the token. Raises NotFoundError of a portal that is too
        old to say so."""
        try:
            return Account(self.transport.send("GET", "/api/v1/account", again=True, expects=answers.ACCOUNT).data)
        except NotFoundError as err:
            raise NotFoundError(
                "This portal does not say who asks.", "no_account", err.status, err.request_id,
                what_to_do="It is older than this client: have it upgraded, or look under your name in the portal, at Account.",
            ) from err

    def options(self) -> Options:
        """What you may ask for: sizes, pools, images, quota and limits, by team."""
        return Options(self.transport.send("GET", "/api/v1/options", again=True, expects=answers.OPTIONS).data)

    def capacity(self) -> Capacity:
        """What would fit now, by pool and size."""
        return Capacity(self.transport.send("GET", "/api/v1/capacity", again=True, expects=answers.CAPACITY).data)

    def request(
        self, slice: Union[str, int, None] = None, workers: int = 1, hours: Optional[int] = None, purpose: str = "", *, name: str = "",
        key: Optional[str] = None, **more: Any,
    ) -> Cluster:
        """Ask for a cluster and return it, at once: :meth:`Cluster.wait` waits for it.

        ``slice`` is ``"8GiB"`` (GiB of one card) or ``"card"`` (whole cards); left out, the workers have no GPU, of which a
        UserWarning tells once where neither ``pool`` nor ``groups`` is given. ``workers`` is how many workers get one each,
        ``hours`` the lifetime from approval, the portal's default when ``None``. ``name`` is for people; left out, the
        purpose is. ``key`` makes asking twice ask once: the same key with the same wish is the same cluster, also from another
        kernel; left out, each call is a wish of its own, and only its own retries are recognised.

        ``more`` may have ``team``, ``pool``, ``image``, ``cards`` (per worker, for whole cards), ``core_percent``, ``min_workers``
        and ``max_workers``, ``cpu`` and ``memory_gib`` (of a worker), ``head_cpu`` and ``head_memory_gib``, ``env``, ``spread``,
        ``ray_version``, ``pull_secrets``, and ``groups`` (several worker groups as the API has them).

        Raises QuotaError with the numbers when the quota does not allow it, and FieldError with every bad field.
        """
        if key is not None and not _KEY.fullmatch(arguments.text("key", key)):
            raise arguments.bad("key", key, "a key: 1 to 255 visible ASCII characters", "characters")
        draft = self.draft(slice, workers, hours, purpose, name=name, **more)
        headers = {"Idempotency-Key": key or f"python-{uuid.uuid4()}"}
        answer = self._post(draft, headers=headers, expects=answers.REQUEST)
        return Cluster(self, answer.data, answer.etag)

    def plan(self, slice: Union[str, int, None] = None, workers: int = 1, hours: Optional[int] = None, purpose: str = "", *, name: str = "", **more: Any) -> Plan:
        """Say what :meth:`request` would cost and apply, and whether a lead would be asked. Nothing is written."""
        draft = self.draft(slice, workers, hours, purpose, name=name, **more)
        return Plan(self._post(draft, query={"dry_run": "true"}, expects=answers.PLAN).data)

    def _post(self, draft: Dict[str, Any], **named: Any) -> Answer:
        """Send a wish; bad fields get the names of the arguments, too, where there is one worker group."""
        if not self._warned and draft.keys().isdisjoint(("slice_gib", "pool", "groups")):
            self._warned = True
            warnings.warn(NO_GPU, UserWarning, stacklevel=3)
        try:
            return self.transport.send("POST", "/api/v1/requests", draft, again=True, **named)
        except FieldError as err:
            if "groups" not in draft:
                err.fields = [field.of_argument() for field in err.fields]
            raise

    def cluster(self, id: str) -> Cluster:
        """One cluster by its id. Raises NotFoundError when there is none, or when it is another team's."""
        id = arguments.text("id", id).strip()
        id = id[len("rs-"):] if id.startswith("rs-") else id  # the RayCluster's name has it too
        if not _ID.fullmatch(id):
            raise arguments.bad("id", id, "the id of a cluster: letters and digits, as portal.clusters() has them", "characters")
        answer = self.transport.send("GET", f"/api/v1/requests/{id}", again=True, expects=answers.REQUEST)
        return Cluster(self, answer.data, answer.etag)

    def clusters(self, state: Union[str, Sequence[str]] = "live", team: str = "", search: str = "", mine: bool = False, most: int = 200) -> ClusterList:
        """The clusters you may see, newest first, at most ``most`` of them. ``state`` is one or several of the states, ``"live"``
        for all that are not over, ``""`` for every one; ``search`` is a part of the name."""
        if not isinstance(state, (str, Sequence)):
            raise arguments.bad("state", state, 'a state or a list of them, e.g. "live" or ["pending", "ready"]')
        states = [arguments.text("state", each) for each in ([state] if isinstance(state, str) else state)]
        most, team, search = arguments.whole("most", most), arguments.text("team", team), arguments.text("search", search)
        query: Dict[str, Any] = {"state": [s for s in states if s] or None, "team": team or None, "q": search or None, "mine": "1" if mine else None}
        found, cursor = ClusterList(), None
        while len(found) < most:
            query.update(cursor=cursor, limit=min(100, most - len(found)))
            page = self.transport.send("GET", "/api/v1/requests", query=query, again=True, expects=answers.REQUESTS).data
            found.extend(Cluster(self, data) for data in page["requests"])
            cursor = page["next"]
            if cursor is None or not page["requests"]:
                break
        return found

    def draft(self, slice: Union[str, int, None], workers: int, hours: Optional[int], purpose: str, *, name: str = "", team: str = "", **more: Any) -> Dict[str, Any]:
        """The API's form of a wish: what was left out is taken from the options, and what no team offers is refused here."""
        gib, purpose, name = slice_gib(slice), arguments.text("purpose", purpose), arguments.text("name", name)
        team = arguments.text("team", team or self.team)
        more = {key: arguments.as_json(key, value) for key, value in more.items()}
        if "env" in more:
            more["env"] = arguments.members("env", more["env"])
        workers, hours = arguments.as_json("workers", workers), arguments.as_json("hours", hours)
        options = self.options()
        team = team or _only(options.teams)
        draft: Dict[str, Any] = {"team": team, "name": name or (purpose.strip().splitlines() or ["notebook"])[0][:80], "purpose": purpose, "workers": workers}
        if hours is not None:
            draft["hours"] = hours
        head = {key[len("head_"):]: more.pop(key) for key in ("head_cpu", "head_memory_gib") if key in more}
        if head:
            draft["head"] = head
        if "groups" in more:
            del draft["workers"]
        elif gib is not None:
            draft["pool"] = more.pop("pool", None) or _pool(options.team(team), gib)
            draft.update({"slice_gib": gib} if gib else {})
            if "cards" in more:
                draft["per_pod"] = more.pop("cards")
        draft.update(more)
        return draft

    def __repr__(self) -> str:
        return f"Portal({self.transport.url!r})"


def _only(teams: List[str]) -> str:
    if len(teams) != 1:
        text = f"say for which of your teams: {', '.join(teams)}" if teams else "you are in no team; ask a lead to add you"
        raise FieldError.of(Field("team", "required", text))
    return teams[0]


def _pool(team: Mapping[str, Any], gib: int) -> str:
    """The first pool that is open and offers the size; 0 GiB is a whole card."""
    fitting = [p for p in team["pools"] if (p["whole"] if gib == 0 else gib in p["sizes"]) and not p["core_percent"]]
    for pool in fitting:
        if pool["open"]:
            return str(pool["name"])
    if fitting:
        raise FieldError.of(Field("pool", "pool_closed", closed_why(fitting[0])))
    what = "whole cards" if gib == 0 else f"slices of {gib} GiB"
    offers = "; ".join(f"{p['name']}: " + ("whole cards" if p["whole"] else ", ".join(map(str, p["sizes"])) + " GiB") for p in team["pools"])
    raise FieldError.of(Field("slice", "size_not_offered", f"no pool of team {team['team']} offers {what}; there are {offers or 'none'}"))
