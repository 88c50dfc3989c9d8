"""start, stop, status, revive and the foreground run, against real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.config import load_config
from openmem.base.errors import Failed, Missing
from openmem.host import lifecycle
from tests.fakes.installation import (
    Installation,
    free_port,
    installation,
    is_alive,
    wait_for,
)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Installation]:
    with installation(tmp_path / "one") as made:
        yield made


def ask(copy: Installation, code: str) -> object:
    """Run code against the copy's own lifecycle; returns the value of `answer` as JSON."""
    tail = "\nimport json; from dataclasses import asdict\n"
    tail += "print(json.dumps(answer if not hasattr(answer, '__slots__') else asdict(answer)))"
    head = "from openmem.host import lifecycle\nfrom openmem.base.errors import OpenmemError\n"
    process = copy.python(head + code + tail)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return json.loads(output)


START = "answer = lifecycle.start(paths, environ, config)"
STATUS = "answer = lifecycle.status(paths, config)"
ERROR = (
    "try:\n lifecycle.start(paths, environ, config); answer = None\n"
    "except OpenmemError as e:\n answer = [e.code, e.exit_status, e.message, e.hint]"
)


def test_start_gives_a_proxy_that_serves_and_twice_is_once(copy: Installation) -> None:
    """Ours: every verb may be repeated."""
    first = ask(copy, START)
    assert first["running"] and first["mode"] == "recording" and first["manager"] == "detached"
    assert copy.who()["pid"] == first["worker_pid"]
    second = ask(copy, START)
    assert second["worker_pid"] == first["worker_pid"]
    assert second["supervisor_pid"] == first["supervisor_pid"]


def test_status_tells_a_proxy_that_is_down_and_creates_nothing(copy: Installation) -> None:
    """Issue 2: `proxy status --json` also answers when nothing runs."""
    found = ask(copy, STATUS)
    assert found["running"] is False and found["worker_pid"] == 0
    assert found["address"] == f"http://127.0.0.1:{copy.port}"
    assert not os.path.exists(copy.paths.state_dir)


def test_status_does_not_believe_a_record_of_the_dead(copy: Installation) -> None:
    """Ours: the record outlives its writer; what counts is who answers or holds the lock."""
    ask(copy, START)
    copy.kill_all()
    found = ask(copy, STATUS)
    assert found["running"] is False and found["supervisor_pid"] == 0
    assert found["address"] == f"http://127.0.0.1:{copy.port}"


def test_a_taken_port_is_named_with_the_next_free_one(copy: Installation) -> None:
    """Issue 2, "Bad input": port taken: the next free one."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", copy.port))
        other.listen()
        code, status, message, hint = ask(copy, ERROR)
    assert (code, status) == ("port-taken", 6)
    assert str(copy.port) in message and "another program" in message
    proposed = int(hint.rsplit(" ", 1)[1])
    assert proposed > copy.port
    assert not copy.processes()


def test_a_silent_program_at_the_port_is_somebody_else(copy: Installation) -> None:
    """Ours: a program that accepts and says nothing must not hold setup up."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", copy.port))
        mute.listen()
        assert ask(copy, ERROR)[0] == "port-taken"


def test_another_state_folder_s_proxy_is_recognised(copy: Installation, tmp_path: Path) -> None:
    """Brief: by our own proxy of another state folder: said."""
    with installation(tmp_path / "two") as other:
        other.port = copy.port
        other.environ["OPENMEM_PROXY_PORT"] = str(copy.port)
        assert other.launch("--start") == 0
        other.worker()
        _, status, message, _ = ask(copy, ERROR)
        assert status == 6 and "openmem proxy of another state folder" in message
        assert other.who(), "the other one goes on"


def test_stop_without_users_ends_at_once(copy: Installation) -> None:
    """Design section 7: draining lasts as long as sessions use it; without one there is none."""
    ask(copy, START)
    assert ask(copy, "answer = lifecycle.stop(paths)")["state"] == "ended"
    assert not copy.processes()
    found = ask(copy, STATUS)
    assert found["running"] is False and found["stopped"] is True
    assert ask(copy, "answer = lifecycle.stop(paths)")["state"] == "not-running"


def test_stop_waits_for_a_registered_agent_and_records_nothing_meanwhile(
    copy: Installation,
) -> None:
    """Design section 7: plain pass-through until the sessions that still use it have ended."""
    copy.environ["OPENMEM_DRAIN_LINGER_SECONDS"] = "0.2"
    started = ask(copy, START)
    agent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        register(copy, agent.pid)
        stopped = ask(copy, "answer = lifecycle.stop(paths)")
        assert stopped["state"] == "draining" and stopped["agents"] == [agent.pid]
        wait_for(lambda: copy.record.mode == "draining", "a draining worker serves")
        who = copy.who()
        assert who["recording"] is False and who["pid"] != started["worker_pid"]
        os.kill(who["pid"], signal.SIGKILL)  # a new worker drains, too
        assert copy.who()["recording"] is False
        assert ask(copy, STATUS)["mode"] in ("draining", "starting")
    finally:
        agent.kill()
        agent.wait()
    wait_for(lambda: not copy.processes(), "it ends with the agent", 20)
    assert not os.path.exists(copy.paths.proxy_record)
    assert copy.launch("--detach") == 3


def test_an_open_connection_holds_a_draining_proxy(copy: Installation) -> None:
    """Ours: an agent that never registered is known by its connection."""
    copy.environ["OPENMEM_DRAIN_LINGER_SECONDS"] = "0.2"
    ask(copy, START)
    with copy.stream(n=60, ms=50) as response:
        assert response.readline() == b"0\n"
        assert ask(copy, "answer = lifecycle.stop(paths)")["state"] == "draining"
        assert response.read().splitlines()[-1].startswith(b"end")
    wait_for(lambda: not copy.processes(), "it ends after the stream", 20)


def test_stop_now_does_not_wait(copy: Installation) -> None:
    """Design section 7: `--now` ends it at once."""
    ask(copy, START)
    register(copy, os.getpid())
    with copy.stream(n=1000, ms=50) as response:
        assert response.readline() == b"0\n"
        assert ask(copy, "answer = lifecycle.stop(paths, now=True)")["state"] == "ended"
        assert not copy.processes()


def test_start_takes_a_draining_proxy_back(copy: Installation) -> None:
    """Ours: who stops and thinks better of it loses nothing."""
    ask(copy, START)
    register(copy, os.getpid())
    assert ask(copy, "answer = lifecycle.stop(paths)")["state"] == "draining"
    wait_for(lambda: copy.record.mode == "draining", "a draining worker serves")
    again = ask(copy, START)
    assert again["mode"] == "recording" and again["stopped"] is False
    assert copy.who()["recording"] is True


def test_a_start_right_after_a_stop_ends_up_recording(copy: Installation) -> None:
    """Seen while testing: the draining worker was on its way when the mark was taken back."""
    ask(copy, START)
    register(copy, os.getpid())
    both = "lifecycle.stop(paths); answer = lifecycle.start(paths, environ, config)"
    assert ask(copy, both)["mode"] == "recording"
    wait_for(lambda: len(copy.processes()) == 2, "only one worker is left")
    assert copy.who()["recording"] is True


def test_a_reused_process_id_is_not_the_agent(copy: Installation) -> None:
    """Ours: process ids come round; a process younger than the registration is a stranger."""
    copy.environ["OPENMEM_DRAIN_LINGER_SECONDS"] = "0.2"
    ask(copy, START)
    path = register(copy, os.getpid())
    os.utime(path, (0, 0))
    assert ask(copy, "answer = lifecycle.stop(paths)")["state"] == "ended"


def register(copy: Installation, pid: int) -> str:
    """Write what a hook writes when a session starts."""
    folder = Path(copy.paths.sessions_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "s.json"
    value = {"session_id": "s", "agent": "claude-code", "cwd": "/", "agent_pid": pid}
    path.write_text(json.dumps(value))
    return str(path)


def test_revive_brings_back_what_died_and_nothing_else(copy: Installation) -> None:
    """Design section 7: the SessionStart hook checks and revives; a stop is final."""
    revive = "answer = lifecycle.revive(paths, environ, 5)"
    assert ask(copy, revive) is False  # none ran before
    ask(copy, START)
    assert ask(copy, revive) is True and len(copy.processes()) == 2
    copy.kill_all()
    assert ask(copy, revive) is True
    assert copy.who()
    ask(copy, "answer = lifecycle.stop(paths, now=True)")
    assert ask(copy, revive) is False and not copy.processes()


def test_revive_keeps_the_address_that_agents_have(copy: Installation) -> None:
    """Ours: a changed setting must not move the proxy away from agents that run."""
    ask(copy, START)
    before = copy.port
    copy.kill_all()
    copy.environ["OPENMEM_PROXY_PORT"] = "1"
    assert copy.launch("--detach") == 0
    assert copy.record.port == before
    assert copy.who()


def test_a_changed_port_is_told_and_the_running_proxy_stays(copy: Installation) -> None:
    """Ours: agents that run have the address of before."""
    before = ask(copy, START)
    copy.environ["OPENMEM_PROXY_PORT"] = str(free_port())
    found = ask(copy, START)
    assert found["address"] == before["address"] and found["worker_pid"] == before["worker_pid"]
    assert copy.environ["OPENMEM_PROXY_PORT"] in found["problems"][0]


def test_a_supervisor_that_takes_over_keeps_the_time_of_the_start(copy: Installation) -> None:
    """Ours: `up 3 d` is about the address, not about whoever watches it now."""
    started = ask(copy, START)
    record = copy.record
    path = Path(copy.paths.proxy_record)
    path.write_text(path.read_text().replace(record.started_at, "2026-01-01T00:00:00Z"))
    os.kill(record.supervisor_pid, signal.SIGKILL)
    wait_for(
        lambda: copy.record.supervisor_pid not in (0, record.supervisor_pid), "a new supervisor"
    )
    found = ask(copy, STATUS)
    assert found["started_at"] == "2026-01-01T00:00:00Z"
    assert found["worker_pid"] == started["worker_pid"]


def test_a_missing_log_folder_does_not_keep_it_down(copy: Installation, tmp_path: Path) -> None:
    """Ours: serving the agent matters more than a line in a log."""
    ask(copy, START)
    worker = copy.worker()
    os.rename(copy.paths.logs_dir, tmp_path / "logs")
    os.kill(worker, signal.SIGKILL)
    assert copy.who()["recording"] is True


def test_unusable_settings_do_not_keep_the_proxy_down(copy: Installation) -> None:
    """Design section 7: any fault of ours passes the original request."""
    ask(copy, START)
    copy.kill_all()
    os.makedirs(copy.paths.config_dir, exist_ok=True)
    Path(copy.paths.config_file).write_text("proxy = [broken")
    assert copy.launch("--detach") == 0
    assert copy.who()


def test_the_foreground_serves_until_a_signal_and_leaves_nothing(copy: Installation) -> None:
    """Issue 2, part 8: `openmem proxy run --port P --upstream URL` in the foreground."""
    process = foreground(copy)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == f"http://127.0.0.1:{copy.port}"
    who = copy.who()
    assert who["upstream"] == "http://127.0.0.1:9/x"
    assert copy.record.supervisor_pid == process.pid and copy.record.manager == "foreground"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert not copy.processes() and not os.path.exists(copy.paths.proxy_record)


def test_a_killed_foreground_takes_its_worker_along(copy: Installation) -> None:
    """Users' report 19: no child outlives its owner."""
    process = foreground(copy)
    assert process.stdout is not None and process.stdout.readline()
    worker = copy.who()["pid"]
    process.kill()
    process.wait()
    wait_for(lambda: not is_alive(worker), "the worker has ended", 10)
    assert not copy.processes()


def test_a_foreground_run_beside_a_running_proxy_is_refused(copy: Installation) -> None:
    """Ours: one supervisor per state folder."""
    ask(copy, START)
    code = (
        "try:\n lifecycle.run_foreground(paths, environ, config, port=0); answer = None\n"
        "except OpenmemError as e:\n answer = [e.code, e.message]"
    )
    code, message = ask(copy, code)
    assert code == "already-running" and f"http://127.0.0.1:{copy.port}" in message
    assert copy.who()


def foreground(copy: Installation) -> subprocess.Popen[str]:
    return copy.python(
        "from openmem.host import lifecycle\n"
        "def ready(address):\n print(address, flush=True)\n"
        f"sys.exit(lifecycle.run_foreground(paths, environ, config, port={copy.port},"
        " upstream='http://127.0.0.1:9/x', on_ready=ready))"
    )


def test_a_temporary_proxy_serves_beside_the_running_one(copy: Installation) -> None:
    """Issue 2, part 8: the smoke test goes through a second, temporary proxy."""
    before = ask(copy, START)
    code = (
        "import http.client\n"
        "with lifecycle.temporary_proxy(paths, environ, 'http://127.0.0.1:9/t') as address:\n"
        " c = http.client.HTTPConnection(address.removeprefix('http://'), timeout=20)\n"
        " c.request('GET', '/who'); answer = c.getresponse().read().decode()\n"
    )
    who = json.loads(str(ask(copy, code)))
    assert who["upstream"] == "http://127.0.0.1:9/t" and who["recording"] is True
    assert who["pid"] != before["worker_pid"]
    wait_for(lambda: len(copy.processes()) == 2, "the temporary one has ended")
    assert ask(copy, STATUS)["worker_pid"] == before["worker_pid"]


def test_a_temporary_proxy_dies_with_its_owner(copy: Installation) -> None:
    """Users' report 19: no child outlives its owner."""
    process = copy.python(
        "from openmem.host import lifecycle; import time\n"
        "with lifecycle.temporary_proxy(paths, environ, 'http://127.0.0.1:9/t') as address:\n"
        " print(address, flush=True); time.sleep(600)\n"
    )
    assert process.stdout is not None and process.stdout.readline()
    process.kill()
    process.wait()
    wait_for(lambda: not copy.processes(), "the worker has ended", 10)


def test_in_process_errors_are_ours(tmp_path: Path) -> None:
    """Ours: callers catch one tree of errors."""
    assert issubclass(Missing, Exception) and issubclass(Failed, Exception)
    environ = {"HOME": str(tmp_path), "OPENMEM_STATE_DIR": str(tmp_path / "s")}
    from openmem.base.paths import Paths

    paths = Paths(environ)
    found = lifecycle.status(paths, load_config(paths.config_file, environ))
    assert found.running is False and found.port == 8913
    assert set(found.to_json()) >= {
        "running",
        "address",
        "version",
        "stale",
        "supervisor_pid",
        "worker_pid",
        "upstream",
    }
