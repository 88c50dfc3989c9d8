"""What was said in a session of Codex, from its rollout file.

Kept: what the person typed, what the model answered, and what it called tools with, in short.
Left out: reasoning, results, what Codex itself tells the model (environment, permissions, skills,
project instructions, hook prompts, summaries), and our own frames and pointers.
Trap: `event_msg` lines say the same again for the screen; only the items of the requests count. A
line may hold two records, where a session was resumed.
Source: rollouts of 0.118 to 0.171.0 (docs/reference/transcripts.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from openmem.agents.transcript import Cursor, Digest, Reading, Role, Said, call_in_short, read_lines
from openmem.base.frame import without_own_text
from openmem.context.formats.surroundings import is_summary, is_surroundings

_WANTED = (b'"response_item"',)


def read_transcript(path: str, cursor: Cursor, digest: Digest, *, newest_bytes: int = 0) -> Reading:
    """Return what was said since the cursor. FileNotFoundError, OSError.

    `digest`: of bytes, for anchors. `newest_bytes`: without a cursor only so much of the end is
    read; 0 for all.
    """
    return read_lines(
        path, cursor, digest, wanted=_WANTED, said_in=said_in, newest_bytes=newest_bytes
    )


def said_in(record: object) -> list[Said]:
    """Return what one record of a rollout says; often nothing."""
    if not isinstance(record, dict) or record.get("type") != "response_item":
        return []
    item, at = record.get("payload"), record.get("timestamp")
    if not isinstance(item, dict):
        return []
    at = at if isinstance(at, str) else ""
    return [Said(role=role, text=text, at=at) for role, text in _texts(item) if text]


def _texts(item: Mapping[str, Any]) -> Iterable[tuple[Role, str]]:
    kind, role = item.get("type"), item.get("role")
    if kind == "message" and role in ("user", "assistant"):
        content = item.get("content")
        for part in content if isinstance(content, list) else []:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str) and not (role == "user" and _is_codexs(text)):
                yield role, without_own_text(text).strip()
    elif kind == "function_call":
        place, name = item.get("namespace"), item.get("name")
        name = f"{place}__{name}" if isinstance(place, str) and place else name
        yield "tool", call_in_short(name, _arguments(item.get("arguments")))


def _is_codexs(text: str) -> bool:
    return is_surroundings(text) or is_summary(text)


def _arguments(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None  # cut short: it does not say what it was for
