"""The line between supervisor and worker: a socket pair that carries words and, at its end, death.

Idea: each side sees the other's end the moment the kernel closes the pair, whether or not one is
the other's child; so a worker can be taken over by a supervisor that did not start it.
Invariant: sending never blocks and never raises; a word that does not fit is lost, because a peer
that reads nothing for so long is judged by its silence. Trap: words are for us, not for people:
one line each, ASCII, no content.
"""

from __future__ import annotations

import os
import socket

_LIMIT_BYTES = 64 * 1024


def channel_pair() -> tuple[int, int]:
    """Return two connected descriptors, both closed on exec."""
    one, other = socket.socketpair()
    return one.detach(), other.detach()


class Channel:
    """One end of the line. `descriptor`: owned from here on; set non-blocking."""

    __slots__ = ("_buffer", "descriptor", "is_open")

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.is_open = True
        self._buffer = b""

    def send(self, words: str) -> None:
        """Send one line, if the peer lives and reads."""
        if not self.is_open:
            return
        try:
            os.write(self.descriptor, words.encode("ascii", "replace") + b"\n")
        except OSError:
            pass  # a dead peer shows at the next receive; a full line is a peer that hangs

    def receive(self) -> list[str] | None:
        """Return the lines that have come, None once the peer is gone and all was read."""
        if not self.is_open:
            return None
        try:
            data = os.read(self.descriptor, _LIMIT_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""  # a reset is an end like any other
        if not data:
            return None
        *lines, rest = (self._buffer + data).split(b"\n")
        self._buffer = rest[:_LIMIT_BYTES]
        return [line.decode("ascii", "replace") for line in lines]

    def close(self) -> None:
        """Close this end; the peer sees it. Closing twice is fine."""
        if self.is_open:
            self.is_open = False
            os.close(self.descriptor)
