"""Jobs on a cluster, through the portal's way in and Ray's Jobs API."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any, Dict, Optional

from . import answers, arguments, show
from .errors import BusyError, EndedError, UnreachableError
from .transport import PATIENCE
from .waiting import Waiting

if TYPE_CHECKING:
    from .cluster import Cluster

#: What Ray calls a job that is over.
_OVER = {"SUCCEEDED", "FAILED", "STOPPED"}


class Job:
    """One job: ``id`` is Ray's submission id. It shows the status that was last seen; :meth:`status` asks."""

    def __init__(self, cluster: "Cluster", id: str, entrypoint: str = "") -> None:
        self.cluster, self.id, self.entrypoint = cluster, id, entrypoint
        self._said = ""  # the status that was last seen

    def _send(self, method: str = "GET", path: str = "", expects: answers.Shape = None, patience: float = PATIENCE) -> Any:
        return self.cluster.head_says(method, f"/api/jobs/{urllib.parse.quote(self.id, safe='')}{path}", expects=expects, patience=patience)

    def info(self) -> Dict[str, Any]:
        """All that Ray says about it."""
        return self._ask()

    def _ask(self, patience: float = PATIENCE) -> Dict[str, Any]:
        found = dict(self._send(expects=answers.JOB, patience=patience))
        self._said = str(found.get("status") or "")
        return found

    def status(self) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED: Ray's words."""
        return str(self.info().get("status"))

    def logs(self) -> str:
        """What it has printed so far."""
        return str(self._send(path="/logs", expects=answers.LOGS).get("logs") or "")

    def stop(self) -> None:
        """Stop it. Stopping twice is stopping once."""
        self._send("POST", "/stop", answers.STOPPED)

    def wait(self, timeout: Optional[float] = None, every: float = 1.0) -> str:
        """Wait until it is over, at most ``timeout`` seconds, ``None`` = for as long as it takes, and return its status; look
        ``every`` so many seconds. A portal that is away meanwhile is waited for. Raises EndedError when it has failed or was
        stopped, with what Ray says, or when its cluster is over, and WaitTimeout when it takes longer."""
        every, status = max(0.1, arguments.answer_time("every", every)), "unknown"
        waits = Waiting(self.cluster.portal.transport, arguments.seconds("timeout", timeout), lambda: f"job {self.id} is {status}")
        while True:
            info = waits.ask(self._look)
            status = str(info.get("status"))
            if status == "SUCCEEDED":
                return status
            if status in _OVER:
                raise EndedError(f"job {self.id} {status}: {info.get('message') or ''}", "job_" + status.lower(), what_to_do="Look at job.logs().")
            if waits.left() <= 0:
                raise waits.over()
            waits.pause(every)

    def _look(self) -> Dict[str, Any]:
        """Ask once; of a head that does not answer, whether its cluster is still there."""
        try:
            return self._ask(patience=0.0)
        except (BusyError, UnreachableError):
            self.cluster.still_there()
            raise

    def __repr__(self) -> str:
        said = f", {self._said}" if self._said else ""
        return show.plain(f"Job {self.id} on {self.cluster.name}{said}: {self.entrypoint}")

    def _repr_html_(self) -> str:
        said = f", <b>{show.escape(self._said)}</b>" if self._said else ""
        return f"<p>Job <code>{show.escape(self.id)}</code> on {show.escape(self.cluster.name)}{said}: <code>{show.escape(self.entrypoint)}</code></p>"
