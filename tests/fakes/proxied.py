"""What tests of the recording proxy share: policies, requests of an agent, streams, stored rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from openmem.base.errors import NotFound, StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.session import Registration, write_registration
from openmem.context.store.reader import open_session
from tests.fakes.running_proxy import Answer, ask
from tests.fakes.wire import Reply, Request

TARGET = "/a/claude-code/v1/messages?beta=true"


def write_policy(paths: Paths, *, allowed: str = "", unregistered: bool = False) -> None:
    """Write a policy that stores `allowed` and below it, and nothing else but what is said."""
    os.makedirs(paths.config_dir, mode=0o700, exist_ok=True)
    lines = ["version = 1", "[defaults.unregistered]", f"store = {str(unregistered).lower()}"]
    if allowed:
        lines += ["[[rules]]", f'path = "{allowed}"', "store = true", "recall = true"]
    with open(paths.policy_file, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def register(paths: Paths, sid: str, cwd: str) -> None:
    write_registration(
        paths,
        Registration(
            session_id=sid,
            agent="claude-code",
            cwd=cwd,
            bank="",
            registered_at="2026-11-30T10:00:00Z",
        ),
    )


def environment(folder: str) -> str:
    """Return the agent's environment text as Claude Code writes it."""
    return (
        "<system-reminder>\n# Environment\nYou have been invoked in the following environment: \n"
        f" - Primary working directory: {folder}\n - Platform: linux\n</system-reminder>"
    )


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def body_of(*messages: dict[str, Any], **changes: Any) -> bytes:
    """Return a request body as an agent with tools sends it."""
    value = {
        "model": "claude-opus-5-5",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "You are an agent."}],
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
        "messages": list(messages),
        **changes,
    }
    return json.dumps(value, ensure_ascii=False).encode()


def events_for(text: str, *, usage: dict[str, int] | None = None) -> list[bytes]:
    """Return the events of a streamed answer with one text block."""
    counts = usage or {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
    }
    values: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": [], "usage": {**counts}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": text},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return [
        f"event: {value['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
        for value in values
    ]


def streams(text: str = "Understood.", **changes: Any) -> Callable[[Request, Reply], None]:
    """Return a handler that streams one answer."""

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream; charset=utf-8")])
        for event in events_for(text, **changes):
            reply.chunk(event)
        reply.end()

    return handle


def send(
    port: int,
    body: bytes,
    *,
    sid: str = "s1",
    headers: list[tuple[str, str]] | None = None,
    target: str = TARGET,
) -> Answer:
    """Send a request of a session as Claude Code does."""
    sent = [("x-claude-code-session-id", sid)] if sid else []
    return ask(port, "POST", target, headers=[*sent, *(headers or [])], body=body)


def rows(paths: Paths, sid: str = "s1") -> list[dict[str, Any]]:
    """Return the stored rows of a session in order, [] when there is no session."""
    return list(_relation(paths, sid, "SELECT * FROM messages ORDER BY seq"))


def threads(paths: Paths, sid: str = "s1") -> list[dict[str, Any]]:
    return list(_relation(paths, sid, "SELECT * FROM threads"))


def events(paths: Paths, sid: str = "s1", kind: str = "usage") -> list[dict[str, Any]]:
    found = _relation(paths, sid, "SELECT * FROM events ORDER BY id")
    return [event for event in found if event["kind"] == kind]


def texts(paths: Paths, sid: str = "s1", *, role: str = "") -> list[str]:
    return [row["text"] for row in rows(paths, sid) if not role or row["role"] == role]


def _relation(paths: Paths, sid: str, statement: str) -> Iterator[dict[str, Any]]:
    try:
        reader = open_session(paths, sid)
    except (NotFound, StoreUnavailable):  # none yet, or one that is just being made
        return
    with reader:
        cursor = reader.connection.execute(statement)
        names = [column[0] for column in cursor.description]
        for found in cursor.fetchall():
            yield dict(zip(names, found, strict=True))


def files_below(folder: str) -> list[str]:
    """Return all files below a folder, as paths relative to it."""
    found: list[str] = []
    for parent, _, names in os.walk(folder):
        found += [os.path.relpath(os.path.join(parent, name), folder) for name in names]
    return sorted(found)
