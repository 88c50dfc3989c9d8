"""Opening a database without changing anything on disk.

Idea: a file nobody has open is read as immutable, so that no `-wal` or `-shm` appears beside it; a
file in use is opened read-only and takes part in the locking.
Trap: an immutable connection never looks at the file again. It is good for one look; whoever keeps
a connection asks `is_current` before each use.
"""

from __future__ import annotations

import os
import sqlite3

from openmem.context.store.database import SIDE_FILES

_BUSY_SECONDS = 5.0
_KEPT = frozenset(b"/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def file_uri(path: str, *, immutable: bool) -> str:
    """Return the SQLite URI of a file; any byte may be in its path."""
    # urllib would do, at 5 ms of import on the path of every search.
    quoted = "".join(
        chr(byte) if byte in _KEPT else f"%{byte:02X}"
        for byte in os.fsencode(os.path.abspath(path))
    )
    return f"file:{quoted}?{'immutable=1' if immutable else 'mode=ro'}"


def is_in_use(path: str) -> bool:
    """Return whether a writer has the file open, or left its journal behind."""
    return any(os.path.exists(path + suffix) for suffix in SIDE_FILES)


def connect_for_reading(path: str, *, immutable: bool | None = None) -> sqlite3.Connection:
    """Return a read-only connection. `immutable`: None to decide by what lies beside the file."""
    if immutable is None:
        immutable = not is_in_use(path)
    return sqlite3.connect(
        file_uri(path, immutable=immutable),
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
