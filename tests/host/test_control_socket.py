"""The control socket of a real worker: who may ask what, and what nonsense costs."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.io import is_private_folder
from openmem.base.paths import Paths
from openmem.host.control import REQUEST_LIMIT_BYTES, ControlError, call
from openmem.host.record import remove_socket
from tests.fakes.installation import Installation, installation, wait_for


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installation(tmp_path_factory.mktemp("control") / "one") as made:
        made.root.joinpath("openmem/hook").mkdir(exist_ok=True)
        made.root.joinpath("openmem/hook/handle.py").write_text(_HANDLE)
        made.launch("--detach")
        made.worker()
        yield made


_HANDLE = """
import time
from types import SimpleNamespace
def handle(event, agent, payload, paths, environ):
    if event == "slow":
        time.sleep(payload["seconds"])
    if event == "faulty":
        raise ValueError("content of the prompt")
    text = f"{event} {agent} {sorted(payload)} {sorted(environ)} {paths.state_dir}"
    return SimpleNamespace(stdout=text)
"""


def raw(copy: Installation, data: bytes, *, ends: bool = True) -> dict[str, Any]:
    """Send bytes as they are; returns the answer, {} when the connection just closes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(copy.paths.control_socket)
        try:
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        except BrokenPipeError:
            pass  # refused before all of it was read; the answer stands in the buffer
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            return {}
    return json.loads(answer) if answer else {}


def test_a_ping_is_answered(copy: Installation) -> None:
    """docs/reference/supervision.md, "Control socket"."""
    answer = call(copy.paths, {"op": "ping"}, 5)
    assert answer == {"ok": True, "version": "0.1.0", "pid": copy.worker()}


def test_the_status_has_the_fields_that_scripts_rely_on(copy: Installation) -> None:
    """Issue 2, "JSON that scripts may rely on"."""
    answer = call(copy.paths, {"op": "status"}, 5)
    record = copy.record
    assert answer["running"] is True
    assert answer["address"] == f"http://127.0.0.1:{copy.port}"
    assert answer["version"] == "0.1.0" and answer["stale"] is False
    assert answer["supervisor_pid"] == record.supervisor_pid
    assert answer["worker_pid"] == record.worker_pid
    assert answer["upstream"] == {"claude-code": "http://127.0.0.1:1"}


def test_a_hook_is_answered_by_the_handler(copy: Installation) -> None:
    """Brief: `{"op":"hook",…}` gives `{"ok":true,"stdout":…}`."""
    request = {
        "op": "hook",
        "event": "session-start",
        "agent": "claude-code",
        "payload": {"session_id": "s"},
        "environ": {"CLAUDE_PID": "1", "odd": 3},
    }
    answer = call(copy.paths, request, 5)
    text = f"session-start claude-code ['session_id'] ['CLAUDE_PID'] {copy.paths.state_dir}"
    assert answer == {"ok": True, "stdout": text}


def test_a_hook_past_its_deadline_gets_an_answer_all_the_same(copy: Installation) -> None:
    """Users' report 15: hooks return within their budget."""
    request = {
        "op": "hook",
        "event": "slow",
        "agent": "a",
        "payload": {"seconds": 1.5},
        "deadline_seconds": 0.2,
    }
    assert call(copy.paths, request, 5) == {"ok": False, "error": "deadline"}
    assert call(copy.paths, {"op": "ping"}, 5)["ok"] is True


def test_more_hooks_than_threads_are_told_busy(copy: Installation) -> None:
    """Ours: threads that hang are bounded; the hook then does the work itself."""
    request = {
        "op": "hook",
        "event": "slow",
        "agent": "a",
        "payload": {"seconds": 1.0},
        "deadline_seconds": 5,
    }
    answers: list[dict[str, object]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(call(copy.paths, request, 10)))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [a.get("error") for a in answers]
    assert len(errors) == 12 and set(errors) == {"busy", None}
    assert errors.count(None) <= 8  # fewer when a thread of an earlier test still sleeps


def test_a_faulty_handler_is_told_and_logged_without_its_text(copy: Installation) -> None:
    """Issue 2, part 5: no content in logs."""
    request = {"op": "hook", "event": "faulty", "agent": "a", "payload": {}}
    assert call(copy.paths, request, 5) == {"ok": False, "error": "fault"}
    assert "ValueError" in copy.log and "content of the prompt" not in copy.log


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "not-json"),
        (b"\n", "not-json"),
        (b"{", "not-json"),
        (b"\xff\xfe\n", "not-json"),
        (b"[" * 100_000 + b"\n", "not-json"),
        (b"[]\n", "no-op"),
        (b"3\n", "no-op"),
        (b"{}\n", "no-op"),
        (b'{"op":3}\n', "no-op"),
        (b'{"op":"format-disk"}\n', "unknown-op"),
        (b'{"op":"hook"}\n', "no-event"),
        (b'{"op":"hook","event":"prompt","agent":"a","payload":[]}\n', "no-payload"),
        (b'{"op":"adopt"}\n', "supervised"),
    ],
)
def test_nonsense_is_refused_with_a_word(copy: Installation, data: bytes, error: str) -> None:
    """Issue 2, part 5: malformed control requests are refused."""
    assert raw(copy, data) == {"ok": False, "error": error}
    assert call(copy.paths, {"op": "ping"}, 5)["ok"] is True


def test_a_huge_request_is_refused_and_not_kept(copy: Installation) -> None:
    """Ours: memory is bounded before anything is parsed."""
    data = b'{"op":"' + b"x" * (REQUEST_LIMIT_BYTES * 2) + b'"}\n'
    assert raw(copy, data) in ({"ok": False, "error": "too-large"}, {})
    assert call(copy.paths, {"op": "ping"}, 5)["ok"] is True


def test_a_large_prompt_is_taken(copy: Installation) -> None:
    """Ours: a pasted log of a megabyte is an ordinary prompt."""
    request = {"op": "hook", "event": "prompt", "agent": "a", "payload": {"prompt": "x" * 2**20}}
    assert call(copy.paths, request, 10)["ok"] is True


def test_callers_that_say_nothing_keep_nobody_out_for_long(copy: Installation) -> None:
    """Ours: silent connections are bounded in number and time."""
    silent = []
    for _ in range(20):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(copy.paths.control_socket)
        silent.append(connection)
    try:
        wait_for(lambda: _is_ok(copy), "the socket answers again", 15)
    finally:
        for connection in silent:
            connection.close()


def _is_ok(copy: Installation) -> bool:
    try:
        return call(copy.paths, {"op": "ping"}, 5).get("ok") is True
    except ControlError:
        return False


def test_without_a_proxy_a_call_says_so_and_creates_nothing(tmp_path: Path) -> None:
    """Ours: asking creates nothing."""
    paths = Paths({"HOME": str(tmp_path), "OPENMEM_STATE_DIR": str(tmp_path / "none")})
    with pytest.raises(ControlError):
        call(paths, {"op": "ping"}, 1)
    assert not (tmp_path / "none").exists()


def test_an_answer_that_never_comes_ends_at_the_deadline(tmp_path: Path) -> None:
    """Users' report 15: something that accepts and never answers costs the budget, no more."""
    paths = Paths({"HOME": str(tmp_path), "OPENMEM_STATE_DIR": str(tmp_path / "s")})
    os.makedirs(paths.run_dir, mode=0o700)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(paths.control_socket)
        mute.listen()
        with pytest.raises(ControlError):
            call(paths, {"op": "ping"}, 0.2)


def test_a_folder_that_others_may_enter_is_not_trusted(tmp_path: Path) -> None:
    """Ours: in the fallback below /tmp somebody else may have made the folder first."""
    folder = tmp_path / "s/run"
    folder.mkdir(parents=True, mode=0o700)
    paths = Paths({"HOME": str(tmp_path), "OPENMEM_STATE_DIR": str(tmp_path / "s")})
    assert is_private_folder(str(folder))
    os.chmod(folder, 0o755)
    assert not is_private_folder(str(folder))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(paths.control_socket)
        listener.listen()
        with pytest.raises(ControlError):
            call(paths, {"op": "ping"}, 1)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert not is_private_folder(str(link))


def test_a_deep_home_folder_uses_the_short_place_if_it_is_private(tmp_path: Path) -> None:
    """`Paths.control_socket`: a Unix socket's name holds about a hundred bytes."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    # Not below tmp_path, which is long enough by itself when tests run side by side.
    with tempfile.TemporaryDirectory(prefix="om-") as short, installation(deep) as copy:
        copy.environ["XDG_RUNTIME_DIR"] = short
        copy.paths = Paths(copy.environ)
        folder = os.path.dirname(copy.paths.control_socket)
        assert folder.startswith(short)
        copy.launch("--detach")
        copy.worker()
        assert call(copy.paths, {"op": "ping"}, 30)["ok"] is True
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(copy.paths.control_socket).st_mode) == 0o600
        copy.launch("--stop")
        wait_for(lambda: not copy.processes(), "it ended")
        assert not os.listdir(short), "its folder goes with the proxy"


def test_the_short_place_is_taken_away_after_a_death_too(tmp_path: Path) -> None:
    """Ours: over a thousand empty folders lay in /tmp after a day of starts and stops."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    with installation(deep) as copy:
        folder = os.path.dirname(copy.paths.control_socket)
        assert folder.startswith("/tmp/openmem-")
        copy.launch("--detach")
        copy.worker()
        assert call(copy.paths, {"op": "ping"}, 30)["ok"] is True
        copy.kill_all()
        assert os.listdir(folder) == ["control.sock"]
        copy.launch("--stop")
        assert not os.path.exists(folder)


def test_a_short_place_that_holds_something_else_stays(tmp_path: Path) -> None:
    """Ours: only what is empty is taken away."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    short = tmp_path / "rt"
    for path in (deep, short):
        path.mkdir(parents=True)
    paths = Paths({"HOME": str(deep), "XDG_RUNTIME_DIR": str(short)})
    folder = Path(paths.control_socket).parent
    folder.mkdir(mode=0o700)
    for name in ("control.sock", "theirs"):
        (folder / name).write_text("")
    remove_socket(paths)
    assert [path.name for path in folder.iterdir()] == ["theirs"]


def test_in_a_place_open_to_others_the_worker_serves_without_control(tmp_path: Path) -> None:
    """Ours: no socket rather than one in a folder that somebody else owns."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    short = tmp_path / "rt"
    short.mkdir(mode=0o700)
    with installation(deep) as copy:
        copy.environ["XDG_RUNTIME_DIR"] = str(short)
        copy.paths = Paths(copy.environ)
        folder = os.path.dirname(copy.paths.control_socket)
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        copy.launch("--detach")
        assert copy.who()["recording"] is True
        assert not os.listdir(folder)
        assert "no control socket" in copy.log


def test_the_client_imports_little() -> None:
    """Facts on performance, section 7: what is imported is what a start costs."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import openmem.host.control; "
        "print(*sorted(m for m in sys.modules if m.partition('.')[0] in "
        "('asyncio', 'uvicorn', 'aiohttp', 'subprocess', 'logging', 'hashlib', 'dataclasses')))"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, root], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
