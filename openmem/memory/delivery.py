"""What the ledger recorded is told to the provider, in order, as often as it takes.

Idea: the outbox is written in the act's own transaction; here it is worked off. Invariant: a
provider that was down misses nothing, and hears everything at least once; what it hears twice
changes nothing. Trap: bytes of what was forgotten are part of it ("erase"): they wait here too
while a reader holds old pages. And one delivers at a time: or one process could tell what another
has just forgotten.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from openmem.base.errors import Failed, OpenmemError, StoreUnavailable
from openmem.base.io import locked
from openmem.base.light import dataclass
from openmem.memory.ledger import Ledger
from openmem.memory.providers.base import Item, Provider, item_of

_AT_ONCE = 500
_Waiting = tuple[int, str, str, str, int]  # number, verb, memory id, bank, tries


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What came of it. `waiting`: still to be told; `problem`: why, "" for none."""

    told: int = 0
    waiting: int = 0
    problem: OpenmemError | None = None


def deliver(
    ledger: Ledger,
    provider: Provider,
    lock_file: str,
    take_out: Callable[[Collection[str]], object],
) -> Delivered:
    """Work the outbox off until it is empty or the provider fails. StoreUnavailable: the ledger.

    `lock_file`: in a folder that exists. `take_out(ids)` removes memories from what else holds
    them; Failed, OSError.
    """
    waiting = len(ledger.outbox(provider.name))
    if not waiting:
        return Delivered()
    try:
        with locked(lock_file):
            return _deliver(ledger, provider, take_out)
    except Failed as error:
        return Delivered(waiting=waiting, problem=error)


def _deliver(
    ledger: Ledger, provider: Provider, take_out: Callable[[Collection[str]], object]
) -> Delivered:
    told = 0
    taken_out: set[int] = set()
    while True:
        waiting = ledger.outbox(provider.name)
        # Before the provider hears of it: it may be down, and what else holds them is ours.
        gone = {number: one for number, verb, one, _, _ in waiting if verb == "forget"}
        if new := gone.keys() - taken_out:
            _take_out(take_out, [gone[number] for number in new])
            taken_out |= new
        words = [one for one in waiting if one[1] != "erase"]
        if not words:
            return _erase(ledger, provider, waiting, told)
        part = _alike(words)
        try:
            _tell(ledger, provider, part)
        except OpenmemError as error:
            ledger.failed_delivery(part[0][0], error.code)
            return Delivered(told=told, waiting=len(waiting), problem=error)
        ledger.delivered(*(number for number, *_ in part))
        told += len(part)


def _take_out(take_out: Callable[[Collection[str]], object], memory_ids: list[str]) -> None:
    try:
        take_out(memory_ids)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise StoreUnavailable(f"{error.filename} cannot be written: {reason}.") from error


def _erase(ledger: Ledger, provider: Provider, waiting: list[_Waiting], told: int) -> Delivered:
    """Overwrite freed bytes, once for each bank, after everything else was told."""
    left = 0
    for bank in dict.fromkeys(bank for _, _, _, bank, _ in waiting):
        numbers = [number for number, _, _, one, _ in waiting if one == bank]
        try:
            is_erased = provider.erase(bank) if "erase" in provider.capabilities else True
            is_erased = ledger.clear_freed_bytes() and is_erased
        except OpenmemError as error:
            ledger.failed_delivery(numbers[0], error.code)
            return Delivered(told=told, waiting=len(waiting), problem=error)
        if is_erased:
            ledger.delivered(*numbers)
            told += len(numbers)
        else:
            left += len(numbers)
    return Delivered(told=told, waiting=left)


def _alike(waiting: list[_Waiting]) -> list[_Waiting]:
    """Return the first of what waits and all that follow it with the same verb and bank."""
    first = waiting[0]
    part = []
    for one in waiting[:_AT_ONCE]:
        if one[1] != first[1] or one[3] != first[3]:
            break
        part.append(one)
    return part


def _tell(ledger: Ledger, provider: Provider, part: list[_Waiting]) -> None:
    verb, bank = part[0][1], part[0][3]
    ids = list(dict.fromkeys(memory_id for _, _, memory_id, _, _ in part))
    if verb == "remember":
        found = ledger.memories(ids)
        items: list[Item] = []
        for memory_id in ids:
            memory = found.get(memory_id)
            # What was rejected or forgotten since has its own word further down the outbox.
            if memory and memory.state == "active" and memory.trust != "rejected":
                items.append(item_of(memory))
        provider.remember(bank, items)
    elif verb == "forget":
        provider.forget(bank, ids)
