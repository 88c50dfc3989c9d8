"""An upgrade in place replaces the running older proxy when it is idle, and refuses nobody."""

from __future__ import annotations

import http.client
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.host.control import call
from tests.fakes.installation import Installation, installation, wait_for


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Installation]:
    with installation(tmp_path / "one") as made:
        yield made


class Clients:
    """Threads that ask without pause, each on a connection that it keeps; they count failures."""

    def __init__(self, copy: Installation, count: int) -> None:
        self.copy = copy
        self.stopping = threading.Event()
        self.failures: list[str] = []
        self.served: list[int] = []
        self.threads = [threading.Thread(target=self._ask) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.copy.port, timeout=30)
        while not self.stopping.is_set():
            try:
                connection.request("GET", "/stream?n=2&ms=5")
                text = connection.getresponse().read().decode()
                self.served.append(int(text.rsplit(" ", 1)[1]))
            except (OSError, http.client.HTTPException, IndexError) as error:
                self.failures.append(repr(error))
                connection.close()
        connection.close()

    def end(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def test_a_replaced_worker_loses_no_request(copy: Installation) -> None:
    """Issue 2, part 5: idle upgrade; ours: nor any other replacement."""
    copy.launch("--detach")
    before = copy.worker()
    clients = Clients(copy, 4)
    try:
        for _ in range(3):
            current = copy.worker()
            assert call(copy.paths, {"op": "reload"}, 5)["ok"] is True
            wait_for(lambda was=current: copy.record.worker_pid not in (0, was), "a new worker")
        after = copy.worker()
        wait_for(lambda: after in clients.served[-4:], "the newest worker serves")
    finally:
        clients.end()
    assert not clients.failures, clients.failures[:5]
    assert before in clients.served and len(set(clients.served)) == 4
    wait_for(lambda: len(copy.processes()) == 2, "the replaced ones have ended")
    assert copy.record.restarts == 0


def test_who_connected_before_a_replacement_and_asks_after_it_is_served(
    copy: Installation,
) -> None:
    """Seen under load: accepted by the old worker, not heard yet, and reset when it ended."""
    copy.launch("--detach")
    before = copy.worker()
    with socket.create_connection(("127.0.0.1", copy.port), 2) as early:
        wait_for(lambda: _connections(copy) == 1, "the old worker has accepted it")
        call(copy.paths, {"op": "reload"}, 5)
        wait_for(lambda: copy.record.worker_pid not in (0, before), "a new worker")
        early.sendall(b"GET /who HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        early.settimeout(20)
        answer = b""
        while part := early.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200") and str(before).encode() in answer
    assert b"connection: close" in answer.lower()


def _connections(copy: Installation) -> object:
    return call(copy.paths, {"op": "status"}, 5)["connections"]


def test_an_upgrade_waits_for_idle_and_then_runs_the_new_version(copy: Installation) -> None:
    """Design section 7: an upgrade replaces a running older proxy when it is idle."""
    copy.launch("--detach")
    worker, supervisor = copy.worker(), copy.record.supervisor_pid
    with copy.stream(n=60, ms=50) as response:
        assert response.readline() == b"0\n"
        copy.set_version("0.2.0")
        assert call(copy.paths, {"op": "status"}, 5)["stale"] is True
        assert call(copy.paths, {"op": "retire"}, 5) == {"ok": True, "active_requests": 1}
        assert response.read().splitlines()[-1] == f"end {worker}".encode()
    wait_for(lambda: copy.record.version == "0.2.0", "the record names the new version")
    wait_for(lambda: copy.who()["version"] == "0.2.0", "the new version serves")
    assert copy.record.supervisor_pid == supervisor, "the process is the same, its code is new"
    wait_for(lambda: len(copy.processes()) == 2, "the old worker has ended")
    assert call(copy.paths, {"op": "status"}, 5)["stale"] is False


def test_no_connection_is_refused_during_an_upgrade(copy: Installation) -> None:
    """Ours: the socket is never closed, only handed on."""
    copy.launch("--detach")
    copy.worker()
    copy.set_version("0.2.0")
    call(copy.paths, {"op": "retire"}, 5)
    refused: list[str] = []

    def is_new() -> bool:
        try:
            version: str = copy.who()["version"]
        except OSError as error:
            refused.append(repr(error))
            return False
        threading.Event().wait(0.4)  # the upgrade waits until nobody has asked for a while
        return version == "0.2.0"

    # asking holds an upgrade up; the pauses grow past the time that counts as idle
    wait_for(lambda: copy.record.version == "0.2.0" or threading.Event().wait(0.1), "upgraded")
    wait_for(is_new, "the new version serves")
    assert not refused


def test_a_caller_of_another_version_makes_the_proxy_look(copy: Installation) -> None:
    """Ours: the first command after an upgrade starts it; nobody has to know of `retire`."""
    copy.launch("--detach")
    copy.worker()
    copy.set_version("0.2.0")
    call(copy.paths, {"op": "ping", "version": "0.2.0"}, 5)
    wait_for(lambda: copy.record.version == "0.2.0", "upgraded")


def test_a_caller_of_another_installation_changes_nothing(copy: Installation) -> None:
    """Ours: two installations over one state folder must not make each other restart."""
    copy.launch("--detach")
    worker = copy.worker()
    call(copy.paths, {"op": "ping", "version": "9.9.9"}, 5)
    assert call(copy.paths, {"op": "status"}, 5)["stale"] is False
    assert not call(copy.paths, {"op": "status"}, 5)["active_requests"]
    assert copy.who()["pid"] == worker and copy.record.version == "0.1.0"


def test_an_upgrade_that_is_half_way_is_waited_for(copy: Installation) -> None:
    """Ours: an installer removes files before it writes the new ones."""
    copy.launch("--detach")
    worker = copy.worker()
    shutil.move(copy.root / "openmem", copy.root / "away")
    assert call(copy.paths, {"op": "retire"}, 5)["ok"] is True
    assert call(copy.paths, {"op": "status"}, 5)["stale"] is False
    assert copy.who()["pid"] == worker
    shutil.move(copy.root / "away", copy.root / "openmem")
    copy.set_version("0.2.0")
    call(copy.paths, {"op": "retire"}, 5)
    wait_for(lambda: copy.record.version == "0.2.0", "upgraded")
    assert copy.who()


@pytest.mark.heavy
def test_a_broken_new_version_leaves_the_old_one_serving(copy: Installation) -> None:
    """Ours: supervisor and worker hold each other; a bad upgrade costs nobody a request."""
    copy.launch("--detach")
    worker = copy.worker()
    broken = copy.root / "openmem/host/worker.py"
    text = broken.read_text()
    broken.write_text("raise RuntimeError\n")
    copy.set_version("0.2.0")
    call(copy.paths, {"op": "retire"}, 5)
    wait_for(lambda: copy.record.restarts >= 1, "the new worker fails")
    assert copy.who()["pid"] == worker
    broken.write_text(text)
    wait_for(lambda: copy.who()["version"] == "0.2.0", "mended, the new one serves", 40)


def test_a_new_version_whose_supervisor_fails_leaves_the_worker_serving(
    copy: Installation,
) -> None:
    """Ours: the worker holds the address until a supervisor can be started again."""
    copy.launch("--detach")
    worker = copy.worker()
    broken = copy.root / "openmem/host/supervisor.py"
    text = broken.read_text()
    broken.write_text("raise RuntimeError\n")
    copy.set_version("0.2.0")
    call(copy.paths, {"op": "retire"}, 5)
    wait_for(lambda: "a new supervisor did not start" in copy.log, "the new supervisor fails")
    assert copy.who()["pid"] == worker
    broken.write_text(text)
    wait_for(lambda: copy.record.version == "0.2.0", "mended, a supervisor is back", 40)
    wait_for(lambda: copy.who()["version"] == "0.2.0", "the new one serves", 40)
