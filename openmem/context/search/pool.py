"""Open readers, kept between searches by a daemon, one search long by a command.

Invariant: a kept reader is used only while its file is the one it was opened on. A reader of a
resting file sees it as it was when it was opened, so any change closes it.
Trap: while a reader has a file in use open, its writer cannot tidy the WAL away when it closes;
such readers are kept for one search only.
"""

from __future__ import annotations

from collections import OrderedDict

from openmem.context.store.catalog import Entry
from openmem.context.store.reader import SessionReader, open_entry


class ReaderPool:
    """At most `most` open readers, the ones unused for longest closed first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._readers: OrderedDict[str, tuple[Entry, SessionReader]] = OrderedDict()

    def reader(self, entry: Entry) -> SessionReader:
        """Return an open reader; StoreUnavailable as `open_entry`. Closing it is the pool's."""
        kept = self._readers.get(entry.path)
        if kept:
            opened, reader = kept
            if opened.stamp == entry.stamp:
                self._readers.move_to_end(entry.path)
                return reader
            self.drop(entry)
        reader = open_entry(entry, immutable=not entry.is_in_use)
        self._readers[entry.path] = (entry, reader)
        while len(self._readers) > self._most:
            _, (_, oldest) = self._readers.popitem(last=False)
            oldest.close()
        return reader

    def drop(self, entry: Entry) -> None:
        """Close a reader, as after a fault."""
        kept = self._readers.pop(entry.path, None)
        if kept:
            kept[1].close()

    def close_files_in_use(self) -> None:
        """Close the readers of files that a writer has open."""
        for entry, _ in list(self._readers.values()):
            if entry.is_in_use:
                self.drop(entry)

    def close(self) -> None:
        """Close all."""
        while self._readers:
            self._readers.popitem()[1][1].close()
