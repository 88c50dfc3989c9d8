"""Secrets in what is already stored: where they are, and masking them in place."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.base.redact import find_secrets, redact
from openmem.context.care.age import keeping_age
from openmem.context.care.erase import rewrite_rows
from openmem.context.care.files import copies
from openmem.context.care.pending import clear, mark, unmark
from openmem.context.care.places import texts_in
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.database import open_for_writing
from openmem.context.store.reader import open_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFound:
    """A secret in a stored row; never its value. `line`: from 1. `is_legacy`: cannot be masked."""

    session_id: str
    seq: int
    line: int
    rule: str
    is_legacy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretInFile:
    """A kind of secret in a copy of a session, which cannot be masked there. `count`: how many."""

    path: str
    rule: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan found. `unread`: sessions that could not be looked into, with the reason."""

    found: tuple[SecretFound, ...] = ()
    in_files: tuple[SecretInFile, ...] = ()
    unread: tuple[str, ...] = ()


def scan(
    paths: Paths, *, sid: str = "", progress: Callable[[int, int], None] | None = None
) -> Scan:
    """Return the secrets that stored rows and copies of sessions hold.

    `sid`: only of this session, "" for all. `progress`: told (sessions done, of how many).
    """
    wanted = [entry for entry in entries(paths) if sid in ("", entry.session_id)]
    found: list[SecretFound] = []
    unread: list[str] = []
    for number, entry in enumerate(wanted):
        if progress:
            progress(number, len(wanted))
        try:
            found += _in_session(entry)
        except StoreUnavailable as error:
            unread.append(error.message)
    return Scan(found=tuple(found), in_files=tuple(_in_copies(paths, sid)), unread=tuple(unread))


def _in_session(entry: Entry) -> Iterator[SecretFound]:
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


def _in_copies(paths: Paths, sid: str) -> Iterator[SecretInFile]:
    for path in copies(paths, sid):
        kinds = Counter(found.rule for text in texts_in(path) for found in find_secrets(text))
        for rule, count in sorted(kinds.items()):
            yield SecretInFile(path=path, rule=rule, count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """What masking in place came to. `pending`: sessions whose freed bytes a reader still holds."""

    secrets: int = 0
    rows: int = 0
    sessions: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()

    def __add__(self, other: Masked) -> Masked:
        return Masked(
            secrets=self.secrets + other.secrets,
            rows=self.rows + other.rows,
            sessions=self.sessions + other.sessions,
            pending=self.pending + other.pending,
        )


def mask_stored(paths: Paths, key: bytes, found: Iterable[SecretFound]) -> Masked:
    """Mask the secrets of rows that a scan found, each session in one transaction.

    StoreUnavailable when a session cannot be written; those before it are masked.
    """
    rows: dict[str, set[int]] = {}
    for secret in found:
        if not secret.is_legacy:
            rows.setdefault(secret.session_id, set()).add(secret.seq)
    result = Masked()
    for sid, seqs in rows.items():
        with keeping_age(paths, sid):
            result += _mask_in(paths, sid, sorted(seqs), key)
    return result


def _mask_in(paths: Paths, sid: str, seqs: list[int], key: bytes) -> Masked:
    def rewrite(text: str) -> tuple[str, int]:
        masked = redact(text, key)
        return masked.text, masked.count

    connection = open_for_writing(paths, sid, busy_seconds=15.0)
    is_first = False
    try:
        connection.execute("BEGIN IMMEDIATE")
        is_first = mark(paths, sid)
        counts = rewrite_rows(connection, seqs, rewrite, key)
        connection.execute("COMMIT")
        is_cleared = clear(paths, sid, connection)
    except (sqlite3.Error, OSError) as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
            if is_first:
                unmark(paths, sid)
            raise StoreUnavailable(f"session {sid}: nothing was masked ({error}).") from error
        is_cleared = False  # the secrets are out of the tables; clearing is tried again
    finally:
        connection.close()
    return Masked(
        secrets=sum(counts),
        rows=len(counts),
        sessions=(sid,),
        pending=() if is_cleared else (sid,),
    )
