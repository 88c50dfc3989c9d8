"""Memory of all our processes together, beside the bare pass-through's. Linux only.

Counted is what is resident; what the processes of one side share counts once. The proportional set
size would not do: it also divides by programs that have nothing to do with either.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from openmem.bench.figures import Figure
from openmem.bench.stage import Stage, free_port
from openmem.bench.target import Target
from openmem.bench.traffic import Conversation

LARGE_LIMIT = 2.5
FLAT_LIMIT = 1.1
_AT_ONCE = 16
_PER_SESSION = 100
_SETTLED_SECONDS = 60.0


def figures(*, large_bytes: int, requests: int) -> tuple[list[Figure], str]:
    """Return the figures, and a note."""
    if sys.platform != "linux":
        return [], "memory: left out, this system does not tell it the same way"
    with Stage() as stage:
        upstream = stage.upstream()
        floor = Target(stage.passthrough(upstream))
        floor_pid = stage.last_pid
        ours, our_pid = _start(stage, upstream)
        try:
            return _figures(stage, (ours, our_pid), (floor, floor_pid), large_bytes, requests)
        finally:
            stage.openmem("proxy", "stop", "--now")


def _start(stage: Stage, upstream: int) -> tuple[Target, int]:
    """Start the proxy as a person does; return where it serves and its supervisor."""
    port = free_port()
    stage.allow_everything()
    stage.settings(
        f"[proxy]\nport = {port}\n[trim]\nenabled = false\n"
        f'[routes.claude-code]\nupstream = "http://127.0.0.1:{upstream}"\n'
    )
    stage.openmem("proxy", "start", "--yes")
    status = json.loads(stage.openmem("proxy", "status", "--json"))["data"]
    target = Target(port, prefix="/a/claude-code")
    _ask(target, Conversation("opening", size_bytes=1_000, folder=stage.project))
    return target, int(status["supervisor_pid"])


def _figures(
    stage: Stage, ours: tuple[Target, int], floor: tuple[Target, int], size: int, requests: int
) -> tuple[list[Figure], str]:
    for target, _ in (floor, ours):
        _flood(target, stage.project, size)
    large = Figure(
        name="memory after sixteen large requests", unit="MB", value=_settled_mb(ours[1]),
        floor=_settled_mb(floor[1]), limit=LARGE_LIMIT, samples=1,
    )  # fmt: skip
    _serve(ours[0], stage.project, "first", requests // 5)
    early = _settled_mb(ours[1])
    _serve(ours[0], stage.project, "rest", requests - requests // 5)
    flat = Figure(
        name=f"memory after {requests:,} against a fifth", unit="MB",
        value=_settled_mb(ours[1]), floor=early, limit=FLAT_LIMIT, samples=1,
    )  # fmt: skip
    count = len(processes_of(ours[1]))
    return [large, flat], f"memory: of our {count} processes together"


def _flood(server: Target, folder: str, size: int) -> None:
    def one(number: int) -> None:
        target = Target(server.port, prefix=server.prefix)
        _ask(target, Conversation(f"flood-{number}", size_bytes=size, folder=folder))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve(server: Target, folder: str, name: str, requests: int) -> None:
    target = Target(server.port, prefix=server.prefix)
    for number in range(requests):
        if number % _PER_SESSION == 0:
            session = f"{name}-{number // _PER_SESSION}"
            conversation = Conversation(session, size_bytes=10_000, folder=folder)
        conversation.grow()
        target.ask(conversation, conversation.body())
    target.close()


def _ask(target: Target, conversation: Conversation) -> None:
    target.ask(conversation, conversation.body())
    target.close()
    target.connection = None


def _settled_mb(pid: int) -> float:
    """Return the memory of a process and all below it, once it no longer changes by much."""
    deadline = time.monotonic() + _SETTLED_SECONDS
    before = memory_mb(pid)
    while time.monotonic() < deadline:
        time.sleep(2.0)
        now = memory_mb(pid)
        if abs(now - before) < 0.01 * before:
            return now
        before = now
    return before


def memory_mb(pid: int) -> float:
    """Return the memory of a process and all below it.

    Pages of files that several of them map count once: for the one that has most of them.
    """
    private, mapped = 0, 0
    for one in processes_of(pid):
        try:
            with open(f"/proc/{one}/smaps_rollup", encoding="ascii") as file:
                sizes = {line.split()[0]: int(line.split()[1]) for line in file if " kB" in line}
        except OSError:
            continue  # it ended meanwhile
        private += sizes["Anonymous:"]
        mapped = max(mapped, sizes["Rss:"] - sizes["Anonymous:"])
    return (private + mapped) / 1024


def processes_of(pid: int) -> list[int]:
    """Return a process and all that it started, by what they say of their parents."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
        parents.setdefault(parent, []).append(int(name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found
