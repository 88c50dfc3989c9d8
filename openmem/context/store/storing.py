"""The process that stores rows for another one, which reads and masks: see `beside`.

Idea: requests are taken off the socket while others are answered, and batches that have come are
stored together, since the index costs less by the row then.
Invariant: every request is answered once, in order; a session of which something was not stored
takes nothing more until it is closed. Trap: decoding beside the inserting would make that wait for
the interpreter at every row, so the thread that listens only reads.
"""

from __future__ import annotations

import gc
import pickle
import queue
import sqlite3
import threading
from multiprocessing.connection import Connection
from typing import Any

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.database import unavailable
from openmem.context.store.inserting import Belongs, Inserter, Moved, open_to_fill
from openmem.context.store.prepare import size_of

_AT_ONCE = 5 << 20  # characters of text
_Request = tuple[Any, ...]


def main(descriptor: int) -> None:
    """Store what comes over a connected socket until it is closed."""
    gc.disable()  # a tenth of the time, and nothing that is made here holds itself
    pipe = Connection(descriptor)
    environ, key = pipe.recv()
    requests = _Requests(pipe)
    store = _Store(Paths(environ), key)
    try:
        while joined := requests.take():
            count, request = joined
            answer = store.answer(*request)
            for _ in range(count):
                pipe.send(answer)
    except (BrokenPipeError, ConnectionResetError):
        pass  # nobody asks any more
    finally:
        store.close()


class _Requests:
    """Requests as they come, `b""` for the end."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._come: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._next: _Request | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                self._come.put(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self._come.put(b"")

    def take(self) -> tuple[int, _Request] | None:
        """Return a request and how many it stands for: batches that have come go together."""
        request = self._decoded(self._come.get()) if self._next is None else self._next
        self._next = None
        if request is None or request[0] != "insert":
            return (1, request) if request else None
        word, sid, rows, masked, times = request
        count, size = 1, size_of(masked)
        while size < _AT_ONCE and not self._come.empty():
            self._next = self._decoded(self._come.get())
            if self._next is None or self._next[:2] != (word, sid):
                break
            _, _, more, more_masked, times = self._next
            rows, masked = rows + more, masked + more_masked
            count, size = count + 1, size + size_of(more_masked)
            self._next = None
        return count, (word, sid, rows, masked, times)

    def _decoded(self, data: bytes) -> _Request | None:
        if not data:
            self._come.put(data)  # the end stays the end
            return None
        request: _Request = pickle.loads(data)
        return request


class _Opened:
    """One session's file. `fault`: the answer to all that comes after something was not stored."""

    def __init__(self) -> None:
        self.fault: tuple[Any, ...] | None = None
        self.inserter: Inserter | None = None
        self.connection: sqlite3.Connection | None = None

    def close(self) -> None:
        if self.inserter:
            self.inserter.close()
        if self.connection:
            self.connection.close()


class _Store:
    """Answers the requests, one at a time."""

    def __init__(self, paths: Paths, key: bytes) -> None:
        self._paths, self._key = paths, key
        self._opened: dict[str, _Opened] = {}

    def answer(self, word: str, sid: str, *rest: Any) -> tuple[Any, ...]:
        opened = self._opened.setdefault(sid, _Opened())
        if word == "close":
            self._opened.pop(sid).close()
            return ("closed",)
        if opened.fault:
            return opened.fault
        try:
            if word == "open":
                self._open(opened, sid, *rest)
                return ("opened",)
            inserter = opened.inserter
            assert inserter is not None
            inserter.insert(*rest)
            return ("stored", inserter.added, inserter.known_sides, inserter.masked)
        except Moved:
            opened.fault = ("moved",)
        except StoreUnavailable as error:
            opened.fault = _told(error)
        except (sqlite3.Error, OSError) as error:
            opened.fault = _told(unavailable(self._paths, sid, error))
        return opened.fault

    def _open(self, opened: _Opened, sid: str, belongs: Belongs, last_seq: int) -> None:
        connection = opened.connection = open_to_fill(self._paths, sid)
        inserter = Inserter(self._paths, sid, self._key, connection, belongs=belongs)
        opened.inserter = inserter
        if inserter.last_seq != last_seq:
            raise Moved

    def close(self) -> None:
        for opened in self._opened.values():
            opened.close()


def _told(error: StoreUnavailable) -> tuple[Any, ...]:
    return ("unavailable", error.message, error.hint, error.code)
