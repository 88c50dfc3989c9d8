"""A worker killed in the middle of many requests loses nothing that was delivered whole."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import threading
import time
from dataclasses import dataclass, field

import pytest

from openmem.bench.traffic import Conversation
from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import Scene

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300), needs_openmem]


@dataclass(slots=True)
class _Asked:
    """One request of the flood. `whole`: its answer came to its last byte."""

    sid: str
    mark: str
    whole: bool = False
    done: threading.Event = field(default_factory=threading.Event)


def _ask(port: int, asked: _Asked, body: bytes, go: threading.Event) -> None:
    head = (
        "POST /a/claude-code/v1/messages HTTP/1.1\r\n"
        f"host: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"x-claude-code-session-id: {asked.sid}\r\nx-api-key: made-up\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    ).encode()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            go.wait(60)
            connection.sendall(head + body)
            answer = b""
            while data := connection.recv(1 << 16):
                answer += data
        asked.whole = answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"0\r\n\r\n")
    except OSError:
        pass  # cut by the kill: then it was not delivered whole
    finally:
        asked.done.set()


def test_what_was_delivered_whole_is_stored_though_the_worker_was_killed(scene: Scene) -> None:
    """Issue 2, "Show it": kill -9 of the worker during 500 concurrent requests."""
    scene.set_up()
    asked = [_Asked(sid=f"flood-{n % 25:03d}", mark=f"marked{n:05d}") for n in range(500)]
    bodies = []
    for one in asked:
        conversation = Conversation(one.sid, size_bytes=3_000, folder=str(scene.project))
        bodies.append(conversation.body().replace(b"Begin.", f"Begin {one.mark}.".encode()))
    go = threading.Event()
    threads = [
        threading.Thread(target=_ask, args=(scene.port, one, body, go), daemon=True)
        for one, body in zip(asked, bodies, strict=True)
    ]
    for thread in threads:
        thread.start()
    worker = scene.proxy()["worker_pid"]
    go.set()
    deadline = time.monotonic() + 60
    while sum(one.whole for one in asked) < 100 and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(worker, signal.SIGKILL)
    for one in asked:
        assert one.done.wait(90)
    for thread in threads:
        thread.join(10)
    delivered = [one for one in asked if one.whole]
    assert len(delivered) >= 100
    # The recorder outlives the worker and stores what it was handed; the order of both is open.
    deadline = time.monotonic() + 60
    while (lost := _not_stored(scene, delivered)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert lost == []
    assert scene.proxy()["worker_pid"] != worker


def _not_stored(scene: Scene, delivered: list[_Asked]) -> list[str]:
    """Return the marks of delivered requests that no row holds."""
    lost = []
    for sid in {one.sid for one in delivered}:
        texts: list[str] = []
        if scene.store(sid).exists():
            with contextlib.closing(sqlite3.connect(scene.store(sid))) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                rows = connection.execute("SELECT text FROM messages WHERE role = 'user'")
                texts = [text for (text,) in rows]
        mine = [one.mark for one in delivered if one.sid == sid]
        lost += [mark for mark in mine if not any(mark in text for text in texts)]
    return lost
