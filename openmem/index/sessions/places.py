"""Which places are read: those where agents keep their sessions, or files named by hand.

Invariant: nothing but a regular file is ever opened; a pipe would wait for its other end for good.
What cannot be looked into is reported, also a folder on the way.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from openmem.base.errors import NotFound
from openmem.context.transcript import Head, Reader, Source
from openmem.index.sessions.report import Unread

_NO_SESSIONS = "not a session of an agent that is known"
_NO_FILE = "a pipe, a socket or a device, not a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """The readers, and how a file's format is told. `head_of`: OSError."""

    readers: Mapping[str, Reader]
    head_of: Callable[[str], Head]
    file_source: Callable[[str, str], Source | None]
    reader_for: Callable[[Head], Reader | None]
    unread_format: Callable[[Head], str]


def kept_by_agents(
    formats: Formats, environ: Mapping[str, str], home: str, agents: tuple[str, ...]
) -> list[Source]:
    """Return the places where the named agents keep sessions, each once; all agents for none."""
    found = {
        (source.agent, source.path, source.part): source
        for name, reader in formats.readers.items()
        if not agents or name in agents
        for source in reader.sources(environ, home)
    }
    return list(found.values())


def named(
    formats: Formats, paths: list[str], agents: tuple[str, ...]
) -> tuple[list[Source], list[Unread]]:
    """Return what files and folders named by hand hold, told by content. NotFound."""
    sources: list[Source] = []
    unread: list[Unread] = []

    def fault(path: str, error: OSError) -> None:
        why = os.strerror(error.errno or 0)
        unread.append(Unread(path=path, why=why, is_fault=True))

    for path in paths:
        for file in _files(path, fault):
            try:
                found, why = _of_file(formats, file)
            except OSError as error:
                fault(file, error)
                continue
            sources += [source for source in found if not agents or source.agent in agents]
            if why:
                unread.append(Unread(path=file, why=why))
    return sources, unread


def _files(path: str, fault: Callable[[str, OSError], None]) -> Iterator[str]:
    """Yield a path, or all files below it; `fault` is told what cannot be looked into. NotFound."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no {path or 'file without a name'}.") from None
    except OSError as error:
        fault(path, error)
        return
    if not modes.S_ISDIR(status.st_mode):
        yield os.path.abspath(path)
        return

    def closed(error: OSError) -> None:
        fault(os.fsdecode(error.filename or path), error)

    for folder, folders, names in os.walk(os.path.abspath(path), onerror=closed):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))


def _of_file(formats: Formats, path: str) -> tuple[list[Source], str]:
    """Return what a file holds, and why it is not read. OSError."""
    if not modes.S_ISREG(os.stat(path).st_mode):
        return [], _NO_FILE
    for reader in formats.readers.values():
        found = reader.sources_in(path)
        if found is not None:
            return found, "" if found else "no session in it"
    head = formats.head_of(path)
    known = formats.reader_for(head)
    if known is None:
        name = formats.unread_format(head)
        return [], f"skipped: there is no reader for {name}" if name else _NO_SESSIONS
    source = formats.file_source(known.agent, path)
    return [replace(source, agent=known.agent)] if source else [], ""
