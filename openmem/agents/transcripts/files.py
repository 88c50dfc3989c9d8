"""Files on disk as sources, and the beginning of a file, from which its format is told."""

from __future__ import annotations

import os
import stat as modes

from openmem.context.formats.records import decoded, document, records
from openmem.context.transcript import HEAD_BYTES, Head, Source

_RECORDS_LOOKED_AT = 40


def file_source(agent: str, path: str, *, folder: str = "") -> Source | None:
    """Return a file as a source, None when it is none any more or cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return None  # removed since the folder was listed, or not ours to see
    if not modes.S_ISREG(status.st_mode):
        return None
    return Source(
        agent=agent,
        path=path,
        size=status.st_size,
        modified_at=status.st_mtime,
        stamp=f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}",
        folder=folder,
    )


def head_of(path: str) -> Head:
    """Return the beginning of a file. OSError.

    Of a file of records the first ones, whole, however long they are; a document is read whole,
    because only all of it tells what it is.
    """
    with open(path, "rb") as file:
        data = file.read(HEAD_BYTES)
        start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
        first = start.split(b"\n", 1)[0]
        if start.startswith((b"{", b"[")) and not _is_record(first, whole=first != start):
            try:
                return Head(data=data, values=(document(path),), is_document=True)
            except ValueError:
                pass  # a first line that is broken: the ones behind it may tell
        values: list[object] = []
        for record in records(file):
            if record.value is not None:
                values.append(record.value)
            if record.line > _RECORDS_LOOKED_AT:
                break
    return Head(data=data, values=tuple(values))


def _is_record(first: bytes, *, whole: bool) -> bool:
    """Return whether a first line is a value by itself. One that goes on past the head may be."""
    if not whole and len(first) >= HEAD_BYTES - 8:
        return True
    values, problem = decoded(first)
    return bool(values) and not problem


def is_line_of(value: object, *kinds: str) -> bool:
    """Return whether a record is of one of these types."""
    return isinstance(value, dict) and value.get("type") in kinds
