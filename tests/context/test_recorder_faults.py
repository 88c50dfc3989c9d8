"""The recorder when files are newer, damaged, half made, locked, gone, or written by others."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.database import open_for_writing, session_file
from openmem.context.store.mount import shared_file_system
from openmem.context.store.recorder import Recorder
from openmem.context.store.schema import STATEMENTS
from openmem.context.store.verify import verify
from tests.fakes.conversation import KEY, incoming, reply, stored, user

TALK = [user("one"), reply("two"), user("three")]


@pytest.fixture
def paths(home: Path) -> Paths:
    found = Paths({"HOME": str(home)})
    Path(found.key_file).parent.mkdir(parents=True)
    Path(found.key_file).write_text(KEY.hex())
    return found


def place(paths: Paths) -> Path:
    path = Path(session_file(paths, "s"))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_a_newer_file_is_never_written(paths: Paths) -> None:
    """Issue 2, bad input: store file newer than ours."""
    path = place(paths)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE future (x)")
    connection.execute("PRAGMA user_version = 5")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable) as caught:
        Recorder(paths, KEY).record_request("s", incoming(TALK))
    assert caught.value.code == "store-newer"
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["s.v4.db"]


@pytest.mark.parametrize("statements", range(1, len(STATEMENTS)))
def test_a_half_made_file_without_rows_is_made_whole(paths: Paths, statements: int) -> None:
    """Users' report 22: creation killed half way; rolled back and retried."""
    path = place(paths)
    connection = sqlite3.connect(path)
    for statement in STATEMENTS[:statements]:
        connection.execute(statement)
    connection.close()
    recorder = Recorder(paths, KEY)
    assert recorder.record_request("s", incoming(TALK)).new_rows == 3
    recorder.close()
    assert sorted(os.listdir(path.parent)) == ["s.v4.db"]
    assert verify(paths, "s") == []


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"this is no database " * 400),
        lambda path: _with_tables_of_others(path),
        lambda path: _with_rows_but_no_version(path),
    ],
    ids=["garbage", "tables of others", "rows but no version"],
)
def test_a_file_that_is_not_ours_is_set_aside_whole(paths: Paths, make) -> None:  # type: ignore[no-untyped-def]
    """Issue 3, part 6: no lost row, no uncaught error; what was there is kept."""
    path = place(paths)
    make(path)
    before = path.read_bytes()
    recorder = Recorder(paths, KEY)
    assert recorder.record_request("s", incoming(TALK)).new_rows == 3
    recorder.close()
    (aside,) = [name for name in os.listdir(path.parent) if ".damaged-" in name]
    assert (path.parent / aside).read_bytes() == before
    assert [row.text for row in stored(paths)] == ["one", "two", "three"]


def _with_tables_of_others(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()


def _with_rows_but_no_version(path: Path) -> None:
    connection = sqlite3.connect(path)
    for statement in STATEMENTS:
        connection.execute(statement)
    connection.execute("INSERT INTO line VALUES (1, 'kept')")
    connection.commit()
    connection.close()


def test_a_file_cut_off_under_the_recorder_is_set_aside_and_all_is_stored_again(
    paths: Paths,
) -> None:
    """Issue 3, part 6: truncated file; the client resends the history, so nothing is lost."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user("word " * 9000), *TALK]))
    recorder.close()
    path = place(paths)
    os.truncate(path, path.stat().st_size // 2)
    recorded = recorder.record_request("s", incoming([user("word " * 9000), *TALK, reply("four")]))
    recorder.close()
    assert recorded.new_rows == 5
    assert [row.text for row in stored(paths)][1:] == ["one", "two", "three", "four"]
    assert verify(paths, "s") == []
    assert any(".damaged-" in name for name in os.listdir(path.parent))


def test_a_file_deleted_or_replaced_is_opened_anew(paths: Paths) -> None:
    """Context store contract, Retention: a writer that finds its database deleted reopens it."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming(TALK))
    for name in os.listdir(paths.sessions_dir):
        os.unlink(f"{paths.sessions_dir}/{name}")
    assert recorder.record_request("s", incoming([*TALK, reply("four")])).new_rows == 4
    recorder.close()
    assert [row.text for row in stored(paths)] == ["one", "two", "three", "four"]


def test_rows_removed_by_another_process_are_not_taken_for_known(paths: Paths) -> None:
    """Ours: whoever else writes makes the recorder forget what it remembers."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming(TALK))
    other = sqlite3.connect(place(paths))
    other.execute("DELETE FROM row WHERE seq > 1")
    other.commit()
    other.close()
    assert recorder.record_request("s", incoming(TALK)).new_rows == 2
    recorder.close()
    assert [row.seq for row in stored(paths)] == [1, 4, 5], "a seq is never used again"


def test_a_lock_held_for_too_long_is_said_and_nothing_is_half_stored(paths: Paths) -> None:
    """Users' report 20: no uncaught lock error, no lost row."""
    recorder = Recorder(paths, KEY, busy_seconds=0.1)
    recorder.record_request("s", incoming(TALK))
    holder = sqlite3.connect(place(paths), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable) as caught:
        recorder.record_request("s", incoming([*TALK, reply("four")]))
    assert caught.value.code == "store-locked"
    holder.execute("ROLLBACK")
    holder.close()
    assert recorder.record_request("s", incoming([*TALK, reply("four")])).new_rows == 1
    recorder.close()


def test_a_reader_that_pins_an_old_state_stops_no_writer(paths: Paths) -> None:
    """Users' report 20: one reader holding a read transaction."""
    recorder = Recorder(paths, KEY, busy_seconds=0.1)
    recorder.record_request("s", incoming(TALK))
    reader = sqlite3.connect(place(paths), isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM row").fetchone() == (3,)
    assert recorder.record_request("s", incoming([*TALK, reply("four")])).new_rows == 1
    assert reader.execute("SELECT count(*) FROM row").fetchone() == (3,)
    reader.close()
    recorder.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; run as a user, 2026-11-30")
def test_a_folder_that_is_read_only_is_said(paths: Paths) -> None:
    """Issue 3, part 6: read-only folder."""
    place(paths).parent.chmod(0o500)
    with pytest.raises(StoreUnavailable):
        Recorder(paths, KEY).record_request("s", incoming(TALK))


def test_a_path_that_is_no_folder_is_said(paths: Paths) -> None:
    """Issue 3, part 6: no uncaught error when the store cannot be made."""
    Path(paths.context_dir).write_text("in the way")
    with pytest.raises(StoreUnavailable):
        Recorder(paths, KEY).record_request("s", incoming(TALK))


_FULL_DISK = """
import resource, signal, sys
sys.path[:0] = {path!r}
from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY, incoming, user
paths = Paths({{"HOME": {home!r}}})
recorder = Recorder(paths, KEY)
recorder.record_request("s", incoming([user("small")]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    recorder.record_request("s", incoming([user("small"), user("large " * 200_000)]))
except StoreUnavailable as error:
    print("refused", error.code)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
"""


def test_a_full_disk_is_said_and_keeps_what_was_there(paths: Paths) -> None:
    """Issue 3, part 6: disk full. A file-size limit stands for the full disk."""
    script = _FULL_DISK.format(path=[p for p in sys.path if p] or ["."], home=paths.home)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith("refused"), done.stderr
    recorder = Recorder(paths, KEY)
    assert [row.text for row in stored(paths)] == ["small"]
    assert recorder.record_request("s", incoming([user("small"), user("now")])).new_rows == 1
    recorder.close()
    assert verify(paths, "s") == []


def test_threads_of_one_process_write_one_and_many_sessions(paths: Paths) -> None:
    """Brief: thread-safe per session."""
    recorder = Recorder(paths, KEY, open_sessions=2)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(8):
                messages = [user(f"{number} {n}") for n in range(turn + 1)]
                agent = f"a{number}"
                recorder.record_request(
                    "shared", incoming(messages, kind="sub-agent", agent_id=agent)
                )
                recorder.record_request(f"own{number}", incoming(messages))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    recorder.close()
    assert errors == []
    assert len(stored(paths, "shared")) == 48
    assert verify(paths, "shared") == []
    assert all(len(stored(paths, f"own{number}")) == 8 for number in range(6))


_WRITER = """
import sys
sys.path[:0] = {path!r}
from openmem.base.paths import Paths
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY, incoming, user
recorder = Recorder(Paths({{"HOME": {home!r}}}), KEY, busy_seconds=60)
messages = []
for turn in range({turns}):
    messages.append(user(f"{name} says {{turn}}"))
    recorder.record_request("s", incoming(messages[-3:] if {name!r} == "x" else messages))
    print(turn, flush=True)
recorder.close()
"""


def _start(paths: Paths, name: str, turns: int) -> subprocess.Popen[str]:
    script = _WRITER.format(
        path=[p for p in sys.path if p] or ["."], home=paths.home, name=name, turns=turns
    )
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


@pytest.mark.heavy
def test_processes_that_write_one_session_lose_nothing(paths: Paths) -> None:
    """Users' report 20: 8 processes, one reader that holds a snapshot; every row is there."""
    place(paths)
    processes = [_start(paths, f"p{number}", 40) for number in range(8)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert all(output.split() == [str(turn) for turn in range(40)] for output in outputs)
    rows = stored(paths)
    assert len(rows) == 8 * 40
    assert {row.text for row in rows} == {f"p{n} says {t}" for n in range(8) for t in range(40)}
    assert verify(paths, "s") == []


@pytest.mark.heavy
def test_a_killed_writer_loses_no_acknowledged_request(paths: Paths) -> None:
    """Issue 3: `kill -9` at random points; `verify` clean, every acknowledged request there."""
    said: list[str] = []
    for number in range(12):
        process = _start(paths, f"k{number}", 10_000)
        assert process.stdout is not None
        for _ in range(number % 4 + 1):
            line = process.stdout.readline()
            said.append(f"k{number} says {line.strip()}")
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")
        process.wait(10)
        process.stdout.close()
        said += [f"k{number} says {turn}" for turn in rest[:-1]]
        assert verify(paths, "s") == []
    assert set(said) <= {row.text for row in stored(paths)}


def test_a_network_mount_gets_no_wal(paths: Paths, tmp_path: Path) -> None:
    """Users' report 21: WAL over a virtual mount is destroyed; journal mode DELETE there."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        f"2 1 0:5 / {paths.home} rw,relatime shared:1 - virtiofs host rw\n"
    )
    connection = open_for_writing(paths, "s", busy_seconds=1, mounts_file=str(mounts))
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming(TALK))
    recorder.close()
    assert [row.text for row in stored(paths)] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("1 0 8:1 / / rw - ext4 /dev/sda rw\n", ""),
        ("1 0 8:1 / / rw - nfs4 host:/x rw\n", "nfs4"),
        ("1 0 8:1 / / rw - ext4 x rw\n2 1 0:1 / /srv/my\\040dir rw - 9p share rw\n", "9p"),
        ("1 0 8:1 / / rw - ext4 x rw\n2 1 0:1 / /srv rw - fuse.sshfs h rw\n", "fuse.sshfs"),
        ("1 0 8:1 / / rw - nfs h rw\n2 1 0:1 / /srv/my\\040dir rw - tmpfs t rw\n", ""),
        ("1 0 8:1 / / rw - ext4 x rw\n2 1 0:1 / /srv/my rw - nfs h rw\n", ""),
        ("1 0 8:1 / / rw - fuse.gocryptfs x rw\n", ""),
        ("nonsense\n", ""),
    ],
)
def test_the_mount_that_holds_a_folder_decides(tmp_path: Path, lines: str, kind: str) -> None:
    """Users' report 21: detect virtiofs, 9p, network mounts before enabling WAL."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(lines)
    assert shared_file_system("/srv/my dir/deep", str(mounts)) == kind
    assert shared_file_system("/srv/my dir", str(tmp_path / "none")) == ""
