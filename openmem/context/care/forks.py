"""Other sessions that hold a part of the same conversation, so that forgetting one tells of them.

A fork begins with the rows of the session it left, key for key. One equal row is no fork: two
conversations may begin with the same words.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.reader import open_entry

_LEAST_ROWS = 2


def forks_of(paths: Paths, sids: Collection[str]) -> list[tuple[str, int]]:
    """Return (session, rows in common) of the sessions that share a conversation with these."""
    known = [entry for entry in entries(paths) if not entry.is_legacy]
    keys: set[bytes] = set()
    for entry in known:
        if entry.session_id in sids:
            keys |= _keys_of(entry)
    found: list[tuple[str, int]] = []
    for entry in known:
        count = len(keys & _keys_of(entry)) if entry.session_id not in sids else 0
        if count >= _LEAST_ROWS:
            found.append((entry.session_id, count))
    return found


def _keys_of(entry: Entry) -> set[bytes]:
    """Return the keys of the rows that advance a chain and hold text."""
    query = "SELECT fingerprint FROM row WHERE content_key IS NOT NULL AND masked >= 0"
    try:
        with open_entry(entry) as reader:
            return {bytes(row[0]) for row in reader.connection.execute(query)}
    except (StoreUnavailable, sqlite3.Error):
        return set()  # named by `status` and `doctor`
