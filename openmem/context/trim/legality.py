"""What the Messages API refuses, checked on the bytes of a trimmed body before they are sent.

Shares nothing with the code that made the body. Source: the vendor's pages on system messages
inside a conversation, tool use and preserved thinking, read 2026-11-30. Not verified against the
live API.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

MARKERS_AT_MOST = 4
_THINKING = ("thinking", "redacted_thinking")


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    tool_use_id: str = ""
    text: str | None = None
    cache_control: msgspec.Raw = msgspec.Raw(b"")


class _Message(msgspec.Struct):
    role: str
    content: list[_Block] | str = ""
    output_config: msgspec.Raw = msgspec.Raw(b"")


class _Thinking(msgspec.Struct):
    type: str = ""


class _Body(msgspec.Struct):
    messages: list[_Message]
    system: list[_Block] | str = ""
    tools: list[_Block] = []
    thinking: _Thinking | None = None


_DECODER = msgspec.json.Decoder(_Body)


def first_fault(body: bytes) -> str:
    """Return the first rule that a body breaks, in words; "" for a legal one."""
    try:
        request = _DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return "the body cannot be read"
    for rule in (_ends, _contents, _system_places, _tool_pairs, _markers, _loop):
        fault = rule(request)
        if fault:
            return fault
    return ""


def _blocks(message: _Message) -> Sequence[_Block]:
    if isinstance(message.content, str):
        return [_Block(type="text", text=message.content)] if message.content else []
    return message.content


def _ends(request: _Body) -> str:
    messages = request.messages
    if not messages:
        return "there is no message"
    if any(message.role not in ("user", "assistant", "system") for message in messages):
        return "a role is unknown"
    if messages[0].role != "user":
        return "the first message is not the user's"
    spoken = [message for message in messages if message.role != "system"]
    return "the last message is the assistant's" if spoken[-1].role == "assistant" else ""


def _contents(request: _Body) -> str:
    for number, message in enumerate(request.messages):
        blocks = _blocks(message)
        if not blocks and not (message.role == "system" and bytes(message.output_config)):
            return f"message {number} is empty"
        if any(block.type == "text" and not block.text for block in blocks):
            return f"message {number} holds an empty text"
    return ""


def _system_places(request: _Body) -> str:
    """A group that carries content follows a user's message, and an assistant's or nothing follows
    it."""
    at = 0
    messages = request.messages
    for role, group in groupby(messages, key=lambda message: message.role):
        members = list(group)
        start, at = at, at + len(members)
        if role != "system" or not any(_blocks(member) for member in members):
            continue
        if messages[start - 1].role != "user":
            return f"system message {start} does not follow the user's"
        if at < len(messages) and messages[at].role != "assistant":
            return f"system message {start} stands before the user's"
    return ""


def _tool_pairs(request: _Body) -> str:
    """Each call is answered before the assistant speaks again, each answer has its call."""
    open_calls: set[str] = set()
    for number, message in enumerate(request.messages):
        calls = {block.id for block in _blocks(message) if block.type == "tool_use"}
        answers = {b.tool_use_id for b in _blocks(message) if b.type == "tool_result"}
        if message.role == "assistant":
            if open_calls and number and _speaks_anew(request.messages, number):
                return f"message {number}: a tool call before it has no result"
            open_calls |= calls
        elif message.role == "system":
            if open_calls:
                return f"system message {number} stands between a call and its result"
        else:
            if answers - open_calls:
                return f"message {number} answers a call that is not there"
            open_calls -= answers
            if open_calls:
                return f"message {number} leaves a tool call without its result"
    return "a tool call at the end has no result" if open_calls else ""


def _speaks_anew(messages: Sequence[_Message], number: int) -> bool:
    return messages[number - 1].role != "assistant"


def _all_blocks(request: _Body) -> Iterator[_Block]:
    yield from request.tools
    if not isinstance(request.system, str):
        yield from request.system
    for message in request.messages:
        yield from _blocks(message)


def _markers(request: _Body) -> str:
    marked = [b for b in _all_blocks(request) if bytes(b.cache_control) not in (b"", b"null")]
    if len(marked) > MARKERS_AT_MOST:
        return f"{len(marked)} cache markers"
    if any(block.type in _THINKING for block in marked):
        return "a cache marker on thinking"
    return ""


def _answers(message: _Message) -> bool:
    return any(block.type == "tool_result" for block in _blocks(message))


def _loop(request: _Body) -> str:
    """Under a thinking budget the assistant's turn of an open tool loop begins with thinking."""
    if request.thinking is None or request.thinking.type != "enabled":
        return ""
    opening: _Message | None = None
    for message in reversed(request.messages):
        if message.role == "assistant":
            opening = message
        elif message.role == "user" and not _answers(message):
            break
    if opening is None:
        return ""
    last = next(m for m in reversed(request.messages) if m.role != "system")
    if not _answers(last):
        return ""
    first = _blocks(opening)[0]
    return "" if first.type in _THINKING else "an open tool loop does not begin with thinking"
