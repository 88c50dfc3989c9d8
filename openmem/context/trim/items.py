"""What the trim sees of a request, whatever its wire format.

An item is one element of the wire's list: a message of the Messages and Chat formats, an input
item of Responses. The trim decides over items; a wire format splits a body into them and says what
each is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["turn", "user", "assistant", "results", "system", "pinned", "reasoning"]
"""turn: opens a real user turn · user: a user item that does not (only reminders, a notification)
· assistant: may call tools · results: answers calls · system: inside the conversation · pinned:
never removed · reasoning: signed or encrypted thought that stands as an item of its own"""

Profile = Literal["A", "B", "C", "R", "P"]
"""A: adaptive thinking on a model that checks the prefix, or an unknown one · B: adaptive, no
check · C: thinking "enabled" with a budget · R: Responses · P: no thinking"""


class NotTrimmable(ValueError):
    """A request whose structure we cannot edit for certain; it goes through untouched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One element as sent.

    `digest`: over its canonical form, cache markers and thinking left out, a string as one text
    block. `weight`: characters that count towards tokens, `thinking_weight` of them thinking;
    `image_tokens`: of its images, by the provider's rule. `calls`, `results`: tool ids.
    `keeps`: names whose newest state must survive a
    trim (`tool:<name>`, `effort`). `is_reply`: an assistant's final reply, without calls.
    `has_content`: of a system item: it carries text or blocks, not only settings.
    `is_notice`: the client's own instruction that it sends once (compaction).
    """

    raw: bytes
    kind: Kind
    digest: bytes
    weight: int
    image_tokens: int = 0
    thinking_weight: int = 0
    calls: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    keeps: tuple[str, ...] = ()
    has_thinking: bool = False
    opens_with_thinking: bool = False
    is_reply: bool = False
    has_content: bool = True
    is_notice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A request without its list. `parts`: top-level keys and values as raw JSON, in order.

    `list_key`: which of them holds the items. `weight`: characters of all other parts.
    `system_digest`: over the system prompt, the attribution block left out. `tools`: names of the
    declared tools. `cache_seconds`: how long the provider keeps the prefix that this request buys.
    """

    parts: tuple[tuple[bytes, bytes], ...]
    list_key: bytes
    model: str
    max_tokens: int
    profile: Profile
    weight: int
    system_digest: str
    tools: frozenset[str]
    cache_seconds: int


class WireFormat(Protocol):
    """One model API's way to write a conversation."""

    name: str

    def split(self, body: bytes) -> tuple[Envelope, list[bytes]]:
        """Return envelope and raw items. NotTrimmable when the body cannot be edited safely."""
        ...

    def item(self, raw: bytes, *, is_last: bool) -> Item:
        """Return what an item is. `is_last`: then a trailing nudge is left out of the digest."""
        ...

    def with_binding(self, envelope: Envelope) -> Envelope | None:
        """Return the envelope asking the provider to drop thinking that does not verify; None
        when the format or the request has no such thing."""
        ...

    def without_thinking(self, raw: bytes) -> bytes | None:
        """Return an item without its thinking; None when nothing is left of it."""
        ...

    def with_pointer(self, raw: bytes, pointer: str) -> list[bytes]:
        """Return the cut turn's item with the pointer at its head, as one or two items."""
        ...

    def fault_of(self, body: bytes) -> str:
        """Return why the provider would refuse the shape of a body, "" when it would not."""
        ...

    def arranged(self, kept: list[tuple[Item, list[bytes]]]) -> list[bytes]:
        """Return the kept items' bytes in an order that the provider accepts."""
        ...


def opens_real_turn(items: Sequence[Item]) -> bool:
    """Return whether a request ends with what a person just said.

    System items behind the prompt belong to it.
    """
    for item in reversed(items):
        if item.kind in ("system", "pinned"):
            continue
        return item.kind == "turn" and not item.is_notice
    return False


def is_between_rounds(items: Sequence[Item]) -> bool:
    """Return whether every tool call has its result and the last item is a result."""
    open_calls: set[str] = set()
    last = ""
    for item in items:
        open_calls |= item.calls
        open_calls -= item.results
        if item.kind not in ("system", "pinned"):
            last = item.kind
    return not open_calls and last == "results"


def is_side_request(items: Sequence[Item]) -> bool:
    """Return whether the request is the client's own: a summary it asks for, a notification."""
    for item in reversed(items):
        if item.is_notice:
            return True
        if item.kind not in ("system", "pinned"):
            return False
    return False


def unpaired(items: Sequence[Item]) -> str:
    """Return which rule of tool pairs a list of items breaks, "" for none."""
    open_calls: set[str] = set()
    for number, item in enumerate(items):
        if item.results - open_calls:
            return f"item {number} answers a call that is not there"
        open_calls = (open_calls | item.calls) - item.results
    return "a tool call has no result" if open_calls else ""
