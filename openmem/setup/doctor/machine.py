"""Checks of the ground: interpreter, SQLite, disk, and what stands around the state folder."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import stat
import sys

from openmem import __version__
from openmem.base.clock import utc_text
from openmem.base.paths import Paths
from openmem.context.store.health import LOW_DISK_BYTES, nearest_folder
from openmem.context.store.mount import MOUNTS_FILE, shared_file_system
from openmem.plan.action import Plan, RunCommand
from openmem.setup.doctor.finding import Finding

_LEAST_PYTHON = (3, 11)
_CLOCK_SECONDS = 300.0


def check_python() -> Finding:
    """The interpreter and its SQLite, with full-text search."""
    detail = f"openmem {__version__}, python {platform.python_version()}, sqlite "
    detail += sqlite3.sqlite_version
    if sys.version_info < _LEAST_PYTHON:
        return Finding(
            name="python",
            outcome="error",
            detail=f"{detail}; openmem needs python 3.11",
            advice="install openmem-cli with a newer python",
        )
    if not has_full_text_search():
        return Finding(
            name="python",
            outcome="error",
            detail=f"{detail} without FTS5, so nothing can be searched",
            advice="use a python whose SQLite has FTS5 (the system's, or python.org's)",
        )
    return Finding(name="python", outcome="ok", detail=f"{detail} with FTS5")


def has_full_text_search() -> bool:
    """Return whether this interpreter's SQLite can make a full-text index."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


def check_disk(paths: Paths) -> Finding:
    """Free space where the sessions are kept."""
    free = shutil.disk_usage(nearest_folder(paths.state_dir)).free
    text = f"{free / 1e9:.1f} GB free for {paths.state_dir}"
    if free < LOW_DISK_BYTES:
        return Finding(
            name="disk",
            outcome="warning",
            subject="disk",
            detail=text,
            advice="free some space; a full disk stops recording, never the agent",
        )
    return Finding(name="disk", outcome="ok", subject="disk", detail=text)


def check_mount(paths: Paths, mounts_file: str = MOUNTS_FILE) -> Finding | None:
    """A shared or network mount under the state folder; None where there is nothing to say."""
    kind = shared_file_system(nearest_folder(paths.state_dir), mounts_file)
    if not kind:
        return None
    return Finding(
        name="mount",
        outcome="warning",
        subject="state folder",
        detail=f"{paths.state_dir} is on a shared mount ({kind}); sessions are kept with journal "
        "mode DELETE, which is slower",
        advice="set OPENMEM_STATE_DIR to a folder on this machine's own disk",
    )


def check_clock(paths: Paths, now: float) -> Finding:
    """The clock against what openmem wrote down: it may be slow, it must not have been ahead."""
    newest, place = 0.0, ""
    for folder in (paths.sessions_dir, paths.receipts_dir, paths.run_dir):
        for name in _listed(folder):
            written = _written_at(f"{folder}/{name}")
            if written > newest:
                newest, place = written, f"{folder}/{name}"
    ahead = newest - now
    if ahead > _CLOCK_SECONDS:
        return Finding(
            name="clock",
            outcome="warning",
            subject="clock",
            detail=f"{place} is from {ahead / 60:.0f} min ahead of now: the clock was set back",
            advice="set the clock; until then ages, expiry and retention count from the wrong day",
        )
    return Finding(name="clock", outcome="ok", detail=f"clock: {utc_text(now)}")


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # not there yet


def _written_at(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0  # gone meanwhile


def check_permissions(paths: Paths) -> Finding:
    """Folders 700 and files 600 below the state and settings folders, all of them ours."""
    wrong = []
    for root in (paths.state_dir, paths.config_dir):
        if not os.path.isdir(root):
            continue
        places = [root]
        for folder, folders, files in os.walk(root):
            places += [os.path.join(folder, name) for name in (*folders, *files)]
        wrong += [place for place in places if _is_open(place)]
    if not os.path.isdir(paths.state_dir):
        return Finding(
            name="permissions", outcome="info", detail="nothing is kept here yet: no state folder"
        )
    if wrong:
        others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return Finding(
            name="permissions",
            outcome="error",
            subject="permissions",
            detail=f"other users can reach {wrong[0]}{others}",
            advice="openmem doctor --fix   takes it back to this user",
            fix=_closed(paths),
        )
    return Finding(
        name="permissions", outcome="ok", detail="permissions: only this user reaches the files"
    )


def _closed(paths: Paths) -> Plan:
    roots = [root for root in (paths.state_dir, paths.config_dir) if os.path.isdir(root)]
    command = RunCommand(
        argv=("chmod", "-R", "go-rwx", *roots), why="keeps other users out of openmem's files"
    )
    return Plan(actions=(command,))


def _is_open(path: str) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False  # gone meanwhile
    if stat.S_ISLNK(status.st_mode) or stat.S_ISSOCK(status.st_mode):
        return False  # a link has no permissions; a socket is guarded by its folder
    return status.st_uid != os.getuid() or bool(status.st_mode & 0o077)
