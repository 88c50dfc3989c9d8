"""What is wrong with the session stores, in sentences: for `status`, for `doctor`.

Idea: one place knows each way in which recording is degraded; who shows it decides how.
Invariant: reads only, bounded in time, and never raises: a look at a sick store must not fail, too.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from dataclasses import dataclass

from openmem.base.counts import counted
from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.mount import MOUNTS_FILE, shared_file_system
from openmem.context.store.reader import open_entry
from openmem.context.store.readonly import connect_for_reading
from openmem.context.store.tombstones import tombstone_file

LOW_DISK_BYTES = 500_000_000
_FULL_DISK_BYTES = 1_000_000
_BUDGET_SECONDS = 3.0  # the newest sessions come first


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
    """One thing that is wrong. `name`: stable, one word. `stops`: nothing is recorded by it.

    `detail` says what, `advice` what to do.
    """

    name: str
    detail: str
    advice: str
    stops: bool = False


def ailments(
    paths: Paths, *, mounts_file: str = MOUNTS_FILE, budget_seconds: float = _BUDGET_SECONDS
) -> list[Ailment]:
    """Return what is wrong, the worst first; empty when nothing is."""
    found = [
        *_unwritable(paths),
        *_tombstones(paths),
        *_disk(paths),
        *_mount(paths, mounts_file),
        *_unreadable(entries(paths), budget_seconds),
        *_set_aside(paths),
        *_pending(paths),
    ]
    return sorted(found, key=lambda ailment: not ailment.stops)


def nearest_folder(path: str) -> str:
    """Return the folder itself, or the nearest parent that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _unwritable(paths: Paths) -> list[Ailment]:
    for folder in (paths.sessions_dir, paths.blobs_dir, paths.context_dir):
        if os.path.lexists(folder) and not os.path.isdir(folder):
            return [_not_writable(folder, "is not a folder")]
    for folder in (paths.sessions_dir, paths.blobs_dir):
        near = nearest_folder(folder)
        if not os.access(near, os.W_OK | os.X_OK):
            return [_not_writable(near, "cannot be written by this user")]
    return []


def _not_writable(folder: str, why: str) -> Ailment:
    return Ailment(
        name="read-only",
        detail=f"{folder} {why}; nothing is recorded, the agents go on",
        advice="make it writable, or set OPENMEM_STATE_DIR to a folder that is",
        stops=True,
    )


def _tombstones(paths: Paths) -> list[Ailment]:
    path = tombstone_file(paths)
    if not os.path.exists(path):
        return []
    try:
        connection = connect_for_reading(path)
        try:
            (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if answer != "ok":
                raise sqlite3.DatabaseError(str(answer).partition("\n")[0])
        finally:
            connection.close()
    except sqlite3.Error as error:
        return [
            Ailment(
                name="tombstones",
                detail=f"{path}, which says what was forgotten, cannot be read ({error}); "
                "so nothing is recorded",
                advice="restore it from a backup, or remove it: what was forgotten may come back",
                stops=True,
            )
        ]
    return []


def _disk(paths: Paths) -> list[Ailment]:
    folder = nearest_folder(paths.state_dir)
    free = shutil.disk_usage(folder).free
    if free >= LOW_DISK_BYTES:
        return []
    return [
        Ailment(
            name="disk",
            detail=f"{free / 1e9:.1f} GB free for {paths.state_dir}",
            advice="free some space; a full disk stops recording, never the agent",
            stops=free < _FULL_DISK_BYTES,
        )
    ]


def _mount(paths: Paths, mounts_file: str) -> list[Ailment]:
    kind = shared_file_system(nearest_folder(paths.state_dir), mounts_file)
    if not kind:
        return []
    return [
        Ailment(
            name="mount",
            detail=f"{paths.state_dir} is on a shared mount ({kind}); sessions are kept with "
            "journal mode DELETE, which is slower",
            advice="set OPENMEM_STATE_DIR to a folder on this machine's own disk",
        )
    ]


def _unreadable(known: list[Entry], budget_seconds: float) -> list[Ailment]:
    deadline = time.monotonic() + budget_seconds
    bad: dict[str, list[StoreUnavailable]] = {}
    for entry in known:
        if time.monotonic() > deadline:
            break
        try:
            with open_entry(entry) as reader:
                reader.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except StoreUnavailable as error:
            bad.setdefault(error.code, []).append(error)
        except (sqlite3.Error, OSError) as error:
            bad.setdefault("store-unavailable", []).append(
                StoreUnavailable(f"session {entry.session_id}: its store cannot be read ({error}).")
            )
    found = []
    for code, errors in bad.items():
        more = f" ({len(errors)} such)" if len(errors) > 1 else ""
        found.append(
            Ailment(
                name="newer" if code == "store-newer" else "unreadable",
                detail=errors[0].message + more,
                advice=errors[0].hint or "the other sessions are not touched by it",
            )
        )
    return found


def _set_aside(paths: Paths) -> list[Ailment]:
    count = sum(
        ".db.damaged-" in name and not name.endswith(("-wal", "-shm", "-journal"))
        for name in _names(paths.sessions_dir)
    )
    if not count:
        return []
    return [
        Ailment(
            name="damaged",
            detail=f"{counted(count, 'damaged file')} set aside in {paths.sessions_dir}",
            advice="the sessions went on in new files; remove the old ones when you like",
        )
    ]


def _pending(paths: Paths) -> list[Ailment]:
    count = sum(name.endswith(".pending") for name in _names(paths.sessions_dir))
    if not count:
        return []
    return [
        Ailment(
            name="pending",
            detail=f"what was forgotten in {counted(count, 'session')} is not overwritten yet: a "
            "reader held it, or the disk was full",
            advice="the running proxy finishes it; so does the next `openmem context sweep`",
        )
    ]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # not there yet, or told above
