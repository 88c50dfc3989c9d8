"""A simulation of the provider's own clearing of tool results, in two readings.

The vendor's page says that the oldest results go from a trigger on, that the newest stay, that a
clearing costs the cache, and that "subsequent requests can reuse the newly cached prefix". It does
not say whether each request is judged by itself. So both readings are simulated:

- `batches`: a clearing lasts, and the next comes when the prompt, as cleared, has grown to the
  trigger again; found by walking over the history, which is what a service without memory can do;
- `each`: every request whose whole history is above the trigger is cleared anew, so that the place
  up to which results are gone moves with each of them.

Source: the vendor's page on context editing, read 2026-11-30. Not verified against the live
service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Reading = Literal["batches", "each"]
EDIT = "clear_tool_uses_20250919"
PLACEHOLDER = "[Old tool result content cleared]"
Measure = Callable[[Mapping[str, Any]], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was left out of one request: ids of the calls whose results are gone, and tokens."""

    gone: frozenset[str] = frozenset()
    tokens: int = 0

    def report(self) -> dict[str, object]:
        """Return it as the service reports it."""
        edits = [
            {
                "type": EDIT,
                "cleared_tool_uses": len(self.gone),
                "cleared_input_tokens": self.tokens,
            }
        ]
        return {"applied_edits": edits if self.gone else []}


NOTHING_APPLIED = Applied()


@dataclass(slots=True)
class _Walk:
    total: int
    kept: list[tuple[str, int]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    freed: int = 0

    def clear(self, keep: int, at_least: int) -> None:
        old = self.kept[: max(0, len(self.kept) - keep)]
        freed = sum(tokens for _, tokens in old)
        if old and freed >= at_least:
            self.gone.update(name for name, _ in old)
            del self.kept[: len(old)]
            self.total -= freed
            self.freed += freed


def applied(
    request: Mapping[str, Any], *, head_tokens: int, measure: Measure, reading: Reading
) -> Applied:
    """Return what a request's edit leaves out of it. `head_tokens`: of tools and system prompt;
    `measure`: tokens of one block."""
    edits: Sequence[Mapping[str, Any]] = (request.get("context_management") or {}).get("edits", ())
    edit = next((one for one in edits if one.get("type") == EDIT), None)
    if edit is None:
        return NOTHING_APPLIED
    trigger = _value(edit, "trigger", 100_000)
    keep, at_least = _value(edit, "keep", 3), _value(edit, "clear_at_least", 0)
    walk = _Walk(head_tokens)
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            tokens = measure(block)
            walk.total += tokens
            if block.get("type") == "tool_result":
                spared = tokens - measure(cleared(block))
                if spared > 0:
                    walk.kept.append((block["tool_use_id"], spared))
        if reading == "batches" and message["role"] == "user" and walk.total > trigger:
            walk.clear(keep, at_least)
    if reading == "each" and walk.total > trigger:
        walk.clear(keep, at_least)
    return Applied(gone=frozenset(walk.gone), tokens=walk.freed)


def cleared(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool result with the service's words in place of what it said."""
    return {**block, "content": PLACEHOLDER}


def as_seen(request: Mapping[str, Any], what: Applied) -> Mapping[str, Any]:
    """Return the request as the model sees it."""
    if not what.gone:
        return request

    def shown(block: Any) -> Any:
        is_gone = isinstance(block, dict) and block.get("tool_use_id") in what.gone
        return cleared(block) if is_gone else block

    messages = [
        message
        if isinstance(message["content"], str)
        else {**message, "content": [shown(block) for block in message["content"]]}
        for message in request["messages"]
    ]
    return {**request, "messages": messages}


def _value(edit: Mapping[str, Any], name: str, otherwise: int) -> int:
    found = edit.get(name)
    return int(found["value"]) if isinstance(found, Mapping) else otherwise
