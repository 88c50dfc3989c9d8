"""A disk that is full, for real: a file system of two megabytes, where this user may mount one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.store.recorder import Recorder
from openmem.context.store.verify import verify
from tests.fakes.conversation import KEY, incoming, stored, user
from tests.fakes.writer_process import start_writer, text_of
from tests.faults.conftest import write_key

SIZE = 20_000


@pytest.fixture
def small_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paths]:
    """A state folder on a file system that holds two megabytes."""
    folder = home / "state"
    folder.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a file system here (2026-11-30)")
    try:
        monkeypatch.setenv("OPENMEM_STATE_DIR", str(folder))
        paths = Paths(dict(os.environ))
        write_key(paths)
        yield paths
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_refuses_whole_requests_and_keeps_all_acknowledged(
    small_disk: Paths, problems: Callable[[], dict[str, str]]
) -> None:
    """Issue 3, part 6: no uncaught error, no lost acknowledged row; told by status and doctor."""
    writer = start_writer("s", "w", 1000, size=SIZE, per_thread=1000)
    said, fault = writer.communicate(timeout=100)
    *acknowledged, last = said.splitlines()
    assert last == "refused store-full" and not fault
    assert acknowledged == [str(turn) for turn in range(len(acknowledged))]
    assert len(acknowledged) > 10
    kept = {row.text for row in stored(small_disk)}
    assert {text_of("w", turn, SIZE) for turn in range(len(acknowledged))} <= kept
    assert verify(small_disk, "s") == []
    assert "disk" in problems()


def test_once_there_is_room_the_resent_history_is_stored(small_disk: Paths) -> None:
    """Issue 3, part 6: the client sends everything again, so nothing said stays lost."""
    ballast = Path(small_disk.state_dir, "ballast")
    ballast.write_bytes(bytes(1_500_000))
    writer = start_writer("s", "w", 1000, size=SIZE, per_thread=1000)
    said, _ = writer.communicate(timeout=100)
    count = len(said.splitlines())
    assert said.splitlines()[-1] == "refused store-full"
    ballast.unlink()
    whole = [user(text_of("w", turn, SIZE)) for turn in range(count)]
    recorder = Recorder(small_disk, KEY)
    recorder.record_request("s", incoming(whole, kind="sub-agent", agent_id="w-0"))
    recorder.close()
    assert {text_of("w", turn, SIZE) for turn in range(count)} == {
        row.text for row in stored(small_disk)
    }
    assert verify(small_disk, "s") == []


def test_forgetting_on_a_full_disk_is_refused_or_pending_and_then_done(
    small_disk: Paths, run: Callable[..., tuple[int, dict[str, Any]]]
) -> None:
    """Ours: overwriting needs room for a second copy; until then nothing says "done"."""
    writer = start_writer("s", "quokka", 12, size=SIZE, per_thread=12)
    said, _ = writer.communicate(timeout=100)
    assert said.splitlines()[-1] == "11"
    ballast = Path(small_disk.state_dir, "ballast")
    with ballast.open("wb", buffering=0) as file:
        for _ in range(100_000):
            try:
                file.write(bytes(4096))
            except OSError:
                break
    code, answer = run("context", "forget", "--pattern", "quokka says 3$", "--yes")
    assert code == 1
    is_refused = answer["status"] == "error"
    assert is_refused or answer["data"]["pending"] == ["s"]
    ballast.unlink()
    assert run("context", "sweep", "--yes")[0] == 0
    assert is_refused == _holds(small_disk, b"quokka 3 filler"), "done, or not begun"
    assert verify(small_disk, "s") == []
    for turn in (3, 4) if is_refused else (4,):
        assert run("context", "forget", "--pattern", f"quokka says {turn}$", "--yes")[0] == 0
    assert not _holds(small_disk, b"quokka 3 filler")
    assert not _holds(small_disk, b"quokka 4 filler")


def test_what_a_full_disk_refuses_is_still_there(
    small_disk: Paths, run: Callable[..., tuple[int, dict[str, Any]]]
) -> None:
    """Ours: a session that cannot be marked must not go, or its history would come back."""
    start_writer("s", "quokka", 12, size=SIZE, per_thread=12).communicate(timeout=100)
    ballast = Path(small_disk.state_dir, "ballast")
    with ballast.open("wb", buffering=0) as file:
        for size in (65_536, 4096):
            while True:
                try:
                    file.write(bytes(size))
                except OSError:
                    break
    for words, said in (
        (("--session", "s"), ""),
        (("--session", "s", "--row", "1"), ""),
        (("--secret", "-"), "quokka says"),
    ):
        code, answer = run("context", "forget", *words, "--yes", said=said)
        assert code == 1, words
        assert answer["errors"] or answer["data"]["pending"] == ["s"], words
    assert run("context", "export", "s", "--out", f"{small_disk.state_dir}/x")[0] == 1
    assert not Path(small_disk.state_dir, "x").exists()
    assert run("status")[0] == 1
    ballast.unlink()
    assert run("context", "sweep", "--yes")[0] == 0
    assert run("context", "verify")[0] == 0 and len(stored(small_disk)) == 12
    assert run("context", "forget", "--session", "s", "--yes")[0] == 0
    assert not _holds(small_disk, b"quokka 3 filler")


def test_a_file_that_may_not_grow_refuses_and_keeps_what_is_acknowledged(paths: Paths) -> None:
    """Issue 3, part 6: the same by a limit on the size of files, which every user may set."""
    writer = start_writer("s", "w", 1000, size=SIZE, per_thread=1000, limit=700_000)
    said, fault = writer.communicate(timeout=100)
    *acknowledged, last = said.splitlines()
    assert last in ("refused store-full", "refused store-unavailable")
    assert acknowledged and not fault
    kept = {row.text for row in stored(paths)}
    assert {text_of("w", turn, SIZE) for turn in range(len(acknowledged))} <= kept
    assert verify(paths, "s") == []


def _holds(paths: Paths, word: bytes) -> bool:
    return any(
        word in Path(folder, name).read_bytes()
        for folder, _, names in os.walk(paths.state_dir)
        for name in names
    )
