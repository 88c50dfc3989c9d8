"""How much of a thread's previous request a new one begins with, and why it does not go on.

A provider reuses what it computed for tools, system and messages, in this order, up to the first
difference. Cache markers and the form of a text make no difference; thinking and reminders do.
Source: Anthropic's prompt caching; Claude Code 2.1.332, observed.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from itertools import accumulate

from openmem.context.formats.messages import RequestView
from openmem.context.store.thread_memory import ThreadMemory, common_length
from openmem.context.store.walk import Walk

_ATTRIBUTION = "x-anthropic-billing-header"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Sizes in bytes of messages; None when the thread had no request before. `bust`: see
    `Recorded`."""

    kept: int | None = None
    total: int | None = None
    bust: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What stands before the messages, hashed. `tools`: without deferred ones and markers."""

    model: str
    system: int
    tools_raw: int
    tools: int


def shape_of(view: RequestView, before: ThreadMemory | None) -> Shape:
    """Return the shape of a request. `before`: the thread's last one, to save decoding tools."""
    texts = view.system
    if texts and texts[0].lstrip().startswith(_ATTRIBUTION):
        texts = texts[1:]  # differs with each request and is taken off by the vendor
    raw = hash(view.tools)
    return Shape(
        model=view.model,
        system=hash("".join(texts)),
        tools_raw=raw,
        tools=before.tools if before and before.tools_raw == raw else _hash_of_tools(view.tools),
    )


def _hash_of_tools(raw: bytes) -> int:
    try:
        tools = json.loads(raw) if raw else []
    except (ValueError, RecursionError):
        return hash(raw)  # compared as bytes then
    if not isinstance(tools, list):
        return hash(raw)
    plain = [
        {key: value for key, value in tool.items() if key != "cache_control"}
        for tool in tools
        if isinstance(tool, dict) and not tool.get("defer_loading")
    ]
    return hash(json.dumps(plain))


def compare_prefix(before: ThreadMemory, walk: Walk, shape: Shape) -> Prefix:
    """Return how much of the thread's last request a new one begins with."""
    total = sum(before.sizes)
    for name, was, now in (
        ("model", before.model, shape.model),
        ("tools", before.tools, shape.tools),
        ("system", before.system, shape.system),
    ):
        if was != now:
            return Prefix(kept=0, total=total, bust=name)
    kept = _kept_messages(before, walk)
    if kept == len(before.contents):
        return Prefix(kept=total, total=total)
    sizes = list(accumulate(before.sizes))
    return Prefix(kept=sizes[kept - 1] if kept else 0, total=total, bust="messages")


def _kept_messages(before: ThreadMemory, walk: Walk) -> int:
    contents = walk.memory.contents[: walk.known] if walk.memory else array("q")
    contents.extend(message.content for message in walk.messages)
    number = common_length(before.contents, contents)
    is_last = number == len(before.contents) - 1 < len(contents)
    return number + (is_last and _lost_its_tail(before, walk, number))


def _lost_its_tail(before: ThreadMemory, walk: Walk, number: int) -> bool:
    """Return whether the last message is the same without its end.

    Some models get a text for one request only, behind the marker of the newest system message.
    """
    if not before.last_is_system or number < walk.known:
        return False
    hashes = walk.messages[number - walk.known].block_hashes
    return bool(hashes) and before.last_blocks[: len(hashes)] == hashes
