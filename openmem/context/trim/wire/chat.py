"""The Chat Completions format, as OpenCode and OpenAI-compatible servers speak it.

Source: OpenAI's API reference; OpenCode 1.18.33, observed. Content stays a string where it was
one: many compatible servers accept nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from openmem.context.trim.estimate import tiled_image_tokens
from openmem.context.trim.images import image_size
from openmem.context.trim.items import Envelope, Item, Kind, NotTrimmable, unpaired
from openmem.context.trim.raw import (
    join_list,
    join_object,
    list_parts,
    member,
    number_of,
    object_parts,
    prefixed_string,
    text_block,
    text_of,
    value_of,
    with_member,
)

_ENCODE = msgspec.json.Encoder().encode
_SIGNED = "thinking_blocks"  # what LiteLLM passes signed thinking in
# Clients leave these out of earlier turns as they like.
_REASONING = ("reasoning_content", "reasoning", "reasoning_text", "reasoning_details")
_NOTICES = ("You are a context summarization agent",)
_CACHE_SECONDS = 600


class ChatFormat:
    """`items.WireFormat` for `POST …/chat/completions`."""

    name = "chat"

    def split(self, body: bytes) -> tuple[Envelope, list[bytes]]:
        parts = object_parts(body)
        listed = member(parts, "messages")
        if listed is None:
            raise NotTrimmable("there are no messages")
        raws = list_parts(listed)
        envelope = Envelope(
            parts=parts,
            list_key=b'"messages"',
            model=text_of(parts, "model"),
            max_tokens=number_of(parts, "max_completion_tokens", "max_tokens"),
            profile="A",
            weight=len(body) - len(listed),
            system_digest=_system_digest(raws),
            tools=frozenset(),
            cache_seconds=_CACHE_SECONDS,
        )
        return envelope, raws

    def item(self, raw: bytes, *, is_last: bool) -> Item:
        message = value_of(raw)
        if not isinstance(message, dict):
            raise NotTrimmable("a message is not an object")
        role = message.get("role")
        content = blocks_of(message.get("content"))
        calls = message.get("tool_calls") or []
        weight, pictures = weigh(raw, content)
        thinking = message.get(_SIGNED)
        return Item(
            raw=raw,
            kind=_kind(role, content),
            digest=_digest(message, content),
            weight=weight,
            image_tokens=pictures,
            thinking_weight=len(_ENCODE(thinking)) if thinking else 0,
            calls=frozenset(str(c.get("id", "")) for c in calls if isinstance(c, dict)),
            results=frozenset([str(message.get("tool_call_id", ""))] if role == "tool" else []),
            has_thinking=bool(thinking),
            is_reply=role == "assistant" and not calls,
            is_notice=_says(content).startswith(_NOTICES),
        )

    def with_binding(self, envelope: Envelope) -> Envelope | None:
        return None

    def without_thinking(self, raw: bytes) -> bytes | None:
        parts = object_parts(raw)
        kept = [(key, value) for key, value in parts if key != b'"thinking_blocks"']
        said = member(parts, "content") or b"null"
        if said in (b"null", b'""', b"[]") and member(parts, "tool_calls") in (None, b"[]"):
            return None
        return join_object(kept)

    def with_pointer(self, raw: bytes, pointer: str) -> list[bytes]:
        parts = object_parts(raw)
        content = member(parts, "content") or b'""'
        if content.startswith(b"["):
            content = join_list([text_block(pointer), *list_parts(content)])
        else:
            content = prefixed_string(f"{pointer}\n\n", content)
        return [with_member(parts, "content", content)]

    def fault_of(self, body: bytes) -> str:
        _, raws = self.split(body)
        return unpaired([self.item(raw, is_last=False) for raw in raws])

    def arranged(self, kept: list[tuple[Item, list[bytes]]]) -> list[bytes]:
        return [raw for _, raws in kept for raw in raws]


def blocks_of(content: object) -> list[dict[str, Any]]:
    """Return content as blocks; a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]


def weigh(raw: bytes, content: list[dict[str, Any]]) -> tuple[int, int]:
    """Return (characters without base64, tokens of images) of an OpenAI-shaped item."""
    weight, tokens = len(raw), 0
    for block in content:
        image = block.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if isinstance(url, str) and url.startswith("data:"):
            data = url.partition(",")[2]
            weight -= len(data)
            tokens += tiled_image_tokens(*image_size(data))
        elif url is not None:
            tokens += tiled_image_tokens(0, 0)
        for key in ("file_data", "data"):
            if isinstance(block.get(key), str):
                weight -= len(block[key])
                tokens += max(1500, len(block[key]) // 37)
    return weight, tokens


def _says(content: list[dict[str, Any]]) -> str:
    return str(content[-1].get("text", "")) if content else ""


def _kind(role: object, content: list[dict[str, Any]]) -> Kind:
    kinds: dict[object, Kind] = {
        "system": "pinned",
        "developer": "pinned",
        "assistant": "assistant",
        "tool": "results",
        "function": "results",
        "user": "turn",
    }
    if role not in kinds:
        raise NotTrimmable("a message has an unknown role")
    return kinds[role]


_UNSAID = frozenset({"content", "cache_control", _SIGNED, *_REASONING})


def _digest(message: dict[str, Any], content: list[dict[str, Any]]) -> bytes:
    plain = [{k: v for k, v in block.items() if k != "cache_control"} for block in content]
    other = {k: v for k, v in message.items() if k not in _UNSAID}
    return hashlib.blake2b(_ENCODE([plain, other]), digest_size=16).digest()


def _system_digest(raws: Sequence[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for raw in raws:
        if not raw.startswith((b'{"role":"system"', b'{"role":"developer"')):
            break
        digest.update(raw)
    return digest.hexdigest()
