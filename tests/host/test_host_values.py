"""The small parts of the host by themselves: record, lock, log, pace, who still uses the proxy."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem import __version__
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.host import crew, hold, launch, record
from openmem.host.channel import Channel, channel_pair
from openmem.host.logbook import Logbook
from openmem.host.usage import Agents, Use, is_running


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths({"HOME": str(tmp_path), "OPENMEM_STATE_DIR": str(tmp_path / "state")})
    ensure_private_dir(made.run_dir)
    ensure_private_dir(made.logs_dir)
    return made


def a_record(**changes: object) -> record.Record:
    values: dict[str, object] = {
        "port": 8913,
        "supervisor_pid": 5,
        "version": "1",
        "started_at": "2026-11-30T10:00:00Z",
        "manager": "detached",
        "upstream": {"claude-code": "https://api.example"},
    }
    return record.Record(**{**values, **changes})  # type: ignore[arg-type]


def test_a_record_comes_back_as_it_was_written(paths: Paths) -> None:
    """docs/reference/supervision.md, "Files"."""
    record.write_record(paths, a_record(worker_pid=6, restarts=2, mode="plain"))
    found = record.read_record(paths)
    assert found is not None and found.to_json() == json.loads(Path(paths.proxy_record).read_text())
    assert (found.worker_pid, found.restarts, found.mode) == (6, 2, "plain")
    assert stat.S_IMODE(os.stat(paths.proxy_record).st_mode) == 0o600


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_JSON, st.sampled_from(sorted(a_record().to_json())))
def test_any_value_in_a_record_is_read_or_left(value: object, key: str) -> None:
    """Ours: what is on disk is untrusted; a reader gets a whole record or none."""
    assert record.record_of(value) is None or isinstance(value, dict)
    found = record.record_of({**a_record().to_json(), key: value})
    assert found is None or 0 < found.port < 65536


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"port": 99999}', '{"port": true}'])
def test_a_broken_record_is_no_record(paths: Paths, text: str) -> None:
    """Ours: a file cut short by a crash must not stop a start."""
    Path(paths.proxy_record).write_text(text)
    assert record.read_record(paths) is None


def test_the_lock_is_one_and_names_its_holder(paths: Paths) -> None:
    """Brief: a lock so there is one per state folder."""
    assert record.supervisor_pid(paths) is None
    held = record.take_lock(paths)
    assert held is not None and record.take_lock(paths) is None
    assert record.supervisor_pid(paths) == 0
    record.sign_lock(held)
    assert record.supervisor_pid(paths) == os.getpid()
    assert record.holds_lock(paths, held)
    os.close(held)
    assert record.supervisor_pid(paths) is None


def test_a_lock_of_a_removed_folder_does_not_count(paths: Paths, tmp_path: Path) -> None:
    """Ours: a state folder that was replaced has a lock of its own."""
    held = record.take_lock(paths)
    assert held is not None
    os.rename(paths.state_dir, tmp_path / "old")
    assert not record.holds_lock(paths, held)
    ensure_private_dir(paths.run_dir)
    other = record.take_lock(paths)
    assert other is not None
    os.close(other)
    os.close(held)


def test_asking_creates_nothing(tmp_path: Path) -> None:
    """Ours: a getter never creates."""
    paths = Paths({"HOME": str(tmp_path), "OPENMEM_STATE_DIR": str(tmp_path / "none")})
    assert record.read_record(paths) is None and not record.is_stopped(paths)
    assert not record.is_supervised(paths)
    record.clear_stopped(paths)
    record.remove_record(paths)
    Logbook(paths, "x").line("lost")
    assert not (tmp_path / "none").exists()


def test_the_log_is_set_aside_and_stays_bounded(paths: Paths) -> None:
    """Issue 2, part 5: the log rotates."""
    log = Logbook(paths, "test")
    Path(log.path).write_bytes(b"x" * (2 << 20))
    log.rotate()
    log.line("first\nof the new file")
    text = Path(log.path).read_text()
    assert text.endswith(f"test[{os.getpid()}] first of the new file\n") and text.count("\n") == 1
    assert os.path.getsize(log.path + ".1") == 2 << 20
    log.rotate()
    assert Path(log.path).read_text() == text


def test_a_line_carries_words_until_an_end_dies() -> None:
    """Ours: each side sees the other's death, whoever started whom."""
    one_fd, other_fd = channel_pair()
    one, other = Channel(one_fd), Channel(other_fd)
    assert other.receive() == []
    one.send("ready 1 recording")
    one.send("pong")
    assert other.receive() == ["ready 1 recording", "pong"]
    os.write(one_fd, b"half")
    assert other.receive() == []
    os.write(one_fd, b" done\n")
    assert other.receive() == ["half done"]
    for _ in range(100_000):
        one.send("a peer that never reads must not block us")
    one.close()
    one.send("after the end")
    assert one.receive() is None
    while lines := other.receive():
        assert set(lines) <= {"a peer that never reads must not block us"}
    assert lines is None
    other.close()
    other.close()


def test_the_pace_slows_down_and_ends_in_a_plain_worker() -> None:
    """Brief: never gives up silently."""
    pace = crew.Pace()
    delays = []
    for _ in range(10):
        pace.died(1.0, 100.0, is_replacement=False)
        delays.append(round(pace.not_before - 100.0, 2))
    assert delays == [0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 10.0, 10.0]
    assert pace.is_plain and not pace.wants_full(100.0)
    assert pace.wants_full(100.0 + crew.FULL_AGAIN_SECONDS)
    pace.try_full(2000.0)
    assert not pace.is_plain


def test_one_death_in_old_age_costs_nothing() -> None:
    """Ours: a worker that served for a day is replaced at once."""
    pace = crew.Pace()
    for _ in range(20):
        pace.died(86400.0, 100.0, is_replacement=False)
    assert pace.not_before == 100.0 and not pace.is_plain


def test_a_replacement_that_fails_has_time() -> None:
    """Ours: the one before it still serves; nobody waits."""
    pace = crew.Pace()
    for _ in range(200):
        pace.died(0.1, 100.0, is_replacement=True)
    assert pace.not_before == 100.0 + crew.FULL_AGAIN_SECONDS and not pace.is_plain


def test_a_daemon_inherits_a_short_list() -> None:
    """Facts on agents, 1.1: hooks get keys and tokens in their environment."""
    environ = {
        "HOME": "/h",
        "PATH": "/bin",
        "OPENMEM_STATE_DIR": "/s",
        "XDG_RUNTIME_DIR": "/r",
        "HTTPS_PROXY": "http://p",
        "NODE_EXTRA_CA_CERTS": "/ca",
        "ANTHROPIC_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "/x",
        launch.ORDERS: "{}",
    }
    kept = launch.clean_environment(environ)
    assert set(environ) - set(kept) == {
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "PYTHONPATH",
        "LD_PRELOAD",
        launch.ORDERS,
    }


def test_the_version_on_disk_is_read_from_the_file() -> None:
    """Ours: the running module knows only the version it was loaded with."""
    assert launch.installed_version() == __version__


def test_a_port_that_is_taken_is_passed_over() -> None:
    """Issue 2, "Bad input": the next free one."""
    taken = hold.bind(0)
    try:
        port = hold.port_of(taken)
        assert hold.is_listening(port)
        found = hold.free_port(port)
        assert found is not None and found > port
    finally:
        os.close(taken)
    assert not hold.is_listening(port)
    error = hold.port_taken(80, PermissionError(13, "Permission denied"))
    assert error.exit_status == 6 and "administrator" in error.message


def test_use_is_over_only_when_nothing_is_left() -> None:
    """Ours: what cannot be known counts as use."""
    quiet = {"idle_seconds": 100.0}
    assert Use(**quiet).is_over(60)  # type: ignore[arg-type]
    assert not Use(agents=(4,), **quiet).is_over(60)  # type: ignore[arg-type]
    assert not Use(connections=1, **quiet).is_over(60)  # type: ignore[arg-type]
    assert not Use(active=1, **quiet).is_over(60)  # type: ignore[arg-type]
    assert not Use(idle_seconds=59.0).is_over(60)


def test_agents_are_those_registered_processes_that_live(paths: Paths) -> None:
    """Design section 7: until the sessions that still use it have ended."""
    agents = Agents(paths)
    assert agents.running() == ()
    folder = Path(ensure_private_dir(paths.sessions_dir))
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        for name, pid in (("a", child.pid), ("b", child.pid), ("c", 0), ("d", 2**22 - 3)):
            (folder / f"{name}.json").write_text(json.dumps({"session_id": name, "agent_pid": pid}))
        (folder / "e.json").write_text("{broken")
        (folder / "f.v4.db").write_text("not a registration")
        assert agents.running() == (child.pid,)
        assert is_running(child.pid, time.time())
        assert not is_running(child.pid, 0.0), "a process younger than its registration"
    finally:
        child.kill()
    child.wait()
    assert agents.running() == ()
