"""What stands in place of a body, and how a text is known to carry it. Imports next to nothing,
because the hook that looks for it runs before a file is changed.
"""

from __future__ import annotations

import re

MARKED = "openmem_superseded"  # the argument's name; no tool declares it
MARKER_HEAD = "[openmem: superseded by a later call"
MARKER_CHARACTERS = 210  # at most, with the longest id; what a replaced body still weighs

_NAMED = re.compile(
    r"\[openmem: superseded by a later call[^\]]{0,80}?"
    r"smart_compact_get\(id=\"([^\"\]]{1,90}):\d+\"\)"
)
_SHORTENED = re.compile(
    r"\[openmem: \d+ tokens of this tool result are left out; "
    r"smart_compact_get\(id=\"([^\"\]]{1,90}):\d+\"\)"
)
_POINTER = re.compile(r"\[openmem: session_id=\"([^\"\]]{1,64})\" - \d+ earlier messages? ")


def marker(sid: str, seq: int) -> str:
    """Return what stands in place of a body: a pure function of the row that holds it."""
    return (
        f"{MARKER_HEAD} and left out here; "
        f'smart_compact_get(id="{sid}:{seq}") gives it whole. Never use this text in a call]'
    )


def carried(text: str, sid: str) -> tuple[str, str]:
    """Return what of ours a text carries and how its original is got, each "" for nothing.

    Only what this very session was shown counts: a text that speaks of markers, such as our own
    documentation, names another session or none.
    """
    found = _NAMED.search(text)
    if found and found[1] == sid:
        call = found[0].partition("smart_compact_get")[2]
        return "a marker in place of a superseded body", f"smart_compact_get{call}"
    found = _SHORTENED.search(text)
    if found and found[1] == sid:
        call = found[0].partition("smart_compact_get")[2]
        return "a shortened tool result", f"smart_compact_get{call}"
    found = _POINTER.search(text)
    if found and found[1] == sid:
        return "the pointer of a trim", f'smart_compact_search(session_id="{sid}", query=...)'
    return "", ""
