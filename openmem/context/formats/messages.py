"""The Messages format: split a request, and read the blocks of its messages.

Source: the vendor's API reference; requests of Claude Code 2.1.332. Measured on 3 MB: 1.5 ms for
the split against 31 ms for decoding all of it with the standard library.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from openmem.context.rows import Block, escape_odd, reminder_texts, without_reminders

RawMessage = msgspec.Raw | bytes
_NOT_CONTENT = frozenset({"cache_control", "id", "tool_use_id", "signature", "caller"})


class NotUnderstood(ValueError):
    """The bytes are not a request of this format; the text says what is off, never content."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """A request, split. `messages`: each one's raw JSON; equal messages compare equal.

    `system`: its texts in order, a string as one. `tools`: raw JSON, b"" when absent. `user_id`:
    `metadata.user_id` as text, "" when absent. `max_tokens`: None when absent.
    """

    body: bytes
    model: str
    stream: bool
    max_tokens: int | None
    system: tuple[str, ...]
    tools: bytes
    user_id: str
    prompt_cache_key: str
    messages: Sequence[RawMessage]

    def ranges(self) -> list[tuple[int, int]]:
        """Return where each message stands in `body`, as (start, end).

        NotUnderstood when that cannot be told for certain.
        """
        return _ranges(self)


def split_request(body: bytes) -> RequestView:
    """Return the parts of a request. NotUnderstood when it is not one."""
    try:
        request = _DECODER.decode(body)
        system, user_id = _decode_part(request.system), _decode_part(request.metadata)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _split_slowly(body)
    return RequestView(
        body=body,
        model=request.model,
        stream=request.stream,
        max_tokens=request.max_tokens,
        system=_system_texts(system),
        tools=bytes(request.tools),
        user_id=_user_id(user_id),
        prompt_cache_key=request.prompt_cache_key,
        messages=request.messages,
    )


def _decode_part(raw: msgspec.Raw) -> Any:
    data = bytes(raw)
    return msgspec.json.decode(data) if data else None


def _split_slowly(body: bytes) -> RequestView:
    """Split with the standard library. A message's raw form is then its own, but deterministic."""
    value = _loads(body)
    if not isinstance(value, dict):
        raise NotUnderstood("the body is not a JSON object")
    messages = value.get("messages")
    if not isinstance(messages, list):
        raise NotUnderstood("`messages` is not a list")
    model, max_tokens = value.get("model"), value.get("max_tokens")
    cache_key, tools = value.get("prompt_cache_key"), value.get("tools")
    try:
        return RequestView(
            body=body,
            model=model if isinstance(model, str) else "",
            stream=value.get("stream") is True,
            max_tokens=max_tokens if isinstance(max_tokens, int) else None,
            system=_system_texts(value.get("system")),
            tools=b"" if tools is None else json.dumps(tools).encode("ascii"),
            user_id=_user_id(value.get("metadata")),
            prompt_cache_key=cache_key if isinstance(cache_key, str) else "",
            messages=[json.dumps(message).encode("ascii") for message in messages],
        )
    except RecursionError:
        raise NotUnderstood("the body is nested too deeply") from None


def _loads(data: bytes) -> Any:
    # Bytes that are no UTF-8 become lone surrogates, which are stored escaped: seen, not lost.
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise NotUnderstood("the body is nested too deeply") from None
    except ValueError as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise NotUnderstood(f"the body is not JSON{place}") from None


def _system_texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        return ()
    return tuple(
        block["text"]
        for block in value
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    )


def _user_id(metadata: Any) -> str:
    found = metadata.get("user_id") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def _ranges(view: RequestView) -> list[tuple[int, int]]:
    raws = [bytes(raw) for raw in view.messages]
    if not raws:
        raise NotUnderstood("there is no message")
    start = view.body.find(raws[0])
    while start >= 0:
        ranges = _ranges_from(view.body, raws, start)
        if ranges and _is_the_list(view.body, ranges):
            return ranges
        start = view.body.find(raws[0], start + 1)
    raise NotUnderstood("the place of the messages cannot be told")


def _ranges_from(body: bytes, raws: list[bytes], start: int) -> list[tuple[int, int]]:
    """Return where the messages stand if the first one begins at `start`, [] if they do not."""
    ranges: list[tuple[int, int]] = []
    for number, raw in enumerate(raws):
        if number:
            start = _skip_space(body, start)
            if body[start : start + 1] != b",":
                return []
            start = _skip_space(body, start + 1)
        if not body.startswith(raw, start):
            return []
        ranges.append((start, start + len(raw)))
        start += len(raw)
    return ranges


def _skip_space(body: bytes, at: int) -> int:
    while body[at : at + 1] in (b" ", b"\t", b"\n", b"\r"):
        at += 1
    return at


def _is_the_list(body: bytes, ranges: list[tuple[int, int]]) -> bool:
    """Return whether these are the top-level messages: without them, none are left."""
    try:
        emptied = _DECODER.decode(body[: ranges[0][0]] + body[ranges[-1][1] :])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    return not emptied.messages


def decode_message(raw: RawMessage) -> dict[str, Any]:
    """Return a message as decoded JSON. NotUnderstood when it is not an object."""
    data = bytes(raw)
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        value = _loads(data)
    if not isinstance(value, dict):
        raise NotUnderstood("a message is not a JSON object")
    return value


def blocks_of(raw: RawMessage, names: dict[str, str] | None = None) -> list[Block]:
    """Return a message's blocks in order.

    `names`: tool id → tool name, filled from tool calls and used for their results; pass one
    mapping through the messages of a conversation. NotUnderstood when it is not a message.
    """
    message = decode_message(raw)
    role = message.get("role")
    if not isinstance(role, str):
        raise NotUnderstood("a message has no role")
    try:
        return _blocks(role, message.get("content"), {} if names is None else names)
    except RecursionError:
        raise NotUnderstood("a message is nested too deeply") from None


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
    kind = part.get("type")
    kind = kind if isinstance(kind, str) else ""
    text = part.get("text")
    if kind == "text" and isinstance(text, str):
        return _text_blocks(role, text)
    if kind in ("thinking", "redacted_thinking"):
        shown = part.get("thinking")
        if not isinstance(shown, str) or not shown.strip():
            return []  # only a signature or encrypted: nothing that could be read again
        return [Block(role="assistant", kind="thinking", text=escape_odd(shown))]
    if kind in ("image", "document"):
        return [_media_block(role, kind, "", part)]
    if kind.endswith("tool_use"):
        name = part.get("name")
        name = escape_odd(name) if isinstance(name, str) else kind
        if isinstance(part.get("id"), str):
            names[part["id"]] = name
        return [Block(role=role, kind="tool_use", name=name, text=_compact(part.get("input", {})))]
    if kind.endswith("tool_result"):
        call = part.get("tool_use_id")
        name = names.get(call, "") if isinstance(call, str) else ""
        return _result_blocks(name, part.get("content"))
    return [Block(role=role, kind="other", text=_compact(_plain(part)))]


def _text_blocks(role: str, text: str) -> list[Block]:
    if not text.strip():
        return []  # clients drop such blocks when they send a reply back
    inner = reminder_texts(text) if role == "user" else None
    if inner is not None:
        return [
            Block(role="system", kind="text", text=escape_odd(one)) for one in inner if one.strip()
        ]
    if role == "system":
        text = text.strip("\n")
    return [Block(role=role, kind="text", text=escape_odd(text))]


def _result_blocks(name: str, content: Any) -> list[Block]:
    """Return a result's text as one block, its images and documents, then reminders behind it."""
    if not isinstance(content, list):
        content = [] if content is None else [content]
    texts: list[str] = []
    media: list[Block] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and part.get("type") in ("image", "document"):
            media.append(_media_block("tool", part["type"], name, part))
        else:
            texts.append(_compact(_plain(part)))
    text, reminders = without_reminders("\n".join(texts))
    behind = [Block(role="system", kind="text", text=escape_odd(one)) for one in reminders if one]
    if media and not text:
        return [*media, *behind]
    block = Block(role="tool", kind="tool_result", name=name, text=escape_odd(text))
    return [block, *media, *behind]


def _media_block(role: str, kind: str, name: str, part: dict[str, Any]) -> Block:
    source = part.get("source")
    source = source if isinstance(source, dict) else {}
    media, data = source.get("media_type"), source.get("data")
    media = escape_odd(media) if isinstance(media, str) else ""
    if isinstance(data, str) and source.get("type") == "base64":
        return Block(role=role, kind=kind, name=name, payload=_decoded(data), media=media)
    if isinstance(data, str):  # a document given as text
        return Block(role=role, kind=kind, name=name, text=escape_odd(data))
    for place in ("url", "file_id"):
        if isinstance(source.get(place), str):
            return Block(role=role, kind=kind, name=name, text=escape_odd(source[place]))
    return Block(role=role, kind=kind, name=name, text=_compact(_plain(part)))


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "surrogatepass")  # not base64 after all: kept as it came


def _plain(value: Any) -> Any:
    """Return a value without what clients move or renew: cache markers, ids, signatures."""
    if not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if key not in _NOT_CONTENT}


def _compact(value: Any) -> str:
    return escape_odd(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
