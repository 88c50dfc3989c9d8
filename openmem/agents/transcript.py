"""What a reader of an agent's transcript gives: what was said, and where it stopped.

Idea: a transcript grows at its end; a cursor is a byte offset with a digest of what stands before
it, so that a file that was rewritten is noticed. Invariant: a line that is not complete is left
for the next time; one bad line never hides the rest.
Trap: lines end at the byte `\\n` and nowhere else: JSON text may hold U+2028.
Standard library only: the child of a hook runs it.
"""

from __future__ import annotations

import errno
import json
import os
import stat as modes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

from openmem.base.frame import is_own_tool

ANCHOR_BYTES = 256
LINE_LIMIT_BYTES = 4 << 20  # a line of text is never that long; one with images is
_CHUNK_BYTES = 1 << 18
_ARGUMENT_CHARACTERS = 300
# The arguments that say what a call was for, in the order in which they are looked for.
_TELLING = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "description",
            "prompt")  # fmt: skip

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


def open_transcript(path: str) -> BinaryIO:
    """Open a regular file for reading. OSError, also for a pipe, which would be waited for, and a
    device, which may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not modes.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(descriptor, "rb")


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


SaidIn = Callable[[object], list[Said]]


def read_lines(
    path: str,
    cursor: Cursor,
    digest: Digest,
    *,
    wanted: tuple[bytes, ...],
    said_in: SaidIn,
    newest_bytes: int = 0,
) -> Reading:
    """Return what was said since the cursor, by a reader of one record. FileNotFoundError, OSError.

    `digest`: of bytes, for anchors. `wanted`: a line without any of these says nothing. `said_in`:
    what one record says. `newest_bytes`: without a cursor only so much of the end is read; 0 for
    all.
    """
    reading = Reading(cursor=cursor)
    with open_transcript(path) as file:
        start = start_of(file, cursor, digest, newest_bytes=newest_bytes)
        reading.restarted = cursor.offset > 0 and start != cursor.offset
        offset = start
        for number, (after, line) in enumerate(complete_lines(file, start), 1):
            offset = after
            if line is None:
                reading.skipped_lines += 1
            elif any(word in line for word in wanted):
                values, is_whole = _values_of(line)
                for value in values:
                    reading.said.extend(said_in(value))
                if not is_whole:
                    reading.bad_lines.append(number)
        reading.cursor = Cursor(offset=offset, anchor=anchor_at(file, offset, digest))
    return reading


def _values_of(line: bytes) -> tuple[list[Any], bool]:
    """Return the values of a line, and whether they are all of it; two may stand on one."""
    try:
        return [json.loads(line)], True
    except RecursionError:
        return [], False
    except ValueError:
        pass  # more than one, or none
    decoder, text = json.JSONDecoder(), line.decode("utf-8", "replace").strip()
    values: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return values, False
        values.append(value)
        at += len(text) - at - len(text[at:].lstrip())
    return values, True


def call_in_short(name: object, given: object) -> str:
    """Return a tool call in one line: its name and the argument that says what it was for.

    "" for a call of ours, and for one that does not say it in a line.
    """
    if not isinstance(name, str) or not isinstance(given, dict) or is_own_tool(name):
        return ""
    for key in _TELLING:
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            words = " ".join(value.split())
            if len(words) <= _ARGUMENT_CHARACTERS:
                return f"{name}: {words}"
    return ""
