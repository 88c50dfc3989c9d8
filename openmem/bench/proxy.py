"""Time to first byte of the recording proxy against the bare pass-through, at three sizes.

Each sample is a session's next request: the history again and one new exchange. The two targets
take turns on kept-alive connections with bodies of the same length, and the first requests, which
record the whole history, are warm-up and told apart.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass

from openmem.base.errors import Failed
from openmem.bench.figures import Figure, Report, median
from openmem.bench.stage import Stage
from openmem.bench.traffic import Conversation

SIZES = (("10 KB", 10_000, 1.3), ("300 KB", 300_000, 1.3), ("3 MB", 3_000_000, 1.5))
_SHORTEST_ANSWER = b"0\r\n\r\n"


@dataclass(slots=True)
class _Target:
    """One connection to one server. `ask` returns milliseconds to the first body byte."""

    port: int
    connection: socket.socket | None = None

    def ask(self, conversation: Conversation, body: bytes) -> float:
        if self.connection is None:
            self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = (
            "POST /v1/messages?beta=true HTTP/1.1\r\n"
            f"host: 127.0.0.1:{self.port}\r\n"
            "content-type: application/json\r\n"
            "anthropic-version: 2023-06-01\r\n"
            "x-api-key: made-up\r\n"
            f"x-claude-code-session-id: {conversation.session_id}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        ).encode()
        begun = time.perf_counter()
        self.connection.sendall(head + body)
        answer = b""
        first = 0.0
        while not answer.endswith(_SHORTEST_ANSWER):
            data = self.connection.recv(1 << 16)
            if not data:
                raise Failed("a server closed its connection during a bench.")
            answer += data
            if not first and len(answer) > answer.find(b"\r\n\r\n") + 4 > 3:
                first = time.perf_counter() - begun
        if not answer.startswith(b"HTTP/1.1 200"):
            raise Failed(f"a server answered {answer[:200]!r} during a bench.")
        return first * 1000

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


def run(*, repeats: int = 60, sizes: tuple[tuple[str, int, float], ...] = SIZES) -> Report:
    """Return the figures. `repeats`: samples of each target and size."""
    figures: list[Figure] = []
    notes: list[str] = []
    with Stage() as stage:
        stage.allow_everything()
        upstream = stage.upstream()
        floor_target = _Target(stage.passthrough(upstream))
        our_target = _Target(stage.proxy(upstream))
        for number, (name, size, limit) in enumerate(sizes):
            conversation = Conversation(
                f"00000000-0000-4000-8000-{number:012d}", size_bytes=size, folder=stage.project
            )
            cold = our_target.ask(conversation, conversation.body())
            for target in (floor_target, our_target):
                conversation.grow()
                target.ask(conversation, conversation.body())
            floors: list[float] = []
            ours: list[float] = []
            for turn in range(repeats):
                conversation.grow()
                body = conversation.body()
                pair = [(floor_target, floors), (our_target, ours)]
                for target, samples in pair if turn % 2 else reversed(pair):
                    samples.append(target.ask(conversation, body))
            figures.append(
                Figure(
                    name=f"time to first byte, {name}",
                    unit="ms",
                    value=median(ours),
                    floor=median(floors),
                    limit=limit,
                    samples=repeats,
                )
            )
            notes.append(f"{name}: the first request, all of it new, took {cold:.1f} ms")
        for target in (floor_target, our_target):
            target.close()
        notes.append(_recorded(stage))
    return Report(bench="proxy", figures=tuple(figures), notes=tuple(notes))


def _recorded(stage: Stage) -> str:
    """Return a line that says how much was stored. Failed when nothing was."""
    envelope = json.loads(stage.openmem("context", "status", "--json"))
    sessions = envelope["data"]["sessions"]
    rows = sum(int(session["rows"]) for session in sessions)
    if rows == 0:
        raise Failed("the proxy recorded nothing, so its times say nothing.")
    return f"recorded meanwhile: {rows} rows in {len(sessions)} sessions"
