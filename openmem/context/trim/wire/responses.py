"""The Responses format, as Codex speaks it: a list of items of many types.

`additional_tools`, `configuration_update`, compaction items and the summary of a compacted history
are never touched; what stands before the first real user turn stays; of what Codex tells of its
surroundings later (permissions, environment, mode) the newest of each kind does. Reasoning before
the cut goes: the newest models drop it after a changed prefix in any case.
Source: Codex 0.171.0, observed; OpenAI's API reference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from openmem.context.formats.surroundings import (
    COMPACTION,
    is_summary,
    is_surroundings,
    state_in,
)
from openmem.context.trim.items import Envelope, Item, Kind, NotTrimmable, unpaired
from openmem.context.trim.raw import (
    join_list,
    list_parts,
    member,
    number_of,
    object_parts,
    text_block,
    text_of,
    value_of,
    with_member,
)
from openmem.context.trim.wire.chat import blocks_of, weigh

_ENCODE = msgspec.json.Encoder().encode
_PINNED = frozenset(
    {"additional_tools", "configuration_update", "compaction", "compaction_summary",
     "compaction_trigger", "context_compaction", "item_reference"}
)  # fmt: skip
_SERVER_CALLS = frozenset(
    {"web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call",
     "mcp_call", "mcp_list_tools", "mcp_approval_request", "tool_search_call"}
)  # fmt: skip
_CALLS = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "computer_call", "shell_call",
     "apply_patch_call"}
)  # fmt: skip
# What differs between a message and its resent form, and what says nothing to the model.
_RENEWED = ("id", "status", "internal_chat_message_metadata_passthrough", "metadata")
_CACHE_SECONDS = 600


class ResponsesFormat:
    """`items.WireFormat` for `POST …/responses`."""

    name = "responses"

    def split(self, body: bytes) -> tuple[Envelope, list[bytes]]:
        parts = object_parts(body)
        listed = member(parts, "input")
        if listed is None or not listed.startswith(b"["):
            raise NotTrimmable("the input is not a list")
        for key in ("previous_response_id", "conversation"):
            if member(parts, key) not in (None, b"null"):
                raise NotTrimmable("the history is kept by the provider")
        raws = list_parts(listed)
        envelope = Envelope(
            parts=parts,
            list_key=b'"input"',
            model=text_of(parts, "model"),
            max_tokens=number_of(parts, "max_output_tokens"),
            profile="R",
            weight=len(body) - len(listed),
            system_digest=_system_digest(parts),
            tools=frozenset(),
            cache_seconds=_CACHE_SECONDS,
        )
        return envelope, raws

    def item(self, raw: bytes, *, is_last: bool) -> Item:
        value = value_of(raw)
        if not isinstance(value, dict):
            raise NotTrimmable("an input item is not an object")
        kind, calls, results = _kind(value)
        content = blocks_of(value.get("content"))
        output = value.get("output")
        weight, pictures = weigh(raw, content + blocks_of(output if kind == "results" else None))
        return Item(
            raw=raw,
            kind=kind,
            digest=_digest(value, kind),
            weight=weight,
            image_tokens=pictures,
            thinking_weight=weight if kind == "reasoning" else 0,
            calls=calls,
            results=results,
            keeps=_keeps(content) if kind == "system" else (),
            has_thinking=kind == "reasoning",
            is_reply=kind == "assistant" and value.get("type", "message") == "message",
            is_notice=_is_notice(value, content),
        )

    def with_binding(self, envelope: Envelope) -> Envelope | None:
        return None

    def without_thinking(self, raw: bytes) -> bytes | None:
        return None

    def with_pointer(self, raw: bytes, pointer: str) -> list[bytes]:
        parts = object_parts(raw)
        content = member(parts, "content") or b'""'
        if content.startswith(b"["):
            blocks = list_parts(content)
        else:
            blocks = [b'{"type":"input_text","text":' + content + b"}"]
        head = text_block(pointer, "input_text")
        return [with_member(parts, "content", join_list([head, *blocks]))]

    def fault_of(self, body: bytes) -> str:
        _, raws = self.split(body)
        return unpaired([self.item(raw, is_last=False) for raw in raws])

    def arranged(self, kept: list[tuple[Item, list[bytes]]]) -> list[bytes]:
        return [raw for _, raws in kept for raw in raws]


def _kind(value: dict[str, Any]) -> tuple[Kind, frozenset[str], frozenset[str]]:
    none: frozenset[str] = frozenset()
    kind = value.get("type", "message")
    if kind == "message":
        return _message_kind(value), none, none
    if kind == "reasoning":
        return "reasoning", none, none
    call = frozenset([str(value.get("call_id") or value.get("id") or "")])
    if kind in _CALLS:
        return "assistant", call, none
    if kind in _SERVER_CALLS:
        return "assistant", none, none
    if kind in _PINNED:
        return "pinned", none, none
    if isinstance(kind, str) and kind.endswith("_output"):
        return "results", none, call
    raise NotTrimmable("an input item is of an unknown type")


def _message_kind(value: dict[str, Any]) -> Kind:
    role = value.get("role")
    if role in ("developer", "system"):
        return "system"
    if role == "assistant":
        return "assistant"
    if role != "user":
        raise NotTrimmable("a message has an unknown role")
    content = blocks_of(value.get("content"))
    if _is_notice(value, content):
        return "user"
    texts = _texts(content)
    if len(texts) < len(content) or not texts:
        return "turn"
    if is_summary(texts[0]):
        return "pinned"
    if not all(map(is_surroundings, texts)):
        return "turn"
    return "system" if any(map(state_in, texts)) else "user"


def _is_notice(value: dict[str, Any], content: list[dict[str, Any]]) -> bool:
    if value.get("type") == "compaction_trigger":
        return True
    texts = _texts(content)
    return value.get("role") == "user" and bool(texts) and texts[-1].lstrip().startswith(COMPACTION)


def _texts(content: list[dict[str, Any]]) -> list[str]:
    return [str(b.get("text", "")) for b in content if "text" in str(b.get("type", ""))]


def _keeps(content: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the names of the states that a message tells, of which the newest is in force."""
    names = (state_in(text) for text in _texts(content))
    return tuple(dict.fromkeys(f"told:{name}" for name in names if name))


def _digest(value: dict[str, Any], kind: Kind) -> bytes:
    if kind == "reasoning":
        return hashlib.blake2b(b"reasoning", digest_size=16).digest()
    plain = {k: v for k, v in value.items() if k not in _RENEWED}
    if "content" in plain:
        plain["content"] = blocks_of(plain["content"])
        for block in plain["content"]:
            if block.get("type") == "text":
                block["type"] = "input_text"
    return hashlib.blake2b(_ENCODE(plain), digest_size=16).digest()


def _system_digest(parts: Sequence[tuple[bytes, bytes]]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for key, value in parts:
        if key in (b'"instructions"', b'"tools"'):
            digest.update(value)
    return digest.hexdigest()
