"""A stand-in for the proxy's control socket: answers, hangs or breaks off, and keeps what came."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths

Answer = Callable[[socket.socket, bytes], None]


@dataclass
class Worker:
    """`lines`: each request as it came."""

    lines: list[bytes] = field(default_factory=list)

    @property
    def requests(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines]


def says(answer: object) -> Answer:
    """Answer with one line of JSON (or these bytes as they are)."""
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"
    return lambda connection, line: connection.sendall(data)


@contextlib.contextmanager
def listening(paths: Paths, answer: Answer | None) -> Iterator[Worker]:
    """Serve the control socket; with `answer` None connections are accepted and never answered."""
    worker = Worker()
    ensure_private_dir(os.path.dirname(paths.control_socket))
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(paths.control_socket)
    server.listen(8)
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return  # closed by the test
            held.append(connection)
            if answer is None:
                continue
            line = b""
            while not line.endswith(b"\n"):
                part = connection.recv(65536)
                if not part:
                    break
                line += part
            worker.lines.append(line)
            answer(connection, line)
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in held:
            connection.close()
        thread.join(10)
        os.unlink(paths.control_socket)
        if not paths.control_socket.startswith(paths.state_dir):
            os.rmdir(os.path.dirname(paths.control_socket))  # the short place of a deep home
