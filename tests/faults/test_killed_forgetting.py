"""`kill -9` in the middle of forgetting: not begun, or written down and finished later."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.base.redact import Redacted
from openmem.context.care.forget import forget_rows, forget_session, forget_word
from openmem.context.care.pending import finish_pending, pending_sessions
from openmem.context.care.scan import mask_stored, scan
from openmem.context.care.select import select_literal, select_pattern
from openmem.context.care.sweep import due, sweep
from openmem.context.store.catalog import entries
from openmem.context.store.recorder import Recorder
from openmem.context.store.verify import verify
from tests.fakes.conversation import KEY, incoming, reply, stored, user

WORD = "ghp_" + "aB3d" * 9
ROUNDS = 25
SEED = 34


def _rows(paths: Paths) -> None:
    forget_rows(paths, KEY, select_pattern(paths, WORD))


def _word(paths: Paths) -> None:
    forget_word(paths, KEY, WORD, select_literal(paths, WORD, KEY))


def _secrets(paths: Paths) -> None:
    mask_stored(paths, KEY, scan(paths).found)


def _session(paths: Paths) -> None:
    forget_session(paths, KEY, "s")


WAYS = (_rows, _word, _secrets, _session)


def _killed(act: Callable[[Paths], None], paths: Paths, seconds: float) -> None:
    """Begin to forget in a process of its own and kill it after so long, if it still runs."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(theirs, b"!")
            act(paths)
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        os.read(ours, 1)
        time.sleep(seconds)  # where it is killed is a matter of chance; every moment must do
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours)


def _holding(paths: Paths) -> list[str]:
    return [
        str(path)
        for path in Path(paths.context_dir).rglob("*")
        if path.is_file() and WORD.encode() in path.read_bytes()
    ]


@pytest.fixture
def filled(paths: Paths) -> Paths:
    """A session with the word in two rows, among others that stay."""
    recorder = Recorder(paths, KEY, lambda text, key: Redacted(text))
    said = [user("first words"), reply(f"the key is {WORD}"), user(f"so {WORD} it is\n" * 200)]
    recorder.record_request("s", incoming([*said, *(user(f"line {n}\n" * 200) for n in range(9))]))
    recorder.close()
    return paths


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("act", WAYS, ids=lambda act: act.__name__.strip("_"))
def test_a_kill_leaves_it_whole_or_written_down(
    filled: Paths, tmp_path: Path, act: Callable[[Paths], None]
) -> None:
    """Issue 3, part 4: never "done" while bytes are left; nobody is there to say "pending"."""
    paths = filled
    before = tmp_path / "before"
    shutil.copytree(paths.context_dir, before)
    began = time.monotonic()
    act(paths)
    usual = time.monotonic() - began
    assert _holding(paths) == []
    chance = random.Random(SEED)
    for number in range(ROUNDS):
        shutil.rmtree(paths.context_dir)
        shutil.copytree(before, paths.context_dir)
        _killed(act, paths, chance.uniform(0, usual))
        where = f"kill {number} of {act.__name__}"
        known = [entry.session_id for entry in entries(paths)]
        assert all(verify(paths, sid) == [] for sid in known), where
        is_there = "s" in known and any(WORD in row.text for row in stored(paths))
        if not is_there and _holding(paths):
            assert pending_sessions(paths) == ["s"], where
        assert finish_pending(paths) == (), where
        assert is_there or _holding(paths) == [], where
        if is_there:
            act(paths)  # begun again, it ends
        assert _holding(paths) == [], where
        assert "s" not in known or act is _session or verify(paths, "s") == [], where


_DEATHS = (
    (_rows, "forget.clear"), (_word, "forget.clear"), (_secrets, "scan.clear"),
    (_rows, "pending.clear_freed_bytes"), (_secrets, "pending.clear_freed_bytes"),
)  # fmt: skip


@pytest.mark.parametrize(("act", "step"), _DEATHS)
def test_a_death_right_after_the_commit_is_finished_later(
    filled: Paths, monkeypatch: pytest.MonkeyPatch, act: Callable[[Paths], None], step: str
) -> None:
    """Ours: the shortest of moments, which no random kill finds; the rows are gone, bytes not."""
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(f"openmem.context.care.{step}", lambda *_: os._exit(7))
        try:
            act(filled)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert WORD not in str([row.text for row in stored(filled)])
    assert _holding(filled) and pending_sessions(filled) == ["s"]
    assert finish_pending(filled) == () and _holding(filled) == []
    assert verify(filled, "s") == []


def test_a_killed_sweep_is_gone_on_with(filled: Paths) -> None:
    """Ours: some files of a session are gone, others not; the next sweep takes the rest."""
    then = time.time() - 40 * 86_400
    for path in Path(filled.sessions_dir).iterdir():
        os.utime(path, (then, then))
    Path(filled.sessions_dir, "s.json").write_text("{}")
    os.utime(Path(filled.sessions_dir, "s.json"), (then, then))
    planned = due(filled, 30, now=time.time())
    os.unlink(Path(filled.sessions_dir, "s.v4.db"))  # as far as it came
    assert sweep(filled, planned, now=time.time()) == 1
    assert os.listdir(filled.sessions_dir) == []
