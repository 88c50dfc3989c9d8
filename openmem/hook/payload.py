"""The agent's JSON, decoded: only the fields we use, each of the kind we expect or empty.

Trap: fields come and go between an agent's versions, and are trusted for nothing but names: a
field of another kind counts as missing, and what is unknown is ignored.
Source: Claude Code 2.1.332, captured payloads (docs/reference/hooks.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from openmem.base.light import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One event of a session as its agent tells it. Texts are "" when missing.

    `session_id`: as sent. `cwd`: absolute, or "". `agent_id`: set inside a sub-agent. `source`:
    why a session starts: startup, resume, clear, compact, fork. `last_message`: the reply that a
    stop follows.
    """

    session_id: str
    cwd: str = ""
    transcript_path: str = ""
    source: str = ""
    prompt: str = ""
    last_message: str = ""
    agent_id: str = ""


def decode(stdin: bytes) -> Mapping[str, object] | None:
    """Return the object that stdin holds, None when it holds none."""
    try:
        value = json.loads(stdin)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def moment_of(payload: Mapping[str, object], environ: Mapping[str, str]) -> Moment:
    """Return the event of a payload; the folder falls back to the one the agent was started in."""

    def text(name: str) -> str:
        value = payload.get(name)
        return value if isinstance(value, str) else ""

    cwd = text("cwd") or environ.get("CLAUDE_PROJECT_DIR", "")
    return Moment(
        session_id=text("session_id"),
        cwd=cwd if cwd.startswith("/") and "\0" not in cwd else "",
        transcript_path=text("transcript_path"),
        source=text("source"),
        prompt=text("prompt"),
        last_message=text("last_assistant_message"),
        agent_id=text("agent_id"),
    )
