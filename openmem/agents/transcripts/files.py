"""Files on disk as sources, and the beginning of a file, from which its format is told.

Invariant: a place that this user may not look into is a source like any other, so that the reading
says why it failed; what is only passed over in silence looks as if there were nothing.
Trap: links may lead back to where one came from; no folder is gone through twice.
"""

from __future__ import annotations

import fnmatch
import os
import stat as modes
import time
from collections.abc import Iterator, Sequence

from openmem.context.formats.records import decoded, document, records
from openmem.context.transcript import HEAD_BYTES, Head, Source

_RECORDS_LOOKED_AT = 40


def files_below(root: str, pattern: str) -> list[str]:
    """Return the paths below a folder that match, sorted, and folders that cannot be looked into.

    `pattern`: as of a shell, between slashes; `**` is any depth. Links are followed, names that
    begin with a dot are left out.
    """
    return sorted(_matching(root, pattern.split("/"), set()))


def _matching(folder: str, pattern: Sequence[str], seen: set[tuple[int, int]]) -> Iterator[str]:
    name, *rest = pattern
    try:
        status = os.stat(folder)
        if name == "**":
            if (status.st_dev, status.st_ino) in seen:
                return
            seen.add((status.st_dev, status.st_ino))
        elif not any(sign in name for sign in "*?["):
            path = f"{folder}/{name}"
            if rest:
                yield from _matching(path, rest, seen)
            elif os.path.lexists(path):
                yield path
            return
        entries = sorted(os.listdir(folder))
    except PermissionError:
        yield folder
        return
    except OSError:
        return  # not there, no folder, or a link in a circle
    if name == "**":
        yield from _matching(folder, rest, seen)
    for entry in entries:
        path = f"{folder}/{entry}"
        if entry.startswith(".") or (name != "**" and not fnmatch.fnmatchcase(entry, name)):
            continue
        if name == "**":
            if os.path.isdir(path):
                yield from _matching(path, pattern, seen)
        elif rest:
            yield from _matching(path, rest, seen)
        else:
            yield path


def file_source(agent: str, path: str, *, folder: str = "") -> Source | None:
    """Return a file as a source, None when it is none any more.

    What may not be looked at is one too: who reads it is told why.
    """
    try:
        status = os.stat(path)
    except PermissionError:
        return Source(agent=agent, path=path, modified_at=time.time())
    except OSError:
        return None  # removed since the folder was listed
    if not modes.S_ISREG(status.st_mode):
        is_closed = modes.S_ISDIR(status.st_mode) and not _is_open(path)
        return Source(agent=agent, path=path, modified_at=time.time()) if is_closed else None
    return Source(
        agent=agent,
        path=path,
        size=status.st_size,
        modified_at=status.st_mtime,
        stamp=f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}",
        folder=folder,
    )


def _is_open(folder: str) -> bool:
    try:
        os.scandir(folder).close()
    except PermissionError:
        return False
    except OSError:
        return True  # removed meanwhile: nothing to tell
    return True


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
