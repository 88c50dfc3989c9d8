"""What was said in a session of Claude Code, from its transcript file.

Kept: what the person typed, what the model answered, and what it called tools with, in short.
Left out: thinking, tool results, what the program itself put in (reminders, hook output, command
output, compaction summaries), sub-agents, and our own frames, pointers and banners.
Trap: the kinds of lines grow with every version; a line is taken only if it is known to be one of
the two that people and models speak in.
Source: transcripts of 2.0 to 2.1.332 (docs/reference/claude-code.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from openmem.agents.transcript import (
    Cursor,
    Digest,
    Reading,
    Role,
    Said,
    call_in_short,
    read_lines,
)
from openmem.base.frame import without_own_text

_WANTED = (b'"user"', b'"assistant"')
# What the program writes in the person's name; each of them starts the message.
_INSERTED = re.compile(
    r"\s*<(?:command-(?:name|message|args|contents)|local-command-[a-z]+|task-notification"
    r"|bash-(?:input|stdout|stderr)|user-memory-input)\b"
    r"|\s*(?:Caveat: The messages below were generated|\[Request interrupted by user"
    r"|This session is being continued from a previous conversation|Operation stopped by hook)"
)
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def read_transcript(path: str, cursor: Cursor, digest: Digest, *, newest_bytes: int = 0) -> Reading:
    """Return what was said since the cursor. FileNotFoundError, OSError.

    `digest`: of bytes, for anchors. `newest_bytes`: without a cursor only so much of the end is
    read; 0 for all.
    """
    return read_lines(
        path, cursor, digest, wanted=_WANTED, said_in=said_in, newest_bytes=newest_bytes
    )


def said_in(record: object) -> list[Said]:
    """Return what one line of a transcript says; often nothing."""
    if not isinstance(record, dict) or record.get("type") not in ("user", "assistant"):
        return []
    if any(record.get(flag) for flag in ("isSidechain", "isMeta", "isCompactSummary")):
        return []
    message = record.get("message")
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        return []
    role: Role = "user" if message["role"] == "user" else "assistant"
    at = record.get("timestamp")
    at = at if isinstance(at, str) else ""
    return [
        Said(role=one_role, text=text, at=at) for one_role, text in _texts(role, message) if text
    ]


def _texts(role: Role, message: Mapping[str, Any]) -> Iterable[tuple[Role, str]]:
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return
    for block in content:
        if not isinstance(block, dict):
            continue
        kind, text = block.get("type"), block.get("text")
        if kind == "text" and isinstance(text, str):
            yield role, _cleaned(role, text)
        elif kind == "tool_use" and role == "assistant":
            yield "tool", call_in_short(block.get("name"), block.get("input"))


def _cleaned(role: Role, text: str) -> str:
    if role == "user":
        text = _REMINDER.sub("", text)
        if _INSERTED.match(text):
            return ""
    return without_own_text(text).strip()
