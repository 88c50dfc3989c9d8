"""Our proxy on a real HTTP server and a loopback port, and a client that parses little.

The server runs in a thread of the test process; the recorder is a real process. `ask` sends bytes
as given and returns the response as it came, so that names, order, framing and endings are seen.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import dataclass
from typing import Any

import uvicorn

from openmem.context.proxy.app import ProxyApp, make_app, server_options
from openmem.context.proxy.settings import ProxySettings
from tests.fakes.wire import Gone, Stream


class RunningProxy:
    """A proxy that serves until the block ends. `app`: the application, for its status."""

    def __init__(self, settings: ProxySettings) -> None:
        self.app: ProxyApp = make_app(settings)
        # A socket that names TCP: only then does the event loop switch off delayed sending.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(1024)
        self.port: int = self._socket.getsockname()[1]
        options = {**server_options(), "log_config": None, "timeout_graceful_shutdown": 5}
        self._server = uvicorn.Server(uvicorn.Config(self.app, **options))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def __enter__(self) -> RunningProxy:
        self._thread.start()
        wait_until(lambda: self._server.started or not self._thread.is_alive())
        assert self._server.started, "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()
        assert not self._thread.is_alive(), "the proxy did not end"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def status(self) -> dict[str, Any]:
        return self.app.status()


def wait_until(is_true: Any, *, seconds: float = 20.0) -> None:
    """Wait for a condition, checked often; AssertionError when it does not come."""
    waiter = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if is_true():
            return
        waiter.wait(0.01)
    raise AssertionError("what was waited for did not happen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response as it came. `raw_body`: with its framing; `body`: without; `is_whole`: it was
    ended as its framing demands."""

    status: int
    head: bytes
    headers: tuple[tuple[str, str], ...]
    body: bytes
    raw_body: bytes
    is_whole: bool

    def header(self, name: str) -> str:
        return ", ".join(v for k, v in self.headers if k.lower() == name.lower())


class Connection:
    """A client's connection. Reads are bounded in time, so that no test hangs."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.stream = Stream(self.socket)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def head(self) -> tuple[int, bytes, tuple[tuple[str, str], ...]]:
        """Return status, raw head and headers of the next response."""
        head = self.stream.until(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = tuple(
            (name, value.strip())
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        )
        return int(lines[0].split(" ")[1]), head, headers

    def chunk(self) -> bytes:
        """Return the next chunk of a chunked body, b"" for the last."""
        size = int(self.stream.until(b"\r\n"), 16)
        data = self.stream.exactly(size)
        self.stream.until(b"\r\n")
        return data

    def answer(self, *, method: str = "POST") -> Answer:
        """Return the next response, as far as it comes."""
        status, head, headers = self.head()
        named = {name.lower(): value for name, value in headers}
        parts: list[bytes] = []
        raw: list[bytes] = []
        is_whole = True
        if method == "HEAD" or status in (204, 304):
            pass
        elif named.get("transfer-encoding", "").lower() == "chunked":
            try:
                while True:
                    line = self.stream.until(b"\r\n")
                    data = self.stream.exactly(int(line, 16))
                    tail = self.stream.until(b"\r\n")
                    raw += [line, data, tail]
                    parts.append(data)
                    if not data:
                        break
            except Gone:
                is_whole = False
        else:
            try:
                parts.append(self.stream.exactly(int(named.get("content-length", "0"))))
            except Gone:
                is_whole = False
            raw = parts
        return Answer(
            status=status,
            head=head,
            headers=headers,
            body=b"".join(parts),
            raw_body=b"".join(raw),
            is_whole=is_whole,
        )


def request_bytes(
    method: str,
    target: str,
    *,
    port: int,
    headers: list[tuple[str, str]] | None = None,
    body: bytes | None = None,
    host: str = "",
) -> bytes:
    """Return a request as bytes; Content-Length is added when there is a body without framing."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}"]
    lines += [f"{name}: {value}" for name, value in headers or []]
    framed = {name.lower() for name, _ in headers or []} & {"content-length", "transfer-encoding"}
    if body is not None and not framed:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")


def ask(
    port: int,
    method: str,
    target: str,
    *,
    headers: list[tuple[str, str]] | None = None,
    body: bytes | None = None,
    host: str = "",
) -> Answer:
    """Send one request on a connection of its own and return the response."""
    with Connection(port) as connection:
        connection.send(
            request_bytes(method, target, port=port, headers=headers, body=body, host=host)
        )
        return connection.answer(method=method)
