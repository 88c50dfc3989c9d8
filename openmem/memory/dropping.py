"""Dropping a whole bank: the one verb that no tool and no hook can reach.

The ledger keeps one entry that says when and by whom, and how many memories it was.
"""

from __future__ import annotations

from openmem.memory.facade import Memories
from openmem.memory.model import Actor
from openmem.memory.notes import take_out
from openmem.memory.providers.registry import bank_admin_of


def drop_bank(memories: Memories, bank: str, actor: Actor) -> tuple[int, bool]:
    """Erase a bank; return how many memories it held, and whether every byte is overwritten.

    Unsupported("drop-bank") before anything is done.
    """
    admin = bank_admin_of(memories.provider)
    memories.deliver()
    everything = [m.id for m in memories.ledger.listing(bank, include_gone=True)]
    take_out(memories.paths, everything)
    admin.drop_bank(bank)
    count = memories.ledger.drop_bank(bank, actor)
    memories.ledger.enqueue(memories.provider.name, "erase", "", bank)
    return count, not memories.deliver().waiting
