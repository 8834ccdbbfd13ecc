"""What the portal says about capacity, options, plans, use and verification. Each shows itself as a table."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import show
from .errors import Field, FieldError
from .values import Charge, ago, when


class Report:
    """A part of an answer of the portal. ``data`` is all of it, as the API's specification describes it."""

    head: Sequence[str] = ()

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    def rows(self) -> List[Sequence[Any]]:
        """The table's rows."""
        raise NotImplementedError

    def note(self) -> str:
        """A line below the table; "" = nothing to say."""
        return ""

    def __str__(self) -> str:
        return "\n".join(part for part in (show.table(self.head, self.rows()), show.plain(self.note())) if part)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        note = self.note()
        below = f"<p>{show.escape(note)}</p>" if note else ""
        return show.html_table(self.head, self.html_rows()) + below

    def html_rows(self) -> List[Sequence[Any]]:
        """The rows of the HTML table, where bars may stand."""
        return self.rows()


class Options(Report):
    """What may be asked for, by team: sizes, pools, images, quota and limits."""

    head = ("team", "pool", "card", "slices, GiB", "now")

    @property
    def teams(self) -> List[str]:
        """Names of the teams you may ask in."""
        return [team["team"] for team in self.data["teams"]]

    def team(self, name: str) -> Dict[str, Any]:
        """All about one team; FieldError when you may not ask there."""
        found: Optional[Dict[str, Any]] = next((team for team in self.data["teams"] if team["team"] == name), None)
        if found is None:
            raise FieldError.of(Field("team", "team_unknown", f"{name!r} is none of your teams: {', '.join(self.teams) or 'you have none'}"))
        return found

    def quota(self, team: str) -> Charge:
        """What the team has left."""
        return Charge.read(self.team(team)["quota"]["left"])

    def rows(self) -> List[Sequence[Any]]:
        """One row per team and pool."""
        return [
            (team["team"], pool["name"], f"{pool['model']}, {pool['card_gib']} GiB",
             "whole cards" if pool["whole"] else ", ".join(map(str, pool["sizes"])), "open" if pool["open"] else closed_why(pool))
            for team in self.data["teams"] for pool in team["pools"]
        ]

    def _repr_html_(self) -> str:
        return show.html_table(("team", "quota"), [(team["team"], quota_bar(team["quota"])) for team in self.data["teams"]]) + super()._repr_html_()

    def note(self) -> str:
        """The quota of each team."""
        return "; ".join(f"{team['team']} has {Charge.read(team['quota']['left'])} left" for team in self.data["teams"])


def closed_why(pool: Mapping[str, Any]) -> str:
    """Why a pool may not be asked for."""
    return str((pool["closed"] or {}).get("text") or "closed")


def shut_why(pool: Mapping[str, Any]) -> str:
    """Why nobody may ask for a pool of the fleet, however much room it has; "" = they may."""
    why = (pool.get("blocked") or {}).get("text") or ""
    if pool.get("offered") is False:
        return "not offered" + (f": {why}" if why else "")
    return str(why)


class Capacity(Report):
    """What would fit now, by pool and size. ``None`` in "fits" is unknown, not no."""

    head = ("pool", "card", "size", "fits now")

    def rows(self) -> List[Sequence[Any]]:
        """One row per pool and size."""
        rows: List[Sequence[Any]] = []
        for pool in self.data["pools"]:
            for size in pool["sizes"]:
                what = f"{size['slice_gib']} GiB" if size["slice_gib"] else "card"
                rows.append((pool["pool"], pool.get("model") or "", what, shut_why(pool) or self._room(size)))
        return rows

    @staticmethod
    def _room(size: Mapping[str, Any]) -> str:
        """Whether and when one of a size fits; the portal's own sentence where it does not."""
        if not size["fits"]:
            return str(size.get("text") or ("unknown" if size["fits"] is None else "no"))
        cards = size.get("on_cards")
        return "yes" + (f", on {cards} card{'s' if cards != 1 else ''}" if cards else "")

    def _repr_html_(self) -> str:
        return show.html_table(("pool", "now"), [(pool["pool"], self._bar(pool)) for pool in self.data["pools"]]) + super()._repr_html_()

    def _bar(self, pool: Mapping[str, Any]) -> Any:
        """What is given of a pool and what is free, as far as that is known."""
        if not self.data.get("pods_known") or not pool.get("nodes"):
            return "unknown" if pool.get("nodes") else "no nodes"
        if pool["mode"] == "whole":
            whole, given, label = pool["cards"], pool["cards"] - pool["free"], f"{pool['free']} of {pool['cards']} cards free"
        else:
            whole, given, label = pool["gib"], pool["given_gib"], f"{pool['given_gib']} of {pool['gib']} GiB given, {pool['free_gib']} surely free"
        return show.bar([("used", given)], whole, label)

    def fits(self, gib: int) -> Optional[bool]:
        """Whether one slice of so many GiB fits somewhere now; ``None`` = unknown."""
        known = [size["fits"] for pool in self.data["pools"] if not shut_why(pool) for size in pool["sizes"] if size["slice_gib"] == gib]
        if any(known):
            return True
        return None if None in known or not known else False

    def note(self) -> str:
        """How old the figures are."""
        return f"read {ago(when(self.data.get('observed_at')))}"


class Plan(Report):
    """What a request would cost and apply, and whether somebody has to decide it. Nothing was written."""

    head = ("", "")

    @property
    def charge(self) -> Charge:
        """What it would cost."""
        return Charge.read(self.data["charge"])

    @property
    def fits_quota(self) -> bool:
        """Whether the quota allows it."""
        return bool(self.data["would_fit_quota"])

    @property
    def starts_at_once(self) -> Optional[bool]:
        """Whether no lead has to decide; ``None`` = it does not fit the quota, so nobody would."""
        decision = self.data["decision"]
        return None if decision is None else bool(decision["starts_at_once"])

    @property
    def yaml(self) -> str:
        """The RayCluster that would be applied."""
        return str(self.data["yaml"])

    def rows(self) -> List[Sequence[Any]]:
        """What it costs and what would follow."""
        quota, decision = self.data["quota"], self.data["decision"]
        rows: List[Sequence[Any]] = [("costs", self.charge), ("left", f"{Charge.read(quota['left'])} of {Charge.read(quota['limit'])} (team {quota['team']})")]
        rows.append(("then", decision["text"] if decision else "It does not fit the quota and would be refused."))
        if decision and decision["deciders"]:
            rows.append(("who decides", ", ".join(decision["deciders"])))
        if decision and decision.get("note"):
            rows.append(("missing", decision["note"]))
        return rows

    def html_rows(self) -> List[Sequence[Any]]:
        """The same with the portal's quota bar."""
        return [("quota", quota_bar(self.data["quota"], self.charge))] + self.rows()


def quota_bar(quota: Mapping[str, Any], asked: Optional[Charge] = None) -> show.Markup:
    """The portal's bar: used, held, asked; red where it is over."""
    limit, used, held = (Charge.read(quota[name]) for name in ("limit", "used", "held"))
    more = asked.gib if asked else 0
    label = f"{used.gib} of {limit.gib} GiB used" + (f", {held.gib} of it held" if held.gib else "") + (f", {more} asked" if more else "")
    return show.bar([("used", used.gib - held.gib), ("held", held.gib), ("asked", more)], limit.gib, label)


class Usage(Report):
    """What a cluster's slices use, with source and age. A figure that is only known of the whole card is never a slice's."""

    head = ("worker", "memory", "compute", "read")

    @property
    def samples(self) -> List[Dict[str, Any]]:
        """One reading per slice, the latest."""
        return list(self.data["now"]["samples"])

    def rows(self) -> List[Sequence[Any]]:
        """One row per slice."""
        return [(s["pod"], self._memory(s)[2], self._percent(s), f"{ago(when(s['at']))}, by {s['source']}") for s in self.samples]

    def html_rows(self) -> List[Sequence[Any]]:
        """The same with a bar of the memory."""
        rows: List[Sequence[Any]] = []
        for s, row in zip(self.samples, self.rows()):
            used, limit, label = self._memory(s)
            memory: Any = show.bar([("used", used)], limit, label) if used is not None and limit else label
            rows.append((row[0], memory) + tuple(row[2:]))
        return rows

    @staticmethod
    def _memory(sample: Mapping[str, Any]) -> Tuple[Any, Any, str]:
        used, limit = sample["used_mib"], sample["limit_mib"]
        if used is None:
            return None, limit, "unknown"
        return used, limit, f"{used / 1024:.1f} GiB" + (f" of {limit / 1024:.1f}" if limit else "") + _whole(sample["memory_grade"])

    @staticmethod
    def _percent(sample: Mapping[str, Any]) -> str:
        if sample["percent"] is None:
            return "unknown"
        return f"{sample['percent']:.0f} %" + _whole(sample["grade"])

    def note(self) -> str:
        """Why there was no answer to the last question, or that there is nothing yet."""
        problem = self.data["now"]["problem"]
        if problem is not None:
            return str(problem["text"])
        return "" if self.samples else "nothing has been read yet; the first reading usually comes within 30 s after the cluster is ready"


def _whole(grade: str) -> str:
    """A figure of the whole card is never shown as a slice's own."""
    return " (of the whole card)" if grade == "card" else ""


class Verification(Report):
    """Whether each worker's slice was seen to be enforced: enforced, not_enforced, inconclusive, out_of_date, or ``None``."""

    head = ("worker", "verdict", "why", "when")

    @property
    def workers(self) -> List[Dict[str, Any]]:
        """One per worker: ``pod``, ``verdict`` (``None`` = nobody has looked) and the ``certificate`` with its evidence."""
        return list(self.data["workers"])

    @property
    def enforced(self) -> Optional[bool]:
        """Whether every worker's slice was shown to be enforced; ``None`` = that is not known."""
        verdicts = {w["verdict"] for w in self.workers}
        if verdicts == {"enforced"}:
            return True
        return False if "not_enforced" in verdicts else None

    def rows(self) -> List[Sequence[Any]]:
        """One row per worker."""
        rows: List[Sequence[Any]] = []
        for w in self.workers:
            found = w["certificate"]
            why = (found["judgement"]["reason"] or {}).get("code", "") if found else ""
            rows.append((w["pod"], w["verdict"] or "unknown", why, ago(when(found["at"])) if found else ""))
        return rows

    def note(self) -> str:
        """Whether a run is under way, and why the last one brought nothing."""
        runs = self.data["runs"]
        if runs and runs[0]["ended_at"] is None:
            return "a verification is under way"
        if runs and runs[0]["reason"]:
            return str(runs[0]["reason"]["text"])
        return "" if any(w["certificate"] for w in self.workers) else "nothing has been verified yet"


class Entries(List[Dict[str, Any]]):
    """A list of what the API or Ray says, which shows itself as a table."""

    head: Sequence[str] = ()

    def row(self, entry: Mapping[str, Any]) -> Sequence[Any]:
        """One entry's row."""
        raise NotImplementedError

    def __str__(self) -> str:
        return show.table(self.head, map(self.row, self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return show.html_table(self.head, map(self.row, self))


class Jobs(Entries):
    """The jobs of a cluster, as Ray says."""

    head = ("id", "status", "started", "command")

    def row(self, entry: Mapping[str, Any]) -> Sequence[Any]:
        """Ray counts milliseconds since 1970."""
        try:
            started = ago(datetime.fromtimestamp(entry["start_time"] / 1000, timezone.utc))
        except (KeyError, TypeError, ValueError, OverflowError, OSError):  # it has not begun, or no calendar has that time
            started = "unknown"
        return entry.get("submission_id") or entry.get("job_id") or "", entry.get("status") or "unknown", started, entry.get("entrypoint") or ""


class Audit(Entries):
    """What happened to a cluster, oldest first."""

    head = ("when", "who", "what", "state", "why")

    def row(self, entry: Mapping[str, Any]) -> Sequence[Any]:
        """The state before and after, where it changed."""
        state = " → ".join(str(entry[name]) for name in ("from", "to") if entry.get(name))
        return ago(when(entry["at"])), entry["actor"], entry["action"], state, (entry.get("reason") or {}).get("text") or ""


class Account(Report):
    """Who asks, and what their token may do."""

    head = ("", "")

    @property
    def name(self) -> str:
        """Of the person whose token it is."""
        return str(self.data["name"])

    @property
    def email(self) -> str:
        """Theirs."""
        return str(self.data["email"])

    @property
    def admin(self) -> bool:
        """Whether they ask as an administrator of the portal, which no token does."""
        return bool(self.data["admin"])

    @property
    def roles(self) -> Dict[str, str]:
        """Team and role there, member or lead."""
        return {str(team): str(role) for team, role in self.data["roles"].items()}

    @property
    def scopes(self) -> Optional[List[str]]:
        """What the token may do: read, request, stop; ``None`` = all that its person may."""
        return None if self.data["scopes"] is None else [str(scope) for scope in self.data["scopes"]]

    def may(self, scope: str) -> bool:
        """Whether the token has a scope."""
        return self.scopes is None or scope in self.scopes

    def rows(self) -> List[Sequence[Any]]:
        """What is known of them."""
        roles = ", ".join(f"{role} of {team}" for team, role in sorted(self.roles.items())) or "none"
        scopes = "all that you may" if self.scopes is None else ", ".join(self.scopes) or "none"
        rows: List[Sequence[Any]] = [("name", self.name), ("email", self.email), ("teams", roles), ("scopes", scopes)]
        return rows + [("admin", "yes")] if self.admin else rows
