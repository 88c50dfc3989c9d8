"""What Codex says of a request in its headers: which thread it is of, and what kind it is.

Idea: Codex describes every request in one JSON header; where that is missing, three plain headers
say enough. Invariant: headers are claims of a program on this machine; a header that cannot be
read counts as absent.
Trap: a sub-agent names its parent's session and a thread of its own; both are needed.
Source: Codex 0.171.0, observed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

METADATA = "x-codex-turn-metadata"
SUB_AGENT = "x-openai-subagent"
CODEX_HEADERS = ("session-id", "thread-id", METADATA, SUB_AGENT, "x-codex-parent-thread-id")

COMPACTION = "compaction"
# Requests that Codex makes for itself. `prewarm` fills a cache, the others review or remember.
_ERRANDS = frozenset({COMPACTION, "compact", "prewarm", "guardian", "guardian_review",
                      "memory_consolidation"})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexTurn:
    """`thread_id`: of the sub-agent that asks, "" for the main conversation. `errand`: what the
    request is for when it is Codex's own, "" for a turn. `folder`: the repository it works in, ""
    when it does not say."""

    thread_id: str = ""
    errand: str = ""
    folder: str = ""


def codex_turn(headers: Mapping[str, str]) -> CodexTurn:
    """Return what the headers tell; all empty for another agent's."""
    told = _metadata(headers.get(METADATA, ""))
    helper = headers.get(SUB_AGENT, "") or _text(told, "subagent_kind")
    is_helper = bool(
        helper
        or headers.get("x-codex-parent-thread-id")
        or _text(told, "thread_source") == "subagent"
    )
    kinds = (_text(told, "request_kind"), helper)
    return CodexTurn(
        thread_id=headers.get("thread-id", "") or _text(told, "thread_id") if is_helper else "",
        errand=next((kind for kind in kinds if kind in _ERRANDS), ""),
        folder=_folder(told),
    )


def _metadata(header: str) -> Mapping[str, object]:
    if not header:
        return {}
    try:
        value = json.loads(header)
    except (ValueError, RecursionError):
        return {}  # another version's, or somebody else's header of that name
    return value if isinstance(value, dict) else {}


def _text(told: Mapping[str, object], key: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else ""


def _folder(told: Mapping[str, object]) -> str:
    """Return the one workspace that is named; of several nobody says which it works in."""
    workspaces = told.get("workspaces")
    names = list(workspaces) if isinstance(workspaces, dict) else []
    return names[0] if len(names) == 1 and names[0].startswith("/") else ""
