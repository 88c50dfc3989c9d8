"""Text out of a session's file, to the last byte; rows stay as empty places in the chain.

An emptied row is the session's own tombstone: its fingerprint is there, so a resent history adds
nothing, and the chain still verifies.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass

from openmem.base.tokens import index_text
from openmem.context.rows import ROLES, digest_of_text
from openmem.context.store.prepare import FORGOTTEN
from openmem.context.store.schema import LAST_LINE, base_id, group_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What left a file. `keys`: of the rows, for tombstones; `blobs`: ids that rows named."""

    rows: int = 0
    lines: int = 0
    keys: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()


def holders(connection: sqlite3.Connection, seqs: Collection[int]) -> list[int]:
    """Return the rows that hold the text of these: a row of a rewritten history names another."""
    found: set[int] = set()
    for seq in seqs:
        row = connection.execute(
            "SELECT coalesce(source, seq) FROM row WHERE seq = ?", (seq,)
        ).fetchone()
        if row:
            found.add(int(row[0]))
    return sorted(found)


def erase_rows(connection: sqlite3.Connection, seqs: Collection[int], key: bytes) -> Erased:
    """Empty rows, inside the caller's transaction; one that is forgotten already is passed over.

    `key`: the installation's.
    """
    count = lines = 0
    keys: list[str] = []
    blobs: list[str] = []
    for seq in holders(connection, seqs):
        role, echo, thread, size, content_key, digest, masked = connection.execute(
            "SELECT role, echo, thread, size, content_key, digest, masked FROM row WHERE seq = ?",
            (seq,),
        ).fetchone()
        if masked == FORGOTTEN:
            continue
        count += 1
        keys.append((content_key or digest).hex())
        lines += _remove_lines(connection, seq, role, bool(echo))
        blobs += [
            str(row[0]) for row in connection.execute("SELECT id FROM blob WHERE seq = ?", (seq,))
        ]
        connection.execute("DELETE FROM blob WHERE seq = ?", (seq,))
        connection.execute(
            "UPDATE row SET line_count = 0, size = 0, name = NULL, masked = ?, digest = ?"
            " WHERE seq = ? OR source = ?",
            (FORGOTTEN, bytes.fromhex(digest_of_text(key, "")), seq, seq),
        )
        _count_bytes(connection, thread, -size)
    return Erased(rows=count, lines=lines, keys=tuple(keys), blobs=tuple(blobs))


Rewrite = Callable[[str], tuple[str, int]]
"""What a text becomes, and how many secrets were masked in it; 0 leaves the row alone."""


def rewrite_rows(
    connection: sqlite3.Connection, seqs: Collection[int], rewrite: Rewrite, key: bytes
) -> list[int]:
    """Mask what has to go in rows as they are now; return how many secrets in each row changed.

    Inside the caller's transaction: what a row held when it was chosen may have been forgotten
    since, and must not be written again.
    """
    changed: list[int] = []
    for seq in holders(connection, seqs):
        text, masked = rewrite(_text_of(connection, seq))
        if masked:
            _replace_text(connection, seq, text, masked, key)
            changed.append(masked)
    return changed


def _text_of(connection: sqlite3.Connection, seq: int) -> str:
    row = connection.execute("SELECT text FROM messages WHERE seq = ?", (seq,)).fetchone()
    return str(row[0]) if row else ""


def _replace_text(
    connection: sqlite3.Connection, seq: int, text: str, masked: int, key: bytes
) -> None:
    role, echo, thread, size, before = connection.execute(
        "SELECT role, echo, thread, size, masked FROM row WHERE seq = ?", (seq,)
    ).fetchone()
    _remove_lines(connection, seq, role, bool(echo))
    lines = text.split("\n", LAST_LINE - 1)
    first = base_id(group_of(ROLES[role], bool(echo)), seq) + 1
    numbered = list(enumerate(lines, first))
    connection.executemany("INSERT INTO line (id, text) VALUES (?, ?)", numbered)
    connection.executemany(
        "INSERT INTO lines_fts (rowid, text) VALUES (?, ?)",
        [(n, index_text(line)) for n, line in numbered if line and not line.isspace()],
    )
    new_size = len(text.encode("utf-8"))
    digest = bytes.fromhex(digest_of_text(key, text))
    connection.execute("UPDATE row SET line_count = ? WHERE seq = ?", (len(lines), seq))
    connection.execute(
        "UPDATE row SET size = ?, masked = ?, digest = ? WHERE seq = ? OR source = ?",
        (new_size, max(0, before) + masked, digest, seq, seq),
    )
    _count_bytes(connection, thread, new_size - size)


def clear_freed_bytes(connection: sqlite3.Connection) -> bool:
    """Overwrite what was deleted. False when a reader still holds the old pages: try again."""
    try:
        connection.execute("PRAGMA busy_timeout = 2000")
        # Not before the reader is gone: the file made anew would be added to the WAL each time.
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            return False
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("INSERT INTO lines_fts (lines_fts) VALUES ('optimize')")
        connection.execute("VACUUM")
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            return False
        raise
    return not busy


def _remove_lines(connection: sqlite3.Connection, seq: int, role: int, echo: bool) -> int:
    base = base_id(group_of(ROLES[role], echo), seq)
    lines = connection.execute(
        "SELECT id, text FROM line WHERE id > ? AND id <= ?", (base, base + LAST_LINE)
    ).fetchall()
    # The index keeps no text of its own; it must be told what it holds in order to drop it.
    connection.executemany(
        "INSERT INTO lines_fts (lines_fts, rowid, text) VALUES ('delete', ?, ?)",
        [(n, index_text(text)) for n, text in lines if text and not text.isspace()],
    )
    connection.execute("DELETE FROM line WHERE id > ? AND id <= ?", (base, base + LAST_LINE))
    return len(lines)


def _count_bytes(connection: sqlite3.Connection, thread: int, change: int) -> None:
    connection.execute("UPDATE session SET bytes = max(0, bytes + ?)", (change,))
    connection.execute("UPDATE thread SET bytes = max(0, bytes + ?) WHERE id = ?", (change, thread))
