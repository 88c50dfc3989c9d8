"""The recorder: every message of every request into its session's file.

Idea: one writer per session, the last used ones kept open, each behind its own lock, so that a
session that waits for a disk makes no other one wait.
Invariant: bounded: at most so many open files, so many remembered threads, whatever comes by.
Trap: calls block, for as long as another process holds a session's lock; the proxy makes them on
threads of its own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from openmem.base.paths import Paths
from openmem.base.redact import redact as redact_text
from openmem.context.rows import Block
from openmem.context.store.model import Event, Incoming, Recorded
from openmem.context.store.prepare import Redact
from openmem.context.store.thread_memory import ByteBudget
from openmem.context.store.writer import SessionWriter


class _Slot:
    """A writer, who uses it now, and since when nobody does."""

    def __init__(self, writer: SessionWriter) -> None:
        self.writer = writer
        self.lock = threading.Lock()
        self.users = 0
        self.used_at = 0.0


class Recorder:
    """Records sessions; see `Recording` for the methods' contract. Thread-safe.

    `key`: the installation's. `redact`: masks secrets before anything is stored. `busy_seconds`:
    how long a call waits for another process. `open_sessions`: files kept open between calls.
    """

    def __init__(
        self,
        paths: Paths,
        key: bytes,
        redact: Redact = redact_text,
        *,
        busy_seconds: float = 15.0,
        open_sessions: int = 16,
    ) -> None:
        self._paths = paths
        self._key = key
        self._redact = redact
        self._busy_seconds = busy_seconds
        self._open_sessions = open_sessions
        self._budget = ByteBudget()
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def record_request(self, sid: str, incoming: Incoming) -> Recorded:
        """Store a request's new rows in one transaction. `sid`: sanitised."""
        with self._writer(sid) as writer:
            return writer.record_request(incoming)

    def record_response(self, sid: str, thread: str, previous: str, blocks: Sequence[Block]) -> int:
        """Store a reply, chained to `Recorded.head`; return how many rows were new."""
        with self._writer(sid) as writer:
            return writer.record_response(thread, previous, blocks)

    def count_masked(self, sid: str, thread: str, messages: Sequence[int]) -> int:
        """Return how many secrets are stored masked in messages of the thread's last request."""
        with self._writer(sid) as writer:
            return writer.count_masked(thread, messages)

    def find_whole(self, sid: str, thread: str, parts: Sequence[tuple[int, str, int]]) -> list[int]:
        """Return the rows of blocks of the thread's last request, as `SessionWriter.find_whole`."""
        with self._writer(sid) as writer:
            return writer.find_whole(thread, parts)

    def mark_trimmed(
        self,
        sid: str,
        thread: str,
        messages: Sequence[int],
        turn: int,
        rows: Sequence[int] = (),
    ) -> None:
        """Mark the rows of messages of the thread's last request, and single rows, as trimmed at
        another's."""
        with self._writer(sid) as writer:
            writer.mark_trimmed(thread, messages, turn, rows)

    def add_event(self, sid: str, event: Event) -> None:
        """Append an event and add its counts to the session's and the thread's."""
        with self._writer(sid) as writer:
            writer.add_event(event)

    def close_idle(self, idle_seconds: float) -> int:
        """Close files that were not used for so long; return how many. A closed one has no WAL."""
        limit = time.monotonic() - idle_seconds
        return self._close(lambda slot: slot.used_at <= limit)

    def close(self) -> None:
        """Close all files that no call uses; a later call opens its own again."""
        self._close(lambda slot: True)

    @contextmanager
    def _writer(self, sid: str) -> Iterator[SessionWriter]:
        with self._lock:
            slot = self._slots.get(sid)
            if slot is None:
                slot = self._slots[sid] = _Slot(
                    SessionWriter(
                        self._paths,
                        sid,
                        self._key,
                        self._redact,
                        busy_seconds=self._busy_seconds,
                        budget=self._budget,
                    )
                )
            self._slots.move_to_end(sid)
            slot.users += 1
        try:
            with slot.lock:
                yield slot.writer
        finally:
            with self._lock:
                slot.users -= 1
                slot.used_at = time.monotonic()
            self._close_oldest()

    def _close_oldest(self) -> None:
        with self._lock:
            surplus = len(self._slots) - self._open_sessions
        if surplus > 0:
            self._close(lambda slot: True, at_most=surplus)

    def _close(self, is_wanted: Callable[[_Slot], bool], at_most: int = -1) -> int:
        closed: list[_Slot] = []
        with self._lock:
            for sid, slot in list(self._slots.items()):
                if len(closed) == at_most:
                    break
                if not slot.users and is_wanted(slot):
                    closed.append(self._slots.pop(sid))
        for slot in closed:  # outside the lock: closing writes the WAL back into the file
            slot.writer.close()
        return len(closed)
