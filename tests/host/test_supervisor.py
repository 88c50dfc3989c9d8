"""The supervisor with real processes: the address outlives whoever serves it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.installation import Installation, installation, is_alive, wait_for


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Installation]:
    with installation(tmp_path / "one") as made:
        yield made


def test_a_connection_made_before_a_worker_is_up_is_served(copy: Installation) -> None:
    """Ours: the socket is bound first, so that the queue holds who comes early."""
    assert copy.launch("--detach") == 0
    with socket.create_connection(("127.0.0.1", copy.port), 2) as early:
        has_worker = copy._record_field("worker_pid")
        early.sendall(b"GET /who HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        early.settimeout(20)
        data = b""
        while part := early.recv(65536):
            data += part
    assert not has_worker, "the worker was up before the connection; the claim was not tested"
    assert data.startswith(b"HTTP/1.1 200")


def test_the_record_says_where_and_who_and_is_private(copy: Installation) -> None:
    """Issue 2, part 5; files of the state folder are 600, folders 700 (design section 6)."""
    copy.launch("--detach")
    who = copy.who()
    copy.worker()
    record = json.loads(Path(copy.paths.proxy_record).read_text())
    assert record["address"] == f"http://127.0.0.1:{copy.port}"
    assert record["port"] == copy.port
    assert record["worker_pid"] == who["pid"]
    assert is_alive(record["supervisor_pid"]) and record["supervisor_pid"] != who["pid"]
    assert record["version"] == who["version"]
    assert record["upstream"] == {"claude-code": "http://127.0.0.1:1"}
    for path in (
        copy.paths.proxy_record,
        copy.paths.control_socket,
        f"{copy.paths.logs_dir}/proxy.log",
    ):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, path
    assert stat.S_IMODE(os.stat(copy.paths.run_dir).st_mode) == 0o700


def test_the_worker_inherits_no_key_of_an_agent(copy: Installation) -> None:
    """Facts on agents, 1.1: a hook's environment holds API keys and a messaging token."""
    secret = {
        "ANTHROPIC_API_KEY": "sk-ant-x",
        "CLAUDE_CODE_MESSAGING_TOKEN": "t",
        "PYTHONPATH": "/x",
    }
    copy.launch("--detach", environ={**secret, "HTTPS_PROXY": "http://proxy:1"})
    given = copy.who()["environ"]
    assert not set(secret) & set(given)
    assert given["HTTPS_PROXY"] == "http://proxy:1"
    assert given["OPENMEM_STATE_DIR"] == copy.paths.state_dir


def test_a_killed_worker_is_replaced_and_nobody_is_refused(copy: Installation) -> None:
    """Design section 7: a dead proxy must not strand the agent."""
    copy.launch("--detach")
    before = copy.worker()
    os.kill(before, signal.SIGKILL)
    after = copy.who()["pid"]
    assert after != before
    wait_for(lambda: copy.record.worker_pid == after, "the record names the new worker")
    assert copy.record.restarts == 1


def test_a_crowd_that_comes_while_no_worker_is_up_is_served(copy: Installation) -> None:
    """Issue 2, part 5: the socket is held, so nobody is refused while a worker starts."""
    copy.launch("--detach")
    worker = copy.worker()
    os.kill(worker, signal.SIGSTOP)  # stands still, so that it accepts none of them
    early = [socket.create_connection(("127.0.0.1", copy.port), 2) for _ in range(200)]
    os.kill(worker, signal.SIGKILL)
    answers = []
    for connection in early:
        with connection:
            connection.settimeout(30)
            connection.sendall(b"GET /who HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answers.append(connection.recv(15))
    assert set(answers) == {b"HTTP/1.1 200 OK"[:15]}


def test_a_worker_that_dies_in_an_answer_costs_that_answer_only(copy: Installation) -> None:
    """Ours: a fault in one request takes others with it only as long as a restart lasts."""
    copy.launch("--detach")
    copy.worker()
    with pytest.raises((OSError, http.client.HTTPException)):
        copy.get("/die")
    assert copy.who()["recording"] is True


def test_a_killed_supervisor_is_replaced_while_a_stream_goes_on(copy: Installation) -> None:
    """Trial (b): the worker holds the address and starts a supervisor, which takes it over."""
    copy.launch("--detach")
    worker, supervisor = copy.worker(), copy.record.supervisor_pid
    with copy.stream(n=40, ms=50) as response:
        assert response.readline() == b"0\n"
        os.kill(supervisor, signal.SIGKILL)
        wait_for(
            lambda: copy.record.supervisor_pid not in (0, supervisor), "a new supervisor is there"
        )
        assert copy.who()["pid"] == worker
        lines = response.read().splitlines()
    assert lines[-1] == f"end {worker}".encode() and len(lines) == 40
    os.kill(worker, signal.SIGKILL)  # the new supervisor watches a worker that is not its child
    assert copy.who()["pid"] != worker


def test_both_killed_a_detach_brings_it_back(copy: Installation) -> None:
    """Issue 2, "Show it": with worker and supervisor killed by SIGKILL the next prompt works."""
    copy.launch("--detach")
    worker = copy.worker()
    copy.kill_all()
    with pytest.raises(ConnectionRefusedError):
        copy.get("/who")
    assert copy.launch("--detach") == 0
    assert copy.who()["pid"] != worker


def test_there_is_one_supervisor_however_many_start(copy: Installation) -> None:
    """Users' report 19: no process that nobody owns; hooks of several sessions start at once."""
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(copy.launch("--detach"))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 6
    copy.worker()
    assert len(copy.processes()) == 2, copy.processes()


def test_a_sigterm_ends_both_after_the_stream_and_a_detach_may_bring_them_back(
    copy: Installation,
) -> None:
    """Ours: a shutdown of the machine is no wish of a person; after it hooks may revive."""
    copy.launch("--detach")
    copy.worker()
    with copy.stream(n=10, ms=50) as response:
        assert response.readline() == b"0\n"
        os.kill(copy.record.supervisor_pid, signal.SIGTERM)
        assert response.read().splitlines()[-1].startswith(b"end")
    wait_for(lambda: not copy.processes(), "both have ended")
    assert copy.launch("--detach") == 0
    assert copy.who()


def test_workers_that_keep_dying_are_replaced_by_a_plain_one(copy: Installation) -> None:
    """Design section 7: any fault of ours passes the original request through."""
    copy.launch("--detach")
    copy.worker()
    Path(copy.paths.state_dir, "fault").touch()  # from now on a recording worker dies at once
    os.kill(copy.worker(), signal.SIGKILL)
    assert copy.who()["recording"] is False
    wait_for(lambda: copy.record.mode == "plain", "the record says so")
    assert copy.record.restarts >= 4
    assert "passing through without recording" in copy.log


def test_a_hanging_worker_is_ended(copy: Installation, tmp_path: Path) -> None:
    """Ours: an event loop that stands still would hold every agent for ever."""
    supervisor = copy.root / "openmem/host/supervisor.py"
    text = supervisor.read_text()
    text = text.replace("PING_SECONDS = 15.0", "PING_SECONDS = 0.3")
    supervisor.write_text(text.replace("SILENCE_SECONDS = 60.0", "SILENCE_SECONDS = 2.0"))
    copy.launch("--detach")
    worker = copy.worker()
    with socket.create_connection(("127.0.0.1", copy.port), 2) as stuck:
        stuck.sendall(b"GET /hang HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        wait_for(lambda: f"worker {worker} hangs" in copy.log, "the hanging worker is noticed")
        assert copy.who()["pid"] != worker


def test_with_its_folder_removed_the_proxy_ends(copy: Installation, tmp_path: Path) -> None:
    """Ours: `rm -rf` of the state must not leave a process that nobody can reach."""
    copy.launch("--detach")
    copy.worker()
    os.rename(copy.paths.state_dir, tmp_path / "moved")
    wait_for(lambda: not copy.processes(), "both have ended", 20)
    assert not os.path.exists(copy.paths.state_dir), "a folder came back"


def test_the_log_holds_no_text_of_a_fault(copy: Installation) -> None:
    """Issue 2, part 5: logs hold no content; the text of an exception can quote a request."""
    copy.launch("--detach")
    copy.worker()
    copy.get("/fail")
    wait_for(lambda: "ValueError" in copy.log, "the fault is in the log")
    assert "a secret of the request" not in copy.log


def test_a_stop_is_final_for_a_detach_but_not_for_a_start(copy: Installation) -> None:
    """Design section 7: removal by the user is final."""
    copy.launch("--detach")
    copy.worker()
    assert copy.launch("--stop") == 0
    assert not copy.processes() and not os.path.exists(copy.paths.proxy_record)
    assert copy.launch("--detach") == 3
    assert not copy.processes()
    assert copy.launch("--start") == 0
    assert copy.who()["recording"] is True


def test_a_stop_without_a_proxy_creates_nothing(copy: Installation) -> None:
    """Ours: looking is not touching."""
    assert copy.launch("--stop") == 0
    assert copy.launch("--probe") == 1
    assert not os.path.exists(copy.paths.state_dir)


def test_a_port_of_somebody_else_is_told_by_the_status(copy: Installation) -> None:
    """Design section 5: exit 6, something needed is missing (port)."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", copy.port))
        other.listen()
        assert copy.launch("--detach") == 6
    assert not copy.processes()


@pytest.mark.heavy
def test_fifty_starts_and_kills_leave_nothing(copy: Installation) -> None:
    """Users' report 19: 50 starts and SIGKILLs, the process count is back at the baseline."""
    assert not copy.processes()

    for _ in range(50):
        assert copy.launch("--detach") == 0
        wait_for(
            lambda: copy._record_field("supervisor_pid") in copy.processes(), "a new supervisor"
        )
        copy.kill_all()
        assert not copy.processes()
    assert copy.launch("--detach") == 0
    assert copy.who()
    assert len(copy.processes()) == 2, copy.processes()
