"""Conversations as a client would send them, in the many forms that mean the same."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from openmem.base.paths import Paths
from openmem.context.formats.messages import RequestView, split_request
from openmem.context.store.model import Incoming, ThreadKind
from openmem.context.store.reader import StoredRow, open_session

Message = dict[str, Any]
KEY = b"a key of thirty-two bytes, fixed"


def user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def reply(text: str, *, thinking: str = "") -> Message:
    content: list[Message] = []
    if thinking:
        content.append({"type": "thinking", "thinking": thinking, "signature": "c2ln"})
    return {"role": "assistant", "content": [*content, {"type": "text", "text": text}]}


def call(name: str, arguments: Message, number: int = 1) -> Message:
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}
    return {"role": "assistant", "content": [block]}


def result(content: object, number: int = 1) -> Message:
    block = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content}
    return {"role": "user", "content": [block]}


def reminder(text: str) -> Message:
    return {"type": "text", "text": f"<system-reminder>\n{text}\n</system-reminder>"}


def body(messages: Sequence[Message], **fields: object) -> bytes:
    whole = {"model": "claude-opus-5-5", "messages": list(messages), "max_tokens": 100, **fields}
    return json.dumps(whole).encode()


def view(messages: Sequence[Message], **fields: object) -> RequestView:
    return split_request(body(messages, **fields))


def incoming(
    messages: Sequence[Message],
    *,
    kind: ThreadKind = "main",
    agent_id: str = "",
    **fields: object,
) -> Incoming:
    return Incoming(
        agent="claude-code", view=view(messages, **fields), kind=kind, agent_id=agent_id
    )


def marked(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with a cache marker on the last block, all others as plain as can be.

    This is what Claude Code does: the formerly last message becomes a string again.
    """
    found = copy.deepcopy(list(messages))
    for message in found[:-1]:
        content = message["content"]
        if isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text":
            message["content"] = content[0]["text"]
    if isinstance(found[-1]["content"], list) and found[-1]["content"]:
        found[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return found


def without_thinking(messages: Sequence[Message]) -> list[Message]:
    found = copy.deepcopy(list(messages))
    for message in found:
        if isinstance(message["content"], list):
            message["content"] = [b for b in message["content"] if b["type"] != "thinking"]
    return found


def stored(paths: Paths, sid: str = "s") -> list[StoredRow]:
    """Return all rows of a session."""
    with open_session(paths, sid) as reader:
        return list(reader.rows())
