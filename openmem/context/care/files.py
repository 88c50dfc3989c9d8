"""The files of a session and of the whole store, and which blobs are still named."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.database import legacy_file, session_file
from openmem.context.store.reader import open_entry
from openmem.context.store.readonly import is_in_use
from openmem.context.store.schema import VERSION

# Longest first: `<sid>.v4.db-wal` must not be taken for a session named `<sid>.v4`.
SUFFIXES = (
    ".v4.db-journal",
    ".v4.db-wal",
    ".v4.db-shm",
    ".v4.db",
    ".vectors.f32",
    ".vectors.json",
    ".vectors.lock",
    ".trim.json",
    ".log.jsonl",
    ".db-journal",
    ".db-wal",
    ".db-shm",
    ".db",
    ".json",
    ".force",
    ".pin",
    ".pending",
)
_SET_ASIDE = ".v4.db.damaged-"
_NO_USE = (".pin", ".pending", ".vectors.f32", ".vectors.json", ".vectors.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFiles:
    """All files of one session. `newest_at`: POSIX seconds of the last write that was a use of it:
    a pin, or vectors that were made at last, are none."""

    session_id: str
    paths: tuple[str, ...]
    newest_at: float
    size_bytes: int

    @property
    def is_pinned(self) -> bool:
        return any(path.endswith(".pin") for path in self.paths)


def session_files(paths: Paths) -> list[SessionFiles]:
    """Return the sessions that have any file; other names and dot files are left alone."""
    found: dict[str, list[os.DirEntry[str]]] = {}
    try:
        listing = sorted(os.scandir(paths.sessions_dir), key=lambda item: item.name)
    except OSError:
        return []  # no folder yet
    for item in listing:
        sid = session_of(item.name)
        if sid and item.is_file(follow_symlinks=False):
            found.setdefault(sid, []).append(item)
    grouped: list[SessionFiles] = []
    for sid, items in found.items():
        newest, size = 0.0, 0
        for item in items:
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                status = item.stat()
                size += status.st_size
                if not item.name.endswith(_NO_USE):
                    newest = max(newest, status.st_mtime)
        grouped.append(
            SessionFiles(
                session_id=sid,
                paths=tuple(item.path for item in items),
                newest_at=newest,
                size_bytes=size,
            )
        )
    return grouped


def session_of(name: str) -> str:
    """Return the session that a file name in the sessions' folder belongs to, "" for none."""
    if name.startswith("."):
        return ""
    if _SET_ASIDE in name:
        return name.partition(_SET_ASIDE)[0]
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return ""


def copies(paths: Paths, sid: str = "") -> list[str]:
    """Return the files that hold sessions beside the sessions' own: set aside as damaged, exported.

    `sid`: only this session's.
    """
    found: list[str] = []
    for folder in (paths.sessions_dir, exports_dir(paths)):
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):  # no folder yet
            names = sorted(os.listdir(folder))
        for name in names:
            is_export = folder != paths.sessions_dir
            owner = name.rpartition(".")[0] if is_export else name.partition(_SET_ASIDE)[0]
            if (is_export or _SET_ASIDE in name) and sid in ("", owner):
                found.append(f"{folder}/{name}")
    return found


def hidden_entries(paths: Paths) -> list[Entry]:
    """Return the earlier system's files of sessions that have one of ours; no search reads them."""
    found: list[Entry] = []
    for group in session_files(paths):
        old, ours = legacy_file(paths, group.session_id), session_file(paths, group.session_id)
        if old in group.paths and ours in group.paths:
            status = os.stat(old)
            found.append(
                Entry(
                    session_id=group.session_id,
                    path=old,
                    modified_at=status.st_mtime,
                    is_in_use=is_in_use(old),
                    stamp=(),
                )
            )
    return found


def exports_dir(paths: Paths) -> str:
    """Return the folder of our own exports; nothing is created."""
    return f"{paths.context_dir}/exports"


def named_blobs(
    paths: Paths, *, without: frozenset[str] = frozenset()
) -> tuple[set[str], list[str]]:
    """Return the blob ids that any session names, and the sessions that could not be asked.

    `without`: sessions that do not count.
    """
    named: set[str] = set()
    unread: list[str] = []
    for entry in entries(paths):
        if entry.session_id in without:
            continue
        try:
            with open_entry(entry) as reader:
                if reader.version == VERSION:
                    query = "SELECT DISTINCT id FROM blob"
                else:
                    query = "SELECT DISTINCT blob_id FROM messages WHERE blob_id IS NOT NULL"
                named.update(str(row[0]) for row in reader.connection.execute(query))
        except (StoreUnavailable, sqlite3.Error):
            unread.append(entry.session_id)
    return named, unread


def remove_files(names: Iterable[str]) -> int:
    """Remove files and return how many there were. OSError on the first that cannot go."""
    removed = 0
    for path in names:
        with contextlib.suppress(FileNotFoundError):  # gone already
            os.unlink(path)
            removed += 1
    return removed
