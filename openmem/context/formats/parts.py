"""Blocks out of the pieces that every wire format has: texts, tool calls, results, media.

Idea: the formats differ in where a piece stands, not in what it says; what a piece comes to is
decided here, once, so that the same conversation gives the same rows in each of them.
Invariant: ids, cache markers, signatures and encrypted content never reach a block.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any

from openmem.context.rows import Block, escape_odd, reminder_texts, without_reminders

_NOT_CONTENT = frozenset(
    {"cache_control", "id", "tool_use_id", "call_id", "tool_call_id", "signature", "caller",
     "status", "encrypted_content"}
)  # fmt: skip
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def text_blocks(role: str, text: str) -> list[Block]:
    """Return a text as blocks: reminders of a client are system blocks, a blank text is none."""
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


def thinking_block(text: object) -> list[Block]:
    """Return thinking that can be read; none when it is only a signature or encrypted."""
    if not isinstance(text, str) or not text.strip():
        return []
    return [Block(role="assistant", kind="thinking", text=escape_odd(text))]


def call_block(name: str, text: str) -> Block:
    """Return a tool call. `text`: its input, compact JSON or a tool's own free form."""
    return Block(role="assistant", kind="tool_use", name=name, text=text)


def arguments_text(arguments: object) -> str:
    """Return a call's arguments, which stand as JSON in a string, as the one text per value.

    Arguments that are no JSON (cut short, or a client's own) stay as they are; none are `{}`.
    """
    if not isinstance(arguments, str):
        return compact({} if arguments is None else arguments)
    if not arguments.strip():
        return "{}"
    try:
        return compact(json.loads(arguments, strict=False))
    except (ValueError, RecursionError):
        return escape_odd(arguments)


def result_blocks(name: str, texts: Sequence[str], media: Sequence[Block]) -> list[Block]:
    """Return a result's text as one block, its images and documents, then reminders behind it."""
    # Beside something else, a text that only reminds is the client's: 2.1.332 may tell beside a
    # picture what is left of the context, and leaves it out when it resumes.
    own: list[str] = []
    told: list[str] = []
    for text in texts:
        inner = reminder_texts(text)
        if inner is None:
            own.append(text)
        else:
            told += inner
    if not own and not media:
        own, told = list(texts), []
    text, reminders = without_reminders("\n".join(own))
    reminders += told
    behind = [Block(role="system", kind="text", text=escape_odd(one)) for one in reminders if one]
    if media and not text:
        return [*media, *behind]
    block = Block(role="tool", kind="tool_result", name=name, text=escape_odd(text))
    return [block, *media, *behind]


def outcome_blocks(
    name: str, value: Any, media_of: Callable[[dict[str, Any]], Sequence[Block]]
) -> list[Block]:
    """Return what a tool gave: a text, a list of parts, or any other value as JSON.

    `media_of`: the images and documents of a part without text, none when it holds none.
    """
    texts: list[str] = []
    media: list[Block] = []
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and (found := media_of(part)):
            media += found
        elif part is not None:
            texts.append(compact(plain(part)))
    return result_blocks(name, texts, media)


def media_block(role: str, kind: str, name: str, address: str, fallback: Any) -> Block:
    """Return an image or document given by address: `data:` holds it, any other names it.

    `fallback`: the part itself, for one without an address.
    """
    if address.startswith("data:"):
        head, _, data = address.partition(",")
        media, *options = head[5:].split(";")
        if "base64" in options:
            payload = from_base64(data)
            return Block(role=role, kind=kind, name=name, payload=payload, media=escape_odd(media))
    text = escape_odd(address) if address else compact(plain(fallback))
    return Block(role=role, kind=kind, name=name, text=text)


def audio_block(role: str, part: dict[str, Any]) -> Block:
    """Return a piece of sound that a person gave."""
    sound = part.get("input_audio")
    sound = sound if isinstance(sound, dict) else {}
    data, form = sound.get("data"), sound.get("format")
    if not isinstance(data, str):
        return other_block(role, part)
    media = f"audio/{escape_odd(form)}" if isinstance(form, str) else "audio"
    return Block(role=role, kind="document", payload=from_base64(data), media=media)


def other_block(role: str, part: dict[str, Any]) -> Block:
    """Return a part of a kind we do not know, without what clients renew."""
    return Block(role=role, kind="other", text=compact(plain(part)))


def from_base64(data: str) -> bytes:
    """Return the bytes; what is not base64 after all is kept as it came."""
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "surrogatepass")


def plain(value: Any) -> Any:
    """Return a value without what clients move or renew: cache markers, ids, signatures."""
    if not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if key not in _NOT_CONTENT}


def compact(value: Any) -> str:
    """Return the one text of a JSON value, odd code points escaped."""
    return escape_odd(_COMPACT.encode(value))
