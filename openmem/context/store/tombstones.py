"""What must not be stored again: keyed digests without content, for all sessions.

A key is a row's content key, or the digest of its stored text where it has none (thinking,
reminders). Both are made with the installation's key, so the file gives nothing away.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable

from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths

_SCHEMA = """CREATE TABLE IF NOT EXISTS tombstone (key BLOB PRIMARY KEY, at INTEGER NOT NULL)
    WITHOUT ROWID"""
_BUSY_SECONDS = 10.0


def tombstone_file(paths: Paths) -> str:
    """Return where tombstones are kept; nothing is created."""
    return f"{paths.context_dir}/tombstones.db"


def add_tombstones(paths: Paths, keys: Iterable[str]) -> int:
    """Keep keys (hex); return how many are new. sqlite3.Error, OSError when that fails."""
    ensure_private_dir(paths.context_dir)
    path = tombstone_file(paths)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_SCHEMA)
        before = connection.total_changes
        connection.executemany(
            "INSERT OR IGNORE INTO tombstone VALUES (?, ?)",
            [(bytes.fromhex(key), int(time.time())) for key in keys if key],
        )
        added = connection.total_changes - before
        connection.execute("COMMIT")
        return added
    finally:
        connection.close()


class Tombstones:
    """The keys, read again when the file changed. Not thread-safe.

    A file that is there but cannot be read raises: forgetting fails closed, and a request that
    cannot be checked is not stored.
    """

    def __init__(self, paths: Paths) -> None:
        self._path = tombstone_file(paths)
        self._seen: tuple[int, int, int] | None = None
        self._keys: frozenset[bytes] = frozenset()

    def holds(self, key: str) -> bool:
        """Return whether a key (hex) is a tombstone's."""
        return bool(self._keys) and bytes.fromhex(key) in self._keys

    def refresh(self) -> None:
        """Read the file if it is another one than last time. sqlite3.Error when it cannot."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._keys = None, frozenset()
            return
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen == self._seen:
            return
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            self._keys = frozenset(
                bytes(row[0]) for row in connection.execute("SELECT key FROM tombstone")
            )
        finally:
            connection.close()
        self._seen = seen
