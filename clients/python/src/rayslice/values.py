"""Words and numbers that the portal and people both use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from operator import index
from typing import Any, Mapping, Optional, Union

from .errors import Field, FieldError

#: The package's, as pyproject.toml has it.
__version__ = "0.1.0"


@dataclass(frozen=True)
class Charge:
    """What a request costs, or a team may hold: GiB of slices and whole cards, counted apart."""

    gib: int
    cards: int

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Charge":
        """Read the API's form."""
        return cls(int(data["gib"]), int(data["cards"]))

    def __str__(self) -> str:
        parts = [f"{self.gib} GiB"] if self.gib or not self.cards else []
        if self.cards:
            parts.append(f"{self.cards} card" + ("s" if self.cards != 1 else ""))
        return " + ".join(parts)


#: ``slice=WHOLE_CARD`` asks for whole cards.
WHOLE_CARD = "card"

_SLICE = re.compile(r"([0-9]{1,6}) ?(?:GiB)?")


def slice_gib(value: Union[str, int, None]) -> Optional[int]:
    """Read the size of a slice: ``"8GiB"`` or ``8`` is 8 GiB of one card, ``"card"`` whole cards (0), ``None`` no GPU.

    Raises FieldError for anything else: a slice is whole GiB, never ``10G``, ``8.5`` or a fraction of a card.
    """
    if value is None:
        return None
    if hasattr(value, "__index__") and not isinstance(value, bool) and index(value) > 0:  # numpy's whole numbers too
        return index(value)
    if isinstance(value, str):
        if value.strip().lower() == WHOLE_CARD:
            return 0
        found = _SLICE.fullmatch(value.strip())
        if found and int(found.group(1)) > 0:
            return int(found.group(1))
    raise FieldError.of(
        Field("slice", "type", f"{value!r} is no size: write whole GiB of one card, e.g. slice=\"8GiB\", or slice=\"card\"")
    )


def when(text: Optional[str]) -> Optional[datetime]:
    """Read one of the API's times, which are UTC; ``None`` stays ``None``."""
    if not text:
        return None
    text = re.sub(r"\.(\d{6})\d+", r".\1", text.replace("Z", "+00:00"))  # nanoseconds are more than datetime takes
    if "." in text:  # before Python 3.11 fromisoformat wants three or six digits
        text = re.sub(r"\.(\d{1,6})", lambda m: "." + m.group(1).ljust(6, "0"), text)
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def ago(then: Optional[datetime], now: Optional[datetime] = None) -> str:
    """Say how far a time is away: "3 min ago", "in 2 h"; "never" for ``None``."""
    if then is None:
        return "never"
    seconds = ((now or datetime.now(timezone.utc)) - then).total_seconds()
    size, unit = abs(seconds), "s"
    for length, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if size >= length:
            size, unit = size / length, name
            break
    text = f"{size:.0f} {unit}"
    return f"in {text}" if seconds < 0 else f"{text} ago"
