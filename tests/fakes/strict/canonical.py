"""A request as the service's prefix check sees it: a list of small units with places.

`cache_control` is off, a string is one text block, thinking is out, the attribution block of
`system` is gone, tools are a set. Two requests whose units begin alike have the same prefix. The
trap: a deferred tool counts only from the message on that references it, so adding one that
nothing references changes nothing. Not verified against the live API.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ATTRIBUTION = "x-anthropic-billing-header"
THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of the prefix. `place`: as the API names it; `digest`: of its canonical form."""

    place: str
    digest: str


@dataclass(frozen=True, slots=True)
class Thought:
    """One thinking block met on the way, with the count of units before it."""

    place: str
    block: dict[str, Any]
    units_before: int


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Return content as blocks; a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content or [] if isinstance(b, dict)]


def without_markers(value: Any) -> Any:
    """Return a block without `cache_control`, its own content as blocks."""
    if isinstance(value, list):
        return [without_markers(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "tool_use":  # the model's own arguments may use any key
        return {k: v for k, v in value.items() if k != "cache_control"}
    plain = {k: without_markers(v) for k, v in value.items() if k != "cache_control"}
    if plain.get("type") == "tool_result" and isinstance(plain.get("content"), str):
        plain["content"] = blocks_of(plain["content"])
    return plain


def digest(value: Any) -> str:
    """Return a digest of the value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def system_blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the top-level system blocks that count; the first attribution block is stripped."""
    system = body.get("system")
    blocks = blocks_of(system)
    first = str(blocks[0].get("text", "")) if blocks else ""
    if isinstance(system, list) and first.startswith(ATTRIBUTION):
        return blocks[1:]
    return blocks


def tools_by_name(body: dict[str, Any], *, deferred: bool) -> dict[str, dict[str, Any]]:
    """Return the tools that are, or are not, loaded on demand; without `defer_loading`."""
    return {
        str(tool.get("name")): {
            k: v for k, v in without_markers(tool).items() if k != "defer_loading"
        }
        for tool in body.get("tools") or []
        if bool(tool.get("defer_loading")) is deferred
    }


def references_in(block: dict[str, Any]) -> list[str]:
    """Return the names of tools that a block brings in."""
    if block.get("type") == "tool_addition":
        tool = block.get("tool")
        name = tool.get("name") if isinstance(tool, dict) else block.get("tool_name")
        return [str(name)]
    if block.get("type") == "tool_reference":
        return [str(block.get("tool_name") or block.get("name"))]
    if block.get("type") == "tool_result":
        return [name for inner in blocks_of(block.get("content")) for name in references_in(inner)]
    return []


def counted_blocks(message: dict[str, Any], *, nudge_exempt: bool) -> list[dict[str, Any]]:
    """Return a message's blocks; with the exemption, those of a system message up to its marker."""
    blocks = blocks_of(message.get("content"))
    if nudge_exempt and message.get("role") == "system":
        for index, block in enumerate(blocks):
            if "cache_control" in block:
                return blocks[: index + 1]
    return blocks


def walk(body: dict[str, Any], *, nudge_exempt: bool) -> Iterator[Unit | Thought]:
    """Yield the units of a request in order, thinking blocks between them where they stand."""
    count = 0

    def unit(place: str, value: Any) -> Unit:
        nonlocal count
        count += 1
        return Unit(place, digest(value))

    yield unit("tools", [tool for _, tool in sorted(tools_by_name(body, deferred=False).items())])
    for index, block in enumerate(system_blocks(body)):
        yield unit(f"system.{index}", without_markers(block))
    deferred = tools_by_name(body, deferred=True)
    for at, message in enumerate(body.get("messages") or []):
        head = {k: v for k, v in message.items() if k != "content"}
        opened = False
        blocks = counted_blocks(message, nudge_exempt=nudge_exempt)
        for index, block in enumerate(blocks):
            place = f"messages.{at}.content.{index}"
            if block.get("type") in THINKING:
                yield Thought(place, block, count)
                continue
            if not opened:
                opened = True
                yield unit(f"messages.{at}", head)
            yield unit(place, without_markers(block))
            for name in references_in(block):
                if name in deferred:
                    yield unit(place, deferred[name])
        if not blocks and message.get("role") != "assistant":
            yield unit(f"messages.{at}", head)
