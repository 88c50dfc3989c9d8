"""`kill -9` at random moments of a write load: what was acknowledged is there, whole."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.store.database import session_file
from openmem.context.store.recorder import Recorder
from openmem.context.store.verify import verify
from tests.fakes.conversation import KEY, incoming, reply, stored, user

ROUNDS = 200
SEED = 3021


def _write_load(paths: Paths, sid: str, number: int, out: int) -> None:
    """Write requests of many sizes and replies, as fast as it goes, and say each that is stored."""
    source = random.Random(f"{SEED}:{number}")
    recorder = Recorder(paths, KEY)
    said = []
    for turn in range(10_000):
        size = source.choice((10, 10, 400, 4_000, 60_000, 300_000))
        said.append(user(f"k{number} says {turn}\n" + f"w{turn} " * (size // 5)))
        agent = f"a{number}"
        done = recorder.record_request(sid, incoming(said, kind="sub-agent", agent_id=agent))
        assert done.new_rows
        os.write(out, f"{turn}\n".encode())
        if turn % 3 == 0:
            said.append(reply(f"k{number} hears {turn}"))


def _killed_after(paths: Paths, sid: str, number: int, words: int, seconds: float) -> list[int]:
    """Fork a writer, kill it so long after so many words of it, return what it acknowledged.

    Words, not seconds, say how far the load is: a loaded machine writes fewer in the same time.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            _write_load(paths, sid, number, theirs)
        finally:
            os._exit(1)  # only after a fault: the load is endless
    os.close(theirs)
    heard = b""
    try:
        while heard.count(b"\n") < words:
            assert select.select([ours], [], [], 60)[0], "the writer said nothing"
            piece = os.read(ours, 65_536)
            assert piece, "the writer ended by itself"
            heard += piece
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([ours], [], [], left)[0]:
                heard += os.read(ours, 65_536)
    finally:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    while piece := os.read(ours, 65_536):
        heard += piece
    os.close(ours)
    return [int(word) for word in heard.decode().splitlines()]


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_two_hundred_kills_lose_no_acknowledged_request(paths: Paths) -> None:
    """Issue 3, "Show it": `verify` clean after each, every acknowledged request there."""
    chance = random.Random(SEED)
    acknowledged: dict[str, set[str]] = {}
    cut_inside = 0
    for number in range(ROUNDS):
        sid = f"s{number // 10}"
        said = _killed_after(paths, sid, number, chance.randint(1, 13), chance.uniform(0.0, 0.02))
        assert said == list(range(len(said)))
        acknowledged.setdefault(sid, set()).update(f"k{number} says {turn}" for turn in said)
        cut_inside += os.path.exists(session_file(paths, sid) + "-wal")
        assert verify(paths, sid) == [], f"after kill {number}"
        first_lines = {row.text.partition("\n")[0] for row in stored(paths, sid)}
        assert acknowledged[sid] <= first_lines, f"after kill {number}"
    assert sum(map(len, acknowledged.values())) > 5 * ROUNDS
    assert cut_inside > ROUNDS // 2, "the kills came between sessions, not inside of the load"
    assert not [name for name in os.listdir(paths.sessions_dir) if ".damaged-" in name]
    for sid in acknowledged:  # SQLite's own check, too, once the journals are played back
        with contextlib.closing(sqlite3.connect(session_file(paths, sid))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            connection.execute("INSERT INTO lines_fts (lines_fts) VALUES ('integrity-check')")


def test_what_is_left_half_written_does_not_stop_the_next_writer(paths: Paths) -> None:
    """Ours: a kill leaves a WAL behind; who opens the session next goes on from it."""
    _killed_after(paths, "s", 0, 5, 0.01)
    recorder = Recorder(paths, KEY)
    assert recorder.record_request("s", incoming([user("and now")])).new_rows == 1
    recorder.close()
    assert verify(paths, "s") == [] and not Path(session_file(paths, "s") + "-wal").exists()
    assert "k0 says 0" in {row.text.partition("\n")[0] for row in stored(paths)}
