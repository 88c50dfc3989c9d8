"""Sessions whose deleted bytes are not overwritten yet, and finishing that when it can be done.

Idea: an empty file `<sid>.pending` beside the session says so. It is there before the first text is
taken out and goes after the last byte was overwritten, so that whoever is killed between the two
leaves the word.
Invariant: nothing says "done" while a reader may still see old pages.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.context.care.age import keeping_age
from openmem.context.care.erase import clear_freed_bytes
from openmem.context.store.database import open_for_writing, session_file
from openmem.context.store.prepare import FORGOTTEN
from openmem.context.store.word_filter import drop_words
from openmem.context.vectors.sidecar import has_vectors, keep_only, short_digest

_SUFFIX = ".pending"


def mark(paths: Paths, sid: str) -> bool:
    """Say that a session's bytes are to be overwritten; return whether that was not said yet."""
    path = _pending_file(paths, sid)
    is_new = not os.path.exists(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return is_new


def unmark(paths: Paths, sid: str) -> None:
    """Take the word back: nothing was taken out, or all of it is overwritten."""
    with contextlib.suppress(FileNotFoundError):  # another process of ours was first
        os.unlink(_pending_file(paths, sid))


def clear(paths: Paths, sid: str, connection: sqlite3.Connection) -> bool:
    """Overwrite what was deleted in an open session; False when that has to wait."""
    mark(paths, sid)
    drop_words(paths, sid)
    if not (_drop_vectors(paths, sid, connection) and clear_freed_bytes(connection)):
        return False
    unmark(paths, sid)
    return True


def _drop_vectors(paths: Paths, sid: str, connection: sqlite3.Connection) -> bool:
    """Remove the vectors of texts that are not there any more; False when they stay taken."""
    if not has_vectors(paths, sid):
        return True
    rows = connection.execute(f"SELECT seq, digest FROM row WHERE masked != {FORGOTTEN}")
    current = {(int(seq), short_digest(digest)) for seq, digest in rows}
    try:
        keep_only(paths, sid, current)
    except OpenmemError:
        return False  # a process that makes some holds them
    return True


def finish_pending(paths: Paths) -> tuple[str, ...]:
    """Clear what earlier calls had to leave; return the sessions that are still held."""
    still: list[str] = []
    for sid in pending_sessions(paths):
        if not os.path.exists(session_file(paths, sid)):
            unmark(paths, sid)
            continue
        try:
            with keeping_age(paths, sid):
                connection = open_for_writing(paths, sid, busy_seconds=1.0)
                try:
                    is_done = clear(paths, sid, connection)
                finally:
                    connection.close()
        except (OpenmemError, sqlite3.Error, OSError):
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
