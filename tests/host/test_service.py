"""Service managers: what they are given, when they are used, and that they hold the address."""

from __future__ import annotations

import http.client
import json
import os
import plistlib
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.host import service
from openmem.plan.action import MakeDir, RunCommand, WriteFile
from openmem.plan.apply import apply
from openmem.plan.system import MemorySystem, Ran
from tests.fakes.golden import assert_golden
from tests.fakes.installation import Installation, installation, wait_for

GOLDEN = Path(__file__).parent / "golden"
COMMAND = ("/opt/open mem/bin/python", "-P", "-m", service.MODULE, "--service")
GIVEN = {
    "OPENMEM_STATE_DIR": '/data/"quoted"/50%',
    "HTTPS_PROXY": "http://user:p%40ss@proxy.example:3128",
    "NO_PROXY": "localhost,.example",
}


def golden(name: str, text: str) -> None:
    assert_golden(GOLDEN / name, text.splitlines(), width=120)


def test_the_files_are_what_was_read_and_agreed() -> None:
    """Issue 2, part 5: systemd user socket and service or launchd (golden files)."""
    golden("openmem.socket", service.render_socket(8914))
    golden("openmem.service", service.render_service((*COMMAND, "systemd"), GIVEN))
    golden("openmem.proxy.plist", service.render_plist((*COMMAND, "launchd"), GIVEN))
    golden("openmem.service.bare", service.render_service(("/usr/bin/python3", "-m", "x"), {}))


def test_the_templates_are_valid_as_they_stand() -> None:
    """Design section 3: templates are valid as they stand."""
    folder = Path(__file__).resolve().parents[2] / "templates/service"
    plist = plistlib.loads((folder / "openmem.proxy.plist").read_bytes())
    assert plist["Label"] == service.LABEL
    assert plist["KeepAlive"] == {"SuccessfulExit": False}
    assert "ListenStream=127.0.0.1:8913" in (folder / "openmem.socket").read_text()


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here (2026-11-30)"
)
def test_systemd_finds_no_fault_in_the_files(tmp_path: Path) -> None:
    """systemd.unit(5): a line that is not understood is ignored with a word, and would be lost."""
    command = (sys.executable, "-P", "-c", 'print("$HOME; 100%")')
    (tmp_path / "openmem.socket").write_text(service.render_socket(8913))
    (tmp_path / "openmem.service").write_text(service.render_service(command, GIVEN))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(tmp_path / "openmem.socket")],
        capture_output=True,
        text=True,
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )
    assert str(tmp_path) not in done.stderr and "openmem" not in done.stderr, done.stderr


def test_a_word_with_a_line_end_is_refused() -> None:
    """Ours: a line end in a value would begin a setting of its own."""
    with pytest.raises(ValueError, match="line end"):
        service.render_service(("/bin/true",), {"HTTPS_PROXY": "x\nExecStartPre=/bin/false"})


def systemctl(state: str) -> MemorySystem:
    def answer(argv: Sequence[str]) -> Ran:
        if "is-system-running" in argv:
            return Ran(code=0 if state == "running" else 1, stdout=f"{state}\n")
        return Ran(code=3)

    return MemorySystem(programs={"systemctl": answer, sys.executable: lambda _: Ran(code=1)})


@pytest.mark.parametrize(
    ("state", "manager"),
    [
        ("running", "systemd"),
        ("degraded", "systemd"),
        ("starting", "systemd"),
        ("offline", "detached"),
        ("stopping", "detached"),
        ("", "detached"),
        ("Failed to connect to bus", "detached"),
    ],
)
def test_systemd_counts_only_when_its_user_manager_answers(state: str, manager: str) -> None:
    """Brief: `systemctl` is on this machine, its user manager is not."""
    assert service.manager_of(systemctl(state), "linux") == manager


def test_without_systemctl_or_launchctl_the_supervisor_is_detached() -> None:
    """Issue 2, part 5: else a detached supervisor."""
    assert service.manager_of(MemorySystem(), "linux") == "detached"
    assert service.manager_of(MemorySystem(), "darwin") == "detached"


def test_launchd_counts_when_the_desktop_session_answers() -> None:
    """launchctl(1): `print gui/<uid>` fails without a session, over ssh for one."""
    for code, manager in ((0, "launchd"), (113, "detached")):
        system = MemorySystem(programs={"launchctl": lambda _, c=code: Ran(code=c)})
        assert service.manager_of(system, "darwin") == manager


def test_without_a_manager_the_plan_is_one_command() -> None:
    """Design section 4: what changes something is a plan; planned again it is empty."""
    system = systemctl("offline")
    plan = service.service_actions(system, Paths(system.environ), {}, 8913)
    (start,) = plan.actions
    assert isinstance(start, RunCommand)
    assert (start.argv[-1], start.probe[-1], start.undo[-1]) == ("--start", "--probe", "--stop")
    system.programs[sys.executable] = lambda argv: Ran(code=0 if argv[-1] == "--probe" else 1)
    assert service.service_actions(system, Paths(system.environ), {}, 8913).is_empty


def test_with_systemd_the_plan_writes_both_files_and_says_what_it_runs() -> None:
    """Screens: setup names the socket file that keeps the proxy reachable."""
    system = systemctl("running")
    plan = service.service_actions(
        system,
        Paths(system.environ),
        {"HTTPS_PROXY": "http://u:pw@p:1", "ANTHROPIC_API_KEY": "k"},
        8920,
    )
    folder, socket, unit, *commands = plan.actions
    assert isinstance(folder, MakeDir) and folder.path == "/home/u/.config/systemd/user"
    assert isinstance(socket, WriteFile) and socket.path.endswith("/openmem.socket")
    assert b"ListenStream=127.0.0.1:8920\n" in socket.data
    assert isinstance(unit, WriteFile) and b"HTTPS_PROXY=http://u:pw@p:1" in unit.data
    assert b"ANTHROPIC" not in unit.data
    assert [s.text for s in unit.secrets] == ["http://u:pw@p:1"] and unit.mode == 0o600
    told = [" ".join(c.argv[-3:]) for c in commands if isinstance(c, RunCommand)]
    assert told[0] == "systemctl --user daemon-reload"
    assert told[1] == "enable --now openmem.socket"
    assert told[2].endswith("--start") and len(told) == 3


def test_with_systemd_a_second_plan_is_empty() -> None:
    """Design section 4: plan(apply(plan)) is empty."""
    system = systemctl("running")
    paths = Paths(system.environ)
    is_up: list[bool] = []

    def openmem(argv: Sequence[str]) -> Ran:
        if argv[-1] == "--start":
            is_up.append(True)
        return Ran(code=0 if argv[-1] == "--start" or (is_up and argv[-1] == "--probe") else 1)

    def manager(argv: Sequence[str]) -> Ran:
        if "is-active" in argv:
            return Ran(code=0 if is_up else 3)
        return Ran(code=0, stdout="running\n")

    system.programs.update({sys.executable: openmem, "systemctl": manager})
    apply(service.service_actions(system, paths, GIVEN, 8913), system, paths, label="setup")
    assert ("systemctl", "--user", "daemon-reload") in system.ran and is_up
    assert service.service_actions(system, paths, GIVEN, 8913).is_empty
    moved = service.service_actions(system, paths, GIVEN, 8914)
    assert isinstance(moved.actions[0], WriteFile)
    assert any("stop" in a.argv for a in moved.actions if isinstance(a, RunCommand))


def test_a_detached_proxy_hands_over_before_systemd_opens_the_address() -> None:
    """Ours: two holders of one address would be a failed unit."""
    system = systemctl("running")
    system.programs[sys.executable] = lambda argv: Ran(code=0 if "detached" in argv else 1)
    plan = service.service_actions(system, Paths(system.environ), {}, 8913)
    told = [a.argv for a in plan.actions if isinstance(a, RunCommand)]
    assert told[0][-1] == "--give-way"
    assert told[1] == ("systemctl", "--user", "daemon-reload")


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Installation]:
    with installation(tmp_path / "one") as made:
        yield made


@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None,
    reason="systemd-socket-activate is not here (2026-11-30)",
)
def test_a_socket_that_systemd_passes_is_served_and_kept(copy: Installation) -> None:
    """Issue 2, part 5: `systemd-socket-activate` in a test; sd_listen_fds(3)."""
    given = [f"--setenv={name}={value}" for name, value in copy.environ.items()]
    command = copy.command(service.MODULE, "--service", "systemd")
    manager = subprocess.Popen(
        ["systemd-socket-activate", f"--listen=127.0.0.1:{copy.port}", *given, *command],
        env=copy.environ,
    )
    try:
        wait_for(lambda: _connects(copy), "systemd listens")
        who = copy.who()
        copy.worker()
        assert copy.record.manager == "systemd" and copy.record.port == copy.port
        assert copy.record.supervisor_pid == manager.pid, "the process that systemd watches"
        os.kill(who["pid"], signal.SIGKILL)
        assert copy.who()["pid"] != who["pid"]
        manager.terminate()
        assert manager.wait(20) == 0
    finally:
        manager.kill()
        manager.wait()


def test_a_worker_under_a_manager_waits_for_the_next_supervisor(copy: Installation) -> None:
    """systemd.kill(5), KillMode=process: a killed supervisor leaves its worker to the next one."""
    first = subprocess.Popen(copy.command(service.MODULE, "--service", "systemd"), env=copy.environ)
    second = None
    try:
        worker = copy.worker()
        with copy.stream(n=40, ms=50) as response:
            assert response.readline() == b"0\n"
            first.kill()
            first.wait()
            second = subprocess.Popen(
                copy.command(service.MODULE, "--service", "systemd"), env=copy.environ
            )
            wait_for(lambda: copy.record.supervisor_pid == second.pid, "the next one took over")
            assert response.read().splitlines()[-1] == f"end {worker}".encode()
        assert copy.who()["pid"] == worker
    finally:
        for process in (first, second):
            if process is not None:
                process.terminate()
                process.wait(20)


def test_where_a_unit_is_installed_its_manager_starts_the_proxy(
    copy: Installation, tmp_path: Path
) -> None:
    """Seen with systemd 252: it may hold the address while no service stands behind it."""
    told = with_fake_systemctl(copy, tmp_path)
    assert copy.launch("--start") == 0
    assert copy.who() and copy.worker()
    assert copy.record.manager == "systemd"
    assert told.read_text().splitlines() == [
        "--user enable --now openmem.socket",
        "--user start openmem.service",
    ]


def test_a_stop_tells_the_manager_to_let_go_and_a_start_to_keep_again(
    copy: Installation, tmp_path: Path
) -> None:
    """Design section 7: a stop is final; an enabled socket would come back at the next login."""
    told = with_fake_systemctl(copy, tmp_path)
    assert copy.launch("--start") == 0
    copy.worker()
    with copy.stream(n=100, ms=50) as response:
        assert response.readline() == b"0\n"
        stopped = copy.python(
            "from openmem.host import lifecycle\nprint(lifecycle.stop(paths).state)"
        )
        assert stopped.communicate(timeout=60)[0].strip() == "draining"
        assert told.read_text().splitlines()[-1] == "--user disable --now openmem.socket"
        started = copy.python(
            "from openmem.host import lifecycle\n"
            "print(lifecycle.start(paths, environ, config).mode)"
        )
        assert started.communicate(timeout=60)[0].strip() == "recording"
        assert "--user enable --now openmem.socket" in told.read_text().splitlines()[-2:]
        assert response.read().splitlines()[-1].startswith(b"end")


def with_fake_systemctl(copy: Installation, tmp_path: Path) -> Path:
    """Install the unit files and a `systemctl` that starts the service; returns its log."""
    told = tmp_path / "told"
    folder = tmp_path / "bin"
    folder.mkdir()
    command = " ".join(shlex.quote(w) for w in copy.command(service.MODULE, "--service", "systemd"))
    script = folder / "systemctl"
    script.write_text(
        f'#!/bin/sh\necho "$*" >> {told}\n'
        f'case "$*" in *"start openmem.service")\n'
        f"nohup {command} </dev/null >/dev/null 2>&1 & esac\n"
    )
    script.chmod(0o755)
    copy.environ["PATH"] = f"{folder}:{copy.environ['PATH']}"
    for path in service.systemd_unit(copy.paths).files:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    return told


def test_after_a_stop_a_manager_s_start_ends_well_at_once(copy: Installation) -> None:
    """Design section 7: removal by the user is final, also at the next login."""
    copy.launch("--start")
    copy.worker()
    copy.launch("--stop")
    assert copy.launch("--service", "systemd") == 0
    assert not copy.processes()


def _connects(copy: Installation) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", copy.port, timeout=1)
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def test_give_way_ends_without_the_mark_of_a_stop(copy: Installation) -> None:
    """Ours: handing the address over is no wish to be without a proxy."""
    copy.launch("--start")
    copy.worker()
    assert copy.launch("--probe", "detached") == 0 and copy.launch("--probe", "systemd") == 1
    assert copy.launch("--give-way") == 0
    assert not copy.processes() and copy.launch("--probe") == 1
    assert copy.launch("--detach") == 0
    assert json.loads(copy.get("/who"))
