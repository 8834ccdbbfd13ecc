"""What can go wrong, each with a stable code and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Type

if TYPE_CHECKING:
    from .values import Charge


class PortalError(Exception):
    """Anything that went wrong between here and the portal.

    ``code`` is stable and for programs; ``detail`` is a sentence in the caller's language; ``status`` is the HTTP status, 0
    where there was none; ``request_id`` is what the portal's log has too; ``what_to_do`` says how to go on.
    """

    what_to_do = "Try again; if it stays so, tell an administrator the request id."

    def __init__(self, detail: str, code: str = "error", status: int = 0, request_id: str = "", what_to_do: str = "") -> None:
        super().__init__(detail)
        self.detail, self.code, self.status, self.request_id = detail, code, status, request_id
        if what_to_do:
            self.what_to_do = what_to_do

    def __str__(self) -> str:
        known = f" (request id {self.request_id})" if self.request_id else ""
        return f"{self.detail} [{self.code}]\n{self.what_to_do}{known}"


class UnreachableError(PortalError):
    """The portal cannot be reached, or what answers is no portal. ``passes`` says whether trying again may help."""

    what_to_do = "Look whether RAYSLICE_URL is the portal's address and whether this machine reaches it."

    def __init__(self, *args: Any, passes: bool = True, **named: Any) -> None:
        super().__init__(*args, **named)
        self.passes = passes


class SignInError(PortalError):
    """There is no token, or it is wrong, over or revoked."""

    what_to_do = "Make a token under your name in the portal, at Account, and set RAYSLICE_TOKEN to it."


class ForbiddenError(PortalError):
    """The token, or its person, may not do this. ``code`` is ``token_scope`` where another token of yours might; else ``detail``,
    and so ``what_to_do``, says who may."""

    what_to_do = "Ask a lead of the team, or an administrator."

    def __init__(self, detail: str, code: str = "error", *args: Any, **named: Any) -> None:
        super().__init__(detail, code, *args, **named)
        if code == "token_scope":
            self.what_to_do = "Make it under your name in the portal, at Account, and set RAYSLICE_TOKEN to it."
        elif not code.startswith("http_"):  # the portal's own words
            self.what_to_do = detail

    def __str__(self) -> str:
        return super().__str__().replace(f"\n{self.detail}", "", 1) if self.what_to_do == self.detail else super().__str__()


class NotFoundError(PortalError):
    """There is no such thing, or it is another team's: the portal does not say which."""

    what_to_do = "Look at portal.clusters() for what there is."


class ConflictError(PortalError):
    """It does not fit what is true by now, e.g. the request has been decided meanwhile."""

    what_to_do = "Call cluster.refresh() and look at what has changed."


class BusyError(PortalError):
    """Too many requests, or the portal cannot answer now. ``retry_after`` is in seconds."""

    what_to_do = "Wait, then try again."
    passes = True

    def __init__(self, *args: Any, retry_after: float = 5.0, **named: Any) -> None:
        super().__init__(*args, **named)
        self.retry_after = retry_after


@dataclass(frozen=True)
class Field:
    """One bad field: its name in what was sent, a stable code and a sentence; ``argument`` is the argument of
    :meth:`rayslice.Portal.request` that it comes from, "" where it is none's or has the same name."""

    field: str
    code: str
    detail: str
    argument: str = ""

    def __str__(self) -> str:
        name = f"{self.argument} ({self.field})" if self.argument else self.field
        return f"{name}: {self.detail} [{self.code}]"

    def of_argument(self) -> "Field":
        """The same with the argument's name, of a wish with one worker group."""
        found = _ONE_GROUP.fullmatch(self.field)
        if not found:
            return self
        name = found["name"] or found["top"] or "head_" + found["head"]
        return replace(self, argument={"slice_gib": "slice", "per_pod": "cards"}.get(name, name))


_ONE_GROUP = re.compile(r"groups\[0\]\.(?P<name>\w+)|head\.(?P<head>\w+)|(?P<top>slice_gib|per_pod)")


class FieldError(PortalError):
    """Something that was asked for is not right; ``fields`` names every part that is not."""

    what_to_do = "Change these fields; portal.options() says what may be asked for."

    def __init__(self, *args: Any, fields: Optional[List[Field]] = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fields: List[Field] = fields or []

    @classmethod
    def of(cls, *fields: Field) -> "FieldError":
        """Refuse fields before the portal was asked."""
        return cls("Not a request yet.", "invalid_fields", fields=list(fields))

    def __str__(self) -> str:
        lines = [self.detail + f" [{self.code}]"] + [f"  {f}" for f in self.fields]
        return "\n".join(lines + [self.what_to_do])


class QuotaError(PortalError):
    """The team's quota does not allow it. The numbers are :class:`rayslice.Charge`: ``limit``, ``used`` (with ``held``, what
    waits for a decision), ``asked``, and ``left``, what would fit."""

    what_to_do = "Ask for no more than what is left, stop a cluster, or have a lead ask for more quota."

    def __init__(self, *args: Any, team: str = "", numbers: Optional[Mapping[str, "Charge"]] = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self.team = team
        numbers = numbers or {}
        self.limit, self.used, self.held = numbers.get("limit"), numbers.get("used"), numbers.get("held")
        self.asked, self.left = numbers.get("asked"), numbers.get("left")

    def __str__(self) -> str:
        if self._has_numbers():
            known = f" (request id {self.request_id})" if self.request_id else ""
            return f"{self.detail} [{self.code}]{known}"
        numbers = f"  asked {self.asked}; team {self.team} has {self.left} left of {self.limit} (used {self.used}, of it held {self.held})"
        return f"{self.detail} [{self.code}]\n{numbers}\n{self.what_to_do}"


    def _has_numbers(self) -> bool:
        """Whether the portal's sentence has the numbers, and so the advice too, as that of today's portals."""
        return self.limit is not None and bool({str(self.limit.gib), str(self.limit.cards)} & set(re.findall(r"\d+", self.detail)))


class NotReadyError(PortalError):
    """The cluster cannot be used yet."""

    what_to_do = "Call cluster.wait() first."


class EndedError(PortalError):
    """The cluster is over, or was refused: waiting for it is in vain."""

    what_to_do = "Ask for another one."


class ReturnedError(PortalError):
    """A lead has asked back: ``detail`` is the question."""

    what_to_do = "Answer with cluster.reply(\"…\"), then wait again."


class WaitTimeout(PortalError):
    """It took longer than the caller wanted to wait. The request stands."""

    what_to_do = "Wait again, or stop it."


class VersionError(PortalError):
    """Ray or Python here and on the cluster do not go together. ``what_to_do`` has the exact pin."""


_BY_STATUS: Dict[int, Type[PortalError]] = {401: SignInError, 403: ForbiddenError, 404: NotFoundError, 409: ConflictError, 422: FieldError}


def from_problem(status: int, problem: Mapping[str, Any], retry_after: Optional[str]) -> PortalError:
    """Turn the portal's problem details into the error that they are."""
    from .answers import CHARGE, wrong
    from .values import Charge

    named: Dict[str, Any] = {
        "code": str(problem.get("code") or f"http_{status}"), "status": status, "request_id": str(problem.get("request_id") or ""),
    }
    detail = str(problem.get("detail") or f"The portal answered with {status}.")
    if named["code"] == "over_quota":
        numbers = {name: Charge.read(problem[name]) for name in ("limit", "used", "held", "asked", "left") if not wrong(CHARGE, problem.get(name))}
        return QuotaError(detail, team=str(problem.get("team", "")), numbers=numbers, **named)
    if status in (429, 502, 503, 504):
        return BusyError(detail, retry_after=_seconds(retry_after), **named)
    if status in (413, 415) or status == 422:
        found = problem.get("errors")
        fields = [Field(str(f.get("field")), str(f.get("code")), str(f.get("detail"))) for f in found if isinstance(f, dict)] if isinstance(found, list) else []
        return FieldError(detail, fields=fields, **named)
    return _BY_STATUS.get(status, PortalError)(detail, **named)


def _seconds(text: Optional[str]) -> float:
    """Read Retry-After, seconds or a date, as at least 0 s and at most an hour; 5 s when it says nothing that is known."""
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        return float(min(3600, int(text[:9])))
    try:
        return min(3600.0, max(0.0, (parsedate_to_datetime(text) - datetime.now(timezone.utc)).total_seconds()))
    except (TypeError, ValueError, OverflowError):  # TypeError: of a date without a zone, and before Python 3.10 of what is no date
        return 5.0
