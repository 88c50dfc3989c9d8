"""Taking memories in from a file.

Invariant: nothing comes in past the rules that hold for what is said here: secrets are masked, what
was forgotten stays so, what is known is not taken twice, what was replaced or rejected comes in as
that or not at all; and what an agent brings in waits for a person, whatever the file claims. A line
that cannot be taken is reported by number, the others are.
Format: docs/reference/memory-format.md. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from openmem.base.clock import now_text
from openmem.base.errors import Usage
from openmem.base.redact import redact
from openmem.memory.facade import Memories
from openmem.memory.model import Actor, Draft, Source, Trust, normalised
from openmem.memory.portability import Record, decode_record, values_in
from openmem.memory.scope import Scope

_AT_ONCE = 200


@dataclass(slots=True, kw_only=True)
class Imported:
    """What an import did, or would do. `errors`: (line or record number from 1, reason).

    `known`: said here already. `forgotten`: forgotten here, so not taken. `replaced`: came in as
    replaced by another. `by_trust`: of the added ones.
    """

    added: int = 0
    known: int = 0
    forgotten: int = 0
    replaced: int = 0
    masked: int = 0
    by_trust: dict[str, int] = field(default_factory=dict)
    errors: list[tuple[int, str]] = field(default_factory=list)


def import_records(
    memories: Memories,
    scope: Scope,
    data: bytes,
    *,
    key: bytes,
    bank: str = "",
    own_banks: bool = False,
    as_pending: bool = False,
    dry_run: bool = False,
) -> Imported:
    """Take in a file's records, JSON lines or a document. Usage, PolicyDenied.

    They go to `bank`, else to the workspace's; with `own_banks` (a person only) to those that the
    records name. `as_pending`: whatever trust the file states.
    """
    if own_banks and not scope.is_person:
        raise Usage("only a person imports into the banks that a file names.")
    target = scope.bank_to_write(bank)
    outcome = Imported()
    records = list(_records(data, outcome))
    replacing = {record.id for record in records if record.id and not record.superseded_by}
    actor = Actor(kind="importer", name=str(scope.actor))
    batch: list[Draft] = []
    seen: set[tuple[str, str, str]] = set()
    # The replaced ones last: what replaced them is here then, or they are left out.
    for record in sorted(records, key=lambda one: bool(one.superseded_by)):
        where = record.bank if own_banks and record.bank else target
        trust: Trust = record.trust if scope.is_person and not as_pending else "pending"
        if record.kind == "passage":
            trust = "accepted"
        elif record.trust == "rejected":
            trust = "rejected"
        masked = redact(record.content, key)
        outcome.masked += masked.count
        if record.superseded_by and not (
            record.superseded_by in replacing or _is_known(memories, record.superseded_by, where)
        ):
            outcome.errors.append((record.number, "it was replaced by one that is not here"))
            continue
        same = (where, record.kind, normalised(masked.text))
        draft = Draft(
            bank=where,
            text=masked.text,
            kind=record.kind,
            actor=actor,
            trust=trust,
            source=Source(session_id=record.session, row=record.row),
            valid_from=record.valid_from,
            valid_to=record.valid_to,
            recorded_at=min(record.recorded_at or now_text(), now_text()),
            memory_id=record.id,
            superseded_by=record.superseded_by,
        )
        if dry_run:
            _foresee(memories, draft, same in seen, outcome)
        else:
            batch.append(draft)
        seen.add(same)
        if len(batch) >= _AT_ONCE:
            _take(memories, batch, outcome)
            batch = []
    if batch:
        _take(memories, batch, outcome)
    if not dry_run and memories.ledger.exists():
        memories.deliver()  # also what an import that was broken off left to be told
    outcome.errors.sort()
    return outcome


def _take(memories: Memories, batch: list[Draft], outcome: Imported) -> None:
    for draft, result in zip(batch, memories.ledger.add_all(batch), strict=True):
        if isinstance(result, str):
            _count(draft, outcome)
        elif result.code == "forgotten":
            outcome.forgotten += 1
        else:
            outcome.known += 1


def _foresee(memories: Memories, draft: Draft, is_seen: bool, outcome: Imported) -> None:
    ledger = memories.ledger
    if ledger.is_tombstoned(draft.bank, draft.text):
        outcome.forgotten += 1
    elif (
        is_seen
        or ledger.find_same(draft.bank, draft.text, draft.kind)
        or (draft.kind == "statement" and ledger.gone(draft.bank, [draft.text])[0])
    ):
        outcome.known += 1
    else:
        _count(draft, outcome)


def _count(draft: Draft, outcome: Imported) -> None:
    outcome.added += 1
    outcome.replaced += bool(draft.superseded_by)
    outcome.by_trust[draft.trust] = outcome.by_trust.get(draft.trust, 0) + 1


def _is_known(memories: Memories, memory_id: str, bank: str) -> bool:
    found = memories.ledger.memories([memory_id]).get(memory_id)
    return found is not None and found.bank == bank


def _records(data: bytes, outcome: Imported) -> Iterator[Record]:
    """Yield the records of a file; what cannot be read is noted in `outcome`."""
    for number, value in values_in(data, outcome.errors):
        try:
            record = decode_record(value, number)
        except ValueError as error:
            outcome.errors.append((number, str(error)))
            continue
        if record is not None:
            yield record
