"""Sessions whose deleted bytes are not overwritten yet, and finishing that when it can be done.

Idea: an empty file `<sid>.pending` beside the session says so; it is there before the bytes are
cleared and goes after, so that a process that dies between leaves the word.
Invariant: nothing says "done" while a reader may still see old pages.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.care.erase import clear_freed_bytes
from openmem.context.store.database import open_for_writing, session_file

_SUFFIX = ".pending"


def clear(paths: Paths, sid: str, connection: sqlite3.Connection) -> bool:
    """Overwrite what was deleted in an open session; False when that has to wait."""
    path = _pending_file(paths, sid)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    if not clear_freed_bytes(connection):
        return False
    _unmark(path)
    return True


def finish_pending(paths: Paths) -> tuple[str, ...]:
    """Clear what earlier calls had to leave; return the sessions that are still held."""
    still: list[str] = []
    for sid in pending_sessions(paths):
        if not os.path.exists(session_file(paths, sid)):
            _unmark(_pending_file(paths, sid))
            continue
        try:
            connection = open_for_writing(paths, sid, busy_seconds=1.0)
            try:
                is_done = clear(paths, sid, connection)
            finally:
                connection.close()
        except (StoreUnavailable, sqlite3.Error, OSError):
            is_done = False  # held, full or damaged: tried again later, and told as pending
        if not is_done:
            still.append(sid)
    return tuple(still)


def pending_sessions(paths: Paths) -> list[str]:
    """Return the sessions whose freed bytes are not cleared yet."""
    try:
        names = os.listdir(paths.sessions_dir)
    except OSError:
        return []  # no folder yet
    return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))


def _pending_file(paths: Paths, sid: str) -> str:
    return f"{paths.sessions_dir}/{sid}{_SUFFIX}"


def _unmark(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process of ours was first
        os.unlink(path)
