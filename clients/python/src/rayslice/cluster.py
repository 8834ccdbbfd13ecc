"""One cluster, from asking for it to its end."""

from __future__ import annotations

import math
import re
import sys
import time
import uuid
import warnings
from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, TextIO, Union

from . import answers, arguments, show, versions
from .errors import BusyError, EndedError, NotReadyError, PortalError, ReturnedError, UnreachableError, VersionError
from .job import Job
from .reports import Audit, Jobs, Usage, Verification
from .transport import PATIENCE
from .values import Charge, ago, when
from .waiting import Waiting, clock

if TYPE_CHECKING:
    from .portal import Portal

#: States that nothing can follow.
OVER = ("stopped", "rejected", "cancelled")
#: The longest the portal holds an answer back, in seconds.
LONGEST_WAIT = 50

#: For how long a line that differs only by how long something lasts is no news, in seconds.
NEWS = 10.0
#: How the portal's sentences say how long something lasts, in each of its languages, and those that say less than 5 s.
_LASTS = re.compile(r"(?:, for|，已等待) \d+ \w+(?: \d+ \w+)?(?: now)?")
_BLINK = re.compile(r"(?:, for|，已等待) [0-4] (?:s|秒)(?: now)?(?!\w)")

_METHOD, _PATH = re.compile(r"[A-Z]{1,16}"), re.compile(r"/[!-~]*")
_STEPS = ("pending", "approved", "provisioning", "ready")


class Cluster:
    """A request and its cluster, as the portal last said. ``data`` is the API's Request; :meth:`refresh` asks again.

    As a context manager it stops the cluster at the end, also after an error. ``unanswered`` is since when the portal has not
    answered a wait, UTC; ``None`` = it does.
    """

    unanswered: Optional[datetime] = None

    def __init__(self, portal: "Portal", data: Dict[str, Any], etag: str = "") -> None:
        self.portal, self.data, self.etag = portal, data, etag

    # What it is.

    @property
    def id(self) -> str:
        """Twelve letters and digits; its name in Kubernetes is made from it."""
        return str(self.data["id"])

    @property
    def name(self) -> str:
        """The name people gave it."""
        return str(self.data["name"])

    @property
    def team(self) -> str:
        """The team whose quota it is charged to."""
        return str(self.data["team"])

    @property
    def state(self) -> str:
        """pending, returned, approved, provisioning, ready, attention, stopping, stopped, rejected or cancelled."""
        return str(self.data["state"])

    @property
    def reason(self) -> Optional[str]:
        """Why the state is what it is, as a sentence; ``None`` = nothing to say."""
        reason = self.data["reason"]
        return None if reason is None else str(reason["text"])

    @property
    def waits_for(self) -> Optional[str]:
        """What it waits for, and who can do something about it, as a sentence; ``None`` = it is ready, or over."""
        pending = self.data.get("pending")
        return None if pending is None else str(pending["text"])

    @property
    def charge(self) -> Charge:
        """What it costs the team while it lives."""
        return Charge.read(self.data["charge"])

    @property
    def ends_at(self) -> Optional[datetime]:
        """When it ends by itself, UTC; ``None`` until it is approved."""
        return when(self.data["ends_at"])

    @property
    def ray_version(self) -> str:
        """The version of Ray on it: as it says itself where it has, else the image's."""
        return str((self.data["cluster"] or {}).get("ray_version") or self.data["ray_version"])

    @property
    def python_version(self) -> Optional[str]:
        """The version of Python in its image, ``"3.11"``; ``None`` = unknown."""
        return self.data.get("python_version")

    @property
    def enforcement(self) -> Optional[str]:
        """Whether its slices are enforced, the worst of its workers: enforced, inconclusive, out_of_date or not_enforced;
        ``None`` = nobody has looked yet. :meth:`verification` says why."""
        badge = self.data.get("verification")
        return None if badge is None else str(badge["enforcement"])

    @property
    def address(self) -> str:
        """For ``ray.init``, from inside the Kubernetes cluster. Ray and Python here are compared with the cluster's first;
        when they do not go together, the exact pin is printed. Raises NotReadyError before the cluster can be used, EndedError
        when it is over and ReturnedError when a lead has asked back."""
        connect = (self.data["cluster"] or {}).get("connect")
        self._usable()
        if not connect:
            raise NotReadyError(f"{self.name} is {self.state}, and its head does not answer yet.", "not_ready")
        try:
            self.check_versions()
        except VersionError as err:
            print(show.plain(err), file=sys.stderr)
        return str(connect["client"])

    @property
    def dashboard_url(self) -> str:
        """Address of the Ray dashboard and Jobs API, through the portal's sign-in. Raises NotReadyError where the portal has no
        such way in."""
        found = self.data.get("dashboard_url")
        if not found:
            raise NotReadyError("This portal offers no way to the dashboard.", "no_way_in", what_to_do="Ask an administrator to set RAYSLICE_CLUSTERS_DOMAIN, or use cluster.connect() from inside Kubernetes.")
        return str(found)

    def check_versions(self) -> None:
        """Raise VersionError, with the exact pin, when Ray or Python here and on the cluster do not go together."""
        wrong, pins = versions.compare(self.ray_version, self.python_version, versions.local_ray(), versions.local_python())
        if wrong:
            raise VersionError("; ".join(wrong) + ".", "versions_differ", what_to_do="To connect: " + "; ".join(pins))

    # What can be done with it.

    def refresh(self) -> "Cluster":
        """Ask the portal how it stands."""
        self._look(0)
        return self

    def _look(self, wait: int, patience: float = PATIENCE, within: float = math.inf) -> None:
        """Ask again, after a change when wait seconds are given."""
        headers = {"If-None-Match": self.etag} if self.etag else {}
        answer = self.portal.transport.send(
            "GET", f"/api/v1/requests/{self.id}", headers=headers, again=True, wait=wait, query={"wait": wait or None}, expects=answers.REQUEST,
            patience=patience, within=within,
        )
        if answer.status != 304:
            self.data, self.etag = answer.data, answer.etag

    def wait(self, timeout: Optional[float] = None, progress: Union[bool, Callable[["Cluster"], None]] = True) -> "Cluster":
        """Wait until it can be used, and return it.

        ``timeout`` is in seconds, ``None`` = for as long as it takes. ``progress`` is called with the cluster at each change;
        ``True`` shows it in the notebook or on the terminal, ``False`` is silent. A portal that does not answer, as while it is
        upgraded, is waited for, and ``progress`` says since when. The portal tells eight waits of one token of changes at once;
        any further one asks every few seconds. Raises EndedError when it was rejected, cancelled or stopped, ReturnedError when
        a lead has asked back, WaitTimeout when it takes longer, SignInError when the token ends meanwhile, and UnreachableError
        when somebody else answers.
        """
        shown = arguments.choice("progress", progress)
        told = _Progress() if shown is True else shown

        def tell() -> None:
            self.unanswered = waits.since
            if told:
                told(self)

        waits = Waiting(self.portal.transport, arguments.seconds("timeout", timeout), lambda: f"{self.name} is {self.state}", tell)
        try:
            waits.ask(lambda: self._look(0, 0.0, waits.left()))
            while True:
                tell()
                if self.state == "ready":
                    return self
                self._in_vain()
                if waits.left() <= 0:
                    raise waits.over()
                waits.ask(lambda: self._follow(waits))
        finally:
            self.unanswered = None

    def _follow(self, waits: Waiting) -> None:
        """Look again after a change; where too many wait for one already, after a while."""
        if not waits.crowded:
            left, before = waits.left(), self.data
            try:
                self._look(max(1, int(min(LONGEST_WAIT, left))), 0.0, left)
                if self.data == before and left - waits.left() < 1:  # it does not hold answers back
                    waits.pause(1.0)
                return
            except BusyError as err:
                if err.code != "too_many_streams":
                    raise
                waits.crowd(err.retry_after)
        waits.pause_crowded()
        self._look(0, 0.0, waits.left())

    def still_there(self) -> None:
        """Ask the portal once, and raise EndedError when the cluster is over, or ReturnedError when a lead has asked back."""
        self._look(0, 0.0)
        self._in_vain()

    def _usable(self) -> None:
        """Raise what says how to go on when it cannot be used: waiting helps only where something can follow."""
        self._in_vain()
        if self.state not in ("ready", "attention"):
            raise NotReadyError(f"{self.name} is {self.state}.", "not_ready")

    def _in_vain(self) -> None:
        if self.state == "returned":
            raise ReturnedError(f"{self.data['decided_by']} asks: {self.data['answer']}", "returned")
        if self.state in OVER or self.state == "stopping":
            raise EndedError(f"{self.name} is {self.state}." + (f" {self.reason}" if self.reason else ""), "ended_" + self.state)

    def reply(self, text: str) -> "Cluster":
        """Answer a lead who has asked back; the request waits for a decision again."""
        body = {"reply": arguments.text("text", text), "revision": self.data["revision"]}
        answer = self.portal.transport.send("POST", f"/api/v1/requests/{self.id}/reply", body, expects=answers.REQUEST)
        self.data, self.etag = answer.data, answer.etag
        return self

    def stop(self) -> "Cluster":
        """Stop it, or take the request back while it waits. Stopping twice is stopping once."""
        answer = self.portal.transport.send("POST", f"/api/v1/requests/{self.id}/stop", again=True, expects=answers.REQUEST)
        self.data, self.etag = answer.data, answer.etag
        return self

    def connect(self, **named: Any) -> Any:
        """``ray.init`` on the cluster, with ``named`` passed on. Raises VersionError, with the exact pin, when Ray or Python do
        not go together."""
        self.check_versions()
        import ray  # type: ignore[import-not-found, unused-ignore]  # only who connects needs it

        return ray.init(self.address, **named)

    def submit(self, entrypoint: str, env: Optional[Dict[str, str]] = None, runtime_env: Optional[Dict[str, Any]] = None) -> Job:
        """Run a command on the cluster, by Ray's Jobs API through the portal's way in. ``env`` are variables for it;
        ``runtime_env`` is Ray's. Raises NotReadyError before the cluster can be used, EndedError when it is over, ReturnedError
        when a lead has asked back, and PortalError for what Ray refuses."""
        self._usable()
        environment = arguments.members("runtime_env", runtime_env)
        if env is not None:
            environment["env_vars"] = {**arguments.members("runtime_env.env_vars", environment.get("env_vars")), **arguments.members("env", env)}
        id = "rayslice-" + uuid.uuid4().hex[:16]
        body = {"entrypoint": arguments.text("entrypoint", entrypoint), "submission_id": id, "runtime_env": environment}
        try:
            self.head_says("POST", "/api/jobs/", body, again=False, expects=answers.SUBMITTED)
        except (BusyError, UnreachableError) as err:  # perhaps only its answer was lost
            if not self._has_job(id):
                raise err
        return Job(self, id, entrypoint)

    def _has_job(self, id: str) -> bool:
        try:
            self.head_says("GET", f"/api/jobs/{id}", expects=answers.JOB)
        except PortalError:
            return False
        return True

    def jobs(self) -> Jobs:
        """What Ray says about the jobs of the cluster: a list of its dicts, shown as a table."""
        return Jobs(self.head_says("GET", "/api/jobs/", expects=answers.JOBS))

    def jobs_api(self, method: str, path: str, body: Any = None, again: bool = False) -> Any:
        """Call the cluster's Ray head through the portal's way in, and return its JSON or its text. The token is the portal's; the
        cluster never sees it."""
        return self.head_says(method, path, body, again=again, text=True)

    def head_says(
        self, method: str, path: str, body: Any = None, again: bool = True, expects: answers.Shape = None, text: bool = False, patience: float = PATIENCE,
    ) -> Any:
        """The same, for what is known of the answer; text is none unless it is said to be."""
        if not _METHOD.fullmatch(arguments.text("method", method)):
            raise arguments.bad("method", method, 'a method of HTTP, e.g. "GET"', "characters")
        if not _PATH.fullmatch(arguments.text("path", path)):
            raise arguments.bad("path", path, 'a path, e.g. "/api/jobs/": urllib.parse.quote() writes other characters', "characters")
        return self.portal.transport.send(method, self.dashboard_url.rstrip("/") + path, body, again=again, expects=expects, text=text, patience=patience).data

    def usage(self) -> Usage:
        """What its slices use now, each figure with its source and age."""
        return Usage(self.portal.transport.send("GET", f"/api/v1/clusters/{self.id}/usage", again=True, expects=answers.USAGE).data)

    def verification(self) -> Verification:
        """Whether the limit of each slice was seen to hold."""
        return Verification(self.portal.transport.send("GET", f"/api/v1/clusters/{self.id}/verification", again=True, expects=answers.VERIFICATION).data)

    def verify(self) -> None:
        """Have all workers verified now; :meth:`verification` says what was found. Raises ConflictError where nothing runs."""
        self.portal.transport.send("POST", f"/api/v1/clusters/{self.id}/verification", again=True, expects={"run": str})

    def audit(self) -> Audit:
        """What happened to it, oldest first: a list of the API's dicts, shown as a table."""
        return Audit(self.portal.transport.send("GET", f"/api/v1/requests/{self.id}/audit", again=True, expects=answers.AUDIT).data["entries"])

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.state in OVER:
            return
        try:
            self.stop()
        except Exception as err:
            if kind is None:
                raise
            _warn(show.plain(  # what went wrong inside is what is raised
                f"cluster {self.id} ({self.name}) could not be stopped and still runs: {err}\n"
                f"To stop it: portal.cluster({self.id!r}).stop(), or rayslice-client stop {self.id}"
            ))

    # How it shows itself.

    def progress_text(self) -> str:
        """One line: state, workers, head."""
        cluster, line = self.data["cluster"], self.state
        if cluster and self.state in ("provisioning", "ready", "attention"):
            joined, wanted = cluster["workers_ready"], cluster["workers_wanted"]
            line += f"  {show.text_bar(joined, wanted, 10)} {joined} of {wanted} workers"
            line += ", dashboard answers" if cluster["head_ready"] else ", head not ready"
        why = self._waits_a_while() or self.reason
        if self.unanswered:
            why = f"the portal has not answered since {clock(self.unanswered)}"
        return show.plain(line + (f"  {why}" if why else ""))

    def _waits_a_while(self) -> Optional[str]:
        """What it waits for, without for how long while that says nothing."""
        text = self.waits_for
        return text and _BLINK.sub("", text)

    def progress(self) -> Any:
        """What tells one step from the next: sentences that say how long something took are left out."""
        cluster, pending = self.data["cluster"] or {}, self.data.get("pending") or {}
        codes = [c["code"] for c in pending.get("conditions", ())]
        return self.state, cluster.get("workers_ready"), cluster.get("head_ready"), pending.get("stage"), codes, self.unanswered

    def facts(self) -> List[Sequence[Any]]:
        """Name and value of what is worth showing."""
        groups = ", ".join(f"{g['workers']} × {g['slice_gib']} GiB of {g['pool']}" if g["slice_gib"] else f"{g['workers']} × {g['name']}" for g in self.data["groups"])
        facts: List[Sequence[Any]] = [
            ("state", self.state), ("workers", groups), ("costs", f"{self.charge} of team {self.team}"),
            ("ends", ago(self.ends_at) if self.ends_at else f"{self.data['hours']} h after approval"),
            ("versions", f"Ray {self.ray_version}, Python {self.python_version or 'unknown'}"),
        ]
        if self.data.get("verification"):
            facts.append(("slices", self._slices()))
        if self.reason:
            facts.insert(1, ("why", self.reason))
        return facts

    def _slices(self) -> str:
        badge = self.data.get("verification")
        if badge is None:
            return "not verified"
        return f"{badge['enforcement'].replace('_', ' ')}, {badge['enforced']} of {badge['workers']}"

    def __repr__(self) -> str:
        return show.plain(f"Cluster {self.id} {self.name!r}: {self.progress_text()}")

    def __str__(self) -> str:
        return show.plain(self.name) + "\n" + show.table(("", ""), self.facts()).lstrip("\n")

    def _repr_html_(self) -> str:
        return f"<h4>{show.escape(self.name)} <small><code>{show.escape(self.id)}</code></small></h4>" + show.html_table(("", ""), [("", self._steps())] + self.facts())

    def _steps(self) -> show.Markup:
        cluster = self.data["cluster"]
        joined, wanted = (cluster["workers_ready"], cluster["workers_wanted"]) if cluster else (0, 0)
        at = _STEPS.index(self.state) if self.state in _STEPS else 0
        if self.state == "ready":
            return show.bar([("ready", 1)], 1, f"ready, {joined} of {wanted} workers")
        if self.state in OVER or self.state in ("stopping", "attention", "returned"):
            return show.bar([("bad" if self.state == "attention" else "used", 1)], 1, self.state)
        share = at + (joined / wanted if wanted and self.state == "provisioning" else 0)
        label = self.state + (f", {joined} of {wanted} workers" if wanted else "")
        return show.bar([("wait", share)], len(_STEPS) - 1, label)


def _warn(text: str) -> None:
    """Warn whoever leaves the with block; also where warnings are errors, which would hide theirs."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        print(text, file=sys.stderr)


class _Progress:
    """Shows how a cluster comes along: in place in a notebook, line by line elsewhere."""

    def __init__(self, to: Optional[TextIO] = None) -> None:
        self._to, self._handle = to or sys.stderr, None
        self._said: Any = None
        self._line, self._at = "", -math.inf

    def __call__(self, cluster: Cluster) -> None:
        line, new = cluster.progress_text(), cluster.progress()
        if new == self._said:
            return
        self._said = new
        display = _notebook_display()
        if display is None:
            bare, now = _LASTS.sub("", line), time.monotonic()
            if bare == self._line and now - self._at < NEWS:
                return
            self._line, self._at = bare, now
            print(f"{cluster.name}: {line}", file=self._to)
        elif self._handle is None:
            self._handle = display(cluster, display_id=True)
        else:
            self._handle.update(cluster)


def _notebook_display() -> Optional[Callable[..., Any]]:
    """IPython's display in a notebook, ``None`` elsewhere; IPython is never imported for it."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    found: Callable[..., Any] = display
    return found


class ClusterList(List[Cluster]):
    """Clusters, newest first; shows itself as a table."""

    head = ("id", "name", "team", "state", "slices", "costs", "ends")

    def _rows(self) -> Iterator[Sequence[Any]]:
        for c in self:
            yield c.id, c.name, c.team, c.state, c._slices() if c.state not in OVER else "", c.charge, ago(c.ends_at) if c.ends_at else "not yet known"

    def __str__(self) -> str:
        return show.table(self.head, self._rows()) if self else "no clusters"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return show.html_table(self.head, self._rows()) if self else "<p>no clusters</p>"
