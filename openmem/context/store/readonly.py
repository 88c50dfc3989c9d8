"""Opening a database without changing anything on disk.

Idea: a file nobody has open is read as immutable, so that no `-wal` or `-shm` appears beside it; a
file in use is opened read-only and takes part in the locking.
Trap: an immutable connection never looks at the file again. It is good for one look; whoever keeps
one compares the file's stamp before each use.
"""

from __future__ import annotations

import os
import re
import sqlite3

from openmem.context.store.database import SIDE_FILES

_BUSY_SECONDS = 5.0
_PLAIN = re.compile(r"[-/._~0-9A-Za-z]*")
_ODD = re.compile(rb"[^-/._~0-9A-Za-z]")


def _escape(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match.group()[0]


def file_uri(path: str, *, immutable: bool) -> str:
    """Return the SQLite URI by which a file is read; any byte may be in its path."""
    return f"{plain_uri(path)}?{'immutable=1' if immutable else 'mode=ro'}"


def plain_uri(path: str) -> str:
    """Return the SQLite URI of a file, without how it is opened."""
    # urllib would do, at 5 ms of import on the path of every search.
    path = os.path.abspath(path)
    quoted = path if _PLAIN.fullmatch(path) else _ODD.sub(_escape, os.fsencode(path)).decode()
    return f"file:{quoted}"


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
