"""The shape rules of a Messages request: each function finds one kind of fault, or nothing.

Wordings follow the service's where a client is known to read them. Source: newest-models facts,
1.5 and 5.5. Not verified against the live API.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tests.fakes.faults import Refusal, invalid
from tests.fakes.strict.canonical import THINKING, blocks_of, references_in

MARKER_LIMIT = 4


def first_fault(body: dict[str, Any]) -> Refusal | None:
    """Return the first rule that a request breaks, None for a legal one."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return invalid("messages: at least one message is required")
    for rule in (
        _roles,
        _ends,
        _system_places,
        _contents,
        _tool_pairs,
        _markers,
        _references,
        _loop_begins_with_thinking,
        _context_edits,
    ):
        fault = rule(body, messages)
        if fault is not None:
            return fault
    return None


Messages = list[dict[str, Any]]


def _roles(_: dict[str, Any], messages: Messages) -> Refusal | None:
    for at, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant", "system"):
            return invalid(f"messages.{at}.role: Input should be 'user', 'assistant' or 'system'")
    return None


def _ends(_: dict[str, Any], messages: Messages) -> Refusal | None:
    if messages[0]["role"] == "assistant":
        return invalid('messages: first message must use the "user" role')
    if messages[-1]["role"] == "assistant":
        return invalid(
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )
    return None


def _carries_content(message: dict[str, Any]) -> bool:
    return bool(blocks_of(message.get("content")))


def _system_places(_: dict[str, Any], messages: Messages) -> Refusal | None:
    """Neighbouring system messages are judged as one group, if any of them carries content."""
    at = 0
    for role, group in groupby(messages, key=lambda m: m["role"]):
        members = list(group)
        start, at = at, at + len(members)
        if role != "system":
            continue
        if not any(_carries_content(m) for m in members):
            if all((m.get("output_config") or {}).get("effort") for m in members):
                continue
            return invalid(f"messages.{start}: role 'system' must have content")
        if start == 0 or messages[start - 1]["role"] != "user":
            return invalid(f"messages.{start}: role 'system' must follow a user message")
        if at < len(messages) and messages[at]["role"] != "assistant":
            return invalid(
                f"messages.{start}: role 'system' must precede an assistant message "
                "or end the conversation"
            )
    return None


def _contents(_: dict[str, Any], messages: Messages) -> Refusal | None:
    for at, message in enumerate(messages):
        blocks = blocks_of(message.get("content"))
        if not blocks and message["role"] != "system":
            return invalid(f"messages.{at}: all messages must have non-empty content")
        for index, block in enumerate(blocks):
            if block.get("type") == "text" and not str(block.get("text", "")).strip():
                return invalid(
                    f"messages.{at}.content.{index}: text content blocks must be non-empty"
                )
    return None


def _runs(messages: Messages) -> Iterator[tuple[str, list[tuple[int, int, dict[str, Any]]]]]:
    """Yield (role, blocks with places) with neighbours of one role joined, as the service does."""
    places = [
        (message["role"], at, index, block)
        for at, message in enumerate(messages)
        for index, block in enumerate(blocks_of(message.get("content")))
    ]
    for role, group in groupby(places, key=lambda place: place[0]):
        yield str(role), [(at, index, block) for _, at, index, block in group]


def _tool_pairs(_: dict[str, Any], messages: Messages) -> Refusal | None:
    waiting: list[str] = []
    seen: set[str] = set()
    asked_at = 0
    for role, blocks in _runs(messages):
        answered: list[str] = []
        if role == "user":
            for at, index, block in blocks:
                if block.get("type") != "tool_result":
                    continue
                tool_id = str(block.get("tool_use_id"))
                if tool_id not in waiting or tool_id in answered:
                    return invalid(
                        f"messages.{at}.content.{index}: unexpected `tool_use_id` found in "
                        f"`tool_result` blocks: {tool_id}. Each `tool_result` block must have a "
                        "corresponding `tool_use` block in the previous message."
                    )
                answered.append(tool_id)
        missing = [one for one in waiting if one not in answered]
        if missing:
            return invalid(
                f"messages.{asked_at}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        waiting = []
        if role == "assistant":
            for at, _index, block in blocks:
                if block.get("type") != "tool_use":
                    continue
                tool_id = str(block.get("id"))
                if tool_id in seen:
                    return invalid(f"messages.{at}: `tool_use` ids must be unique")
                seen.add(tool_id)
                waiting.append(tool_id)
                asked_at = at
    if waiting:
        return invalid(
            f"messages.{asked_at}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(waiting)}."
        )
    return None


def _count_markers(value: Any) -> int:
    if isinstance(value, list):
        return sum(_count_markers(one) for one in value)
    if not isinstance(value, dict):
        return 0
    own = 1 if value.get("cache_control") is not None else 0
    inner = value.get("content") if value.get("type") == "tool_result" else None
    return own + _count_markers(inner)


def _markers(body: dict[str, Any], messages: Messages) -> Refusal | None:
    for at, message in enumerate(messages):
        for index, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") in THINKING and block.get("cache_control") is not None:
                return invalid(
                    f"messages.{at}.content.{index}.{block['type']}.cache_control: "
                    "Extra inputs are not permitted"
                )
    system = body.get("system")
    total = _count_markers(body.get("tools")) + _count_markers(system)
    total += sum(_count_markers(blocks_of(m.get("content"))) for m in messages)
    if total > MARKER_LIMIT:
        return invalid(
            f"A maximum of {MARKER_LIMIT} blocks with cache_control may be provided. Found {total}."
        )
    return None


def _references(body: dict[str, Any], messages: Messages) -> Refusal | None:
    declared = {str(tool.get("name")) for tool in body.get("tools") or []}
    for at, message in enumerate(messages):
        for index, block in enumerate(blocks_of(message.get("content"))):
            for name in references_in(block):
                if name not in declared:
                    return invalid(
                        f"messages.{at}.content.{index}: Tool reference '{name}' not found in "
                        "available tools"
                    )
    return None


def _loop_begins_with_thinking(body: dict[str, Any], messages: Messages) -> Refusal | None:
    """With a thinking budget, the assistant's turn of an open tool loop begins with thinking."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return None
    last_user = next((m for m in reversed(messages) if m["role"] == "user"), None)
    if last_user is None or not _has_results(last_user):
        return None
    start: tuple[int, dict[str, Any]] | None = None
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message["role"] == "assistant":
            start = (at, message)
        elif message["role"] == "user" and not _has_results(message):
            break
    if start is None:
        return None
    first = blocks_of(start[1].get("content"))[0]
    if first.get("type") in THINKING:
        return None
    return invalid(
        f"messages.{start[0]}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
        f"found `{first.get('type')}`. When `thinking` is enabled, a final `assistant` message "
        "must start with a thinking block."
    )


def _has_results(message: dict[str, Any]) -> bool:
    return any(b.get("type") == "tool_result" for b in blocks_of(message.get("content")))


def _context_edits(body: dict[str, Any], _: Messages) -> Refusal | None:
    edits = (body.get("context_management") or {}).get("edits") or []
    for index, edit in enumerate(edits):
        if str(edit.get("type", "")).startswith("clear_thinking_") and index > 0:
            return invalid(
                f"context_management.edits.{index}: `{edit['type']}` must be the first edit"
            )
    return None
