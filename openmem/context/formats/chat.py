"""The Chat Completions format: split a request, and read the blocks of its messages.

Idea: a message with `tool_calls` is text and calls; each `tool` message is one result.
Invariant: a conversation gives the same rows as in the Messages and Responses formats.
Trap: servers that speak this format differ: reasoning has three names, content is a string, a list
or null, and a tool's arguments are JSON inside a string, spaced as the server liked.
Source: OpenAI's API reference; requests of OpenCode 1.18.33.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from openmem.context.formats.parts import (
    arguments_text,
    audio_block,
    call_block,
    compact,
    media_block,
    other_block,
    outcome_blocks,
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
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class _Request(msgspec.Struct):
    messages: list[msgspec.Raw]
    model: str = ""
    stream: bool = False
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    prompt_cache_key: str = ""
    tools: msgspec.Raw = msgspec.Raw(b"")
    functions: msgspec.Raw = msgspec.Raw(b"")
    metadata: msgspec.Raw = msgspec.Raw(b"")
    response_format: msgspec.Raw = msgspec.Raw(b"")


_DECODER = msgspec.json.Decoder(_Request)


def split_request(body: bytes) -> RequestView:
    """Return the parts of a request. NotUnderstood when it is not one."""
    try:
        request = _DECODER.decode(body)
        metadata, form = decoded_part(request.metadata), decoded_part(request.response_format)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _split_slowly(body)
    return _view(
        body,
        request.messages,
        model=request.model,
        stream=request.stream,
        max_tokens=request.max_completion_tokens or request.max_tokens,
        tools=bytes(request.tools) or bytes(request.functions),
        metadata=metadata,
        cache_key=request.prompt_cache_key,
        form=form,
    )


def _split_slowly(body: bytes) -> RequestView:
    value = loaded_object(body)
    return _view(
        body,
        loaded_list(value, "messages"),
        model=text_or_empty(value.get("model")),
        stream=value.get("stream") is True,
        max_tokens=number_or_none(value.get("max_completion_tokens") or value.get("max_tokens")),
        tools=dumped(value.get("tools") or value.get("functions")),
        metadata=value.get("metadata"),
        cache_key=text_or_empty(value.get("prompt_cache_key")),
        form=value.get("response_format"),
    )


def _view(
    body: bytes,
    messages: Sequence[RawMessage],
    *,
    model: str,
    stream: bool,
    max_tokens: int | None,
    tools: bytes,
    metadata: Any,
    cache_key: str,
    form: Any,
) -> RequestView:
    lead = 0
    prompt: list[str] = []
    for raw in messages:
        message = decode_message(raw)
        if message.get("role") not in ("system", "developer"):
            break
        prompt += texts_of(message.get("content"))
        lead += 1
    return RequestView(
        wire="chat",
        body=body,
        model=model,
        stream=stream,
        max_tokens=max_tokens,
        system=tuple(prompt),
        lead=lead,
        tools=tools,
        has_tools=are_tools(tools),
        user_id=user_id_in(metadata),
        prompt_cache_key=cache_key,
        messages=messages,
        settings=compact(form) if form else "",
    )


def opening_of(view: RequestView) -> list[dict[str, Any]]:
    """Return the first messages behind the system prompt in the Messages' form."""
    decoded = map(decode_message, view.messages[view.lead : view.lead + _OPENING])
    return [
        {
            "role": message.get("role"),
            "content": [{"type": "text", "text": one} for one in texts_of(message.get("content"))],
        }
        for message in decoded
    ]


def blocks_of(raw: RawMessage, names: dict[str, str] | None = None) -> list[Block]:
    """Return a message's blocks in order.

    `names`: call id → tool name, as in the Messages format. NotUnderstood when it is no message.
    """
    return _blocks(decode_message(raw), {} if names is None else names)


def blocks_of_response(messages: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return the blocks of a reply's message; the same that its resent form will give."""
    return [block for message in messages for block in _blocks(message, {})]


def _blocks(message: Mapping[str, Any], names: dict[str, str]) -> list[Block]:
    role = message.get("role")
    if not isinstance(role, str):
        raise NotUnderstood("a message has no role")
    content = message.get("content")
    if role in ("tool", "function"):
        call, stated = message.get("tool_call_id"), text_or_empty(message.get("name"))
        name = names.get(call, "") if isinstance(call, str) else ""
        return _results(name or escape_odd(stated), content)
    role = role if role in ("user", "assistant") else "system"
    blocks = _of_reasoning(message) if role == "assistant" else []
    if isinstance(content, str):
        blocks += text_blocks(role, content)
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict):
            blocks += _of_part(role, part)
        elif isinstance(part, str):
            blocks += text_blocks(role, part)
    if isinstance(message.get("refusal"), str):
        blocks += text_blocks(role, message["refusal"])
    return blocks + _of_calls(message, names)


def _of_reasoning(message: Mapping[str, Any]) -> list[Block]:
    for name in _REASONING:
        found = thinking_block(message.get(name))
        if found:
            return found
    signed = message.get("thinking_blocks")  # as LiteLLM passes signed thinking on
    texts = [
        one["thinking"]
        for one in (signed if isinstance(signed, list) else [])
        if isinstance(one, dict) and isinstance(one.get("thinking"), str)
    ]
    return [block for text in texts for block in thinking_block(text)]


def _of_part(role: str, part: dict[str, Any]) -> list[Block]:
    kind, text = part.get("type"), part.get("text")
    if kind == "text" and isinstance(text, str):
        return text_blocks(role, text)
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return text_blocks(role, part["refusal"])
    if kind == "image_url":
        image = part.get("image_url")
        address = image.get("url") if isinstance(image, dict) else image
        return [media_block(role, "image", "", text_or_empty(address), part)]
    if kind == "file":
        return [_document(role, part)]
    if kind == "input_audio":
        return [audio_block(role, part)]
    return [other_block(role, part)]


def _document(role: str, part: dict[str, Any]) -> Block:
    file = part.get("file")
    file = file if isinstance(file, dict) else {}
    address = file.get("file_data") or file.get("file_id")
    return media_block(role, "document", "", text_or_empty(address), part)


def _of_calls(message: Mapping[str, Any], names: dict[str, str]) -> list[Block]:
    calls = message.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if isinstance(message.get("function_call"), dict):
        found.append({"function": message["function_call"]})
    blocks: list[Block] = []
    for call in found:
        custom = call.get("custom")
        function = call.get("function") if not isinstance(custom, dict) else custom
        function = function if isinstance(function, dict) else {}
        name = escape_odd(text_or_empty(function.get("name")))
        if isinstance(call.get("id"), str):
            names[call["id"]] = name
        given = function.get("input")
        is_free = isinstance(custom, dict) and isinstance(given, str)
        text = escape_odd(str(given)) if is_free else arguments_text(function.get("arguments"))
        blocks.append(call_block(name, text))
    return blocks


def _results(name: str, content: Any) -> list[Block]:
    def media_of(part: dict[str, Any]) -> list[Block]:
        is_media = part.get("type") in ("image_url", "file")
        return [
            Block(
                role="tool", kind=block.kind, name=name, text=block.text,
                payload=block.payload, media=block.media,
            )
            for block in (_of_part("tool", part) if is_media else [])
        ]  # fmt: skip

    return outcome_blocks(name, content, media_of)
