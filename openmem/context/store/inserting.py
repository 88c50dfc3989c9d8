"""The inserting half of an import: masked rows into the tables, a batch a transaction.

Idea: what was keyed and masked comes in batches; a batch is one transaction, and what a row is
chained to is found by its key.
Invariant: a batch is stored whole or not at all, and never on top of what somebody else wrote or
forgot since the session was opened.
Trap: rows of several threads come mixed; sums are kept by the thread, so rows are flushed whenever
the thread changes.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from openmem import __version__
from openmem.base.clock import utc_text
from openmem.base.paths import Paths
from openmem.context.store.blobs import write_blob
from openmem.context.store.catalog import note_session
from openmem.context.store.database import open_for_writing, roll_back
from openmem.context.store.known import KnownRows
from openmem.context.store.model import Event
from openmem.context.store.prepare import Prepared, Row, emptied, finished
from openmem.context.store.tables import Tables
from openmem.context.store.tombstones import Tombstones

_BUSY_SECONDS = 30.0
_CACHE = "PRAGMA cache_size = -8192"
_CHECKPOINT = "PRAGMA wal_autocheckpoint = 4096"  # pages, 16 MB; each waits for the disk
# Kept in the file, where they do no harm: words of so many bytes are gathered before they are
# written, and eight runs of them are merged instead of four. A third less time for 170 MB of text;
# searching them takes as long.
_INDEX_SETTINGS = {"hashsize": 16_000_000, "automerge": 8}


class Moved(Exception):
    """Somebody else wrote to the session, or forgot something, since it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongs:
    """Whose session it is; "" for what is not known."""

    agent: str = ""
    cwd: str = ""
    bank: str = ""


class New(NamedTuple):
    """Where a masked row belongs. `previous`: the key before it, "" for the first of its thread.

    `family`: kind of thread and agent id; `thread`: its id, 0 to find or make it by its `root`.
    `at`: POSIX seconds, 0 when not told; `model`: "" when not told. `is_sum`: the row stands for
    what was before it, and `begins_anew`: in another thread.
    """

    at: float
    model: str
    family: tuple[str, str]
    root: str
    thread: int
    previous: str
    is_sum: bool = False
    begins_anew: bool = False


class Inserting(Protocol):
    """What an import needs to store the rows of one session; see `Inserter`."""

    added: int
    known_sides: int
    masked: int
    batches: int

    def insert(self, rows: list[New], masked: list[Row], times: tuple[float, float]) -> None:
        """Take a batch, which may be stored later."""
        ...

    def settle(self) -> None:
        """Return when every batch is stored."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


def open_to_fill(paths: Paths, sid: str) -> sqlite3.Connection:
    """Return a connection to a session's file for many rows at once. StoreUnavailable."""
    connection = open_for_writing(paths, sid, busy_seconds=_BUSY_SECONDS)
    connection.execute(_CACHE)
    connection.execute(_CHECKPOINT)
    for setting in _INDEX_SETTINGS.items():
        connection.execute("INSERT INTO lines_fts (lines_fts, rank) VALUES (?, ?)", setting)
    return connection


class Inserter:
    """Inserts into one session over one connection. `is_dry`: only counts.

    `last_seq`: of the session when it was opened; `known`: the rows up to it that may be matched.
    `added`, `known_sides` (thinking and reminders that were there), `masked`, `batches`: so far.
    """

    def __init__(
        self,
        paths: Paths,
        sid: str,
        key: bytes,
        connection: sqlite3.Connection,
        *,
        belongs: Belongs,
        is_dry: bool = False,
    ) -> None:
        self.added = self.known_sides = self.masked = self.batches = 0
        self._paths = paths
        self._sid = sid
        self._key = key
        self._connection = connection
        self._belongs = belongs
        self._is_dry = is_dry
        self._tombstones = Tombstones(paths, key)
        self._tombstones.refresh()
        self._threads: dict[str, int] = {}
        self._named: tuple[str, str, str] | None = None
        self._version = self._data_version()  # before anything is read
        self.last_seq = Tables(connection, 0).read_session()[3]
        self.known = KnownRows(0)
        self._was_empty = not self.last_seq

    def settle(self) -> None:
        """Return at once: what was inserted is stored."""

    def close(self) -> None:
        """Let go of what is open beside the session's file."""
        self._tombstones.close()

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def insert(self, rows: list[New], masked: list[Row], times: tuple[float, float]) -> None:
        """Store a batch. `times`: of the first and the last thing said so far, 0 for unknown.

        Moved, sqlite3.Error, OSError: nothing of it is stored.
        """
        self.batches += 1
        prepared = [finished(row, self._key) for row in masked]
        if self._is_dry:
            self._count(rows, prepared)
            return
        connection = self._connection
        kept = [self._without_forgotten(row) for row in prepared]
        for row in kept:
            for blob in row.blobs:
                write_blob(self._paths, blob)
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self._tombstones.refresh() or self._data_version() != self._version:
                raise Moved
            tables = Tables(connection, int(time.time()))
            added, known, secrets = self._insert(tables, rows, kept)
            was_named, named = self._named, self._tell(tables, times)
            connection.execute("COMMIT")
        except BaseException:
            roll_back(connection)
            raise
        self.added += added
        self.known_sides += known
        self.masked += secrets
        if was_named is None:
            self._named = named
            note_session(self._paths, self._sid, *named)

    def _without_forgotten(self, row: Prepared) -> Prepared:
        content = row.content_key or row.digest
        if self._tombstones.holds(self._sid, row.fingerprint, content):
            return emptied(row, self._key)
        return row

    def _insert(
        self, tables: Tables, rows: list[New], prepared: Sequence[Prepared]
    ) -> tuple[int, int, int]:
        """Return (rows added, side rows that were there, secrets masked)."""
        tables.begin_rows()
        seqs: dict[str, int] = {}
        told: set[tuple[int, str]] = set()
        added = known = masked = thread = latest = 0
        model = ""
        for new, row in zip(rows, prepared, strict=True):
            its_thread = new.thread or self._threads.get(new.root, 0)
            if thread and (its_thread != thread or new.is_sum):
                # Before a thread is made, too: its parent is the main one that was used last.
                added += tables.flush_rows(thread, model, at=latest)
                model, latest = "", 0
                told.clear()
            thread = its_thread or self._thread(tables, new)
            model = new.model or model
            at = int(new.at) or tables.now
            latest = max(latest, at)
            if self._is_known_side(tables, new, row, thread, told):
                known += 1
                continue
            if new.is_sum:
                self._leave_behind(tables, new, thread, at)
            previous = seqs.get(new.previous, 0)
            if not previous and new.previous:
                found = tables.find_row(new.previous)
                previous = found.seq if found else 0
            seq = tables.add_row(row, thread_id=thread, prev=previous or None, source=None, at=at)
            seqs[row.fingerprint] = seq
            masked += max(0, row.masked)
        if thread:
            added += tables.flush_rows(thread, model, at=latest)
        return added, known, masked

    def _thread(self, tables: Tables, new: New) -> int:
        """Find or make a row's thread, and remember it."""
        mains = tables.read_family("main", "")
        found = self._threads[new.root] = tables.ensure_thread(
            new.root,
            kind=new.family[0],
            agent_id=new.family[1],
            parent=mains[0] if mains else None,
            model=new.model,
            at=int(new.at),
        )
        return found

    def _is_known_side(
        self,
        tables: Tables,
        new: New,
        row: Prepared,
        thread: int,
        told: set[tuple[int, str]],
    ) -> bool:
        if row.role == "system":
            if (thread, row.digest) in told or tables.find_system_row(thread, row.digest):
                return True
            told.add((thread, row.digest))
            return False
        if row.kind == "thinking":
            return bool(self.known.thinking(tables, row.digest, new.family))
        return False

    def _count(self, rows: list[New], prepared: Sequence[Prepared]) -> None:
        tables, told = Tables(self._connection, 0), set[tuple[int, str]]()
        for new, row in zip(rows, prepared, strict=True):
            thread = new.thread or tables.find_thread(new.root)
            if self._is_known_side(tables, new, row, thread, told):
                self.known_sides += 1
            else:
                self.added += 1
                self.masked += max(0, row.masked)

    def _leave_behind(self, tables: Tables, new: New, thread: int, at: int) -> None:
        """The agent summed the conversation up: what was before left the context."""
        anew = new.begins_anew
        threads = [t for t in tables.read_family(*new.family) if t != thread] if anew else [thread]
        left = sum(tables.leave_context(one, at, keeps_prompts=not anew) for one in threads)
        if left and new.family[0] == "main":
            tables.add_event(
                Event(
                    kind="compaction",
                    version=f"openmem:{__version__}",
                    dropped=left,
                    thread_root=new.root,
                    model=new.model or None,
                ),
                utc_text(at),
                thread_id=0,
                is_main=True,
            )

    def _tell(self, tables: Tables, times: tuple[float, float]) -> tuple[str, str, str]:
        """Store whose session it is and when it was."""
        agent, cwd, bank, _ = tables.read_session()
        ours = self._belongs
        named = (agent or ours.agent, cwd or ours.cwd, bank or ours.bank)
        if named != (agent, cwd, bank):
            tables.set_session(*named)
        if self._was_empty and times[1]:
            tables.set_times(int(times[0]), int(times[1]))
        return named
