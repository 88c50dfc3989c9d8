"""A dead proxy is brought back by the hooks of an agent wired to it, unless a person stopped it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openmem.base.route import base_url, routed_port
from openmem.context.session import read_registration
from openmem.hook import revive
from openmem.hook.client import is_listening
from openmem.host import launch
from openmem.host.record import is_supervised, mark_stopped, read_record
from tests.hook.conftest import ROOT, SID, Machine


@pytest.fixture
def port(machine: Machine) -> Iterator[int]:
    """A free port that the agent is wired to and the settings name; nobody listens on it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    Path(machine.paths.config_file).write_text(f"[proxy]\nport = {number}\n")
    machine.route(number)
    yield number
    if is_supervised(machine.paths):
        stop = [sys.executable, "-m", "openmem.host.supervisor", "--stop"]
        subprocess.run(stop, env=machine.environ, cwd=ROOT, timeout=60, check=True)


def _comes(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("event", ["session-start", "prompt"])
def test_a_dead_proxy_is_brought_back(machine: Machine, port: int, event: str) -> None:
    """Users' report 9; issue 2 part 5: start and prompt hooks notice a dead proxy."""
    done = machine.run(event)
    assert done.returncode == 0
    assert _comes(lambda: is_listening(port))
    assert is_supervised(machine.paths)
    assert read_registration(machine.paths, SID) is not None  # the work of the hook was done too


def test_an_agent_in_a_denied_folder_is_not_stranded_either(machine: Machine, port: int) -> None:
    """Design 7: a dead proxy must not strand the agent; its requests pass through."""
    done = machine.run("session-start", cwd=str(machine.elsewhere))
    assert (done.returncode, _without_warning(done.stdout)) == (0, {})
    assert _comes(lambda: is_listening(port))
    assert [name for name in machine.files() if name.startswith("context")] == []


def test_no_key_of_the_agent_reaches_the_supervisor(machine: Machine, port: int) -> None:
    """Facts 1.1: keys and tokens are in a hook's environment; a daemon keeps it for days."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("no /proc to look into (macOS); 2026-11-30")
    machine.environ["ANTHROPIC_API_KEY"] = "sk-ant-secret"
    machine.environ["CLAUDE_CODE_MESSAGING_TOKEN"] = "token-secret"
    machine.run("session-start")
    assert _comes(lambda: is_listening(port))
    assert _comes(lambda: read_record(machine.paths) is not None)
    record = read_record(machine.paths)
    assert record is not None
    held = Path(f"/proc/{record.supervisor_pid}/environ").read_bytes()
    assert b"secret" not in held


@pytest.mark.parametrize("event", ["session-start", "prompt", "stop"])
def test_what_a_person_stopped_stays_stopped(machine: Machine, port: int, event: str) -> None:
    """Design 7: removal by the user is final."""
    mark_stopped(machine.paths)
    done = machine.run(event)
    assert done.returncode == 0 and b"systemMessage" not in done.stdout
    assert not is_supervised(machine.paths) and not is_listening(port)


def test_an_agent_that_is_not_wired_to_us_brings_nothing_back(machine: Machine, port: int) -> None:
    """Users' report 9: the address was taken out by hand; nothing puts it or the proxy back."""
    for address in (None, "https://api.anthropic.com", f"http://127.0.0.1:{port}/a/codex"):
        machine.environ.pop("ANTHROPIC_BASE_URL", None)
        if address:
            machine.environ["ANTHROPIC_BASE_URL"] = address
        assert machine.run("session-start").returncode == 0
    assert not is_supervised(machine.paths)
    assert not (machine.home / ".claude" / "settings.json").exists()


def test_a_port_that_somebody_listens_on_is_left_alone(machine: Machine, port: int) -> None:
    """Ours: with a service manager the port listens before any process of ours runs."""
    with socket.socket() as manager:
        manager.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        manager.bind(("127.0.0.1", port))
        manager.listen()
        assert machine.run("session-start").returncode == 0
    assert not is_supervised(machine.paths)


def test_a_stop_hook_starts_nothing(machine: Machine, port: int) -> None:
    """Ours: the turn is over; the next prompt is soon enough."""
    assert machine.run("stop").returncode == 0
    assert not is_supervised(machine.paths)


def test_a_proxy_that_cannot_come_up_is_said_to_the_person(machine: Machine, port: int) -> None:
    """Users' report 9: the hook reports it and says how to go on without."""
    os.makedirs(f"{machine.paths.run_dir}/supervisor.lock")  # no lock, no supervisor
    done = machine.run("prompt")
    value = json.loads(done.stdout)
    assert done.returncode == 0
    assert f"127.0.0.1:{port}" in value["systemMessage"]
    assert "openmem proxy stop" in value["systemMessage"]
    assert "hookSpecificOutput" not in value


def _without_warning(stdout: bytes) -> dict[str, object]:
    """Output without the warning that a slow machine may add before the proxy is up."""
    value = json.loads(stdout) if stdout else {}
    value.pop("systemMessage", None)
    return value


def test_the_supervisor_inherits_what_the_host_would_give_it() -> None:
    """Ours: the hook may not import the host, so the two lists are held equal here."""
    assert revive._KEPT == launch._KEPT
    assert revive._KEPT_PREFIXES == launch._KEPT_PREFIXES


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8913/a/claude-code", 8913),
        ("http://127.0.0.1:8913/a/claude-code/", 8913),
        ("HTTP://localhost:9/a/claude-code", 9),
        ("http://[::1]:9/a/claude-code", 9),
        ("http://127.0.0.1:8913", 0),
        ("http://127.0.0.1:8913/a/codex", 0),
        ("http://127.0.0.1:8913/a/claude-code/v1", 0),
        ("http://127.0.0.1/a/claude-code", 0),
        ("http://127.0.0.1:0/a/claude-code", 0),
        ("http://127.0.0.1:99999/a/claude-code", 0),
        ("http://127.0.0.1:٣/a/claude-code", 0),
        ("http://127.0.0.1.evil.example:8913/a/claude-code", 0),
        ("http://user@127.0.0.1:8913/a/claude-code", 0),
        ("https://127.0.0.1:8913/a/claude-code", 0),
        ("https://api.anthropic.com", 0),
        ("", 0),
    ],
)
def test_an_address_of_ours_is_known_again(url: str, expected: int) -> None:
    """Ours: what is taken for our own address decides what is kept as the upstream."""
    assert routed_port(url, "claude-code") == expected


def test_every_address_we_write_is_known_again() -> None:
    """Ours: parse after print."""
    for port in (1, 8913, 65535):
        assert routed_port(base_url(port, "claude-code"), "claude-code") == port
