"""Opening a session's file for writing: created whole, of our version, in the right mode.

Invariant: a file newer than ours is never written. A damaged or half-made file is set aside under
another name, never deleted, and the session goes on in a fresh one: the client sends the whole
history with each request, so that nothing said is lost with it.
Trap: switching to WAL ignores the busy timeout; two processes that create one file meet there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import time

from openmem.base.clock import utc_text
from openmem.base.errors import StoreUnavailable
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.context.store.mount import MOUNTS_FILE, shared_file_system
from openmem.context.store.schema import OUR_NAMES, STATEMENTS, VERSION

# 256 KB a file: the index gathers words by itself, so that more made nothing faster, and sixteen
# open files held 13 MB more.
_SMALL_CACHE = "PRAGMA cache_size = -256"
SIDE_FILES = ("-wal", "-shm", "-journal")
_FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)
_LEAST_FREE_BYTES = 1 << 17


def session_file(paths: Paths, sid: str) -> str:
    """Return where version 4 of a session is kept; nothing is created."""
    return f"{paths.sessions_dir}/{sid}.v4.db"


def legacy_file(paths: Paths, sid: str) -> str:
    """Return where versions 1 to 3 of a session were kept by the earlier system."""
    return f"{paths.sessions_dir}/{sid}.db"


def open_for_writing(
    paths: Paths, sid: str, *, busy_seconds: float, mounts_file: str = MOUNTS_FILE
) -> sqlite3.Connection:
    """Return a connection to the session's file, made when there is none.

    Not in a transaction; statements commit by themselves. StoreUnavailable: newer than ours,
    locked for longer than `busy_seconds`, or not writable.
    """
    path = session_file(paths, sid)
    try:
        ensure_private_dir(paths.sessions_dir)
        for attempt in (1, 2):
            _create_private(path)
            connection = _connect(path, busy_seconds)
            try:
                _prepare(connection, sid, busy_seconds, mounts_file)
                return connection
            except (_HalfMade, sqlite3.DatabaseError) as error:
                connection.close()
                if attempt == 2 or not is_damage(error):
                    raise
                set_aside(path)
            except BaseException:
                connection.close()
                raise
    except (OSError, sqlite3.Error, _HalfMade) as error:
        raise unavailable(paths, sid, error) from error
    raise AssertionError("two attempts either return or raise")


def unavailable(paths: Paths, sid: str, error: BaseException) -> StoreUnavailable:
    """Return our error for what SQLite or the system said about a session's file."""
    text = str(error).lower()
    if isinstance(error, sqlite3.OperationalError) and "locked" in text:
        return StoreUnavailable(
            f"the store of session {sid} is held by another process.", code="store-locked"
        )
    if "full" in text or getattr(error, "errno", None) in _FULL or _is_full(paths, error):
        return StoreUnavailable(
            f"the disk is full; session {sid} cannot be stored.", code="store-full"
        )
    return StoreUnavailable(f"the store of session {sid} cannot be written: {error}.")


def _is_full(paths: Paths, error: BaseException) -> bool:
    """Return whether an I/O error is a full disk's: the shared memory's file tells it as one."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_IOERR:
        return False
    try:
        return shutil.disk_usage(paths.sessions_dir).free < _LEAST_FREE_BYTES
    except OSError:
        return False  # the folder itself is the fault


class _HalfMade(Exception):
    """The file has tables but no version, or a version and not its tables: somebody died while
    making it, or it is not ours."""


def is_damage(error: BaseException) -> bool:
    """Return whether an error says that the file itself is broken, not that it is busy or full."""
    if isinstance(error, _HalfMade):
        return True
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    )


def set_aside(path: str) -> None:
    """Rename a database and its side files to `<file>.damaged-<time>`; OSError when it cannot."""
    name = f"{path}.damaged-{utc_text(time.time()).replace(':', '')}"
    while os.path.exists(name):
        name += "x"
    for suffix in SIDE_FILES:
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + suffix, name + suffix)
    with contextlib.suppress(FileNotFoundError):  # another process of ours was first
        os.rename(path, name)


def _create_private(path: str) -> None:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass  # SQLite gives the side files the mode of this one


def _connect(path: str, busy_seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )


def _prepare(
    connection: sqlite3.Connection, sid: str, busy_seconds: float, mounts_file: str
) -> None:
    version = _version(connection)
    if version == VERSION:
        names = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
        if not names >= OUR_NAMES:
            raise _HalfMade("it lacks tables of its version")
        if _is_on_shared_mount(connection, mounts_file) and _journal_mode(connection) == "wal":
            _set_journal_mode(connection, busy_seconds, mounts_file)  # it was made elsewhere
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SMALL_CACHE)
        return
    if version:
        raise StoreUnavailable(
            f"the store of session {sid} is of version {version}; this openmem writes {VERSION}.",
            hint="Upgrade openmem; the file is left as it is.",
            code="store-newer",
        )
    # Nothing is lost if the machine stops while an empty file is made: the next one is made anew.
    connection.execute("PRAGMA synchronous = OFF")
    _half_made_names(connection)  # before the file's header is touched
    _set_journal_mode(connection, busy_seconds, mounts_file)
    connection.execute(_SMALL_CACHE)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _version(connection):  # else another process was first
            _clear_half_made(connection)
            now = int(time.time())
            for statement in STATEMENTS:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO session (id, session_id, created_at, last_at) VALUES (1, ?, ?, ?)",
                (sid, now, now),
            )
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    connection.execute("PRAGMA synchronous = NORMAL")


def roll_back(connection: sqlite3.Connection) -> None:
    """End the open transaction without keeping it, if SQLite has not done so by itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _half_made_names(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the names and types of tables of ours that hold no row.

    _HalfMade when there is anything else, unless another process made the file whole meanwhile:
    tables and version come in one transaction, so who sees the one can see the other.
    """
    names = {
        str(name): str(kind)
        for name, kind in connection.execute("SELECT name, type FROM sqlite_master")
        if not str(name).startswith(("sqlite_", "lines_fts_"))
    }
    is_ours = names.keys() <= OUR_NAMES
    has_rows = is_ours and any(
        connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone()
        for name in ("row", "line", "events")
        if name in names
    )
    if (has_rows or not is_ours) and not _version(connection):
        raise _HalfMade("it holds rows, but no version" if has_rows else "it is not ours")
    return names


def _clear_half_made(connection: sqlite3.Connection) -> None:
    names = _half_made_names(connection)
    for name, kind in sorted(names.items(), key=lambda item: item[1] != "view"):
        if kind in ("table", "view"):
            connection.execute(f"DROP {kind} {name}")


def _is_on_shared_mount(connection: sqlite3.Connection, mounts_file: str) -> bool:
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    return bool(shared_file_system(os.path.dirname(path), mounts_file))


def _journal_mode(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _set_journal_mode(
    connection: sqlite3.Connection, busy_seconds: float, mounts_file: str
) -> None:
    mode = "DELETE" if _is_on_shared_mount(connection, mounts_file) else "WAL"
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
