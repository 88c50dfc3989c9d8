"""Which rows of a session a transcript's blocks are, by content key and order.

Idea: a row that the proxy recorded is known by its chained key; where the chains part (a
compaction, a result that stands elsewhere), by its content key, each row once, the next one in
order first. Invariant: only rows that were there before the import are matched, so that what a
person said twice is stored twice. Trap: the pools cost memory by the row; they are read only when a
chained key is not found.
"""

from __future__ import annotations

from collections.abc import Iterable

from openmem.context.rows import KeyedBlock
from openmem.context.store.tables import Tables


class KnownRows:
    """The rows with a seq up to `limit`, which stood there before; 0 for none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = bytearray(limit + 1)
        self._content: dict[tuple[str, str], dict[bytes, list[int]]] = {}
        self._thinking: dict[tuple[str, str], dict[bytes, list[int]]] = {}

    def use(self, seq: int) -> None:
        """Note that a row was matched."""
        if 0 < seq <= self.limit:
            self._used[seq] = 1

    def by_content(
        self, tables: Tables, keyed: KeyedBlock, family: tuple[str, str], after: int
    ) -> int:
        """Return the row with this content, 0 for none. `after`: the last row matched before."""
        if not self.limit or not keyed.content_key:
            return 0
        pool = self._content.get(family)
        if pool is None:
            threads = tables.read_family(*family)
            pool = self._content[family] = self._pool(tables.read_content(threads))
        return self._next(pool.get(bytes.fromhex(keyed.content_key), []), after)

    def thinking(self, tables: Tables, digest: str, family: tuple[str, str]) -> int:
        """Return the row of thinking with this stored text, 0 for none."""
        if not self.limit:
            return 0
        pool = self._thinking.get(family)
        if pool is None:
            threads = tables.read_family(*family)
            pool = self._thinking[family] = self._pool(tables.read_thinking(threads))
        return self._next(pool.get(bytes.fromhex(digest), []), 0)

    def _pool(self, rows: Iterable[tuple[bytes, int]]) -> dict[bytes, list[int]]:
        pool: dict[bytes, list[int]] = {}
        for key, seq in rows:
            if seq <= self.limit:
                pool.setdefault(key, []).append(seq)
        return pool

    def _next(self, seqs: list[int], after: int) -> int:
        free = [seq for seq in seqs if not self._used[seq]]
        if not free:
            return 0
        found = next((seq for seq in free if seq > after), free[0])
        self._used[found] = 1
        return found
