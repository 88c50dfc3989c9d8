"""Secrets in what is already stored: where they are, and masking them in place."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.base.redact import find_secrets, redact
from openmem.context.care.erase import replace_texts
from openmem.context.care.pending import clear
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.database import open_for_writing
from openmem.context.store.reader import open_entry
from openmem.context.vectors.sidecar import drop as drop_vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFound:
    """A secret in a stored row; never its value. `line`: from 1. `is_legacy`: cannot be masked."""

    session_id: str
    seq: int
    line: int
    rule: str
    is_legacy: bool


def scan(
    paths: Paths, *, sid: str = "", progress: Callable[[str], None] | None = None
) -> Iterator[SecretFound]:
    """Yield the secrets that stored rows hold. `sid`: only of this session, "" for all."""
    for entry in entries(paths):
        if sid and entry.session_id != sid:
            continue
        if progress:
            progress(entry.session_id)
        try:
            with open_entry(entry) as reader:
                for row in reader.rows():
                    if row.source:
                        continue
                    for found in find_secrets(row.text):
                        yield SecretFound(
                            session_id=entry.session_id,
                            seq=row.seq,
                            line=row.text.count("\n", 0, found.start) + 1,
                            rule=found.rule,
                            is_legacy=entry.is_legacy,
                        )
        except StoreUnavailable:
            continue  # named by `status` and `doctor`


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """What masking in place came to. `pending`: sessions whose freed bytes a reader still holds."""

    secrets: int = 0
    rows: int = 0
    sessions: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


def mask_stored(paths: Paths, key: bytes, *, sid: str = "") -> Masked:
    """Mask the secrets of stored rows, each session in one transaction. StoreUnavailable."""
    secrets = rows = 0
    sessions: list[str] = []
    pending: list[str] = []
    for entry in entries(paths):
        if entry.is_legacy or (sid and entry.session_id != sid):
            continue
        texts = _masked_texts(entry, key)
        if not texts:
            continue
        if not _write(paths, entry.session_id, texts, key):
            pending.append(entry.session_id)
        sessions.append(entry.session_id)
        rows += len(texts)
        secrets += sum(count for _, count in texts.values())
    return Masked(secrets=secrets, rows=rows, sessions=tuple(sessions), pending=tuple(pending))


def _masked_texts(entry: Entry, key: bytes) -> dict[int, tuple[str, int]]:
    found: dict[int, tuple[str, int]] = {}
    try:
        with open_entry(entry) as reader:
            for row in reader.rows():
                if row.source:
                    continue
                masked = redact(row.text, key)
                if masked.count:
                    found[row.seq] = (masked.text, masked.count)
    except StoreUnavailable:
        return {}  # named by `status` and `doctor`
    return found


def _write(paths: Paths, sid: str, texts: dict[int, tuple[str, int]], key: bytes) -> bool:
    connection = open_for_writing(paths, sid, busy_seconds=15.0)
    try:
        connection.execute("BEGIN IMMEDIATE")
        replace_texts(connection, texts, key)
        connection.execute("COMMIT")
        drop_vectors(paths, sid, texts)
        return clear(paths, sid, connection)
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise StoreUnavailable(f"session {sid}: nothing was masked ({error}).") from error
    finally:
        connection.close()
