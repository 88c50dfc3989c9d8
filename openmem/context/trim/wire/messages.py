"""The Messages format, in its older shape and with system messages inside the conversation.

Source: the vendor's API reference and preserved-thinking pages; Claude Code 2.1.332, observed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from openmem.context.rows import reminder_texts
from openmem.context.trim.estimate import image_tokens
from openmem.context.trim.images import image_size
from openmem.context.trim.items import Envelope, Item, Kind, NotTrimmable, Profile
from openmem.context.trim.legality import first_fault
from openmem.context.trim.raw import (
    Parts,
    join_list,
    join_object,
    list_parts,
    member,
    number_of,
    object_parts,
    text_block,
    text_of,
    value_of,
    with_member,
)

_ENCODE = msgspec.json.Encoder().encode
_THINKING = ("thinking", "redacted_thinking")
_NOTICES = ("[SYSTEM NOTIFICATION", "CRITICAL: Respond with TEXT ONLY")
# Models known not to check a thinking block against what stands before it; any other may.
_UNCHECKED = re.compile(
    r"claude-(?:3|(?:opus|sonnet|haiku)-4|(?:opus|sonnet|fable|haiku)-5(?:-\d{8})?$)"
)
_HOUR_SECONDS, _SHORT_SECONDS = 3600, 300


class MessagesFormat:
    """`items.WireFormat` for `POST /v1/messages`."""

    name = "messages"

    def split(self, body: bytes) -> tuple[Envelope, list[bytes]]:
        parts = object_parts(body)
        listed = member(parts, "messages")
        if listed is None:
            raise NotTrimmable("there are no messages")
        model = text_of(parts, "model")
        envelope = Envelope(
            parts=parts,
            list_key=b'"messages"',
            model=model,
            max_tokens=number_of(parts, "max_tokens"),
            profile=_profile(model, member(parts, "thinking")),
            weight=len(body) - len(listed),
            system_digest=_system_digest(member(parts, "system") or b"null"),
            tools=_tool_names(member(parts, "tools") or b"[]"),
            cache_seconds=_HOUR_SECONDS if b'"ttl":"1h"' in body else _SHORT_SECONDS,
        )
        raws = list_parts(listed)
        return envelope, raws

    def item(self, raw: bytes, *, is_last: bool) -> Item:
        message = value_of(raw)
        if not isinstance(message, dict):
            raise NotTrimmable("a message is not an object")
        role, content = message.get("role"), _blocks(message.get("content"))
        if role not in ("user", "assistant", "system"):
            raise NotTrimmable("a message has an unknown role")
        if any(block.get("type") == "compaction" for block in content):
            # The provider leaves out what stands before it, and thinking is bound to it as it is.
            raise NotTrimmable("the provider compacts this conversation itself")
        blocks = _without_nudge(role, content) if is_last else content
        spoken = [block for block in blocks if block.get("type") not in _THINKING]
        weight, pictures = _weigh(raw, content)
        effort = _has_effort(message)
        return Item(
            raw=raw,
            kind=_kind(role, content),
            digest=_digest(role, spoken, message),
            weight=weight,
            image_tokens=pictures,
            thinking_weight=sum(
                len(_ENCODE(block)) for block in content if block.get("type") in _THINKING
            ),
            calls=_ids(content, ("tool_use",), "id"),
            results=_ids(content, ("tool_result",), "tool_use_id"),
            keeps=_keeps(role, content, effort),
            has_thinking=any(block.get("type") in _THINKING for block in content),
            opens_with_thinking=bool(content) and content[0].get("type") in _THINKING,
            is_reply=role == "assistant"
            and any(block.get("type") == "text" for block in content)
            and not any("tool_use" in str(block.get("type")) for block in content),
            has_content=bool(content),
            is_notice=role == "user" and _is_notice(content),
        )

    def with_binding(self, envelope: Envelope) -> Envelope | None:
        thinking = member(envelope.parts, "thinking")
        if thinking is None or envelope.profile == "P":
            return None
        binding = b'{"prefix_mismatch_behavior":"drop_block"}'
        kept = [(k, v) for k, v in object_parts(thinking) if k != b'"block_binding"']
        asked = join_object([*kept, (b'"block_binding"', binding)])
        parts = tuple((k, asked if k == b'"thinking"' else v) for k, v in envelope.parts)
        return replace(envelope, parts=parts)

    def without_thinking(self, raw: bytes) -> bytes | None:
        parts = object_parts(raw)
        content = _content(parts)
        if not content.startswith(b"["):
            return raw
        kept = [block for block in list_parts(content) if _type(block) not in _THINKING]
        return _with_content(parts, join_list(kept)) if kept else None

    def with_pointer(self, raw: bytes, pointer: str) -> list[bytes]:
        parts = object_parts(raw)
        content = _content(parts)
        if content.startswith(b"["):
            blocks = list_parts(content)
        else:
            blocks = [b'{"type":"text","text":' + content + b"}"]
        return [_with_content(parts, join_list([text_block(pointer), *blocks]))]

    def fault_of(self, body: bytes) -> str:
        return first_fault(body)

    def arranged(self, kept: list[tuple[Item, list[bytes]]]) -> list[bytes]:
        """Return the messages with every system group behind a user message.

        A content-carrying system message stands behind a user turn and before an assistant's or
        the end; one that would stand before a user message moves behind it.
        """
        out: list[bytes] = []
        waiting: list[bytes] = []
        last = ""
        for item, raws in kept:
            if item.kind == "system":
                waiting.extend(raws)
                continue
            if item.kind == "assistant" and waiting and last != "assistant":
                out.extend(waiting)
                waiting = []
            out.extend(raws)
            last = "assistant" if item.kind == "assistant" else "user"
        if waiting and last != "user":
            raise NotTrimmable("a system message would stand behind an assistant's")
        return out + waiting


def _profile(model: str, thinking: bytes | None) -> Profile:
    kind = ""
    if thinking:
        value = value_of(thinking)
        kind = str(value.get("type", "")) if isinstance(value, dict) else ""
    if kind == "enabled":
        return "C"
    if kind == "adaptive":
        return "B" if _UNCHECKED.match(model) else "A"
    return "P"


def _system_digest(raw: bytes) -> str:
    """Return the digest of the system prompt without the client's attribution block."""
    blocks = _blocks(value_of(raw))
    texts = [str(block.get("text", "")) for block in blocks]
    if texts and texts[0].startswith("x-anthropic-billing-header"):
        texts = texts[1:]
    return hashlib.blake2b("\0".join(texts).encode("utf-8"), digest_size=12).hexdigest()


def _tool_names(raw: bytes) -> frozenset[str]:
    tools = value_of(raw)
    found = tools if isinstance(tools, list) else []
    return frozenset(str(tool.get("name", "")) for tool in found if isinstance(tool, dict))


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]


def _kind(role: str, content: list[dict[str, Any]]) -> Kind:
    if role != "user":
        return "assistant" if role == "assistant" else "system"
    if any(block.get("type") == "tool_result" for block in content):
        return "results"
    spoken = [
        block
        for block in content
        if block.get("type") != "text" or reminder_texts(str(block.get("text", ""))) is None
    ]
    return "user" if not spoken or _is_notice(content) else "turn"


def _is_notice(content: list[dict[str, Any]]) -> bool:
    texts = [str(block.get("text", "")) for block in content if block.get("type") == "text"]
    spoken = [text for text in texts if reminder_texts(text) is None]
    return bool(spoken) and spoken[-1].lstrip().startswith(_NOTICES)


def _without_nudge(role: str, content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a newest system message as the next request repeats it: up to its cache marker."""
    if role == "system":
        marked = [n for n, block in enumerate(content) if "cache_control" in block]
        if marked:
            return content[: marked[-1] + 1]
    return content


def _plain(value: Any) -> Any:
    """Return a block without cache markers, its inner content as a list of blocks."""
    if not isinstance(value, dict):
        return value
    plain = {key: item for key, item in value.items() if key != "cache_control"}
    if isinstance(plain.get("content"), str):
        plain["content"] = [{"type": "text", "text": plain["content"]}]
    elif isinstance(plain.get("content"), list):
        plain["content"] = [_plain(item) for item in plain["content"]]
    return plain


def _digest(role: str, blocks: list[dict[str, Any]], message: Mapping[str, Any]) -> bytes:
    other = {k: v for k, v in message.items() if k not in ("role", "content")}
    canonical = _ENCODE([role, [_plain(block) for block in blocks], other])
    return hashlib.blake2b(canonical, digest_size=16).digest()


def _ids(content: list[dict[str, Any]], kinds: tuple[str, ...], key: str) -> frozenset[str]:
    return frozenset(str(block.get(key, "")) for block in content if block.get("type") in kinds)


def _has_effort(message: Mapping[str, Any]) -> bool:
    settings = message.get("output_config")
    return isinstance(settings, dict) and "effort" in settings


def _keeps(role: str, content: list[dict[str, Any]], effort: bool) -> tuple[str, ...]:
    if role != "system":
        return ()
    names: list[str] = ["effort"] if effort else []
    for block in content:
        if block.get("type") in ("tool_addition", "tool_removal"):
            tool = block.get("tool")
            name = tool.get("name") if isinstance(tool, dict) else block.get("name")
            names.append(f"tool:{name or block.get('tool_name', '')}")
    return tuple(names)


def _weigh(raw: bytes, content: list[dict[str, Any]]) -> tuple[int, int]:
    """Return (characters without base64, tokens of images)."""
    weight, tokens = len(raw), 0
    for block in content:
        inner = block.get("content")
        for part in [block, *(inner if isinstance(inner, list) else [])]:
            source = part.get("source") if isinstance(part, dict) else None
            if not isinstance(source, dict) or not isinstance(source.get("data"), str):
                continue
            if source.get("type") == "base64":
                weight -= len(source["data"])
                if part.get("type") == "image":
                    tokens += image_tokens(*image_size(source["data"]))
                else:  # a PDF: about 2,000 tokens a page of 75 kB; no page count without reading it
                    tokens += max(1500, len(source["data"]) // 37)
    return weight, tokens


def _content(parts: Parts) -> bytes:
    found = member(parts, "content")
    if found is None:
        raise NotTrimmable("a message has no content")
    return found


def _with_content(parts: Parts, content: bytes) -> bytes:
    return with_member(parts, "content", content)


def _type(raw: bytes) -> str:
    block = value_of(raw)
    return str(block.get("type", "")) if isinstance(block, dict) else ""
