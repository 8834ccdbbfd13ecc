"""Arguments are looked at where they come in: one that cannot be meant is a FieldError that names it and says what can."""

from __future__ import annotations

import json
import math
from operator import index
from typing import Any, Dict, Mapping, Optional

from .errors import Field, FieldError

#: The longest that one answer may be waited for, in seconds.
LONGEST_ANSWER = 3600.0


def bad(name: str, value: Any, must: str, code: str = "type") -> FieldError:
    """Refuse an argument; must says what it has to be."""
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:79] + "…"
    return FieldError("Nothing was sent.", "invalid_argument", fields=[Field(name, code, f"{shown} is not {must}")], what_to_do="Change it and call again.")


def text(name: str, value: Any) -> str:
    """Some text that can be sent."""
    if not isinstance(value, str):
        raise bad(name, value, "text, a str")
    try:
        value.encode()
    except UnicodeError:
        raise bad(name, value, "text in Unicode: half a character is in it", "characters") from None
    return value


def whole(name: str, value: Any) -> int:
    """A whole number that is not below 0; numpy's too."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or index(value) < 0:
        raise bad(name, value, "a whole number, 0 or more")
    return index(value)


def seconds(name: str, value: Any) -> float:
    """A time that is not below 0; ``None`` and infinity are for as long as it takes."""
    if value is None:
        return math.inf
    return _real(name, value, "a number of seconds, 0 or more; None waits for as long as it takes")


def answer_time(name: str, value: Any) -> float:
    """How long one answer may take."""
    must = f"a number of seconds above 0, at most {LONGEST_ANSWER:.0f}"
    found = _real(name, value, must)
    if not 0 < found <= LONGEST_ANSWER:
        raise bad(name, value, must)
    return found


def _real(name: str, value: Any, must: str) -> float:
    try:
        found = math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not found >= 0:
        raise bad(name, value, must)
    return found


def members(name: str, value: Any) -> Dict[str, Any]:
    """A dict whose keys are text, as JSON has them; ``None`` is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise bad(name, value, 'a dict, e.g. {"NAME": "value"}')
    return {text(f"a key of {name}", key): as_json(f"{name}.{key}", each) for key, each in value.items()}


def as_json(name: str, value: Any) -> Any:
    """What has a form in JSON: numbers of numpy are numbers, NaN and sets have none."""
    try:
        return json.loads(json.dumps(value, default=number, allow_nan=False))
    except (TypeError, ValueError, OverflowError, RecursionError) as err:
        raise bad(name, value, f"JSON: {err}") from None


def number(value: Any) -> Any:
    """A number that is not Python's own, as one; TypeError for anything else."""
    if hasattr(value, "__index__"):
        return int(value)
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"no number, text, list or dict, but a {type(value).__name__}")


def choice(name: str, value: Any) -> Optional[Any]:
    """Whether to show progress, or what to call with it; ``None`` = neither."""
    if value is None or isinstance(value, bool) or callable(value):
        return value or None
    raise bad(name, value, "True, False or a function to call with the cluster")
