"""What the ledger holds, told to another provider, and counted on both sides.

Idea: the ledger is the source, whatever the old provider has become; each bank is told in small
parts, and what the new one names already is passed over, so that a run that was cut off goes on.
Invariant: only what is active and not rejected is told; the old provider is not touched.
Trap: memories change meanwhile, so each part is read again just before it is told, and at the end
what was forgotten in between is taken out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openmem.memory.ledger_reading import LedgerReader
from openmem.memory.model import Memory
from openmem.memory.providers.base import Provider, item_of

_AT_ONCE = 50
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What came of one bank. `wanted`: in the ledger; `told`: in this run; `there`: in the new
    provider afterwards, -1 when it cannot say; `waiting`: it has these, and does not find them
    yet."""

    bank: str
    wanted: int
    told: int
    there: int
    waiting: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the counts agree, as far as they can be had."""
        return self.there in (-1, self.wanted) or self.there + self.waiting >= self.wanted


def migrate(
    ledger: LedgerReader,
    provider: Provider,
    tell: Tell,
    *,
    wait_seconds: float = 600.0,
    banks: Sequence[str] = (),
) -> list[Moved]:
    """Tell a provider every bank of the ledger, or these. OpenmemError: call it again to go on."""
    names = list(banks) or [row[0] for row in ledger.banks()]
    return [_moved(ledger, provider, bank, tell, wait_seconds) for bank in names]


def _moved(
    ledger: LedgerReader, provider: Provider, bank: str, tell: Tell, wait_seconds: float
) -> Moved:
    has_listing = "listing" in provider.capabilities
    there = set(provider.listing(bank)) if has_listing else set()
    wanted = [one.id for one in _active(ledger, bank)]
    missing = [one for one in wanted if one not in there]
    told = 0
    for start in range(0, len(missing), _AT_ONCE):
        part = missing[start : start + _AT_ONCE]
        now = ledger.memories(part)
        items = [item_of(now[one]) for one in part if one in now and _is_told(now[one])]
        provider.remember(bank, items)
        told += len(items)
        tell(f"{bank}: {len(wanted) - len(missing) + start + len(part)} of {len(wanted)}")
    _settle(provider, bank, wait_seconds)
    still = {one.id for one in _active(ledger, bank)}
    gone = [one for one in {*wanted, *there} if one not in still]
    if gone:
        provider.forget(bank, gone)
    status = provider.status(bank)
    return Moved(
        bank=bank, wanted=len(still), told=told, there=status.memories, waiting=status.waiting
    )


def _active(ledger: LedgerReader, bank: str) -> list[Memory]:
    return [one for one in ledger.listing(bank, newest_first=False) if _is_told(one)]


def _is_told(memory: Memory) -> bool:
    return memory.state == "active" and memory.trust != "rejected"


def _settle(provider: Provider, bank: str, seconds: float) -> None:
    """Wait until what was told is found, at most so long; it goes on by itself afterwards."""
    ends, pause = time.monotonic() + seconds, 0.1
    while "wait" in provider.capabilities and provider.status(bank).waiting:
        if time.monotonic() >= ends:
            return
        time.sleep(pause)
        pause = min(2.0, 1.5 * pause)
