"""Tables for the terminal, HTML for notebooks. Everything that comes from people or from Kubernetes is escaped."""

from __future__ import annotations

import html
import re
from typing import Iterable, List, Sequence, Tuple

__all__ = ["COLOURS", "Markup", "bar", "escape", "html_table", "plain", "table", "text_bar"]

#: Colours that are legible on light and on dark.
COLOURS = {"used": "#8795a5", "held": "#b65cd6", "asked": "#2f6fed", "over": "#d1372d", "ready": "#2f9e64", "wait": "#2f6fed", "bad": "#d1372d"}

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: object) -> str:
    """Text that cannot move a terminal's cursor or turn its writing around."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


def escape(text: object) -> str:
    """The same in HTML."""
    return html.escape(plain(text))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns of text."""
    cells = [[plain(c).replace("\n", " ") for c in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head)] + cells) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in [list(head)] + cells)


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The same as HTML; a cell of type :class:`Markup` is HTML already."""
    def cell(c: object) -> str:
        return c if isinstance(c, Markup) else escape(c)

    top = "".join(f"<th style='text-align:left'>{escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td style='text-align:left'>{cell(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


class Markup(str):
    """HTML that was escaped where it had to be."""


def bar(parts: Sequence[Tuple[str, float]], whole: float, label: str) -> Markup:
    """A bar of coloured parts; what is over the whole is red at its end. label says the same in words."""
    pieces: List[str] = []
    filled = 0.0
    for name, size in parts:
        share = max(0.0, min(size, whole - filled)) / whole * 100 if whole > 0 else 0.0
        filled += size
        pieces.append(f"<span style='display:inline-block;height:100%;width:{share:.2f}%;background:{COLOURS[name]}'></span>")
    end = f";border-right:4px solid {COLOURS['over']}" if filled > whole else ""
    return Markup(
        f"<span role='img' aria-label='{escape(label)}' title='{escape(label)}' style='display:inline-block;width:12em;height:.8em;"
        f"background:rgba(128,128,128,.25);border-radius:3px;overflow:hidden;white-space:nowrap;font-size:1em;line-height:0{end}'>{''.join(pieces)}</span> "
        f"<span>{escape(label)}</span>"
    )


def text_bar(done: int, whole: int, width: int = 20) -> str:
    """A bar of characters."""
    full = 0 if whole <= 0 else min(width, round(width * done / whole))
    return "█" * full + "░" * (width - full)
