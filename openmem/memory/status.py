"""How memory fares in one bank, in plain values; for `memory status`, the tool and the doctor."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.memory.facade import Memories
from openmem.memory.spend import read_spend


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus:
    """`statements`, `pending`, `passages`, `rejected`: active ones. `waiting`: not told to the
    provider yet. `provider_memories`: -1 when it cannot say. `vectors`: -1 where none are wanted.
    `problem`: "" when all is well."""

    bank: str
    provider: str
    is_ready: bool
    statements: int
    pending: int
    rejected: int
    passages: int
    forgotten: int
    waiting: int
    provider_memories: int
    provider_waiting: int
    size_bytes: int
    tokens_today: int
    calls_today: int
    vectors: int = -1
    vectors_pending: int = 0
    problem: str = ""


def status_of(memories: Memories, bank: str) -> MemoryStatus:
    """Return how a bank fares; a provider that does not answer is a problem, not an error."""
    counts = memories.ledger.counts(bank)
    problem, vectors = "", None
    is_ready, held, provider_waiting, size, name = False, -1, 0, 0, memories.provider.name
    try:
        status = memories.provider.status(bank)
        is_ready, held, size = status.is_ready, status.memories, status.size_bytes
        provider_waiting = status.waiting
        vectors = status.vectors
        problem = "" if is_ready else status.detail
    except OpenmemError as error:
        problem = error.message
    waiting = memories.ledger.waiting_count(name)
    told = sum(n for k, n in counts.items() if k != "tombstones" and not k.endswith("rejected"))
    if not problem and held >= 0 and not waiting and not provider_waiting and held != told:
        problem = (
            f"the provider holds {held} memories of {told}; put it right: openmem memory reindex"
        )
    spend = read_spend(memories.paths, time.time())
    return MemoryStatus(
        bank=bank,
        provider=name,
        is_ready=is_ready,
        statements=counts.get("statement accepted", 0) + counts.get("statement pending", 0),
        pending=counts.get("statement pending", 0),
        rejected=counts.get("statement rejected", 0),
        passages=sum(n for kind, n in counts.items() if kind.startswith("passage")),
        forgotten=counts["tombstones"],
        waiting=waiting,
        provider_memories=held,
        provider_waiting=provider_waiting,
        size_bytes=size + _size(memories.paths),
        tokens_today=spend.tokens,
        calls_today=spend.calls,
        vectors=vectors.filled if vectors else -1,
        vectors_pending=vectors.pending if vectors else 0,
        problem=problem,
    )


def _size(paths: Paths) -> int:
    try:
        return os.path.getsize(paths.ledger_file)
    except OSError:
        return 0  # nothing was ever remembered
