"""Memories as a file: PMM version 1, as JSON lines or one JSON document; and back again.

Idea: a record says all that the ledger says of a memory but its chain. Invariant: nothing comes in
past the rules that hold for what is said here: secrets are masked, what was forgotten stays so,
what is known is not taken twice, what was replaced or rejected comes in as that or not at all; and
what an agent brings in waits for a person, whatever the file claims. A line that cannot be taken is
reported by number, the others are. Trap: tombstones are not in the file; they are keyed to this
machine and would say nothing elsewhere.
Format: docs/reference/memory-format.md. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openmem.base.clock import now_text
from openmem.base.errors import OpenmemError, Usage
from openmem.base.frame import carries_own_text
from openmem.base.redact import redact
from openmem.memory.facade import Memories
from openmem.memory.looking import is_shown
from openmem.memory.model import (
    KINDS,
    LONGEST_PASSAGE,
    LONGEST_STATEMENT,
    TRUSTS,
    Actor,
    Draft,
    Kind,
    Memory,
    Source,
    Trust,
    normalised,
    storable,
)
from openmem.memory.scope import Scope
from openmem.memory.times import check_order, moment_of

VERSION = 1
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as it was read. `number`: of its line, or its place in the document."""

    number: int
    content: str
    bank: str
    kind: Kind
    trust: Trust
    id: str = ""
    recorded_at: str = ""
    valid_from: str = ""
    valid_to: str = ""
    superseded_by: str = ""
    session: str = ""
    row: int = 0


# out


def record_of(memory: Memory) -> dict[str, Any]:
    """Return a memory as a record."""
    return {
        "pmm": VERSION,
        "id": memory.id,
        "kind": memory.kind,
        "content": memory.text,
        "bank": memory.bank,
        "trust": memory.trust,
        "recorded_at": memory.recorded_at,
        "valid_from": memory.valid_from or None,
        "valid_to": memory.valid_to or None,
        "supersedes": memory.supersedes or None,
        "superseded_by": memory.superseded_by or None,
        "provenance": {
            "actor": memory.actor,
            "session": memory.source.session_id or None,
            "row": memory.source.row or None,
        },
        "metadata": {},
    }


def exported(
    memories: Memories, scope: Scope, *, bank: str = "", with_passages: bool = False
) -> Iterator[Memory]:
    """Yield what an export of a bank holds, oldest first: statements that stand or were replaced.

    An agent gets what recall would show it.
    """
    target = scope.bank_to_read(bank)
    for memory in memories.ledger.listing(target, include_gone=True, newest_first=False):
        if memory.kind == "passage" and not with_passages:
            continue
        if memory.state not in ("active", "superseded"):
            continue
        if scope.is_person or is_shown(memory, target):
            yield memory


def json_lines(memories: Iterable[Memory]) -> Iterator[str]:
    """Yield records as lines, without their ends."""
    for memory in memories:
        yield json.dumps(record_of(memory), ensure_ascii=False)


def document(memories: Iterable[Memory], bank: str) -> str:
    """Return records as one JSON document."""
    value = {
        "pmm": VERSION,
        "exported_at": now_text(),
        "bank": bank,
        "memories": [record_of(memory) for memory in memories],
    }
    return json.dumps(value, ensure_ascii=False, indent=1)


# in


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
    for number, value in _values(data, outcome):
        try:
            record = decode_record(value, number)
        except ValueError as error:
            outcome.errors.append((number, str(error)))
            continue
        if record is not None:
            yield record


def _values(data: bytes, outcome: Imported) -> Iterator[tuple[int, object]]:
    text = data.decode("utf-8-sig", "replace")
    whole = _whole(text)
    if whole is not None:
        yield from enumerate(whole, 1)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "not JSON"
            outcome.errors.append((number, f"not JSON ({reason})"))


def _whole(text: str) -> list[object] | None:
    """Return the records of one document, None when the file is JSON lines. Usage."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and isinstance(value.get("memories"), list):
        _check_version(value)
        return list(value["memories"])
    return None


def _check_version(value: Mapping[str, object]) -> None:
    version = value.get("pmm", VERSION)
    if version != VERSION:
        raise Usage(f"the file is of PMM version {version!r}; this openmem reads {VERSION}.")


def decode_record(value: object, number: int) -> Record | None:
    """Return one record, None for a line that holds none. ValueError names key and fault."""
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    if "content" not in value and value.get("type") == "header":
        return None
    if value.get("pmm", VERSION) != VERSION:
        raise ValueError(f"pmm is {value['pmm']!r}, expected {VERSION}")
    content = _text(value, "content").strip()
    if not normalised(content):
        raise ValueError("content is empty")
    kind = _choice(value, "kind", KINDS, "statement")
    longest = LONGEST_STATEMENT if kind == "statement" else LONGEST_PASSAGE
    if len(content) > longest:
        raise ValueError(f"content has {len(content)} characters, at most {longest} are taken")
    if carries_own_text(content):
        raise ValueError("content repeats what openmem recalled")
    provenance = value.get("provenance") or {}
    if not isinstance(provenance, dict):
        raise ValueError("provenance: expected an object")
    row = provenance.get("row") or 0
    try:
        times = {
            name: moment_of(_text(value, name), name)
            for name in ("recorded_at", "valid_from", "valid_to")
        }
        check_order(times["valid_from"], times["valid_to"])
    except OpenmemError as error:
        raise ValueError(error.message.rstrip(".")) from None
    return Record(
        number=number,
        content=storable(content),
        bank=_text(value, "bank"),
        kind="passage" if kind == "passage" else "statement",
        trust=_trust(_choice(value, "trust", TRUSTS, "pending")),
        id=_id(_text(value, "id")),
        superseded_by=_text(value, "superseded_by"),
        session=_text(provenance, "session"),
        row=row if isinstance(row, int) and not isinstance(row, bool) and row > 0 else 0,
        **times,
    )


def _text(value: Mapping[str, object], name: str) -> str:
    found = value.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise ValueError(f"{name}: expected text")
    return found


def _choice(value: Mapping[str, object], name: str, choices: tuple[str, ...], default: str) -> str:
    found = _text(value, name) or default
    if found not in choices:
        raise ValueError(f"{name} is {found!r}, expected one of {', '.join(choices)}")
    return found


def _trust(word: str) -> Trust:
    return "accepted" if word == "accepted" else "rejected" if word == "rejected" else "pending"


def _id(text: str) -> str:
    """Return an id of ours as it is, "" for one from elsewhere, which gets a new one."""
    digits = text.removeprefix("m-")
    is_ours = text.startswith("m-") and len(digits) == 16
    return text if is_ours and all(c in "0123456789abcdef" for c in digits) else ""
