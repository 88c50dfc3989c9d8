"""How long ago a session was used, kept over work that is no use of it.

Trap: a file must never look as it did before it was changed: readers that are kept open know a file
by its time and size. So its time moves by the least that shows.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from openmem.base.paths import Paths
from openmem.context.store.database import session_file
from openmem.context.store.readonly import connect_for_reading, is_in_use

_LEAST_NS = 1_000_000  # what every file system we know keeps of a time, and more


@contextmanager
def keeping_age(paths: Paths, sid: str) -> Iterator[None]:
    """Give a session's file the time of its last use again, when nobody else has it open.

    Forgetting and masking are no use of a session: it is swept when it would have been.
    """
    path = session_file(paths, sid)
    before = _modified_ns(path)
    yield
    if before is None or is_in_use(path):
        return
    with contextlib.suppress(OSError, sqlite3.Error):  # then it only stays a while longer
        used = max(before + _LEAST_NS, _last_used(path) * 1_000_000_000)
        if used < os.stat(path).st_mtime_ns:
            os.utime(path, ns=(used, used))


def _modified_ns(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None  # not there: nothing to keep


def _last_used(path: str) -> int:
    """Return when the last request was stored, POSIX seconds, whatever happened meanwhile."""
    with contextlib.closing(connect_for_reading(path)) as connection:
        return int(connection.execute("SELECT last_at FROM session").fetchone()[0])
