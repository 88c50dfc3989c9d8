"""Columns of text that line up, whatever the script: wide characters count two cells."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def cells(text: str) -> int:
    """Return the columns a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return text filled with blanks to `width` cells; a longer one stays as it is."""
    gap = " " * max(0, width - cells(text))
    return gap + text if right else text + gap


def clipped(text: str, width: int) -> str:
    """Return text of at most `width` cells, its cut marked with `…`."""
    if cells(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        used += cells(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def columns(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), gap: int = 2) -> list[str]:
    """Return rows as lines; `right`: numbers of the columns that are set to the right."""
    if not rows:
        return []
    widths = [max(cells(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        (" " * gap)
        .join(padded(cell, widths[n], right=n in right) for n, cell in enumerate(row))
        .rstrip()
        for row in rows
    ]
