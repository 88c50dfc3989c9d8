"""Lines of JSON in and out of the process.

Lines end at the byte `\\n` and nowhere else; what goes out is ASCII, because readers in the wild
also split at U+2028. Trap: any stray `print` would break the stream, so the real standard output
is moved aside and descriptor 1 becomes standard error.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator

LINE_LIMIT = 8 << 20
_CHUNK = 1 << 16
IDLE_SECONDS = 5.0


class TooLong(Exception):
    """A line was longer than `LINE_LIMIT`; it was read to its end and dropped."""


class Writer:
    """Writes one JSON value a line, whole, from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def write(self, message: object) -> None:
        """Write a message. BrokenPipeError when nobody reads any more."""
        data = memoryview(encode(message))
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]


def encode(message: object) -> bytes:
    """Return a message as one line of ASCII."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def claim_streams() -> tuple[int, Writer]:
    """Take standard input and output for the protocol; return the one to read and the writer.

    What writes to standard output from now on lands on standard error, and what reads from
    standard input finds it empty, children included.
    """
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return source, Writer(target)


def read_lines(descriptor: int, on_idle: Callable[[], None]) -> Iterator[bytes | TooLong]:
    """Yield each line without its end, until the other side closes.

    A last line without an end is yielded too. `on_idle` is called when nothing came for a while.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
    parts: list[bytes] = []
    size = 0
    while True:
        if not poller.poll(IDLE_SECONDS * 1000):
            on_idle()
            continue
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            size += len(piece)
            yield TooLong() if size > LINE_LIMIT else b"".join(parts) + piece
            parts, size = [], 0
        size += len(rest)
        if size > LINE_LIMIT:
            parts = []  # the rest of it is only counted
        elif rest:
            parts.append(rest)
    if size:
        yield TooLong() if size > LINE_LIMIT else b"".join(parts)
