"""The file of one bank: its tables, opened private, of our version, never written when newer.

`doc` holds texts; `words` is an index without content over them. A doc's number carries its place:
passages of one session stand in a row (session << 24 | n), so that a neighbour is one number away.
Trap: FTS5 keeps tokens of removed rows until its parts are merged, SQLite keeps the bytes of
removed rows until VACUUM, and the log keeps both until it is cut off; `erase` does all three.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from openmem.base.errors import StoreUnavailable
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.memory.providers.local.words import TOKENIZER

VERSION = 1
SESSION_SHIFT = 24
IN_MEMORY = ":memory:"
_STATEMENTS = (
    "CREATE TABLE bank (name TEXT NOT NULL)",
    "CREATE TABLE session (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)",
    """CREATE TABLE doc (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    recorded_at TEXT NOT NULL, tokens INTEGER NOT NULL, content INTEGER NOT NULL,
    text TEXT NOT NULL)""",
    "CREATE TABLE total (docs INTEGER NOT NULL, tokens INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0, 0)",
    f"CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='{TOKENIZER}')",
    "CREATE VIRTUAL TABLE instance USING fts5vocab('words', 'instance')",
    "CREATE VIRTUAL TABLE frequency USING fts5vocab('words', 'row')",
)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_LONGEST_NAME = 120


def folder_of(paths: Paths) -> str:
    return f"{paths.state_dir}/memory"


def path_of(paths: Paths, bank: str) -> str:
    """Return the path of a bank's file; no two banks share one, whatever the file system folds."""
    name = "".join(
        c if c in _PLAIN else "".join(f"%{byte:02x}" for byte in c.encode("utf-8", "surrogatepass"))
        for c in bank
    )
    if len(name) > _LONGEST_NAME:
        import hashlib  # loads OpenSSL, which a hook in an ordinary repository does without

        digest = hashlib.sha256(bank.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[: _LONGEST_NAME - 17]}~{digest}"
    return f"{folder_of(paths)}/{name}.db"


class BankFile:
    """A connection that opens at the first use. StoreUnavailable from any method."""

    def __init__(self, path: str, bank: str, *, busy_seconds: float = 10.0) -> None:
        self.path = path
        self._bank = bank
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        return self.path == IN_MEMORY or os.path.exists(self.path)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection:
            connection.close()

    def reading(self, busy_seconds: float = 0.0) -> sqlite3.Connection | None:
        """Return the connection, None when there is no such bank; nothing is created."""
        return self._open(busy_seconds) if self.exists else None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold one transaction; the bank is made when there is none."""
        connection = self._open(0)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise unavailable(self.path, error) from error
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def erase(self) -> bool:
        """Overwrite what was removed; False while a reader holds old pages."""
        connection = self.reading()
        if connection is None:
            return True
        try:
            connection.execute("PRAGMA busy_timeout = 2000")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                return False
            raise unavailable(self.path, error) from error
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
        return not busy

    def _open(self, busy_seconds: float) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._connection = self._connect(busy_seconds or self._busy_seconds)
            except (OSError, sqlite3.Error) as error:
                raise unavailable(self.path, error) from error
        elif busy_seconds:
            self._connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
        return self._connection

    def _connect(self, busy_seconds: float) -> sqlite3.Connection:
        if self.path != IN_MEMORY:
            ensure_private_dir(os.path.dirname(self.path))
            if not os.path.exists(self.path):
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self.path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            self._bring_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _bring_up(self, connection: sqlite3.Connection) -> None:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > VERSION:
            raise StoreUnavailable(
                f"bank {self._bank} is of version {version}; this openmem writes {VERSION}.",
                hint="Upgrade openmem; the file is left as it is.",
                code="store-newer",
            )
        if version < VERSION:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if not int(connection.execute("PRAGMA user_version").fetchone()[0]):
                for statement in _STATEMENTS:
                    connection.execute(statement)
                connection.execute("INSERT INTO bank VALUES (?)", (self._bank,))
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        connection.execute("PRAGMA synchronous = NORMAL")


def unavailable(path: str, error: BaseException) -> StoreUnavailable:
    """Return the error for a bank's file that cannot be used now."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreUnavailable("the bank is held by another process.", code="store-locked")
    return StoreUnavailable(f"{path} cannot be used: {text}.")
