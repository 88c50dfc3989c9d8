"""Two proxies on one store, as when an old one drains while a new one serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.store.verify import verify
from tests.fakes.proxied import (
    assistant,
    body_of,
    environment,
    send,
    streams,
    texts,
    user,
    write_policy,
)
from tests.fakes.running_proxy import wait_until
from tests.fakes.wire import HttpServer

ROOT = Path(__file__).parents[2]
TURNS = 12


@pytest.fixture
def folder(paths: Paths, tmp_path: Path) -> str:
    found = tmp_path / "project"
    found.mkdir()
    write_policy(paths, allowed=str(found))
    return str(found)


@pytest.fixture
def proxies(folder: str) -> Iterator[list[tuple[int, int]]]:
    """Two proxies with their recorders: (port, the recorder's process id)."""
    with ExitStack() as stack:
        upstream = stack.enter_context(HttpServer(streams("answer")))
        found = []
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.fakes.proxy_process", upstream.url, "--record"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.communicate, timeout=60)
            assert process.stdout is not None
            port, pid = process.stdout.readline().split()
            found.append((int(port), int(pid)))
        yield found


def _history(folder: str, name: str, turns: int) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [user(environment(folder), f"{name} asks 0")]
    for turn in range(1, turns):
        messages += [assistant("answer"), user(f"{name} asks {turn}")]
    return messages


def test_one_session_through_both_in_turn_has_each_row_once(
    proxies: list[tuple[int, int]], paths: Paths, folder: str
) -> None:
    """Issue 3, part 6: two proxies; each sees the other's rows as known."""
    for turn in range(TURNS):
        port = proxies[turn % 2][0]
        assert send(port, body_of(*_history(folder, "a", turn + 1))).is_whole
    wait_until(lambda: f"a asks {TURNS - 1}" in texts(paths))
    assert texts(paths, role="user") == [f"a asks {turn}" for turn in range(TURNS)]
    wait_until(lambda: texts(paths, role="assistant") == ["answer"] * TURNS)
    assert verify(paths, "s1") == []


def test_both_at_once_lose_nothing_even_when_one_is_killed(
    proxies: list[tuple[int, int]], paths: Paths, folder: str
) -> None:
    """Issue 3, part 6: sessions of their own and one that both write; one recorder dies."""
    answers: list[bool] = []

    def talk(number: int) -> None:
        port, pid = proxies[number % 2]
        for turn in range(TURNS):
            if number == 1 and turn == TURNS // 2:
                os.kill(pid, signal.SIGKILL)
            for sid in ("shared", f"own{number}"):
                body = body_of(*_history(folder, f"t{number}", turn + 1))
                answers.append(send(port, body, sid=sid).is_whole)

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(answers) == 4 * TURNS * 2 and all(answers), "the agents go on"
    for number in range(4):  # once more, as the next request of each would: nothing stays lost
        for sid in ("shared", f"own{number}"):
            body = body_of(*_history(folder, f"t{number}", TURNS))
            wait_until(
                lambda port=proxies[number % 2][0], body=body, sid=sid, number=number: (
                    send(port, body, sid=sid).is_whole
                    and {f"t{number} asks {turn}" for turn in range(TURNS)}
                    <= set(texts(paths, sid, role="user"))
                )
            )
    said = texts(paths, "shared", role="user")
    assert sorted(said) == sorted({f"t{n} asks {t}" for n in range(4) for t in range(TURNS)})
    for sid in ("shared", *(f"own{number}" for number in range(4))):
        assert verify(paths, sid) == []
