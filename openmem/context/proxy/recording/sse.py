"""Server-sent events out of a byte stream cut anywhere, also inside a character.

Source: the WHATWG HTML standard, section 9.2 (line ends LF, CRLF or CR; one space after the colon
is dropped; an event ends at a blank line; comments start with a colon).
Trap: a CR at the end of a piece may be half a CRLF; it ends the line, and an LF that follows is
dropped.
"""

from __future__ import annotations

from collections.abc import Iterator


class TooLong(Exception):
    """One event is larger than any provider sends."""


class EventReader:
    """Feed bytes, get (event name, data) for each event that is complete.

    `data` has its lines joined by LF; `event name` is "" when the stream gives none.
    """

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._limit = limit_bytes
        self._is_first = True
        self._is_half = False

    def feed(self, piece: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the events that `piece` completes. TooLong when one outgrows the limit."""
        buffer = self._rest + piece if self._rest else piece
        if self._is_first:
            if len(buffer) < 3 and b"\xef\xbb\xbf".startswith(buffer):
                self._rest = buffer
                return
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
            self._is_first = False
        if self._is_half and piece.startswith(b"\n"):
            buffer = buffer[1:]  # nothing is left over behind a CR, so the LF comes first
        self._is_half = piece.endswith(b"\r") if piece else self._is_half
        if b"\r" in buffer:
            buffer = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = buffer.split(b"\n")
        if len(self._rest) + self._size > self._limit:
            raise TooLong
        for line in lines:
            event = self._line(line)
            if event is not None:
                yield event

    def _line(self, line: bytes) -> tuple[str, bytes] | None:
        if not line:
            name, data = self._name, self._data
            self._name, self._data, self._size = "", [], 0
            return (name, b"\n".join(data)) if data else None
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            self._data.append(value)
            self._size += len(value)
            if self._size > self._limit:
                raise TooLong
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        return None
