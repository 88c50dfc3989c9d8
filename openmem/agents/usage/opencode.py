"""What OpenCode's files say of its model calls: an exported session, or a log of server events.

`opencode export SESSION` writes one document: the session and its messages, of which each
assistant's is a call, or holds one in each `step-finish` part. In a log of events a message comes
again and again as it grows; its last state counts. Times are milliseconds.
Source: exports and logs of 1.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from openmem.agents.usage.values import count, mapping
from openmem.context.report.course import Call, Course


def is_export(document: object) -> bool:
    """Return whether a document is an exported session."""
    return isinstance(document, dict) and isinstance(document.get("messages"), list)


def courses_of_export(document: Mapping[str, Any], *, name: str) -> list[Course]:
    """Return the one thread of an exported session if it made calls."""
    session = mapping(document.get("info"))
    messages = [mapping(one) for one in document["messages"]]
    course = _course(str(session.get("id") or name), has_parent=bool(session.get("parentID")))
    course.calls += _calls(messages)
    return [course] if course.calls else []


def courses_of_events(events: Iterable[Mapping[str, Any]], *, name: str) -> list[Course]:
    """Return the threads of a log of server events that made calls, one for each session."""
    messages: dict[str, dict[str, Mapping[str, Any]]] = {}
    children: set[str] = set()
    for entry in events:
        event = mapping(entry.get("event"))
        info = mapping(mapping(event.get("properties")).get("info"))
        if event.get("type") in ("session.created", "session.updated") and info.get("parentID"):
            children.add(str(info.get("id")))
        if event.get("type") == "message.updated" and info.get("id"):
            session = str(info.get("sessionID") or name)
            messages.setdefault(session, {})[str(info["id"])] = {"info": info}
    courses = []
    for session, found in messages.items():
        course = _course(session, has_parent=session in children)
        course.calls += _calls(list(found.values()))
        courses.append(course)
    return [course for course in courses if course.calls]


def _course(session_id: str, *, has_parent: bool) -> Course:
    return Course(
        session_id=session_id,
        thread=session_id if has_parent else "",
        kind="sub-agent" if has_parent else "main",
        agent_id=session_id if has_parent else "",
    )


def _calls(messages: Sequence[Mapping[str, Any]]) -> list[Call]:
    calls: list[Call] = []
    has_spoken = False
    for message in messages:
        info = mapping(message.get("info"))
        if info.get("role") == "user":
            has_spoken = True
            continue
        parts = message.get("parts")
        steps = [
            mapping(part).get("tokens")
            for part in (parts if isinstance(parts, list) else ())
            if mapping(part).get("type") == "step-finish"
        ]
        for tokens in steps or [info.get("tokens")]:
            call = _call(info, mapping(tokens), opens_turn=has_spoken)
            if call.prompt:
                calls.append(call)
                has_spoken = False
    return calls


def _call(info: Mapping[str, Any], tokens: Mapping[str, Any], *, opens_turn: bool) -> Call:
    cache, time = mapping(tokens.get("cache")), mapping(info.get("time"))
    return Call(
        at=(count(time, "completed") or count(time, "created")) / 1000,
        model=str(info.get("modelID", "")),
        uncached=count(tokens, "input"),
        read=count(cache, "read"),
        written=count(cache, "write"),
        output=count(tokens, "output"),
        opens_turn=opens_turn,
    )
