"""Where a response ends, seen while it streams, so that only its last byte waits for its rows.

An agent acts on `message_stop` without waiting for the connection to say it is over; so in an
event stream the byte that completes that event is the last byte. Else it is the last of
Content-Length, else the end of the stream.
Trap: the words may stand in a message's text; there they are inside a JSON string, where a line
cannot begin.
"""

from __future__ import annotations

import re

from openmem.context.proxy.encodings import Decoder, TooLarge, Undecodable

_WORD = b"message_stop"
_LINE = re.compile(rb"event:[ ]?message_stop[\r\n]?|data:[ ]?\{[ ]?\"type\":[ ]?\"message_stop\"")
_WINDOW_BYTES = 64
_LIMIT_BYTES = 64 * 1024 * 1024


class EndFinder:
    """Tells for each piece of a response whether its last byte may be the response's last."""

    def __init__(self, *, content_type: str, encoding: str, content_length: int | None) -> None:
        self._left = content_length
        self._window = b""
        self._decoder: Decoder | None = None
        if "text/event-stream" in content_type.lower():
            try:
                self._decoder = Decoder(encoding, _LIMIT_BYTES)
            except Undecodable:
                pass  # not to be looked into: the end of the stream is its end

    def is_last(self, piece: bytes) -> bool:
        """Return whether the response ends with this piece, as far as can be seen."""
        if self._left is not None:
            self._left -= len(piece)
            if self._left <= 0:
                return True
        if self._decoder is None:
            return False
        if self._decoder.is_identity:
            return self._has_stop(piece)
        try:
            found = [self._has_stop(part) for part in self._decoder.feed(piece)]
        except (TooLarge, Undecodable):
            self._decoder = None
            return False
        return any(found)

    def _has_stop(self, piece: bytes) -> bool:
        seen = self._window + piece
        self._window = seen[-_WINDOW_BYTES:]
        at = seen.find(_WORD)
        while at >= 0:
            start = max(seen.rfind(b"\n", 0, at), seen.rfind(b"\r", 0, at)) + 1
            if _LINE.match(seen, start) is not None:
                return True
            at = seen.find(_WORD, at + 1)
        return False
