"""A folder that may not be written: nothing is stored, it is told, and reading goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.store.health import ailments
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY, incoming, stored, user
from tests.fakes.writer_process import start_writer
from tests.faults.conftest import write_key


@pytest.fixture
def unwritable(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paths]:
    """A store with one session in a folder without write permission; for root, who may write
    anywhere, on a file system that is mounted read-only."""
    folder = home / "state"
    folder.mkdir(mode=0o700)
    is_root = os.geteuid() == 0
    if is_root and not _mounted("-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(folder)):
        pytest.skip("root, and no file system may be mounted here (2026-11-30)")
    monkeypatch.setenv("OPENMEM_STATE_DIR", str(folder))
    paths = Paths(dict(os.environ))
    try:
        write_key(paths)
        recorder = Recorder(paths, KEY)
        recorder.record_request("old", incoming([user("a quokka lives here")]))
        recorder.close()
        if is_root:
            assert _mounted("-o", "remount,ro", str(folder))
        else:
            _chmod_folders(folder, 0o500)
        yield paths
    finally:
        if is_root:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        else:
            _chmod_folders(folder, 0o700)


def _mounted(*words: str) -> bool:
    return not subprocess.run(["mount", *words], capture_output=True, check=False).returncode


def _chmod_folders(root: Path, mode: int) -> None:
    for folder in [root, *(place for place in root.rglob("*") if place.is_dir())]:
        folder.chmod(mode)


def test_nothing_is_stored_and_no_error_is_uncaught(unwritable: Paths) -> None:
    """Issue 3, part 6: read-only folder, for a session that is there and for a new one."""
    for sid in ("old", "new"):
        writer = start_writer(sid, "w", 3, busy=1)
        said, fault = writer.communicate(timeout=60)
        assert said == "refused store-unavailable\n" and not fault
    assert [row.text for row in stored(unwritable, "old")] == ["a quokka lives here"]
    assert os.listdir(unwritable.sessions_dir) == ["old.v4.db"]


def test_what_is_there_is_still_found(unwritable: Paths, run) -> None:  # type: ignore[no-untyped-def]
    """Issue 3, part 6: reading needs no writing; what would write says why it cannot."""
    code, answer = run("context", "search", "quokka", "--all-workspaces")
    assert code == 0 and answer["data"]["total_matches"] == 1
    assert run("context", "verify")[0] == 0
    assert run("context", "show", "old")[0] == 0
    for words, told in (
        (("forget", "--pattern", "quokka", "--yes"), ""),
        (("forget", "--session", "old", "--yes"), ""),
        (("forget", "--session", "old", "--row", "1", "--yes"), ""),
        (("forget", "--secret", "-", "--yes"), "quokka"),
        (("pin", "old"), ""),
    ):
        code, answer = run("context", *words, said=told)
        assert code == 1 and answer["errors"], words
    assert run("context", "sweep", "--yes")[0] == 0
    assert [row.text for row in stored(unwritable, "old")] == ["a quokka lives here"]


def test_status_and_doctor_say_so(unwritable: Paths, run) -> None:  # type: ignore[no-untyped-def]
    """Issue 3, part 6."""
    code, status = run("status")
    assert code == 1, "nothing can be recorded: a script must be able to see it"
    assert "read-only" in {one["name"] for one in status["data"]["store"]["problems"]}
    _, doctor = run("doctor", "--no-network")
    found = {one["name"]: one["result"] for one in doctor["data"]["checks"]}
    assert found["read-only"] == "error"


def test_a_folder_that_may_be_written_is_not_told(paths: Paths) -> None:
    """Ours: the other side."""
    assert "read-only" not in {one.name for one in ailments(paths)}
