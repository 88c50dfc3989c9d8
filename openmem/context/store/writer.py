"""One session's file, written: new rows in, flags moved, sums kept, each call one transaction.

Idea: what is new is found by fingerprint before the lock is taken, prepared (masked, cut into
lines) outside of it, and inserted inside.
Invariant: a call is stored whole or not at all; a request that brings nothing new writes nothing.
Trap: another process may write the same file. `PRAGMA data_version` says so, and then nothing that
this process remembers of the file counts.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from openmem.base.clock import now_text
from openmem.base.paths import Paths
from openmem.base.redact import Redacted
from openmem.context.rows import Block, KeyedBlock, chain
from openmem.context.session import Registration
from openmem.context.store.blobs import write_blob
from openmem.context.store.catalog import note_session
from openmem.context.store.database import (
    is_damage,
    open_for_writing,
    roll_back,
    session_file,
    set_aside,
    unavailable,
)
from openmem.context.store.model import Event, Incoming, Recorded
from openmem.context.store.prepare import Prepared, Redact, emptied, prepare
from openmem.context.store.request import RequestRows, Stored, is_repeated
from openmem.context.store.tables import Tables
from openmem.context.store.thread_memory import ByteBudget, Memories, ThreadMemory
from openmem.context.store.tombstones import FORGOTTEN_RULE, Tombstones
from openmem.context.store.walk import Walk, walk_request

_LARGE_BYTES = 1 << 18
_T = TypeVar("_T")
_Work = Callable[[sqlite3.Connection], _T]


class _ForgottenMeanwhile(Exception):
    """Somebody forgot something between the preparing of rows and the lock."""


class SessionWriter:
    """Writes one session. Not thread-safe: the recorder holds a lock around each call."""

    def __init__(
        self,
        paths: Paths,
        sid: str,
        key: bytes,
        redact: Redact,
        *,
        busy_seconds: float,
        budget: ByteBudget,
    ) -> None:
        self.sid = sid
        self._paths = paths
        self._path = session_file(paths, sid)
        self._key = key
        self._redact = redact
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._data_version = 0
        self._memories = Memories(budget)
        self._known_as = ("", "", "")
        self._tombstones = Tombstones(paths, key)

    def record_request(self, incoming: Incoming) -> Recorded:
        """Store a request; see `Recording.record_request`."""
        return self._with_file(lambda connection: self._record_request(connection, incoming))

    def record_response(self, thread: str, previous: str, blocks: Sequence[Block]) -> int:
        """Store a reply; see `Recording.record_response`."""
        keyed = chain(self._key, blocks, previous)
        if not thread or not keyed:
            return 0
        return self._with_file(lambda c: self._record_response(c, thread, previous, keyed))

    def count_masked(self, thread: str, messages: Sequence[int]) -> int:
        """Return the secrets masked in messages of the thread's last request, by their number."""
        seqs = self._rows_of(thread, messages)
        return self._with_file(lambda connection: Tables(connection, 0).count_masked(seqs))

    def find_whole(self, thread: str, parts: Sequence[tuple[int, str, int]]) -> list[int]:
        """Return the rows of blocks of the thread's last request: (message, kind, which of them).

        0 for one that is not stored word for word.
        """
        rows = {message: self._rows_of(thread, [message]) for message, _, _ in parts}
        return self._with_file(
            lambda c: [Tables(c, 0).whole_of_kind(rows[m], kind, place) for m, kind, place in parts]
        )

    def mark_trimmed(
        self, thread: str, messages: Sequence[int], turn: int, rows: Sequence[int] = ()
    ) -> None:
        """Take messages of the thread's last request out of context. `turn`: the cut turn's.

        `rows`: single rows that leave with them.
        """
        seqs, at = self._rows_of(thread, messages), self._rows_of(thread, [turn])
        seqs += rows
        if seqs:
            self._with_file(lambda c: self._mark_trimmed(c, seqs, at[0] if at else 0))

    def _mark_trimmed(self, connection: sqlite3.Connection, seqs: list[int], turn: int) -> None:
        tables = Tables(connection, int(time.time()))
        self._begin(connection, lambda: None)
        tables.mark_trimmed(seqs, turn)
        connection.execute("COMMIT")

    def _rows_of(self, thread: str, messages: Sequence[int]) -> list[int]:
        memory = self._memories.of_thread(thread)
        found: list[int] = []
        for number in messages:
            if memory and 0 <= number < memory.count:
                start = memory.ends[number - 1] if number else 0
                found.extend(memory.seqs[start : memory.ends[number]])
        return found

    def add_event(self, event: Event) -> None:
        """Append an event; see `Recording.add_event`."""
        self._with_file(lambda connection: self._add_event(connection, event))

    def close(self) -> None:
        """Close the file and forget what was remembered of it; the next call opens it again."""
        self._tombstones.close()
        self._close_file()

    def _close_file(self) -> None:
        connection, self._connection = self._connection, None
        self._memories.clear()
        if connection:
            connection.close()

    # the file

    def _with_file(self, work: _Work[_T]) -> _T:
        """Do the work on the open file. StoreUnavailable: nothing of it was stored.

        A file found damaged is set aside and the work done once more on a fresh one.
        """
        attempt = 1
        while True:
            try:
                self._tombstones.refresh()
                connection = self._open()
                try:
                    return work(connection)
                except BaseException:
                    roll_back(connection)
                    raise
            except _ForgottenMeanwhile:
                continue  # what was prepared may be what was forgotten: prepared anew
            except (sqlite3.Error, OSError) as error:
                self._give_up()
                if attempt == 2 or not is_damage(error):
                    raise unavailable(self._paths, self.sid, error) from error
                set_aside(self._path)
                attempt = 2

    def _give_up(self) -> None:
        try:
            self._close_file()
        except sqlite3.Error:
            self._connection = None  # the fault that led here is the one to report

    def _open(self) -> sqlite3.Connection:
        """Return the connection, a new one when the file is another one now."""
        connection = self._connection
        if connection and _identity_of(self._path) == self._identity:
            version = _data_version(connection)
            if version != self._data_version:
                self._data_version = version
                self._memories.clear()
            return connection
        self._close_file()
        connection = open_for_writing(self._paths, self.sid, busy_seconds=self._busy_seconds)
        self._connection = connection
        self._identity = _identity_of(self._path)
        self._data_version = _data_version(connection)
        agent, cwd, bank, _ = Tables(connection, 0).read_session()
        self._known_as = (agent, cwd, bank)
        return connection

    # requests

    def _record_request(self, connection: sqlite3.Connection, incoming: Incoming) -> Recorded:
        tables = Tables(connection, int(time.time()))
        walk = walk_request(
            self._key, incoming, self._memories, lambda key: tables.find_row(key) is not None
        )
        if not walk.thread:
            return Recorded(thread="", head="")
        before = self._memories.of_thread(walk.thread)
        rows = RequestRows(incoming, walk, self._memories)
        rows.look_up(tables)
        added = rows.prepare(tables, self._prepare)
        known_as = self._named(incoming.agent, incoming.registration)
        stored = rows.settled(tables) if known_as == self._known_as else None
        if stored is None:
            stored = self._store(connection, tables, rows, added, known_as)
        memory = _memory_of(walk, incoming, stored)
        if before and is_repeated(before, walk):
            memory.pending = before.pending
        self._memories.keep(memory)
        return Recorded(
            thread=walk.thread,
            head=memory.head(memory.count),
            new_rows=stored.new_rows,
            masked=stored.masked,
        )

    def _store(
        self,
        connection: sqlite3.Connection,
        tables: Tables,
        rows: RequestRows,
        added: Sequence[Prepared],
        known_as: tuple[str, str, str],
    ) -> Stored:
        self._write_blobs(added)
        self._begin(connection, lambda: rows.look_up(tables))
        stored = rows.store(tables)
        if known_as != self._known_as:
            tables.set_session(*known_as)
        connection.execute("COMMIT")
        if sum(row.size for row in added) >= _LARGE_BYTES:
            # What the index gathered stays with the connection: 1 MB for 3 MB of text.
            connection.execute("PRAGMA shrink_memory")
        if known_as != self._known_as:
            self._known_as = known_as
            note_session(self._paths, self.sid, *known_as)
        return stored

    def _begin(self, connection: sqlite3.Connection, look_up: Callable[[], None]) -> None:
        """Take the lock; look up again when another process wrote since the first look."""
        connection.execute("BEGIN IMMEDIATE")
        if self._tombstones.refresh():
            raise _ForgottenMeanwhile
        version = _data_version(connection)
        if version != self._data_version:
            self._data_version = version
            self._memories.clear()
            look_up()

    def _prepare(self, keyed: KeyedBlock) -> Prepared:
        row = prepare(keyed, self._key, self._mask)
        if self._tombstones.holds(self.sid, keyed.fingerprint, keyed.content_key or row.digest):
            return emptied(row, self._key)
        return row

    def _mask(self, text: str, key: bytes) -> Redacted:
        text, forgotten = self._tombstones.masked(text)
        redacted = self._redact(text, key)
        if not forgotten:
            return redacted
        return Redacted(redacted.text, (*redacted.kinds, *[FORGOTTEN_RULE] * forgotten))

    def _write_blobs(self, rows: Iterable[Prepared]) -> None:
        for row in rows:
            for blob in row.blobs:
                write_blob(self._paths, blob)

    def _named(self, agent: str, registration: Registration | None) -> tuple[str, str, str]:
        """Return (agent, cwd, bank) as known now; what is not said stays as it was."""
        was_agent, was_cwd, was_bank = self._known_as
        if registration is None:
            return agent or was_agent, was_cwd, was_bank
        return (
            registration.agent or agent or was_agent,
            registration.cwd or was_cwd,
            registration.bank or was_bank,
        )

    # replies and events

    def _record_response(
        self, connection: sqlite3.Connection, thread: str, previous: str, keyed: list[KeyedBlock]
    ) -> int:
        tables = Tables(connection, int(time.time()))
        missing = [block for block in keyed if tables.find_row(block.fingerprint) is None]
        if not missing:
            return 0
        prepared = {keyed.fingerprint: self._prepare(keyed) for keyed in missing}
        self._write_blobs(prepared.values())
        self._begin(connection, lambda: None)
        thread_id = tables.find_thread(thread)
        if not thread_id:
            # The file was replaced since the request; the next one brings the reply again.
            connection.execute("ROLLBACK")
            return 0
        tables.begin_rows()
        head = tables.find_row(previous)
        head_seq = head.seq if head else None
        added: dict[str, int] = {}
        for block in keyed:
            found = tables.find_row(block.fingerprint)
            seq = found.seq if found else added.get(block.fingerprint, 0)
            if not seq:
                row = prepared[block.fingerprint]
                seq = tables.add_row(row, thread_id=thread_id, prev=head_seq, source=None)
                added[block.fingerprint] = seq
            if block.content_key:
                head_seq = seq
        count = tables.flush_rows(thread_id, "")
        connection.execute("COMMIT")
        memory = self._memories.of_thread(thread)
        if memory:
            memory.pending.extend(added.values())
        return count

    def _add_event(self, connection: sqlite3.Connection, event: Event) -> None:
        tables = Tables(connection, int(time.time()))
        self._begin(connection, lambda: None)
        thread_id = tables.find_thread(event.thread_root) if event.thread_root else 0
        is_main = not thread_id or tables.is_main(thread_id)
        tables.add_event(event, event.at or now_text(), thread_id, is_main=is_main)
        connection.execute("COMMIT")


def _memory_of(walk: Walk, incoming: Incoming, stored: Stored) -> ThreadMemory:
    """Return what to remember of a request."""
    memory = ThreadMemory(
        kind=incoming.kind,
        agent_id=incoming.agent_id,
        seed=walk.seed,
        root=walk.root,
        thread=walk.thread,
        raws=walk.raws,
        size=len(incoming.view.body),
    )
    if walk.memory:
        memory.copy_head(walk.memory, walk.known)
    head_seq = memory.head_seq(walk.known)
    for message, seqs in zip(walk.messages, stored.seqs, strict=True):
        for keyed, seq in zip(message.keyed, seqs, strict=True):
            if keyed.content_key:
                head_seq = seq
        memory.add_message(head=message.head, head_seq=head_seq, seqs=seqs)
    return memory


def _identity_of(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return (-1, -1)
    return status.st_dev, status.st_ino


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
