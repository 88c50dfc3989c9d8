"""A simulation of the provider's prompt cache: what a request reads, writes and pays in full.

Entries stand where a marker stood; a lookup walks back at most 20 blocks from each marker of the
new request; a read refreshes. Tokens are a quarter of the bytes, so that figures compare within a
test and never with a bill. Source: newest-models facts, 1.6. Not verified against the live API.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.strict.canonical import (
    blocks_of,
    digest,
    references_in,
    system_blocks,
    tools_by_name,
    without_markers,
)

LOOKBACK_BLOCKS = 20
MINIMUM_TOKENS = 512
LIFE_SECONDS = {"5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True, slots=True)
class _Block:
    chain: str
    tokens_so_far: int
    marker: str  # "", "5m" or "1h"


@dataclass(slots=True)
class PromptCache:
    """One account's cache. `clock`: seconds, monotonic."""

    clock: Callable[[], float]
    _expiry: dict[str, tuple[float, float]] = field(default_factory=dict)

    def account(self, body: dict[str, Any], *, dropped: frozenset[str]) -> dict[str, Any]:
        """Return the input counts of a request and remember what it wrote.

        `dropped`: places of thinking blocks that the service left out; they are not billed.
        """
        blocks = _chain(body, dropped)
        now = self.clock()
        marked = [at for at, block in enumerate(blocks) if block.marker]
        hit = -1
        for at in marked:
            for back in range(at, max(-1, at - LOOKBACK_BLOCKS - 1), -1):
                if self._expiry.get(blocks[back].chain, (0.0, 0.0))[0] > now:
                    hit = max(hit, back)
                    break
        total = blocks[-1].tokens_so_far if blocks else 0
        read = blocks[hit].tokens_so_far if hit >= 0 else 0
        if hit >= 0:
            self._keep(blocks[hit].chain, self._expiry[blocks[hit].chain][1], now)
        written = {"5m": 0, "1h": 0}
        covered = read
        for at in marked:
            block = blocks[at]
            if block.tokens_so_far < MINIMUM_TOKENS:
                continue
            written[block.marker] += max(0, block.tokens_so_far - covered)
            covered = max(covered, block.tokens_so_far)
            self._keep(block.chain, LIFE_SECONDS[block.marker], now)
        return {
            "input_tokens": total - covered,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written["5m"] + written["1h"],
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }

    def _keep(self, chain: str, life_seconds: float, now: float) -> None:
        old = self._expiry.get(chain, (0.0, 0.0))
        self._expiry[chain] = max(old, (now + life_seconds, life_seconds))


def _marker(block: dict[str, Any]) -> str:
    control = block.get("cache_control")
    return "" if control is None else str(control.get("ttl") or "5m")


def _chain(body: dict[str, Any], dropped: frozenset[str]) -> list[_Block]:
    blocks: list[_Block] = []
    chain, tokens = digest(body.get("model")), 0

    def add(value: Any, marker: str, *, mixed_in: Any = None) -> None:
        nonlocal chain, tokens
        chain = digest([chain, mixed_in, value])
        tokens += len(json.dumps(value, separators=(",", ":"))) // 4
        blocks.append(_Block(chain, tokens, marker))

    eager = tools_by_name(body, deferred=False)
    marks = {str(t.get("name")): _marker(t) for t in body.get("tools") or []}
    for name, tool in sorted(eager.items()):
        add(tool, marks.get(name, ""))
    for block in system_blocks(body):
        add(without_markers(block), _marker(block))
    thinking = {
        k: v for k, v in (body.get("thinking") or {}).items() if k in ("type", "budget_tokens")
    }
    effort = (body.get("output_config") or {}).get("effort")
    setting = [thinking, effort, body.get("tool_choice")]
    deferred = tools_by_name(body, deferred=True)
    for at, message in enumerate(body.get("messages") or []):
        for index, block in enumerate(blocks_of(message.get("content"))):
            if f"messages.{at}.content.{index}" in dropped:
                continue
            added = [deferred[name] for name in references_in(block) if name in deferred]
            value = [without_markers(block), *added] if added else without_markers(block)
            mixed_in = [setting, message.get("role"), index == 0]
            add(value, _marker(block), mixed_in=mixed_in)
    return blocks
