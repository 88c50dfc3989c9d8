"""What an event tells of a request besides its rows: cache markers, and what restarts a cache.

Source: context-store contract, Events (breakpoints); the vendor's caching rules, read 2026-11-30.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from openmem.context.formats.view import RequestView
from openmem.context.proxy.recording.prefix import (
    LONG_TTL_SECONDS,
    OPENAI_TTL_SECONDS,
    TTL_SECONDS,
    Prompt,
)

_MARK = b'"cache_control"'
_LONG = b'"1h"'


class _Parts(msgspec.Struct):
    system: msgspec.Raw = msgspec.Raw(b"")
    thinking: msgspec.Raw = msgspec.Raw(b"")
    output_config: msgspec.Raw = msgspec.Raw(b"")


_DECODER = msgspec.json.Decoder(_Parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """`markers`: where `cache_control` stands, in prompt order: "tools", "system" or "m-<k>",
    the k-th message from the end. `settings`: thinking type and effort, as one word."""

    markers: tuple[str, ...]
    settings: str
    ttl_seconds: float


def shape_of(view: RequestView) -> Shape:
    """Return the shape of a request. Never raises: a part that cannot be read counts as absent."""
    if view.wire != "messages":
        return Shape(markers=(), settings=view.settings, ttl_seconds=OPENAI_TTL_SECONDS)
    try:
        parts = _DECODER.decode(view.body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        parts = _Parts()
    markers = ["tools"] * _markers(view.tools) + ["system"] * _markers(bytes(parts.system))
    in_system = bytes(parts.system).count(_MARK)
    markers += _of_messages(view, view.body.count(_MARK) - in_system)
    thinking = _field(bytes(parts.thinking), "type")
    effort = _field(bytes(parts.output_config), "effort")
    is_long = bool(markers) and _LONG in view.body
    return Shape(
        markers=tuple(markers),
        settings=f"{thinking}/{effort}",
        ttl_seconds=LONG_TTL_SECONDS if is_long else TTL_SECONDS,
    )


def prompt_of(view: RequestView, shape: Shape) -> Prompt:
    """Return what the provider caches of a request."""
    return Prompt(
        model=view.model,
        settings=shape.settings,
        tools=view.tools,
        # Where the system prompt is written as messages, it stands among them and counts once.
        system=() if view.lead else view.system,
        lead=view.lead,
        messages=view.messages,
        ttl_seconds=shape.ttl_seconds,
    )


def _of_messages(view: RequestView, mentions: int) -> list[str]:
    """Return the places of markers in messages. Clients mark near the end, so that is searched
    first, and only until all `mentions` of the whole body are found."""
    mentions -= view.tools.count(_MARK)
    places: list[str] = []
    for number, raw in enumerate(reversed(view.messages), 1):
        if mentions <= 0:
            break
        data = bytes(raw)
        found = data.count(_MARK)
        if found:
            mentions -= found
            places = [f"m-{number}"] * _markers(data) + places
    return places


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass  # the slow reader takes what the fast one refuses
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _field(data: bytes, name: str) -> str:
    value = _decoded(data) if data else None
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _markers(data: bytes) -> int:
    """Return how many cache markers a part holds; its text may hold the words, too."""
    return _count(_decoded(data)) if _MARK in data else 0


def _count(value: Any) -> int:
    if isinstance(value, list):
        return sum(_count(item) for item in value)
    if not isinstance(value, dict):
        return 0
    own = 1 if isinstance(value.get("cache_control"), dict) else 0
    content: Sequence[Any] | None = value.get("content")
    return own + (_count(content) if isinstance(content, list) else 0)
