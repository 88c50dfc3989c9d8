"""The provider's own clearing of old tool results, asked for in a request that manages its context.

Idea: clients that send `context_management` have the beta for it, so one more edit behind theirs
is legal; the service then leaves out old tool results by itself and says how many.
Invariant: the edit is put into the raw body at one place. Every other byte stays, so prefix,
messages and signed thinking are what the client sent.
Trap: a field name may stand in the text of a message, and an object may name a key twice; so the
place is found by walking over the values of the top object, and anything odd is left alone.
Source: the vendor's page on context editing, read 2026-11-30: thinking is cleared by the first
edit or by none, and `clear_tool_uses_20250919` takes `trigger`, `keep`, `clear_at_least`. Not
verified against the live API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

EDIT = "clear_tool_uses_20250919"
_FIELD = b'"context_management"'
# Edits that another one may follow. What an unknown one asks of its neighbours is not known.
_FOLLOWED = frozenset({"clear_thinking_20251015"})
_SPACE = b" \t\n\r"
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EDITS = msgspec.json.Decoder(list[dict[str, object]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """What to ask for. `trigger`: prompt tokens from which on; `keep`: newest tool uses that stay;
    `at_least`: tokens below which nothing is cleared, since each clearing costs the cache."""

    trigger: int
    keep: int
    at_least: int

    def edit(self) -> bytes:
        """Return the edit as JSON; always the same for the same values."""
        edit = {
            "type": EDIT,
            "trigger": {"type": "input_tokens", "value": self.trigger},
            "keep": {"type": "tool_uses", "value": self.keep},
            "clear_at_least": {"type": "input_tokens", "value": self.at_least},
        }
        return json.dumps(edit, separators=(",", ":")).encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """What the service says it cleared for one request: tool uses, and tokens of the prompt."""

    uses: int = 0
    tokens: int = 0


NOTHING_CLEARED = Cleared()


def with_clearing(body: bytes, clearing: Clearing) -> bytes | None:
    """Return the body with the edit behind the client's own, None when it must not be added:
    the client manages no context, clears tool uses itself, or does something we do not know."""
    if _FIELD not in body:
        return None
    field = _value_at(body, 0, len(body), "context_management")
    edits = _value_at(body, *field, "edits") if field else None
    if edits is None:
        return None
    start, end = edits
    try:
        known = _EDITS.decode(body[start:end])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    if any(edit.get("type") not in _FOLLOWED for edit in known):
        return None
    last = end - 1  # the closing bracket
    return body[:last] + (b"," if known else b"") + clearing.edit() + body[last:]


def _value_at(body: bytes, start: int, end: int, name: str) -> tuple[int, int] | None:
    """Return where the value of a key begins and ends in the object at `start`.

    None when there is no such key, or the object cannot be walked over for certain.
    """
    try:
        members = _OBJECT.decode(memoryview(body)[start:end])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    found: tuple[int, int] | None = None
    try:
        at = _skip(body, start) + 1
        for key, size in _sizes(members):
            at = _string_end(body, _skip(body, at))
            at = _skip(body, at) + 1  # the colon
            at = _skip(body, at)
            if body[at : at + size] != bytes(members[key]):
                return None  # a key stands twice, and only its last value is known
            if key == name:
                found = (at, at + size)
            at = _skip(body, at + size) + 1  # the comma, or the closing brace
        return found if at <= end and not body[at:end].strip() else None
    except (ValueError, IndexError):
        return None


def _sizes(members: dict[str, msgspec.Raw]) -> Iterator[tuple[str, int]]:
    return ((key, memoryview(raw).nbytes) for key, raw in members.items())


def _skip(body: bytes, at: int) -> int:
    while body[at] in _SPACE:
        at += 1
    return at


def _string_end(body: bytes, at: int) -> int:
    """Return the place behind the string that begins at `at`."""
    if body[at : at + 1] != b'"':
        raise ValueError("no key")
    end = body.index(b'"', at + 1)
    while _backslashes(body, end) % 2:
        end = body.index(b'"', end + 1)
    return end + 1


def _backslashes(body: bytes, at: int) -> int:
    count = 0
    while body[at - 1 - count : at - count] == b"\\":
        count += 1
    return count
