"""Jobs on a cluster, through the portal's way in and Ray's Jobs API."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from . import show
from .errors import EndedError, WaitTimeout

if TYPE_CHECKING:
    from .cluster import Cluster

#: What Ray calls a job that is over.
_OVER = {"SUCCEEDED", "FAILED", "STOPPED"}


class Job:
    """One job: ``id`` is Ray's submission id."""

    def __init__(self, cluster: "Cluster", id: str, entrypoint: str = "") -> None:
        self.cluster, self.id, self.entrypoint = cluster, id, entrypoint

    def _get(self, path: str = "") -> Any:
        return self.cluster.jobs_api("GET", f"/api/jobs/{self.id}{path}", again=True)

    def info(self) -> Dict[str, Any]:
        """All that Ray says about it."""
        return dict(self._get())

    def status(self) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED: Ray's words."""
        return str(self.info().get("status"))

    def logs(self) -> str:
        """What it has printed so far."""
        return str((self._get("/logs") or {}).get("logs", ""))

    def stop(self) -> None:
        """Stop it. Stopping twice is stopping once."""
        self.cluster.jobs_api("POST", f"/api/jobs/{self.id}/stop", again=True)

    def wait(self, timeout: Optional[float] = None, every: float = 1.0) -> str:
        """Wait until it is over, at most ``timeout`` seconds, and return its status. Raises EndedError when it has failed or
        was stopped, with what Ray says, and WaitTimeout when it takes longer."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            info = self.info()
            status = str(info.get("status"))
            if status == "SUCCEEDED":
                return status
            if status in _OVER:
                raise EndedError(f"job {self.id} {status}: {info.get('message') or ''}", "job_" + status.lower(), what_to_do="Look at job.logs().")
            if until is not None and time.monotonic() >= until:
                raise WaitTimeout(f"job {self.id} is {status} after {timeout:g} s.", "wait_timeout")
            time.sleep(every)

    def __repr__(self) -> str:
        return show.plain(f"Job {self.id} on {self.cluster.name}: {self.entrypoint}")

    def _repr_html_(self) -> str:
        return f"<p>Job <code>{show.escape(self.id)}</code> on {show.escape(self.cluster.name)}: <code>{show.escape(self.entrypoint)}</code></p>"
