"""What a Codex session file (`rollout-….jsonl`) says of its model calls.

The program writes a `token_count` after each call, and the same one again where a turn ends; only
a changed total is a call. Its input includes what was read from the cache.
Trap: a line may hold two objects (a newline lost at a resume), and a forked session begins with
its parent's whole history, every line of it stamped with the moment of the fork.
Source: session files of 0.118 to 0.171.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from openmem.agents.usage.values import count, mapping, seconds
from openmem.context.report.course import Call, Course

KINDS = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_LINE_LIMIT = 64 << 20
_FORK_SECONDS = 1.0
_DECODER = json.JSONDecoder()


def courses_of_lines(lines: Iterable[str], *, name: str) -> list[Course]:
    """Return the one thread of a session file if it made calls. `name`: for one without an id."""
    course = Course(session_id=name, thread="", kind="main")
    model, total, fork_at = "", 0, 0.0
    has_spoken, is_known = False, False
    for entry in _entries(lines):
        kind, payload = entry.get("type"), mapping(entry.get("payload"))
        at = seconds(entry.get("timestamp"))
        if kind == "session_meta" and not is_known:
            is_known = True
            course.session_id = str(payload.get("id") or name)
            if "subagent" in mapping(payload.get("source")):
                course.kind, course.agent_id = "sub-agent", course.session_id
            fork_at = at if payload.get("forked_from_id") else 0.0
        elif kind == "turn_context":
            model = str(payload.get("model") or model)
        elif payload.get("type") == "user_message":
            has_spoken = True
        elif payload.get("type") == "token_count":
            told = mapping(payload.get("info"))
            new_total = count(mapping(told.get("total_token_usage")), "total_tokens")
            if not new_total or new_total == total:
                continue
            total = new_total
            if fork_at and at - fork_at < _FORK_SECONDS:
                continue  # the parent's own call
            used = mapping(told.get("last_token_usage"))
            read = count(used, "cached_input_tokens")
            call = Call(
                at=at,
                model=model,
                uncached=max(0, count(used, "input_tokens") - read),
                read=read,
                output=count(used, "output_tokens"),
                opens_turn=has_spoken,
            )
            if call.prompt:
                course.calls.append(call)
                has_spoken = False
    return [course] if course.calls else []


def _entries(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of all lines; what is no JSON is passed over."""
    for line in lines:
        at, text = 0, line.strip()
        if len(text) > _LINE_LIMIT:
            continue
        while at < len(text):
            try:
                entry, at = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                break  # a half-written last line, or what is left of a broken one
            if isinstance(entry, dict):
                yield entry
            while at < len(text) and text[at].isspace():
                at += 1
