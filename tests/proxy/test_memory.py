"""Memory stays bounded: what passes is not kept."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from openmem.bench.traffic import Conversation
from tests.fakes.proxied import streams, write_policy
from tests.fakes.running_proxy import ask, wait_until

ROOT = Path(__file__).parents[2]
REQUESTS = 16


def resident_mb(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        total += int(next(line for line in status.splitlines() if "VmRSS" in line).split()[1])
    return total / 1024


def start(*command: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a server that prints its port (and more numbers); return it and the numbers."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    return process, [int(word) for word in process.stdout.readline().split()]


def flood(port: int, bodies: list[bytes]) -> None:
    def one(number: int, body: bytes) -> None:
        headers = [("x-claude-code-session-id", f"s{number}")]
        assert ask(port, "POST", "/v1/messages", headers=headers, body=body).is_whole

    workers = [threading.Thread(target=one, args=pair) for pair in enumerate(bodies)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; 2026-11-30")
def test_sixteen_large_requests_leave_little_behind(upstream, paths, home):
    """The brief of this part: at most 2.5 times a bare pass-through, all processes together."""
    write_policy(paths, allowed=str(home))
    upstream.handler = streams("answer")
    bodies = [
        Conversation(f"s{number}", size_bytes=3_000_000, folder=str(home), seed=number).body()
        for number in range(REQUESTS)
    ]
    floor, numbers = start("openmem.bench.passthrough", upstream.url.rsplit(":", 1)[1])
    ours, (port, recorder) = start("tests.fakes.proxy_process", upstream.url, "--record")
    try:
        flood(numbers[0], bodies)
        flood(port, bodies)
        wait_until(lambda: len(list(Path(paths.sessions_dir).glob("*.v4.db"))) == REQUESTS)
        floor_mb = resident_mb([floor.pid])
        our_mb = resident_mb([ours.pid, recorder])
        assert our_mb <= 2.5 * floor_mb, f"{our_mb:.0f} MB against {floor_mb:.0f} MB"
    finally:
        for process in (floor, ours):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait(60)
            process.stdout.close()
