"""Several processes on one session's file: a lock that is held, and writers side by side."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable

import pytest

from openmem.base.paths import Paths
from openmem.context.store.database import session_file
from openmem.context.store.verify import verify
from tests.fakes.conversation import stored
from tests.fakes.writer_process import start_writer, text_of


@pytest.mark.heavy
def test_a_lock_held_for_ten_seconds_is_waited_for(paths: Paths) -> None:
    """Issue 3, part 6: the default wait is longer than that; nothing is refused, nothing lost."""
    first = start_writer("s", "a", 1)
    assert first.communicate(timeout=60)[0] == "0\n"
    holder = sqlite3.connect(session_file(paths, "s"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    waiting = start_writer("s", "b", 3, busy=15)
    threading.Event().wait(10)
    assert waiting.poll() is None, "it gave up"
    holder.execute("ROLLBACK")
    holder.close()
    said, fault = waiting.communicate(timeout=60)
    assert said == "0\n1\n2\n" and not fault
    assert {row.text for row in stored(paths)} == {"a says 0", "b says 0", "b says 1", "b says 2"}


@pytest.mark.heavy
@pytest.mark.timeout(400)
def test_eight_writers_of_five_hundred_requests_lose_nothing(paths: Paths) -> None:
    """Issue 3, part 6; users' report 20. A ninth reads all the while and holds what it sees."""
    writers = [start_writer("s", f"w{number}", 500) for number in range(8)]
    seen = _read_until(paths, lambda: all(writer.poll() is not None for writer in writers))
    for writer in writers:
        said, fault = writer.communicate(timeout=300)
        assert said.split() == [str(turn) for turn in range(500)] and not fault
    assert seen, "no reader ever saw a row"
    rows = stored(paths)
    assert len(rows) == 8 * 500
    assert {row.text for row in rows} == {text_of(f"w{n}", t) for n in range(8) for t in range(500)}
    assert verify(paths, "s") == []


def _read_until(paths: Paths, is_over: Callable[[], bool]) -> list[int]:
    """Read in transactions that stay open for a while; return the counts, which never fall."""
    path = session_file(paths, "s")
    counts: list[int] = []
    waiter = threading.Event()
    for _ in range(6000):
        if is_over():
            break
        if os.path.exists(path):
            connection = sqlite3.connect(path, isolation_level=None)
            try:
                connection.execute("BEGIN")
                count = connection.execute("SELECT count(*) FROM row").fetchone()[0]
                waiter.wait(0.05)
                assert count == connection.execute("SELECT count(*) FROM row").fetchone()[0]
                assert not counts or count >= counts[-1]
                counts.append(count)
            except sqlite3.OperationalError:
                pass  # it is just being made
            finally:
                connection.close()
        waiter.wait(0.05)
    return [count for count in counts if count]
