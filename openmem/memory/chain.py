"""The chain of the ledger: how an entry is digested, read back and replayed.

Standard library only: hooks reach it.
"""

from __future__ import annotations

import json
import os
from typing import Any

from openmem.memory.model import LedgerEntry, Memory, Source


def new_id() -> str:
    return "m-" + os.urandom(8).hex()


def salted(salt: bytes, text: str) -> str:
    import hashlib  # loads OpenSSL; a hook that only reads does without

    return hashlib.sha256(salt + text.encode("utf-8", "surrogatepass")).hexdigest()


def fields_of(entry: LedgerEntry) -> list[int | str]:
    """Return an entry's fields in the order of its row, the digest left out."""
    return [
        entry.number,
        entry.at,
        entry.verb,
        entry.memory_id,
        entry.bank,
        entry.actor,
        entry.provider,
        entry.detail,
        entry.text_digest,
        entry.previous,
    ]


def digest_of_entry(entry: LedgerEntry) -> str:
    """Return an entry's digest: over all its fields and the digest before it."""
    import hashlib

    text = json.dumps(fields_of(entry), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def replay(state: dict[str, dict[str, str]], entry: LedgerEntry) -> None:
    """Apply an entry to the state that the entries before it gave."""
    detail = json.loads(entry.detail)
    memory = state.setdefault(entry.memory_id, {}) if entry.memory_id else {}
    if entry.verb == "add":
        state[entry.memory_id] = {
            "trust": detail["trust"],
            "state": "active",
            "by": "",
            "bank": entry.bank,
        }
    elif entry.verb in ("accept", "reject", "reopen"):
        memory["trust"] = detail["trust"]
    elif entry.verb == "supersede":
        memory.update(state="superseded", by=detail["superseded_by"])
    elif entry.verb in ("forget", "expire"):
        memory["state"] = "forgotten" if entry.verb == "forget" else "expired"
    elif entry.verb == "drop-bank":
        for memory_id in [name for name, found in state.items() if found.get("bank") == entry.bank]:
            del state[memory_id]


def entry_of(row: tuple[Any, ...]) -> LedgerEntry:
    number, *texts = row
    at, verb, memory_id, bank, actor, provider, detail, text_digest, previous, digest = map(
        str, texts
    )
    assert isinstance(number, int)
    return LedgerEntry(
        number=number,
        at=at,
        verb=verb,
        memory_id=memory_id,
        bank=bank,
        actor=actor,
        provider=provider,
        detail=detail,
        text_digest=text_digest,
        previous=previous,
        digest=digest,
    )


def memory_of(row: tuple[Any, ...]) -> Memory:
    values = [str(value) for value in row]
    row_number = row[8]
    return Memory(
        id=values[0],
        bank=values[1],
        kind=values[2],  # type: ignore[arg-type]
        text=values[3],
        trust=values[4],  # type: ignore[arg-type]
        state=values[5],  # type: ignore[arg-type]
        actor=values[6],
        source=Source(session_id=values[7], row=row_number if isinstance(row_number, int) else 0),
        recorded_at=values[9],
        valid_from=values[10],
        valid_to=values[11],
        supersedes=values[12],
        superseded_by=values[13],
        ended_at=values[14],
    )
