"""A session's file as the child opens it: for reading only, in little memory."""

from __future__ import annotations

import sqlite3

HEAP_BYTES = 256 << 20
NEWEST_VERSION = 4


class NotASession(Exception):
    """The file cannot be read as a session; the text says why."""


def open_session(uri: str) -> sqlite3.Connection:
    """Open a session database for reading only. NotASession when it is none that we know."""
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=1.0)
    except sqlite3.Error as error:
        raise NotASession(f"cannot be opened: {error}") from None
    connection.text_factory = _text
    try:
        connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA trusted_schema = 0")
        connection.execute("PRAGMA temp_store = 2")
        connection.execute(f"PRAGMA hard_heap_limit = {HEAP_BYTES}")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        connection.close()
        raise NotASession(f"cannot be read: {error}") from None
    if version > NEWEST_VERSION:
        connection.close()
        raise NotASession(f"was written by a newer openmem (version {version})")
    return connection


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
