"""A small HTTP/1.1 server that keeps the exact bytes that crossed the wire.

The idea: a test about unchanged bytes needs a witness that parses as little as it can, so a request
is handed on with its head and its body as they came. The trap: `http.server` folds headers through
an e-mail parser, so names, order and repeats would no longer be evidence.
"""

from __future__ import annotations

import gzip
import socket
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import brotli
import zstandard

HEAD_LIMIT = 1 << 20


class Gone(Exception):
    """The other side closed, or the server is stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came. `head`: bytes up to and with the empty line; `body`: de-chunked."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    head: bytes
    body: bytes

    @property
    def path(self) -> str:
        return self.target.split("?", 1)[0]

    def header(self, name: str) -> str:
        """Return the values of a header joined by `, `, empty when it is absent."""
        return ", ".join(v for k, v in self.headers if k.lower() == name.lower())

    @property
    def plain_body(self) -> bytes:
        """The body after its content-encoding is taken off."""
        encoding = self.header("content-encoding").lower()
        if encoding == "gzip":
            return gzip.decompress(self.body)
        if encoding == "deflate":
            return zlib.decompress(self.body)
        if encoding == "zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(self.body)
        if encoding == "br":
            return bytes(brotli.decompress(self.body))
        return self.body


class Stream:
    """Reads one direction of a connection; `taken` collects the bytes if asked to."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""

    def _fill(self) -> None:
        try:
            data = self._connection.recv(1 << 16)
        except OSError as fault:
            raise Gone from fault
        if not data:
            raise Gone
        self._buffer += data

    def until(self, mark: bytes, *, limit: int = HEAD_LIMIT) -> bytes:
        while mark not in self._buffer:
            if len(self._buffer) > limit:
                raise Gone
            self._fill()
        end = self._buffer.index(mark) + len(mark)
        data, self._buffer = self._buffer[:end], self._buffer[end:]
        return data

    def exactly(self, size: int) -> bytes:
        parts, have = [self._buffer[:size]], min(size, len(self._buffer))
        self._buffer = self._buffer[size:]
        while have < size:
            try:
                data = self._connection.recv(min(1 << 20, size - have))
            except OSError as fault:
                raise Gone from fault
            if not data:
                raise Gone
            parts.append(data)
            have += len(data)
        return b"".join(parts)


def read_head(stream: Stream) -> tuple[str, str, tuple[tuple[str, str], ...], bytes]:
    """Return method, target, headers in their order and case, and the raw head."""
    head = stream.until(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target, _version = lines[0].split(" ", 2)
    headers = tuple(
        (name, value.strip())
        for name, _, value in (line.partition(":") for line in lines[1:] if line)
    )
    return method, target, headers, head


def read_body(stream: Stream, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return the body of a message with its chunk framing taken off."""
    named = {name.lower(): value for name, value in headers}
    if named.get("transfer-encoding", "").lower() == "chunked":
        parts = []
        while True:
            size = int(stream.until(b"\r\n").split(b";")[0], 16)
            parts.append(stream.exactly(size))
            stream.until(b"\r\n")
            if size == 0:
                return b"".join(parts)
    return stream.exactly(int(named.get("content-length", "0")))


@dataclass(slots=True)
class Reply:
    """Writes one response. After `cut` the connection is gone, as a crashed server's would be."""

    connection: socket.socket
    method: str
    closes: bool = False
    sent_bytes: int = 0
    _chunked: bool = field(default=False)

    def _write(self, data: bytes) -> None:
        try:
            self.connection.sendall(data)
        except OSError as fault:
            raise Gone from fault
        self.sent_bytes += len(data)

    def _head(self, status: int, headers: list[tuple[str, str]]) -> bytes:
        lines = [f"HTTP/1.1 {status} Fake", *(f"{name}: {value}" for name, value in headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def whole(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send a response of known length; to HEAD only its head goes."""
        head = self._head(status, [*headers, ("content-length", str(len(body)))])
        self._write(head if self.method == "HEAD" else head + body)

    def start(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Begin a chunked response."""
        self._write(self._head(status, [*headers, ("transfer-encoding", "chunked")]))

    def chunk(self, data: bytes) -> None:
        if data:
            self._write(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        self._write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Drop the connection at once, without the rest of the response."""
        self.closes = True
        # Linger 0 sends a reset: the client sees an error and not a clean end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raise Gone


class Listener:
    """Accepts connections on loopback and runs one thread for each; `stop` ends them all."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self._live: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Any:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.track(connection)
            thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
            self._threads = [t for t in self._threads if t.is_alive()] + [thread]
            thread.start()

    def track(self, connection: socket.socket) -> None:
        with self._lock:
            if self._stopping:
                connection.close()
                raise Gone
            self._live.add(connection)

    def _run(self, connection: socket.socket) -> None:
        try:
            self.serve(connection)
        except Gone:
            pass  # the usual end of a kept-alive connection
        finally:
            self.drop(connection)

    def drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._live.discard(connection)
        connection.close()

    def serve(self, connection: socket.socket) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Close the listener and every connection, and wait for the threads."""
        with self._lock:
            self._stopping = True
            live = list(self._live)
        for one in (self._listener, *live):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was closed already
        self._listener.close()
        if self._acceptor.is_alive():
            self._acceptor.join(5)
        for thread in self._threads:
            thread.join(5)


class HttpServer(Listener):
    """Serves `handle(request, reply)`; a fault in it is kept in `faults`, the connection ends."""

    def __init__(self, handle: Callable[[Request, Reply], None], port: int = 0) -> None:
        super().__init__(port)
        self._handle = handle
        self.faults: list[BaseException] = []

    def serve(self, connection: socket.socket) -> None:
        stream = Stream(connection)
        while True:
            method, target, headers, head = read_head(stream)
            if any(n.lower() == "expect" and v.lower() == "100-continue" for n, v in headers):
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = read_body(stream, headers)
            request = Request(method=method, target=target, headers=headers, head=head, body=body)
            reply = Reply(connection, method)
            try:
                self._handle(request, reply)
            except Gone:
                raise
            except Exception as fault:
                self.faults.append(fault)
                raise Gone from fault
            if reply.closes or request.header("connection").lower() == "close":
                return
