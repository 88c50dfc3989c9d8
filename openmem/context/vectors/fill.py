"""The rows of a session as texts that are to have vectors; `base.vectors.filling` makes them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from openmem.base.paths import Paths
from openmem.base.vectors import filling
from openmem.base.vectors.filling import Filled, Pace
from openmem.base.vectors.packed import Key
from openmem.base.vectors.settings import VectorSettings
from openmem.context.store.catalog import Entry, entry_of
from openmem.context.store.reader import SessionReader, open_entry
from openmem.context.vectors.sidecar import short_digest, stem_of

# What left the context is what a search is for; then the newest. Forgotten rows hold no line.
_ROWS = (
    "SELECT seq, digest FROM row WHERE source IS NULL AND size > 0 AND echo = 0"
    " AND role <> 3 AND kind IN (0, 1, 2) ORDER BY in_context, seq DESC"
)


def progress(paths: Paths, reader: SessionReader, model: str) -> Filled:
    """Return how many of a session's rows have a vector of a model."""
    return filling.standing(_Rows(paths, reader.session_id, reader), model)


def fill(
    paths: Paths,
    entry: Entry,
    settings: VectorSettings,
    environ: Mapping[str, str],
    pace: Pace,
    *,
    may_go_on: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.monotonic,
) -> Filled:
    """Make a session's missing vectors. StoreUnavailable, OSError, Failed: tried again later."""
    with open_entry(entry) as reader:
        rows = _Rows(paths, entry.session_id, reader)
        return filling.fill(rows, settings, environ, pace, may_go_on=may_go_on, clock=clock)


class _Rows:
    """`filling.Source`. A key: the row's number and the start of its text's digest."""

    def __init__(self, paths: Paths, sid: str, reader: SessionReader) -> None:
        self._paths, self._sid, self._reader = paths, sid, reader
        self.stem = stem_of(paths, sid)

    def wanted(self) -> Sequence[Key]:
        try:
            found = self._reader.connection.execute(_ROWS)
            return [(int(seq), short_digest(digest)) for seq, digest in found]
        except sqlite3.Error:
            return []  # an earlier version's file: it is read, not written beside

    def text(self, key: Key) -> str:
        row = self._reader.row(key[0])
        return row.text if row else ""

    def still(self, keys: Sequence[Key]) -> Collection[Key]:
        """Return the keys of rows as they are by now; the open reader may show an older state."""
        entry = entry_of(self._paths, self._sid)
        if entry is None or entry.is_legacy:
            return ()  # deleted meanwhile
        with open_entry(entry) as reader:
            marks = ", ".join("?" * len(keys))
            found = reader.connection.execute(
                f"SELECT seq, digest FROM row WHERE size > 0 AND seq IN ({marks})",
                [seq for seq, _ in keys],
            )
            return {(int(seq), short_digest(digest)) for seq, digest in found}
