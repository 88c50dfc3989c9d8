"""Rows stored by a process of its own, while this one reads and masks the next ones.

Idea: reading with masking and inserting with the word index cost about the same, so two processes
take half the time. Requests go out in order, each is answered once (`storing`), and a few batches
may be under way at a time.
Invariant: the same as of an `Inserter` here: a batch is stored whole or not at all, and none is
stored on top of one that failed; `settle` returns when everything is stored.
Trap: what is under way cannot be found in the tables yet: who asks them has to remember it. The
child is in a process group of its own, or Ctrl-C would end it inside a transaction; it ends when
the pipe does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import deque
from multiprocessing.connection import Connection
from typing import Any

import openmem
from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.inserting import Belongs, Moved, New
from openmem.context.store.prepare import Prepared, Row, finished, size_of

_MOST_UNDER_WAY = 8 << 20  # characters of text
_END_SECONDS = 60.0
# Our package's folder is the last on the path: nothing beside it stands before other modules.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from openmem.context.store.storing import main; main(int(sys.argv[1]))"
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

    @property
    def is_behind(self) -> bool:
        """Whether the process has more to do than this one, which then does some of it."""
        return self._under_way > _MOST_UNDER_WAY // 2

    def finished(self, row: Row) -> Prepared:
        """Return a row as that process would finish it."""
        return finished(row, self._key)

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
        try:
            self._pipe.send((dict(self._paths.environ), self._key))
        except OSError as error:
            raise self._lost() from error

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
            self.take(asker)

    def take(self, waiting: BesideInserter) -> None:
        """Wait for the next answer, and give it to who asked. `waiting`: who waits for its own."""
        if self._pipe is None or waiting.lost_before != self.lost:
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

    def insert(self, rows: list[New], masked: list[Row], times: tuple[float, float]) -> None:
        """Hand a batch over. Moved, StoreUnavailable: it, or one before it, is not stored."""
        self._raise_fault()
        if self._beside.is_behind:
            masked = [self._beside.finished(row) for row in masked]
        self._ask("insert", size_of(masked), rows, masked, times)

    def settle(self) -> None:
        """Wait until everything is stored. Moved, StoreUnavailable: something is not."""
        while self._waiting:
            self._beside.take(self)
        self._raise_fault()

    def close(self) -> None:
        """Close the file there. What was handed over and could not be stored is not told here."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._ask("close", 0)
            while self._waiting:
                self._beside.take(self)
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
