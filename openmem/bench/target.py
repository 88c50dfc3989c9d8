"""One kept-alive connection to a server under measurement, with as little client as can be.

A blocking socket and a few bytes of HTTP: a client library would add its own time to both sides
and hide the difference.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from openmem.base.errors import Failed
from openmem.bench.traffic import Conversation

_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(slots=True)
class Target:
    """One connection to one server. `prefix`: of its paths, as an agent's address has one."""

    port: int
    prefix: str = ""
    connection: socket.socket | None = None

    def connect(self) -> socket.socket:
        """Return the connection, made at the first call."""
        if self.connection is None:
            self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.connection

    def ask(self, conversation: Conversation, body: bytes) -> tuple[float, float]:
        """Return milliseconds to the first byte of the answer's body, and to the last."""
        connection = self.connect()
        head = self.head("beta=true", conversation.session_id, len(body))
        begun = time.perf_counter()
        connection.sendall(head + body)
        answer = b""
        first = 0.0
        while not answer.endswith(_LAST_CHUNK):
            data = connection.recv(1 << 16)
            if not data:
                raise Failed("a server closed its connection during a bench.")
            answer += data
            if not first and len(answer) > answer.find(b"\r\n\r\n") + 4 > 3:
                first = time.perf_counter() - begun
        if not answer.startswith(b"HTTP/1.1 200"):
            raise Failed(f"a server answered {answer[:200]!r} during a bench.")
        return first * 1000, (time.perf_counter() - begun) * 1000

    def head(self, query: str, session_id: str, size: int) -> bytes:
        """Return the head of a request with a body of `size` bytes."""
        return (
            f"POST {self.prefix}/v1/messages?{query} HTTP/1.1\r\n"
            f"host: 127.0.0.1:{self.port}\r\n"
            "content-type: application/json\r\n"
            "anthropic-version: 2023-06-01\r\n"
            "x-api-key: made-up\r\n"
            f"x-claude-code-session-id: {session_id}\r\n"
            f"content-length: {size}\r\n\r\n"
        ).encode()

    def lateness(self, conversation: Conversation, body: bytes) -> list[float]:
        """Return by how many milliseconds each event of a slow stream came after it was sent."""
        connection = self.connect()
        connection.sendall(self.head("slowly", conversation.session_id, len(body)) + body)
        late: list[float] = []
        rest = b""
        while not rest.endswith(_LAST_CHUNK):
            data = connection.recv(1 << 16)
            now = time.perf_counter()
            if not data:
                raise Failed("a server closed its connection during a bench.")
            rest += data
            *events, rest = rest.split(b"\n\n")
            late += [(now - float(e[e.index(b'"at":') + 5 : -1])) * 1000 for e in events]
        return late

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
