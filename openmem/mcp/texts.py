"""How rows look in an answer: one line of where, then what was said, untouched.

A model copies values out of these texts, and counts lines in them. So a stored line stands alone,
without indent, mark or number, and what is ours stands on lines of its own.
"""

from __future__ import annotations

_PLAIN_KINDS = ("text", "tool_result")


def place_line(session_id: str, seq: int, role: str, name: str, kind: str, *facts: str) -> str:
    """Return the line above a row: an id that `smart_compact_get` takes, what the row is, facts.

    Empty facts are left out.
    """
    who = f"{role} {name}" if name else role
    if kind not in _PLAIN_KINDS:
        who += f" {kind}"
    return " · ".join(part for part in (f"{session_id}:{seq}", who, *facts) if part)


def removed(in_context: bool) -> str:
    """Return the fact that a row left the context, "" while it is in it."""
    return "" if in_context else "removed from context"
