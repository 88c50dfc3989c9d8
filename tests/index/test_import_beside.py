"""One process reads and another one stores: what comes out is what one process would store."""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.beside import Beside
from openmem.context.store.inserting import Belongs
from openmem.index.sessions import importing, parallel
from openmem.index.sessions.report import Report
from tests.fakes.agent_files import claude_talk
from tests.fakes.running_proxy import wait_until
from tests.index.conftest import OTHER, SID, Machine, messages_of, record
from tests.index.test_import_broken_off import Broken, Meanwhile
from tests.index.test_parallel_import import lay, run

TABLES = ("SELECT * FROM messages ORDER BY seq", "SELECT * FROM events", "SELECT * FROM threads",
          "SELECT * FROM lines ORDER BY id", "SELECT * FROM session",
          "SELECT * FROM blob ORDER BY seq, id")  # fmt: skip


class Children:
    """The processes that store, as they were started."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[bytes]] = []

    def kill(self) -> None:
        self.all[-1].kill()
        self.all[-1].wait()


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    """Every piece is a batch of its own, and no process is left."""
    found, start = Children(), Beside._start

    def told(self: Beside) -> None:
        start(self)
        assert self._process is not None
        found.all.append(self._process)

    monkeypatch.setattr(Beside, "_start", told)
    monkeypatch.setattr(importing, "_BATCH_PIECES", 1)
    yield found
    assert all(child.poll() is not None for child in found.all)


def stored(machine: Machine, sid: str) -> list[list[tuple[Any, ...]]]:
    return [machine.select(sid, statement) for statement in TABLES]


def odd_talk(machine: Machine, seed: int) -> list[dict[str, Any]]:
    """Return a session that repeats itself, thinks twice, delegates, sums up and begins anew."""
    chance = random.Random(seed)
    file = machine.file(SID)
    talk = [file.user("first")]
    for _ in range(60):
        word = chance.choice(("one", "two", "three"))
        kind = chance.randrange(8)
        if kind == 0:
            talk.append(file.user(word))
        elif kind == 1:
            talk.append(file.answer({"type": "thinking", "thinking": word, "signature": "x"}))
        elif kind == 2:
            talk.append(file.says(f"{word} \u2028\n\n  \ud55c\uae00 password = {'hunter2' * 3}"))
        elif kind == 3:
            talk.append(file.user(f"<system-reminder>\n{word}\n</system-reminder>"))
        elif kind == 4:
            talk.append(file.user(word, isCompactSummary=True))
        elif kind == 5:
            talk.append(file.user(chance.choice(("first", word)), isSidechain=True, agentId=word))
        elif kind == 6:
            talk += [file.call(word, word), file.result(word, word * 900)]
        else:
            talk.append({**file.user(word), "sessionId": OTHER})
    return talk


@pytest.mark.parametrize("seed", range(6))
def test_two_processes_store_what_one_does(machine: Machine, seed: int) -> None:
    """Ours: every table is the same, whatever was under way when something was looked for."""
    machine.claude(SID, *odd_talk(machine, seed))
    alone = machine.bring_in()
    expected = [stored(machine, sid) for sid in (SID, OTHER)]
    shutil.rmtree(machine.paths.context_dir)
    report = machine.bring_in(beside=True)
    for sid, tables in zip((SID, OTHER), expected, strict=True):
        for found, wanted in zip(stored(machine, sid), tables, strict=True):
            assert found == wanted
    assert (report.added, report.known) == (alone.added, alone.known)
    machine.check(SID, OTHER)
    again = machine.bring_in(beside=True)
    assert (again.added, again.unchanged) == (0, 1)


def test_a_session_that_grew_goes_on(machine: Machine) -> None:
    """Users' report 28: what is new is added to what the last import stored."""
    talk = odd_talk(machine, 9)
    machine.claude(SID, *talk)
    alone = machine.bring_in()
    shutil.rmtree(machine.paths.context_dir)
    machine.claude(SID, *talk[:30])
    first = machine.bring_in(beside=True)
    machine.claude(SID, *talk)
    second = machine.bring_in(beside=True)
    assert first.added > 0 and second.added > 0
    assert first.added + second.added == alone.added
    machine.check(SID)


def test_the_proxy_writes_meanwhile(machine: Machine) -> None:
    """Ours: nothing is stored on top of what somebody else wrote; it is matched anew."""
    talk = claude_talk(SID, str(machine.repo))
    machine.claude(SID, *talk)
    readers = {"claude-code": Meanwhile(lambda: record(machine, SID, *messages_of(talk[:7])))}
    report = machine.bring_in(readers=readers, beside=True)
    assert report.unread == []
    assert len([text for text in machine.texts(SID) if text != "date"]) == 10
    machine.check(SID)


def test_a_storing_process_that_was_killed_is_told_and_made_up_for(
    machine: Machine, children: Children
) -> None:
    """Issue 7: killed; nothing is lost and nothing comes twice, and other files still come in."""
    machine.claude(SID, *claude_talk(SID, str(machine.repo)))
    machine.claude(OTHER, *claude_talk(OTHER, str(machine.repo)))
    report = machine.bring_in(readers={"claude-code": Meanwhile(children.kill)}, beside=True)
    assert [one.why for one in report.unread] == ["the process that stores the sessions has ended."]
    assert report.sessions[OTHER].added == 10
    again = machine.bring_in(beside=True)
    assert again.unread == [] and len(machine.texts(SID)) == 10
    machine.check(SID, OTHER)


def test_ctrl_c_ends_both_and_leaves_everything_whole(machine: Machine) -> None:
    """Issue 7: interrupted."""
    machine.claude(SID, *claude_talk(SID, str(machine.repo)))
    with pytest.raises(KeyboardInterrupt):
        machine.bring_in(readers={"claude-code": Broken(6, KeyboardInterrupt())}, beside=True)
    machine.check(SID)
    machine.bring_in(beside=True)
    assert len(machine.texts(SID)) == 10
    machine.check(SID)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let no file grow further, of this process and of those that are started meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_cannot_grow_is_named_and_the_next_import_goes_on(machine: Machine) -> None:
    """Issue 7, Bad input: what fitted is whole."""
    file = machine.file(SID)
    talk = [file.user(f"{number} " + "word " * 20_000) for number in range(12)]
    machine.claude(SID, *talk)
    with files_of_at_most(400_000):
        report = machine.bring_in(beside=True)
    (unread,) = report.unread
    assert f"the store of session {SID} cannot be written" in unread.why and unread.is_fault
    machine.check(SID)
    assert machine.bring_in(beside=True).unread == []
    assert machine.texts(SID) == [line["message"]["content"] for line in talk]
    machine.check(SID)


def test_a_session_whose_process_was_lost_is_not_taken_for_one_of_the_next(
    machine: Machine, children: Children
) -> None:
    """Ours: two sessions are open, the process dies, a third one starts another."""
    beside = Beside(Paths(machine.paths.environ), machine.key)
    try:
        first = beside.inserter(SID, Belongs(), 0)
        first.settle()
        children.kill()
        with pytest.raises(StoreUnavailable):
            while True:
                first.insert([], [], (0.0, 0.0))
                first.settle()
        second = beside.inserter(OTHER, Belongs(), 0)
        with pytest.raises(StoreUnavailable):
            first.insert([], [], (0.0, 0.0))
        with pytest.raises(StoreUnavailable):
            first.settle()
        first.close()
        second.settle()
        second.close()
    finally:
        beside.close()


@pytest.mark.parametrize(("processes", "is_beside"), [(1, False), (2, True)])
def test_two_processors_are_used_so(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    children: Children,
    processes: int,
    is_beside: bool,
) -> None:
    """Issue 7: at most six times what decoding alone takes."""
    sids = lay(machine)
    monkeypatch.setattr(parallel, "SMALL_BYTES", 0)
    report: Report = run(machine, processes=processes)
    assert report.added == 62 and bool(children.all) is is_beside
    machine.check(*sids)


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, though perhaps nobody asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


_READER = """
import os, sys
from openmem.base.paths import Paths
from openmem.context.store.beside import Beside
from openmem.context.store.inserting import Belongs
beside = Beside(Paths(os.environ), b"k" * 32)
beside.inserter("s1", Belongs(), 0).settle()
print(beside._process.pid, flush=True)
sys.stdin.read()
"""


def test_a_reader_that_was_killed_leaves_no_process(home: Path) -> None:
    """Issue 7: no process of ours is left."""
    reader = subprocess.Popen(
        [sys.executable, "-c", _READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert reader.stdout is not None and reader.stdin is not None
    with reader, reader.stdout, reader.stdin:
        child = int(reader.stdout.readline())
        reader.kill()
        reader.wait()
        wait_until(lambda: has_ended(child))
