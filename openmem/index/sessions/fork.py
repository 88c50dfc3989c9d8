"""A session that went on from another one: what the other holds is not stored a second time.

Idea: a fork's file begins with the other session's history. Its chained keys are those of the other
session's rows as long as it is that history; from the first one that is not, the fork's own begins.
Trap: only what is stored in the other session counts; if it may not be stored, the fork keeps all.
"""

from __future__ import annotations

import os
import sqlite3

from openmem.base.paths import Paths
from openmem.context.rows import chain, head_of
from openmem.context.store.database import session_file
from openmem.context.store.readonly import connect_for_reading
from openmem.context.store.tables import Tables
from openmem.context.transcript import Piece


class Shared:
    """Tells which pieces at a fork's beginning stand in its parent. `rows`: how many did.

    `head`: the key of the last one, "" before there is one; to go on from there another time.
    """

    def __init__(self, paths: Paths, key: bytes, parent: str, head: str = "") -> None:
        self.rows = 0
        self.head = head
        self._key = key
        self._connection: sqlite3.Connection | None = None
        path = session_file(paths, parent)
        if not os.path.exists(path):
            return  # it is not stored: all of the fork is its own
        try:
            connection = connect_for_reading(path)
            connection.execute("SELECT 1 FROM row LIMIT 1")
            self._connection = connection
        except sqlite3.Error:
            pass  # it cannot be read: better twice than not at all

    def holds(self, piece: Piece) -> bool:
        """Return whether a piece is the parent's; once one is not, none is."""
        if self._connection is None or piece.agent_id:
            return False
        keyed = chain(self._key, piece.blocks, self.head)
        tables = Tables(self._connection, 0)
        if any(one.content_key and tables.find_row(one.fingerprint) is None for one in keyed):
            self.close()
            return False
        self.head = head_of(keyed, self.head)
        self.rows += len(keyed)
        return True

    def close(self) -> None:
        """Let the parent's file go."""
        if self._connection:
            self._connection.close()
            self._connection = None
