"""What is shown of a row: whole lines, and only a very long line is cut.

Trap: cutting between two code points of one character (a joined emoji, a letter with a mark) shows
something else than was said.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from openmem.context.search.lookup import Line

LINE_CHARACTERS = 2_000
EXCERPT_CHARACTERS = 4_000
LINES_SHOWN = 12
GAP = "…"
_JOINER = "\u200d"


def excerpt_of(lines: Sequence[Line], texts: Sequence[str]) -> str:
    """Return the lines in order, whole, with "…" on a line of its own where some are left out.

    `texts`: what was looked for; a line that has to be cut is cut round the first of them.
    """
    shown: list[str] = []
    previous = 0
    for line in lines:
        if previous and line.number > previous + 1:
            shown.append(GAP)
        shown.append(cut_line(line.text, texts))
        previous = line.number
    return "\n".join(shown)


def best_lines(matches: Sequence[Sequence[int]]) -> list[int]:
    """Return which lines to show: those with most terms, then the first ones; in order.

    `matches`: for each term, the numbers of the lines that hold it.
    """
    counts: dict[int, int] = {}
    for numbers in matches:
        for number in numbers:
            counts[number] = counts.get(number, 0) + 1
    best = sorted(counts, key=lambda number: (-counts[number], number))
    return sorted(best[:LINES_SHOWN])


def fit(lines: Sequence[Line]) -> list[Line]:
    """Return as many of the lines as an excerpt holds, at least one."""
    kept: list[Line] = []
    room = EXCERPT_CHARACTERS
    for line in lines:
        room -= min(len(line.text), LINE_CHARACTERS) + 1
        if kept and room < 0:
            break
        kept.append(line)
    return kept


def head_of_text(text: str, characters: int) -> str:
    """Return the first lines of a text, whole as far as they fit, with "…" for what is left out."""
    if len(text) <= characters:
        return text
    lines: list[str] = []
    room = characters
    for line in text[: characters + 1].split("\n")[:-1]:
        lines.append(line)
        room -= len(line) + 1
    if lines and any(line.strip() for line in lines):
        return "\n".join([*lines, GAP])
    return cut_at(text, characters) + GAP


def cut_line(text: str, wanted: Sequence[str]) -> str:
    """Return a line, cut round the first of the wanted texts if it is very long."""
    if len(text) <= LINE_CHARACTERS:
        return text
    lowered = text.lower()
    places = [place for word in wanted if (place := lowered.find(word.lower())) >= 0]
    start = max(0, min(places, default=0) - LINE_CHARACTERS // 4)
    # Lower-casing can change a text's length; the place is then only near, which is enough.
    start = _boundary(text, min(start, len(text) - LINE_CHARACTERS))
    end = start + len(cut_at(text[start:], LINE_CHARACTERS))
    return (GAP if start else "") + text[start:end] + (GAP if end < len(text) else "")


def cut_at(text: str, characters: int) -> str:
    """Return the first characters of a text, none of them cut in two."""
    return text[: _boundary(text, characters)]


def _boundary(text: str, at: int) -> int:
    """Return the nearest place at or before `at` where one character ends and another begins."""
    if at >= len(text):
        return len(text)
    while at > 0 and (_continues(text[at]) or text[at - 1] == _JOINER):
        at -= 1
    return at


def _continues(character: str) -> bool:
    return (
        character == _JOINER
        or unicodedata.combining(character) != 0
        or unicodedata.category(character) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )
