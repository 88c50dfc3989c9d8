"""Memories as a file: PMM version 1, as JSON lines or one JSON document.

Idea: a record says all that the ledger says of a memory but its chain. Trap: tombstones are not in
the file; they are keyed to this machine and would say nothing elsewhere. What becomes of a file
that is taken in: `importing.py`.
Format: docs/reference/memory-format.md. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openmem.base.clock import now_text
from openmem.base.errors import OpenmemError, Usage
from openmem.base.frame import carries_own_text
from openmem.memory.facade import Memories
from openmem.memory.looking import is_shown
from openmem.memory.model import (
    KINDS,
    LONGEST_PASSAGE,
    LONGEST_STATEMENT,
    TRUSTS,
    Kind,
    Memory,
    Trust,
    normalised,
    storable,
)
from openmem.memory.scope import Scope
from openmem.memory.times import check_order, moment_of

VERSION = 1


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


def values_in(data: bytes, faults: list[tuple[int, str]]) -> Iterator[tuple[int, object]]:
    """Yield the values of a file with their numbers, from 1; a line that is no JSON is noted.

    Usage for a document of another version.
    """
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
            faults.append((number, f"not JSON ({reason})"))


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
