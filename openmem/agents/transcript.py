"""What a reader of an agent's transcript gives: what was said, and where it stopped.

Idea: a transcript grows at its end; a cursor is a byte offset with a digest of what stands before
it, so that a file that was rewritten is noticed. Invariant: a line that is not complete is left
for the next time; one bad line never hides the rest.
Trap: lines end at the byte `\\n` and nowhere else: JSON text may hold U+2028.
Standard library only: the child of a hook runs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

ANCHOR_BYTES = 256
LINE_LIMIT_BYTES = 4 << 20  # a line of text is never that long; one with images is
_CHUNK_BYTES = 1 << 18

Role = Literal["user", "assistant", "tool"]
Digest = Callable[[bytes], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a file was read. `anchor`: digest of up to 256 bytes before `offset`; "" at 0."""

    offset: int = 0
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One thing that was said. `text`: decoded; for a tool its name and short arguments.

    `at`: the agent's own time text, "" when it gives none.
    """

    role: Role
    text: str
    at: str = ""


@dataclass(slots=True, kw_only=True)
class Reading:
    """One reading. `cursor`: where to go on; `bad_lines`: numbers within this reading, from 1.

    `skipped_lines`: too long to be text. `restarted`: the file was not what the cursor knew.
    """

    said: list[Said] = field(default_factory=list)
    cursor: Cursor = Cursor()
    bad_lines: list[int] = field(default_factory=list)
    skipped_lines: int = 0
    restarted: bool = False


def start_of(file: BinaryIO, cursor: Cursor, digest: Digest, *, newest_bytes: int = 0) -> int:
    """Return the offset to read from; 0, or `newest_bytes` before the end, without a cursor.

    A file that is shorter than the cursor, or differs before it, is read as one without a cursor.
    """
    size = file.seek(0, os.SEEK_END)
    if (
        cursor.offset
        and cursor.offset <= size
        and anchor_at(file, cursor.offset, digest) == (cursor.anchor)
    ):
        return cursor.offset
    if not newest_bytes or size <= newest_bytes:
        return 0
    file.seek(size - newest_bytes)
    skipped = file.readline(LINE_LIMIT_BYTES)
    return size - newest_bytes + len(skipped)


def anchor_at(file: BinaryIO, offset: int, digest: Digest) -> str:
    """Return the anchor for an offset; "" at the start of the file."""
    if not offset:
        return ""
    file.seek(max(0, offset - ANCHOR_BYTES))
    return digest(file.read(min(offset, ANCHOR_BYTES)))


def complete_lines(file: BinaryIO, offset: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield (offset after it, line without its end) of each complete line; None if too long.

    A last line without an end is not yielded: it is still being written.
    """
    file.seek(offset)
    parts: list[bytes] = []
    size = 0
    while chunk := file.read(_CHUNK_BYTES):
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            size += end - start
            offset += size + 1
            if size > LINE_LIMIT_BYTES:
                yield offset, None
            else:
                yield offset, b"".join((*parts, chunk[start:end]))
            parts, size, start = [], 0, end + 1
        rest = chunk[start:]
        size += len(rest)
        if size > LINE_LIMIT_BYTES:
            parts = []  # it is only counted from here on
        else:
            parts.append(rest)
