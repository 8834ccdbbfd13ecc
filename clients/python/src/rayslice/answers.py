"""What the answers of the API must have, as far as this package reads them; everything else in them may change."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from .values import when


class Maybe(NamedTuple):
    """The same, or null."""

    shape: Any


class Time:
    """One of the API's times."""


#: A type, ``Maybe``, a list with what each entry is, or a dict with what each member is; "?" marks one that may be left out.
Shape = Any

CHARGE: Shape = {"gib": int, "cards": int}
QUOTA: Shape = {"team": str, "limit": CHARGE, "used": CHARGE, "held": CHARGE, "left": CHARGE}
REASON: Shape = Maybe({"text": str})

REQUEST: Shape = {
    "id": str, "name": str, "team": str, "state": str, "revision": int, "reason": REASON, "decided_by": Maybe(str), "answer": Maybe(str),
    "charge": CHARGE, "hours": int, "ends_at": Maybe(Time), "ray_version": str, "python_version?": str, "dashboard_url?": str,
    "groups": [{"name": str, "pool": str, "slice_gib": int, "workers": int}],
    "cluster": Maybe({"head_ready": bool, "workers_ready": int, "workers_wanted": int, "ray_version?": str, "connect?": {"client": str}}),
    "pending?": {"text": str, "stage?": str, "conditions?": [{"code": str}]},
    "verification?": {"enforcement": str, "workers": int, "enforced": int},
}
REQUESTS: Shape = {"requests": [REQUEST], "next": Maybe(str)}
PLAN: Shape = {
    "charge": CHARGE, "quota": QUOTA, "would_fit_quota": bool, "yaml": str,
    "decision": Maybe({"starts_at_once": bool, "text": str, "deciders": [str], "note?": str}),
}
OPTIONS: Shape = {"teams": [{
    "team": str, "quota": QUOTA,
    "pools": [{"name": str, "model": str, "card_gib": int, "sizes": [int], "whole": bool, "core_percent": bool, "open": bool, "closed": REASON}],
}]}
CAPACITY: Shape = {"pools": [{
    "pool": str, "model?": str, "mode": str, "offered?": bool, "blocked?": {"text": str}, "nodes": int, "cards": int, "gib": int, "given_gib": int, "free_gib": int, "free": int,
    "sizes": [{"slice_gib": int, "fits": Maybe(bool), "on_cards?": int, "text?": str}],
}], "observed_at?": Time, "pods_known?": bool}
USAGE: Shape = {"now": {"problem": REASON, "samples": [{
    "pod": str, "at": Time, "source": str, "used_mib": Maybe(float), "limit_mib": Maybe(float), "memory_grade": str, "percent": Maybe(float), "grade": str,
}]}}
VERIFICATION: Shape = {
    "workers": [{"pod": str, "verdict": Maybe(str), "certificate": Maybe({"at": Time, "judgement": {"reason": Maybe({"code?": str})}})}],
    "runs": [{"ended_at": Maybe(Time), "reason": REASON}],
}
AUDIT: Shape = {"entries": [{"at": Time, "actor": str, "action": str, "from?": str, "to?": str, "reason?": {"text": str}}]}
ACCOUNT: Shape = {"name": str, "email": str, "admin": bool, "roles": dict, "scopes": Maybe([str])}
JOB: Shape = {"status?": str, "message?": str}
SUBMITTED: Shape = {"submission_id?": str}
STOPPED: Shape = {"stopped?": bool}
JOBS: Shape = [{"submission_id?": str, "job_id?": str, "status?": str, "entrypoint?": str, "start_time?": int}]
LOGS: Shape = {"logs?": str}


def wrong(shape: Shape, data: Any, at: str = "") -> str:
    """Say what of an answer is not as it must be; "" = it is as it must be."""
    if isinstance(shape, Maybe):
        return "" if data is None else wrong(shape.shape, data, at)
    if isinstance(shape, dict):
        return _members(shape, data, at)
    if isinstance(shape, list):
        if not isinstance(data, list):
            return f"{at!r} is no list" if at else "its answer is no list"
        return next((found for i, entry in enumerate(data) if (found := wrong(shape[0], entry, f"{at}[{i}]"))), "")
    return "" if _is(shape, data) else f"{at!r} of its answer is not of its kind"


def _members(shape: Dict[str, Shape], data: Any, at: str) -> str:
    """What is wrong with an object; one that is none has none of its members."""
    for key, member in shape.items():
        name, given = key.rstrip("?"), data if isinstance(data, dict) else {}
        path = f"{at}.{name}".lstrip(".")
        if given.get(name) is None and key.endswith("?") and isinstance(data, dict):
            continue
        if name not in given:
            return f"its answer has no {path!r}"
        found = wrong(member, given[name], path)
        if found:
            return found
    return ""


def _is(kind: Any, data: Any) -> bool:
    if kind is Time:
        try:
            return isinstance(data, str) and when(data) is not None
        except (ValueError, OverflowError):
            return False
    if isinstance(data, bool):
        return kind is bool
    return isinstance(data, (int, float) if kind is float else kind)
