"""From a server's rows to hits: ours only, each memory once, above the floor if one is asked for.

Idea: every server answers in rows of its own; an adapter reads what it needs of a row into a
`Row`, and the rest is the same for all. Trap: one memory may come back as several facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openmem.memory.providers.base import Ask, Hit
from openmem.memory.providers.likeness import relevant


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of an answer. `id`: ours, "" for what we did not put there. `text`: as the server
    holds it."""

    id: str
    text: str
    score: float
    kind: str = ""
    session_id: str = ""


def hits_of(rows: Sequence[Row], ask: Ask) -> list[Hit]:
    """Return at most `ask.limit` hits in the order of the rows."""
    wanted = [row for row in rows if row.id and _is_wanted(row, ask)]
    if ask.has_floor and wanted:
        marks = relevant(ask.text, [row.text for row in wanted])
        wanted = [row for row, is_relevant in zip(wanted, marks, strict=True) if is_relevant]
    best: dict[str, Hit] = {}
    for row in wanted:
        if row.id not in best:
            best[row.id] = Hit(id=row.id, score=row.score)
    return list(best.values())[: ask.limit]


def _is_wanted(row: Row, ask: Ask) -> bool:
    if ask.kinds and row.kind and row.kind not in ask.kinds:
        return False
    is_own = ask.without_session and row.session_id == ask.without_session
    return not (is_own and row.kind == "passage")


_TOKENS = 400  # Hindsight refuses questions of more than 500


def question_of(text: str) -> str:
    """Return the part of a question that a server is asked; "" when nothing can be asked."""
    from openmem.memory.providers.wire import sendable

    left = float(_TOKENS)
    kept: list[str] = []
    for character in sendable(text).strip():
        left -= 0.35 if character.isascii() else 1.5
        if left < 0:
            break
        kept.append(character)
    words = "".join(kept).strip()
    return words if any(character.isalnum() for character in words) else ""
