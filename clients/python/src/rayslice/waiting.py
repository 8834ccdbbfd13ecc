"""Waits that outlive the portal's absences."""

from __future__ import annotations

import math
import random
from datetime import datetime, timezone
from typing import Callable, Optional, TypeVar

from .errors import BusyError, PortalError, UnreachableError, WaitTimeout
from .transport import Transport

T = TypeVar("T")

#: For how long there is no other try to be told of changes after the portal has refused one, in seconds.
CROWDED = 60.0


class Waiting:
    """One wait: it asks again while the portal is away, until its own time is over. ``since`` says since when there is no
    answer, UTC; ``None`` = there is one. ``what`` says how things stand, for the error at the end."""

    def __init__(self, transport: Transport, timeout: float, what: Callable[[], str], away: Optional[Callable[[], None]] = None) -> None:
        self._transport, self._timeout, self._what, self._away = transport, timeout, what, away
        self._until = transport.now() + timeout
        self.since: Optional[datetime] = None
        self._crowded_until, self._every = -math.inf, 0.0

    def left(self) -> float:
        """Seconds that are left; infinity when there is no end."""
        return self._until - self._transport.now()

    def ask(self, look: Callable[[], T]) -> T:
        """Call look, which asks the portal once, until there is an answer. A portal that is restarted, a network that is away,
        a proxy with nothing behind it are waited for; a refusal, and somebody else's answer, are raised."""
        tried, began = 0, None
        while True:
            try:
                found = look()
                self.since = None
                return found
            except (BusyError, UnreachableError) as err:
                if not err.passes and err.code != "no_such_host":  # it has answered before: the resolver is away
                    raise
                tried, began = tried + 1, began or datetime.now(timezone.utc)
                self._outlive(err, tried, began)

    def _outlive(self, err: PortalError, tried: int, began: datetime) -> None:
        absent = self.since or (None if err.status == 429 else began)  # "too often" is an answer
        if tried > 1 and self.since is None and absent:  # a single lost answer is no absence
            self.since = absent
            if self._away:
                self._away()
        self.pause(self._transport.pause_after(err, tried))
        if self.left() <= 0:
            self.since = absent
            raise self.over() from err

    def over(self) -> WaitTimeout:
        """The error of a wait whose time is over."""
        away = f" There has been no answer since {clock(self.since)}." if self.since else ""
        return WaitTimeout(f"{self._what()} after {self._timeout:g} s.{away}", "wait_timeout")

    def pause(self, seconds: float) -> None:
        """Do nothing for so long, or as long as is left."""
        self._transport.pause(max(0.0, min(seconds, self.left())))

    @property
    def crowded(self) -> bool:
        """Whether the portal has refused lately to hold an answer back."""
        return self._transport.now() < self._crowded_until

    def crowd(self, retry_after: float) -> None:
        """Remember that it has, and look only so often, in seconds."""
        self._crowded_until, self._every = self._transport.now() + CROWDED, max(2.0, retry_after)

    def pause_crowded(self) -> None:
        """Wait before the next look of a wait that is not told of changes."""
        self.pause(self._every * (1 + random.random() / 4))


def clock(then: datetime) -> str:
    """A time as the clock here shows it."""
    return f"{then.astimezone():%Y-%m-%d %H:%M}"
