"""Blocks of what agents write down outside of the wire formats, in the forms those would give.

Idea: a session that goes through the proxy and is read from disk later must give the same rows, so
calls and results are made by the functions that the wire formats use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openmem.context.formats.parts import (
    arguments_text,
    call_block,
    from_base64,
    media_block,
    outcome_blocks,
    text_blocks,
    thinking_block,
)
from openmem.context.rows import Block, escape_odd

__all__ = ["call", "image", "result", "said", "thought"]


def said(role: str, value: object) -> list[Block]:
    """Return a text as somebody said it; none for a blank one."""
    return text_blocks(role, value) if isinstance(value, str) else []


def thought(value: object) -> list[Block]:
    """Return thinking that can be read."""
    return thinking_block(value)


def call(name: str, arguments: object) -> Block:
    """Return a tool call. `arguments`: a value, or the JSON text of one."""
    return call_block(escape_odd(name), arguments_text(arguments))


def result(name: str, value: object) -> list[Block]:
    """Return a tool's result: a text, a list of parts, or any other value as JSON."""

    def media_of(part: dict[str, Any]) -> list[Block]:
        found = image("tool", part, name)
        return [found] if found else []

    return outcome_blocks(escape_odd(name), value, media_of)


def image(role: str, part: Mapping[str, Any], name: str = "") -> Block | None:
    """Return an image or document of a part; None when it holds none.

    Forms: `{"data", "mimeType"}`, `{"inlineData": {…}}`, `{"url", "mime"}` with a data address.
    """
    inner = part.get("inlineData")
    part = inner if isinstance(inner, dict) else part
    media = part.get("mimeType") or part.get("mime")
    media = media if isinstance(media, str) else ""
    kind = "image" if media.startswith("image/") else "document"
    data, address = part.get("data"), part.get("url")
    if isinstance(data, str) and media:
        payload = from_base64(data)
        return Block(role=role, kind=kind, name=name, payload=payload, media=escape_odd(media))
    if isinstance(address, str) and address and media:
        return media_block(role, kind, name, address, dict(part))
    return None
