"""The recorder may die, hang, fall behind or never start: requests go on, and it is told."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from openmem.context.proxy.recording import link as link_module
from tests.fakes.proxied import (
    TARGET,
    assistant,
    body_of,
    environment,
    events,
    events_for,
    send,
    streams,
    texts,
    user,
    write_policy,
)
from tests.fakes.running_proxy import Connection, request_bytes, wait_until
from tests.fakes.wire import Gone, Reply, Request

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, paths):
    found = tmp_path / "project"
    found.mkdir()
    write_policy(paths, allowed=str(found))
    return str(found)


@pytest.fixture
def begin(start, upstream, folder):
    upstream.handler = streams("answer")

    def run(**changes):
        proxy = start(is_recording=True, **changes)
        wait_until(lambda: proxy.status()["recorder_running"])
        return proxy

    return run


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().split(") ")[1][0] == "Z"
    except FileNotFoundError:
        return True


def test_a_killed_recorder_is_replaced_and_nothing_is_lost(begin, paths, folder):
    """Design, section 7: the agent goes on; the next request carries the history again."""
    proxy = begin()
    first = user(environment(folder), "one")
    send(proxy.port, body_of(first))
    pid = proxy.status()["recorder_pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: proxy.status()["recorder_pid"] not in (0, pid))
    history = (first, assistant("answer"), user("two"))
    wait_until(lambda: send(proxy.port, body_of(*history)).is_whole and "two" in texts(paths))
    assert texts(paths, role="user") == ["one", "two"]
    assert proxy.status()["recorder_restarts"] >= 1
    assert proxy.status()["problems"] == []


def test_a_recorder_that_dies_during_a_stream_does_not_hold_its_end(begin, upstream, paths, folder):
    """The same, with an exchange under way; the fault is counted."""
    go_on = threading.Event()

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream")])
        first, *rest = events_for("x")
        reply.chunk(first)
        go_on.wait(20)
        for event in rest:
            reply.chunk(event)
        reply.end()

    upstream.handler = handle
    proxy = begin(commit_wait_seconds=60.0)
    body = body_of(user(environment(folder), "q"))
    headers = [("x-claude-code-session-id", "s1")]
    with Connection(proxy.port) as client:
        client.send(request_bytes("POST", TARGET, port=proxy.port, headers=headers, body=body))
        client.head()
        client.chunk()
        wait_until(lambda: texts(paths) != [])
        os.kill(proxy.status()["recorder_pid"], signal.SIGKILL)
        wait_until(lambda: proxy.status()["pending"] == 0)
        go_on.set()
        while client.chunk():
            pass
    assert proxy.status()["fail_opens"] == {"recorder-lost": 1}
    assert proxy.status()["fail_opens_today"] == 1


def test_a_locked_store_holds_the_last_byte_only_so_long(begin, upstream, paths, folder):
    """Issue 2, part 5: only the last byte waits, at most 2 s; then it goes, with an event."""
    proxy = begin(commit_wait_seconds=0.3)
    first = user(environment(folder), "one")
    send(proxy.port, body_of(first))
    wait_until(lambda: proxy.status()["pending"] == 0)
    before = proxy.status()["fail_opens"].get("commit-late", 0)
    holder = sqlite3.connect(f"{paths.sessions_dir}/s1.v4.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    headers = [("x-claude-code-session-id", "s1")]
    body = body_of(first, assistant("answer"), user("two"))
    with Connection(proxy.port) as client:
        client.send(request_bytes("POST", TARGET, port=proxy.port, headers=headers, body=body))
        client.head()
        got = b""
        while chunk := client.chunk():
            got += chunk
            assert "two" not in texts(paths)
        assert got == b"".join(events_for("answer"))
    assert proxy.status()["fail_opens"]["commit-late"] == before + 1
    holder.execute("ROLLBACK")
    holder.close()
    wait_until(lambda: len(events(paths, kind="fail_open")) == before + 1)
    assert "two" in texts(paths)
    assert {one["error"] for one in events(paths, kind="fail_open")} == {"CommitTookTooLong"}


def test_no_piece_of_a_stream_waits_for_the_store(begin, upstream, paths, folder):
    """The same: every piece but the last byte passes while the store is locked."""
    seen = threading.Semaphore(0)

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream")])
        for event in events_for("x")[:-1]:
            reply.chunk(event)
            if not seen.acquire(timeout=10):
                return
        reply.end()

    proxy = begin(commit_wait_seconds=0.1)
    send(proxy.port, body_of(user(environment(folder), "one")))
    wait_until(lambda: proxy.status()["pending"] == 0)
    upstream.handler = handle
    holder = sqlite3.connect(f"{paths.sessions_dir}/s1.v4.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    headers = [("x-claude-code-session-id", "s1")]
    body = body_of(user(environment(folder), "two"))
    with Connection(proxy.port) as client:
        client.send(request_bytes("POST", TARGET, port=proxy.port, headers=headers, body=body))
        client.head()
        for event in events_for("x")[:-1]:
            assert client.chunk() == event
            seen.release()
        assert client.chunk() == b""
    holder.close()


def test_copies_that_wait_are_bounded(begin, paths, folder):
    """The brief of this part: no unbounded queue; beyond it a request goes unrecorded, noted."""
    proxy = begin(queue_limit_bytes=400_000, commit_wait_seconds=0.05)
    send(proxy.port, body_of(user(environment(folder), "one")))
    wait_until(lambda: proxy.status()["pending"] == 0)
    pid = proxy.status()["recorder_pid"]
    os.kill(pid, signal.SIGSTOP)
    big = body_of(user(environment(folder), "two " + "x" * 150_000))
    for number in range(6):
        answer = send(proxy.port, big)
        assert answer.is_whole, number
    assert proxy.status()["fail_opens"]["recorder-behind"] == 4
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: proxy.status()["pending"] == 0)
    assert proxy.status()["recorder_pid"] == pid
    wait_until(
        lambda: [e["error"] for e in events(paths, kind="fail_open")].count("recorder-behind") == 4
    )


def test_a_recorder_that_hangs_is_ended_and_replaced(begin, paths, folder, monkeypatch):
    """Ours: a recorder that says nothing for long is as good as dead."""
    monkeypatch.setattr(link_module, "_STUCK_SECONDS", 0.2)
    proxy = begin(commit_wait_seconds=0.05)
    pid = proxy.status()["recorder_pid"]
    os.kill(pid, signal.SIGSTOP)
    body = body_of(user(environment(folder), "one"))
    wait_until(lambda: send(proxy.port, body).is_whole and is_gone(pid))
    monkeypatch.setattr(link_module, "_STUCK_SECONDS", 30.0)
    wait_until(lambda: send(proxy.port, body).is_whole and "one" in texts(paths))
    assert proxy.status()["recorder_restarts"] >= 1


def test_a_recorder_that_cannot_start_stops_no_request(start, upstream, folder, monkeypatch):
    """Ours: the machine may be out of processes or memory."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    upstream.handler = streams()
    proxy = start(is_recording=True)
    assert send(proxy.port, body_of(user(environment(folder), "one"))).is_whole
    assert proxy.status()["recorder_running"] is False
    assert proxy.status()["fail_opens"] == {"recorder-lost": 1}
    monkeypatch.undo()
    wait_until(lambda: proxy.status()["recorder_running"])


def test_a_recorder_that_ends_before_it_works_is_told(start, upstream, folder, monkeypatch):
    """Issue 2, Policy and doctor: a state in which nothing is kept never looks like one that is."""
    monkeypatch.setattr(link_module, "_RESTART_SECONDS", (0.0, 0.05))
    program = link_module._program
    monkeypatch.setattr(link_module, "_program", lambda _: "raise SystemExit(1)")
    upstream.handler = streams()
    proxy = start(is_recording=True)
    wait_until(lambda: any("the recorder did not start" in x for x in proxy.status()["problems"]))
    assert send(proxy.port, body_of(user(environment(folder), "one"))).is_whole
    monkeypatch.setattr(link_module, "_program", program)
    wait_until(lambda: proxy.status()["problems"] == [])


def test_why_a_recorder_died_is_in_the_log_of_a_proxy_without_a_terminal(
    start, upstream, paths, folder, monkeypatch
):
    """Issue 2, doctor: what it names, the log, holds the reason; content never."""
    os.makedirs(paths.logs_dir, exist_ok=True)
    log = Path(paths.logs_dir) / "proxy.log"
    monkeypatch.setattr(link_module, "_is_unread", lambda descriptor: True)
    monkeypatch.setattr(link_module, "_program", lambda _: "import a_module_that_is_missing")
    proxy = start(is_recording=True)
    wait_until(lambda: log.exists() and "a_module_that_is_missing" in log.read_text())
    monkeypatch.setattr(
        link_module,
        "_program",
        lambda _: (
            "import sys; from openmem.context.proxy.recording import process\n"
            "def broken(told): raise ValueError('words of a session')\n"
            "process.Paths = broken; process.main(int(sys.argv[1]))"
        ),
    )
    wait_until(lambda: "fault: ValueError" in log.read_text())
    assert "words of a session" not in log.read_text()
    assert proxy.status()["recorder_restarts"] >= 1


def test_the_recorder_ends_with_its_proxy_and_finishes_first(start, upstream, paths, folder):
    """Ours: a stop loses nothing that was handed over, and leaves no process."""
    upstream.handler = streams("answer")
    proxy = start(is_recording=True, commit_wait_seconds=0.01)
    wait_until(lambda: proxy.status()["recorder_running"])
    pid = proxy.status()["recorder_pid"]
    send(proxy.port, body_of(user(environment(folder), "x\n" * 200_000, "the end")))
    proxy.__exit__()
    assert is_gone(pid)
    assert "the end" in texts(paths)


def test_signals_for_the_group_do_not_end_the_recorder(begin, paths, folder):
    """Ours: Ctrl-C and a service manager's stop reach every process of a group."""
    proxy = begin()
    pid = proxy.status()["recorder_pid"]
    send(proxy.port, body_of(user(environment(folder), "one")))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    send(proxy.port, body_of(user(environment(folder), "one"), assistant("answer"), user("two")))
    assert "two" in texts(paths)
    assert proxy.status()["recorder_pid"] == pid


def test_a_proxy_killed_under_load_has_the_rows_of_all_it_delivered(upstream, paths, folder):
    """Issue 2: `kill -9` of the worker during 500 concurrent requests."""
    upstream.handler = streams("answer")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.proxy_process", upstream.url, "--record"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        port, recorder = map(int, process.stdout.readline().split())
        delivered: list[int] = []
        kill_at = 150

        def one(number: int) -> None:
            body = body_of(user(environment(folder), f"prompt number {number}. " + "y" * 3000))
            try:
                answer = send(port, body, sid=f"s{number % 25}")
            except (OSError, Gone):
                return
            if answer.is_whole:
                delivered.append(number)
                if len(delivered) == kill_at:
                    process.kill()

        workers = [threading.Thread(target=one, args=(number,)) for number in range(500)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(90)
        process.kill()
        process.wait(10)
    wait_until(lambda: is_gone(recorder), seconds=60)
    assert len(delivered) >= kill_at
    stored = {sid: " ".join(texts(paths, sid)) for sid in {f"s{n % 25}" for n in range(500)}}
    missing = [n for n in delivered if f"prompt number {n}. " not in stored[f"s{n % 25}"]]
    assert missing == []


def test_a_fault_inside_the_recorder_is_an_event_with_its_place(paths, folder, monkeypatch):
    """Design, section 7: records a `fail_open` event with place and kind, never content."""
    from openmem.base.installation import ensure_key
    from openmem.context.proxy.recording import exchanges
    from openmem.context.store.recorder import Recorder

    recordings = exchanges.Recordings(
        paths,
        lambda: Recorder(paths, ensure_key(paths)),
        body_limit_bytes=10_000,
        version="test",
    )
    about = exchanges.About(route="claude-code", headers={"x-claude-code-session-id": "s1"})
    admitted = recordings.admit(about, [body_of(user(environment(folder), "one"))])
    assert not isinstance(admitted, str)
    assert not isinstance(recordings.request(about, admitted), str)
    monkeypatch.setattr(exchanges, "shape_of", lambda view: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        admitted = recordings.admit(about, [body_of(user(environment(folder), "secret words"))])
        assert not isinstance(admitted, str)
        recordings.request(about, admitted)
    recordings.fault(about, caught.value)
    recordings.close()
    (event,) = events(paths, kind="fail_open")
    assert event["error"] == "ZeroDivisionError"
    assert event["location"].startswith("context/proxy/recording/exchanges.py:")


def test_waiting_is_measured_by_the_clock_that_does_not_jump(begin, folder, monkeypatch):
    """Ours: a machine that wakes up has a new time of day."""
    proxy = begin()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert send(proxy.port, body_of(user(environment(folder), "one"))).is_whole
