"""The ledger's file: opened private, of our version, and never written when it is newer.

Standard library only: hooks reach it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openmem.base.errors import StoreUnavailable
from openmem.base.io import ensure_private_dir
from openmem.memory.schema import STATEMENTS, VERSION


class LedgerFile:
    """A connection that opens at the first use. StoreUnavailable from any method.

    `is_frozen`: for a dry run; nothing is written, and no file comes to be beside this one.
    """

    def __init__(self, path: str, *, busy_seconds: float, is_frozen: bool = False) -> None:
        self._path = path
        self._is_frozen = is_frozen
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        connection, self._connection = self._connection, None
        if connection:
            connection.close()

    def exists(self) -> bool:
        """Return whether anything was ever recorded."""
        return os.path.exists(self._path)

    def clear_freed_bytes(self) -> bool:
        """Overwrite what was erased. False while a reader holds old pages: try again later."""
        connection = self._open()
        try:
            connection.execute("PRAGMA busy_timeout = 2000")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                return False
            raise self._unavailable(error) from error
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
        return not busy

    def read(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        if self._connection is None and not self.exists():
            return []
        try:
            return self._open().execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._unavailable(error) from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise self._unavailable(error) from error
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._connection = self._connect()
            except (OSError, sqlite3.Error) as error:
                raise self._unavailable(error) from error
        return self._connection

    def _connect_frozen(self) -> sqlite3.Connection:
        from urllib.parse import quote

        # A log beside it means that somebody has it open, so the files exist that reading needs.
        how = "mode=ro" if os.path.exists(f"{self._path}-wal") else "mode=ro&immutable=1"
        return sqlite3.connect(
            f"file:{quote(self._path)}?{how}", uri=True, timeout=self._busy_seconds
        )

    def _connect(self) -> sqlite3.Connection:
        if self._is_frozen:
            return self._connect_frozen()
        ensure_private_dir(os.path.dirname(self._path))
        if not os.path.exists(self._path):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self._path,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version > VERSION:
                raise StoreUnavailable(
                    f"the ledger is of version {version}; this openmem writes {VERSION}.",
                    hint="Upgrade openmem; the file is left as it is.",
                    code="store-newer",
                )
            if version < VERSION:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("BEGIN IMMEDIATE")
                if not int(connection.execute("PRAGMA user_version").fetchone()[0]):
                    for statement in STATEMENTS:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute("COMMIT")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        text = str(error)
        if "locked" in text:
            return StoreUnavailable("the ledger is held by another process.", code="store-locked")
        return StoreUnavailable(f"the ledger {self._path} cannot be used: {text}.")
