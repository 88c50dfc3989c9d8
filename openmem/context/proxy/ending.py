"""Where a response ends, seen while it streams, so that only its last byte waits for its rows.

An agent acts on the last event (`message_stop`, `response.completed`, `[DONE]`) without waiting
for the connection to say it is over; so in an event stream the byte that completes that event is
the last byte. Else it is the last of Content-Length, else the end of the stream.
Trap: the words may stand in a message's text; there they are inside a JSON string, where a line
cannot begin. And `response.completed` repeats the whole answer, so it comes in many pieces: it is
over at the blank line behind it, not where it begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from openmem.context.formats.view import Wire
from openmem.context.proxy.encodings import Decoder, TooLarge, Undecodable

# Where the last event begins. Small ones come in one piece with what ends them.
_LAST: Mapping[Wire, re.Pattern[bytes]] = {
    "messages": re.compile(
        rb"(?:\A|[\r\n])(?:event:[ ]?message_stop|data:[ ]?\{[ ]?\"type\":[ ]?\"message_stop\")"
    ),
    "responses": re.compile(
        rb"(?:\A|[\r\n])(?:event:[ ]?|data:[ ]?\{[ ]?\"type\":[ ]?\")"
        rb"response\.(?:completed|incomplete|failed)\b"
    ),
    "chat": re.compile(rb"(?:\A|[\r\n])data:[ ]?\[DONE\]"),
}
# Searched for first: 1.2 to 2.5 GB a second against 60 MB of the patterns alone.
_WORDS: Mapping[Wire, tuple[bytes, ...]] = {
    "messages": (b"message_stop",),
    "responses": (b"response.completed", b"response.incomplete", b"response.failed"),
    "chat": (b"[DONE]",),
}
_BLANK_LINE = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_WINDOW_BYTES = 64
_LIMIT_BYTES = 64 * 1024 * 1024


class EndFinder:
    """Tells for each piece of a response whether its last byte may be the response's last."""

    def __init__(
        self,
        *,
        content_type: str,
        encoding: str,
        content_length: int | None,
        wire: Wire = "messages",
    ) -> None:
        self._last = _LAST[wire]
        self._words = _WORDS[wire]
        self._is_large = wire == "responses"
        self._has_begun = False
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
        start = 0
        if not self._has_begun:
            places = [at for word in self._words if (at := seen.find(word)) >= 0]
            # The pattern begins shortly before its word: what is before that is not walked through.
            near = max(0, min(places) - _WINDOW_BYTES) if places else 0
            match = self._last.search(seen, near) if places else None
            if match is None:
                self._keep(seen)
                return False
            self._has_begun, start = True, match.end()
            if not self._is_large:
                return True
        if _BLANK_LINE.search(seen, start):
            return True
        self._keep(seen[start:])
        return False

    def _keep(self, seen: bytes) -> None:
        """Keep the end of what was seen: a line may be cut anywhere between two pieces.

        What is left of a line is marked as such, so that it does not look like a line's beginning.
        """
        self._window = b" " + seen[-_WINDOW_BYTES:] if len(seen) > _WINDOW_BYTES else seen
