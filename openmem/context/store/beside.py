"""Rows stored by a process of its own, while this one reads and masks the next ones.

Idea: reading with masking and inserting with the word index cost about the same, so two processes
take half the time. Requests go out in order, each is answered once, and a few batches may be under
way at a time; the child stores at once what has come, since the index costs less by the row then.
Invariant: the same as of an `Inserter` here: a batch is stored whole or not at all, and none is
stored on top of one that failed; `settle` returns when everything is stored.
Trap: what is under way cannot be found in the tables yet: who asks them has to remember it. The
child is in a process group of its own, or Ctrl-C would end it inside a transaction; it ends when
the pipe does.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import deque
from multiprocessing.connection import Connection
from typing import Any

import openmem
from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.database import unavailable
from openmem.context.store.inserting import Belongs, Inserter, Moved, New, open_to_fill
from openmem.context.store.prepare import Masked

_MOST_UNDER_WAY, _AT_ONCE = 8 << 20, 2 << 20  # characters of text
_END_SECONDS = 60.0
# Our package's folder is the last on the path: nothing beside it stands before other modules.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from openmem.context.store.beside import main; main(int(sys.argv[1]))"
)


class Beside:
    """Starts the process when a session is opened, and again when it was lost. Not thread-safe."""

    def __init__(self, paths: Paths, key: bytes) -> None:
        self._paths, self._key = paths, key
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._asked: deque[tuple[BesideInserter, int]] = deque()
        self._under_way = 0
        self.lost = 0
        """How many processes were lost; a session that one of them had open is lost, too."""

    def inserter(self, sid: str, belongs: Belongs, last_seq: int) -> BesideInserter:
        """Open a session there, whose last row is `last_seq`. StoreUnavailable.

        Whether that can be done, and is so, is told when the first batch is stored.
        """
        if self._pipe is None:
            self._start()
        return BesideInserter(self, sid, belongs, last_seq)

    def close(self) -> None:
        """End the process, after what was handed over is stored."""
        pipe, self._pipe = self._pipe, None
        if pipe:
            pipe.close()
        process, self._process = self._process, None
        if process:
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self) -> None:
        here, there = socket.socketpair()
        root = os.path.dirname(os.path.dirname(os.path.abspath(openmem.__file__)))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(there.fileno()), root],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(there.fileno(),),
                process_group=0,
                # One pool of memory for both its threads: with one each, freed batches pile up.
                env={**os.environ, "MALLOC_ARENA_MAX": "1"},
            )
        except OSError as error:
            here.close()
            raise StoreUnavailable(f"no process could be started: {error.strerror}.") from error
        finally:
            there.close()  # else its end would not be seen
        self._pipe = Connection(here.detach())
        self._pipe.send((dict(self._paths.environ), self._key))

    def ask(self, asker: BesideInserter, size: int, request: tuple[Any, ...]) -> None:
        """Send a request whose answer `asker` gets; wait while much is under way.

        `size`: characters of text in it.
        """
        if self._pipe is None or asker.lost_before != self.lost:
            raise _ended()
        try:
            self._pipe.send(request)
        except OSError as error:
            raise self._lost() from error
        except BaseException:
            self._lost()  # what was sent of it makes no sense
            raise
        self._asked.append((asker, size))
        self._under_way += size
        while self._under_way > _MOST_UNDER_WAY and len(self._asked) > 1:
            self.take()

    def take(self) -> None:
        """Wait for the next answer, and give it to who asked."""
        if self._pipe is None:
            raise _ended()
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error
        except BaseException:
            self._lost()
            raise
        asker, size = self._asked.popleft()
        self._under_way -= size
        asker.told(answer)

    def _lost(self) -> StoreUnavailable:
        """Give the process up, and return what to say of it."""
        process = self._process
        if process:
            process.kill()
        self.close()
        self._asked.clear()
        self._under_way = 0
        self.lost += 1
        return _ended()


def _ended() -> StoreUnavailable:
    return StoreUnavailable(
        "the process that stores the sessions has ended.",
        hint="Import again: what is stored is passed over.",
    )


class BesideInserter:
    """One session of a `Beside`, used as an `Inserter`.

    `added`, `known_sides`, `masked` and `batches`: of what is known to be stored.
    """

    def __init__(self, beside: Beside, sid: str, belongs: Belongs, last_seq: int) -> None:
        self.added = self.known_sides = self.masked = self.batches = 0
        self.lost_before = beside.lost
        self._beside = beside
        self._sid = sid
        self._waiting = 0
        self._fault: Exception | None = None
        self._is_open = True
        self._ask("open", 0, belongs, last_seq)

    def insert(self, rows: list[New], masked: list[Masked], times: tuple[float, float]) -> None:
        """Hand a batch over. Moved, StoreUnavailable: it, or one before it, is not stored."""
        self._raise_fault()
        self._ask("insert", _size_of(masked), rows, masked, times)

    def settle(self) -> None:
        """Wait until everything is stored. Moved, StoreUnavailable: something is not."""
        while self._waiting:
            self._beside.take()
        self._raise_fault()

    def close(self) -> None:
        """Close the file there. What was handed over and could not be stored is not told here."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._ask("close", 0)
            while self._waiting:
                self._beside.take()
        except StoreUnavailable:
            self._waiting = 0  # the process is gone, and its file with it

    def told(self, answer: tuple[Any, ...]) -> None:
        """Take an answer."""
        self._waiting -= 1
        word, *rest = answer
        if word == "stored":
            self.added, self.known_sides, self.masked = rest
            self.batches += 1
        elif word == "moved":
            self._fault = self._fault or Moved()
        elif word == "unavailable":
            message, hint, code = rest
            self._fault = self._fault or StoreUnavailable(message, hint=hint, code=code)

    def _raise_fault(self) -> None:
        if self._fault:
            raise self._fault

    def _ask(self, word: str, size: int, *rest: object) -> None:
        self._waiting += 1
        self._beside.ask(self, size, (word, self._sid, *rest))


# in the child


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
    """Requests as they come; taken off the pipe while others are answered, so that nobody waits.

    The thread only reads: decoding beside the inserting would make that wait at every row.
    """

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
        count, size = 1, _size_of(masked)
        while size < _AT_ONCE and not self._come.empty():
            self._next = self._decoded(self._come.get())
            if self._next is None or self._next[:2] != (word, sid):
                break
            _, _, more, more_masked, times = self._next
            rows, masked = rows + more, masked + more_masked
            count, size = count + 1, size + _size_of(more_masked)
            self._next = None
        return count, (word, sid, rows, masked, times)

    def _decoded(self, data: bytes) -> _Request | None:
        if not data:
            self._come.put(data)  # the end stays the end
            return None
        request: _Request = pickle.loads(data)
        return request


def _size_of(masked: list[Masked]) -> int:
    return sum(len(row.text) for row in masked)
