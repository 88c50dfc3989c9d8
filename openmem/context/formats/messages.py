"""The Messages format: split a request, and read the blocks of its messages.

Source: the vendor's API reference; requests of Claude Code 2.1.332. Measured on 3 MB: 1.5 ms for
the split against 31 ms for decoding all of it with the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from openmem.context.formats.parts import (
    call_block,
    compact,
    from_base64,
    other_block,
    outcome_blocks,
    plain,
    text_blocks,
    thinking_block,
)
from openmem.context.formats.view import (
    NotUnderstood,
    RawMessage,
    RequestView,
    are_tools,
    decode_message,
    decoded_part,
    dumped,
    loaded_list,
    loaded_object,
    number_or_none,
    text_or_empty,
    texts_of,
    user_id_in,
)
from openmem.context.rows import Block, escape_odd

_OPENING = 4

__all__ = [
    "NotUnderstood",
    "RawMessage",
    "RequestView",
    "blocks_in",
    "blocks_of",
    "blocks_of_response",
    "decode_message",
    "opening_of",
    "split_request",
]


class _Request(msgspec.Struct):
    messages: list[msgspec.Raw]
    model: str = ""
    stream: bool = False
    max_tokens: int | None = None
    prompt_cache_key: str = ""
    system: msgspec.Raw = msgspec.Raw(b"")
    tools: msgspec.Raw = msgspec.Raw(b"")
    metadata: msgspec.Raw = msgspec.Raw(b"")


_DECODER = msgspec.json.Decoder(_Request)


def split_request(body: bytes) -> RequestView:
    """Return the parts of a request. NotUnderstood when it is not one."""
    try:
        request = _DECODER.decode(body)
        system, metadata = decoded_part(request.system), decoded_part(request.metadata)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _split_slowly(body)
    tools = bytes(request.tools)
    return RequestView(
        wire="messages",
        body=body,
        model=request.model,
        stream=request.stream,
        max_tokens=request.max_tokens,
        system=texts_of(system),
        tools=tools,
        has_tools=are_tools(tools),
        user_id=user_id_in(metadata),
        prompt_cache_key=request.prompt_cache_key,
        messages=request.messages,
    )


def _split_slowly(body: bytes) -> RequestView:
    """Split with the standard library. A message's raw form is then its own, but deterministic."""
    value = loaded_object(body)
    messages, tools = loaded_list(value, "messages"), dumped(value.get("tools"))
    return RequestView(
        wire="messages",
        body=body,
        model=text_or_empty(value.get("model")),
        stream=value.get("stream") is True,
        max_tokens=number_or_none(value.get("max_tokens")),
        system=texts_of(value.get("system")),
        tools=tools,
        has_tools=are_tools(tools),
        user_id=user_id_in(value.get("metadata")),
        prompt_cache_key=text_or_empty(value.get("prompt_cache_key")),
        messages=messages,
    )


def opening_of(view: RequestView) -> list[dict[str, Any]]:
    """Return the first messages, decoded: what tells whose conversation it is."""
    return [decode_message(raw) for raw in view.messages[:_OPENING]]


def blocks_of(raw: RawMessage, names: dict[str, str] | None = None) -> list[Block]:
    """Return a message's blocks in order.

    `names`: tool id → tool name, filled from tool calls and used for their results; pass one
    mapping through the messages of a conversation. NotUnderstood when it is not a message.
    """
    return blocks_in(decode_message(raw), {} if names is None else names)


def blocks_in(message: Mapping[str, Any], names: dict[str, str]) -> list[Block]:
    """Return the blocks of a message that is decoded already, as a transcript's is."""
    role = message.get("role")
    if not isinstance(role, str):
        raise NotUnderstood("a message has no role")
    return _blocks(role, message.get("content"), names)


def blocks_of_response(content: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return the blocks of a reply's `content`; the same that its resent form will give."""
    return _blocks("assistant", list(content), {})


def _blocks(role: str, content: Any, names: dict[str, str]) -> list[Block]:
    role = role if role in ("user", "assistant") else "system"
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    blocks: list[Block] = []
    for part in content:
        if isinstance(part, dict):
            blocks.extend(_blocks_of_part(role, part, names))
        elif isinstance(part, str) and part.strip():
            blocks.append(Block(role=role, kind="text", text=escape_odd(part)))
    return blocks


def _blocks_of_part(role: str, part: dict[str, Any], names: dict[str, str]) -> list[Block]:
    kind = text_or_empty(part.get("type"))
    text = part.get("text")
    if kind == "text" and isinstance(text, str):
        return text_blocks(role, text)
    if kind in ("thinking", "redacted_thinking"):
        return thinking_block(part.get("thinking"))
    if kind in ("image", "document"):
        return [_media(role, kind, "", part)]
    if kind.endswith("tool_use"):
        name = part.get("name")
        name = escape_odd(name) if isinstance(name, str) else kind
        if isinstance(part.get("id"), str):
            names[part["id"]] = name
        return [call_block(name, compact(part.get("input", {})))]
    if kind.endswith("tool_result"):
        call = part.get("tool_use_id")
        name = names.get(call, "") if isinstance(call, str) else ""
        return _results(name, part.get("content"))
    return [other_block(role, part)]


def _results(name: str, content: Any) -> list[Block]:
    def media_of(part: dict[str, Any]) -> list[Block]:
        kind = part.get("type")
        return [_media("tool", kind, name, part)] if kind in ("image", "document") else []

    return outcome_blocks(name, content, media_of)


def _media(role: str, kind: str, name: str, part: dict[str, Any]) -> Block:
    source = part.get("source")
    source = source if isinstance(source, dict) else {}
    media, data = source.get("media_type"), source.get("data")
    media = escape_odd(media) if isinstance(media, str) else ""
    if isinstance(data, str) and source.get("type") == "base64":
        return Block(role=role, kind=kind, name=name, payload=from_base64(data), media=media)
    if isinstance(data, str):  # a document given as text
        return Block(role=role, kind=kind, name=name, text=escape_odd(data))
    for place in ("url", "file_id"):
        if isinstance(source.get(place), str):
            return Block(role=role, kind=kind, name=name, text=escape_odd(source[place]))
    return Block(role=role, kind=kind, name=name, text=compact(plain(part)))
