"""Ray clusters by GPU slice, from a notebook or a script.

    from rayslice import Portal
    portal = Portal()                                  # RAYSLICE_URL, RAYSLICE_TOKEN
    with portal.request(slice="8GiB", workers=2, hours=8, purpose="ablation") as cluster:
        cluster.wait()
        cluster.submit("python train.py")

Sizes are whole GiB, lifetimes whole hours, waits seconds, times ``datetime`` in UTC. What is not known is ``None`` and never
zero. Everything that goes wrong is a :class:`PortalError` with a stable ``code`` and, in ``what_to_do``, a remedy.
"""

from .cluster import Cluster, ClusterList
from .errors import (
    BusyError,
    ConflictError,
    EndedError,
    Field,
    FieldError,
    ForbiddenError,
    NotFoundError,
    NotReadyError,
    PortalError,
    QuotaError,
    ReturnedError,
    SignInError,
    UnreachableError,
    VersionError,
    WaitTimeout,
)
from .job import Job
from .portal import Portal
from .reports import Account, Audit, Capacity, Jobs, Options, Plan, Usage, Verification
from .values import Charge, __version__

__all__ = [
    "Account", "Audit", "BusyError", "Capacity", "Charge", "Cluster", "ClusterList", "ConflictError", "EndedError", "Field", "FieldError",
    "ForbiddenError", "Job", "Jobs", "NotFoundError", "NotReadyError", "Options", "Plan", "Portal", "PortalError", "QuotaError",
    "ReturnedError", "SignInError", "UnreachableError", "Usage", "Verification", "VersionError", "WaitTimeout",
    "__version__",
]
