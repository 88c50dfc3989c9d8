"""What a Claude Code transcript says of its model calls: sizes and times, never words.

One answer stands on several lines, one for each content block, with the same message id and the
same usage; the last of them counts. Lines that are no JSON, or of another kind, are passed over:
the format is the agent's own and grows. Observed in transcripts of 2025 and 2026.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from openmem.agents.usage.values import count, seconds
from openmem.context.report.course import Call, Course

_LINE_LIMIT = 64 << 20


def courses_of_lines(lines: Iterable[str], *, name: str) -> list[Course]:
    """Return the threads of a transcript's lines. `name`: stands for a session without an id."""
    courses: dict[str, Course] = {}
    last_ids: dict[str, str] = {}
    has_spoken: dict[str, bool] = {}
    for line in lines:
        entry = _decoded(line)
        message = entry.get("message")
        if not isinstance(message, dict):
            continue
        thread = str(entry.get("agentId") or ("sub-agent" if entry.get("isSidechain") else ""))
        if entry.get("type") == "user" and not entry.get("isMeta") and _says_something(message):
            has_spoken[thread] = True
        usage = message.get("usage")
        if entry.get("type") != "assistant" or not isinstance(usage, dict):
            continue
        course = courses.setdefault(
            thread,
            Course(
                session_id=str(entry.get("sessionId") or name),
                thread=thread,
                kind="sub-agent" if thread else "main",
                agent_id=thread,
            ),
        )
        call = _call(entry, message, usage, opens_turn=has_spoken.get(thread, False))
        if not call.prompt:
            continue
        message_id = str(message.get("id", ""))
        if message_id and last_ids.get(thread) == message_id:
            call = replace(call, opens_turn=course.calls.pop().opens_turn)
        course.calls.append(call)
        last_ids[thread] = message_id
        has_spoken[thread] = False
    return [course for course in courses.values() if course.calls]


def _decoded(line: str) -> Mapping[str, Any]:
    if len(line) > _LINE_LIMIT:
        return {}
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}  # a comment, a half-written last line
    return entry if isinstance(entry, dict) else {}


def _says_something(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if isinstance(content, str):
        return bool(content)
    if not isinstance(content, list):
        return False
    kinds = [block.get("type") for block in content if isinstance(block, dict)]
    return "tool_result" not in kinds and bool(kinds)


def _call(
    entry: Mapping[str, Any],
    message: Mapping[str, Any],
    usage: Mapping[str, Any],
    *,
    opens_turn: bool,
) -> Call:
    return Call(
        at=seconds(entry.get("timestamp")),
        model=str(message.get("model", "")),
        uncached=count(usage, "input_tokens"),
        read=count(usage, "cache_read_input_tokens"),
        written=count(usage, "cache_creation_input_tokens"),
        output=count(usage, "output_tokens"),
        opens_turn=opens_turn,
    )
