"""The doctor on what was left behind: locks, processes, blobs, the clock, another one's port."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.host.lifecycle import ProxyStatus
from openmem.plan.action import RunCommand, WriteFile
from openmem.plan.system import RealSystem
from openmem.setup.doctor.leftovers import check_locks, check_processes, is_held
from openmem.setup.doctor.machine import check_clock
from openmem.setup.doctor.stack import check_stack, holder_of
from openmem.setup.doctor.store import check_blobs
from openmem.stack.render import compose_text, port_in
from tests.fakes.engine_socket import fake_engine
from tests.fakes.stored import Machine

NOT_RUNNING = ProxyStatus(running=False, address="", port=0)


@pytest.fixture
def paths(home: Path) -> Paths:
    made = Paths(os.environ)
    os.makedirs(made.state_dir, mode=0o700)
    return made


@contextmanager
def holding(path: str) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_lock_that_is_held_for_long_is_named_with_its_holder(paths: Paths) -> None:
    """Issue 6, part 5: stale locks."""
    path = f"{paths.state_dir}/memory.lock"
    with holding(path):
        (found,) = check_locks(paths, sleep=lambda _: None)
        assert found.outcome == "warning" and found.subject == path and found.fix is None
        if sys.platform == "linux":
            assert f"process {os.getpid()}" in found.detail
    assert not is_held(path) and check_locks(paths, sleep=lambda _: None) == []


def test_a_lock_that_is_given_back_meanwhile_is_no_finding(paths: Paths) -> None:
    """Ours: every command holds one for a moment."""
    path = f"{paths.state_dir}/memory.lock"
    file = open(path, "w")  # noqa: SIM115  closed in the middle of the check
    fcntl.flock(file, fcntl.LOCK_EX)
    assert check_locks(paths, sleep=lambda _: file.close()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told from /proc (2026-11-30)")
def test_a_proxy_that_nobody_leads_is_found_and_a_strangers_is_not(paths: Paths) -> None:
    """Issue 6, part 5: processes of ours; users' report 19: orphans."""
    words = [sys.executable, "-c", "input()  # openmem.host.worker"]
    there = {"HOME": paths.home, "PATH": os.environ["PATH"]}
    with (
        subprocess.Popen(words, env=there, stdin=subprocess.PIPE) as ours,
        subprocess.Popen(
            words, env={**there, "OPENMEM_STATE_DIR": "/elsewhere"}, stdin=subprocess.PIPE
        ) as theirs,
    ):
        deadline = time.monotonic() + 10
        while not (found := check_processes(paths, NOT_RUNNING, own=-1)):
            assert time.monotonic() < deadline
        assert str(ours.pid) in found[0].detail and str(theirs.pid) not in found[0].detail
        assert found[0].outcome == "warning"
        led = ProxyStatus(running=True, address="", port=1, worker_pid=ours.pid)
        assert check_processes(paths, led, own=-1) == []
        for one in (ours, theirs):
            one.communicate(b"\n", timeout=10)
    assert check_processes(paths, NOT_RUNNING, own=-1) == []


def test_blobs_are_compared_with_the_rows_that_name_them(home: Path) -> None:
    """Issue 6, part 5: blobs."""
    stored = Machine(home)
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": image}, {"type": "text", "text": "look"}]
    stored.record("s-1", home, [{"role": "user", "content": content}])
    now = time.time()
    (found,) = check_blobs(stored.paths, now)
    assert found.outcome == "ok" and found.detail.startswith("1 image")
    loose = Path(stored.paths.blobs_dir, "0" * 16 + ".bin")
    loose.write_bytes(b"x")
    (found,) = check_blobs(stored.paths, now + 7200)
    assert found.outcome == "info" and "1 file that no row names" in found.detail
    loose.unlink()
    for path in Path(stored.paths.blobs_dir).iterdir():
        path.unlink()
    (found,) = check_blobs(stored.paths, now)
    assert found.outcome == "warning" and "not there" in found.detail


def test_a_clock_that_was_set_back_is_seen(paths: Paths) -> None:
    """Issue 6, part 5: clock."""
    now = time.time()
    assert check_clock(paths, now).outcome == "ok"
    os.makedirs(paths.sessions_dir)
    file = Path(paths.sessions_dir, "s.v4.db")
    file.touch()
    assert check_clock(paths, now).outcome == "ok"
    found = check_clock(paths, now - 86_400)
    assert found.outcome == "warning" and "1440 min ahead" in found.detail


def test_a_port_that_another_took_is_named_and_the_fix_moves_the_stack(
    home: Path, tmp_path: Path
) -> None:
    """Screens, doctor: port taken by a process; --fix moves it, plan shown first."""
    with fake_engine(tmp_path / "engine") as fake, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])
        paths = Paths(fake.environ())
        compose = Path(paths.stack_dir, "hindsight", "compose.yaml")
        compose.parent.mkdir(parents=True)
        compose.write_text(compose_text("hindsight", port))
        found = check_stack(RealSystem(paths.environ), paths, "hindsight")
        assert found.outcome == "error" and f"port {port} is taken" in found.detail
        if sys.platform == "linux":
            assert holder_of(port) == os.getpid() and f"process {os.getpid()}" in found.detail
        assert found.fix is not None
        writes = {Path(a.path).name: a for a in found.fix.actions if isinstance(a, WriteFile)}
        moved = port_in(writes["compose.yaml"].data.decode())
        assert moved != port and f"port = {moved}" in writes["config.toml"].data.decode()
        assert isinstance(found.fix.actions[-1], RunCommand) and str(moved) in found.advice
        # One that a person changed is theirs: said, and not moved.
        compose.write_text(compose.read_text() + "# mine\n")
        found = check_stack(RealSystem(paths.environ), paths, "hindsight")
        assert found.fix is None and "end that program" in found.advice
