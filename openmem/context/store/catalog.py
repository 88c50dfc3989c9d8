"""Which sessions there are and whose they are, so that a search opens only those it may read.

Idea: a cache. What the sessions' folder holds is the truth; the catalogue adds agent, folder, bank
and workspace, which would otherwise take a file to be opened for each session.
Invariant: without it everything still works, slower; it is never the reason that a request fails.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass

from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.base.workspace import workspace_of
from openmem.context.session import decode_registration, registration_file
from openmem.context.store.database import SIDE_FILES
from openmem.context.store.readonly import connect_for_reading, is_in_use

_SCHEMA = """CREATE TABLE IF NOT EXISTS session (session_id TEXT PRIMARY KEY, agent TEXT NOT NULL,
    cwd TEXT NOT NULL, bank TEXT NOT NULL, workspace TEXT NOT NULL, noted_at INTEGER NOT NULL)
    WITHOUT ROWID"""
_BUSY_SECONDS = 0.5
_DROP_SECONDS = 15.0
_OURS, _EARLIER = ".v4.db", ".db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A session that has a store. `path`: the file to read. `workspace`: key when it was noted.

    `modified_at`: POSIX seconds of the last write. `is_in_use`: a writer has the file open, or left
    its journal. `stamp`: equal as long as a connection opened on the file still shows what is in
    it. Unknown texts are "".
    """

    session_id: str
    path: str
    modified_at: float
    is_in_use: bool
    stamp: tuple[int, ...]
    agent: str = ""
    cwd: str = ""
    bank: str = ""
    workspace: str = ""

    @property
    def is_legacy(self) -> bool:
        return not self.path.endswith(_OURS)


def catalog_file(paths: Paths) -> str:
    """Return where the catalogue is kept; nothing is created."""
    return f"{paths.context_dir}/catalog.db"


def note_session(paths: Paths, sid: str, agent: str, cwd: str, bank: str) -> None:
    """Write down whose session it is."""
    workspace = workspace_of(cwd).key if cwd else ""
    path = catalog_file(paths)
    try:
        ensure_private_dir(paths.context_dir)
        _remove_if_damaged(path)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(_SCHEMA)
            connection.execute(
                "INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?)",
                (sid, agent, cwd, bank, workspace, int(time.time())),
            )
        finally:
            connection.close()
    except (sqlite3.Error, OSError):
        pass  # a cache: the session's own file says the same, and readers fall back on it


def drop_sessions(paths: Paths, sids: Iterable[str]) -> None:
    """Take sessions out, to the last byte of their folders' names. OSError when nothing helps."""
    path = catalog_file(paths)
    if not os.path.exists(path):
        return
    connection = sqlite3.connect(path, timeout=_DROP_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.executemany("DELETE FROM session WHERE session_id = ?", [(sid,) for sid in sids])
        connection.execute("VACUUM")
    except sqlite3.Error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # only a cache: it fills again
    finally:
        connection.close()


def _remove_if_damaged(path: str) -> None:
    """Remove a catalogue that is no database: it would make every search slow, for good."""
    try:
        with open(path, "rb") as file:
            head = file.read(16)
    except FileNotFoundError:
        return
    if head and head != b"SQLite format 3\0":
        os.unlink(path)


def entries(paths: Paths) -> list[Entry]:
    """Return the sessions that have a store, the last written first.

    A session of version 4 hides an earlier file of the same id.
    """
    noted = _noted(paths)
    found: dict[str, Entry] = {}
    try:
        listing = list(os.scandir(paths.sessions_dir))
    except OSError:
        return []  # no folder yet, or not ours to read: there is no session to be seen
    side_names = {item.name for item in listing if item.name.endswith(SIDE_FILES)}
    for item in listing:
        name = item.name
        if not name.endswith(_EARLIER):
            continue
        sid = name.removesuffix(_OURS) if name.endswith(_OURS) else name.removesuffix(_EARLIER)
        if sid in found and not name.endswith(_OURS):
            continue
        in_use = bool(side_names) and any(name + suffix in side_names for suffix in SIDE_FILES)
        with contextlib.suppress(FileNotFoundError):  # deleted since the listing
            found[sid] = _entry(paths, sid, item.path, in_use, noted.get(sid))
    return sorted(found.values(), key=lambda entry: entry.modified_at, reverse=True)


def entry_of(paths: Paths, sid: str) -> Entry | None:
    """Return one session's entry, None when it has no store. `sid`: sanitised."""
    for suffix in (_OURS, _EARLIER):
        path = f"{paths.sessions_dir}/{sid}{suffix}"
        with contextlib.suppress(FileNotFoundError):
            return _entry(paths, sid, path, is_in_use(path), _noted(paths).get(sid))
    return None


def _entry(
    paths: Paths, sid: str, path: str, in_use: bool, noted: tuple[str, str, str, str] | None
) -> Entry:
    status = os.stat(path)
    modified_at = status.st_mtime
    stamp: tuple[int, ...] = (status.st_dev, status.st_ino)
    if in_use:
        with contextlib.suppress(FileNotFoundError):  # written back into the file meanwhile
            modified_at = max(modified_at, os.stat(path + "-wal").st_mtime)
    else:
        stamp += (status.st_mtime_ns, status.st_size)
    agent, cwd, bank, workspace = noted or _registered(paths, sid) or _told_by_file(path, in_use)
    return Entry(
        session_id=sid,
        path=path,
        modified_at=modified_at,
        is_in_use=in_use,
        stamp=stamp,
        agent=agent,
        cwd=cwd,
        bank=bank,
        workspace=workspace,
    )


def _registered(paths: Paths, sid: str) -> tuple[str, str, str, str] | None:
    try:
        with open(registration_file(paths, sid), "rb") as file:
            registration = decode_registration(file.read(1 << 20))
    except OSError:
        return None  # not registered
    if registration is None:
        return None
    return registration.agent, registration.cwd, registration.bank, ""


def _told_by_file(path: str, in_use: bool) -> tuple[str, str, str, str]:
    """Return what the session's own file says; it costs an opening, so it is asked last."""
    if path.endswith(_OURS):
        try:
            connection = connect_for_reading(path, immutable=not in_use)
            try:
                row = connection.execute("SELECT agent, cwd, bank FROM session").fetchone()
            finally:
                connection.close()
            if row:
                return str(row[0]), str(row[1]), str(row[2]), ""
        except sqlite3.Error:
            pass  # whoever opens the file to read it will say what is wrong with it
    return "", "", "", ""


def _noted(paths: Paths) -> dict[str, tuple[str, str, str, str]]:
    path = catalog_file(paths)
    if not os.path.exists(path):
        return {}
    try:
        connection = connect_for_reading(path)
        try:
            rows = connection.execute("SELECT session_id, agent, cwd, bank, workspace FROM session")
            return {sid: (agent, cwd, bank, workspace) for sid, agent, cwd, bank, workspace in rows}
        finally:
            connection.close()
    except sqlite3.Error:
        return {}  # a cache: registrations say most of the same
