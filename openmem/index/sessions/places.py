"""Which places are read: those where agents keep their sessions, or files named by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from openmem.base.errors import NotFound
from openmem.context.transcript import Head, Reader, Source
from openmem.index.sessions.report import Unread

_NO_SESSIONS = "not a session of an agent that is known"


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
    """Return the places where the named agents keep sessions; all agents for none."""
    return [
        source
        for name, reader in formats.readers.items()
        if not agents or name in agents
        for source in reader.sources(environ, home)
    ]


def named(
    formats: Formats, paths: list[str], agents: tuple[str, ...]
) -> tuple[list[Source], list[Unread]]:
    """Return what files and folders named by hand hold, told by content. NotFound."""
    sources: list[Source] = []
    unread: list[Unread] = []
    for path in paths:
        if not os.path.exists(path):
            raise NotFound(f"there is no {path}.")
        for file in _files(path):
            try:
                found, why = _of_file(formats, file)
            except OSError as error:
                why = os.strerror(error.errno or 0)
                unread.append(Unread(path=file, why=why, is_fault=True))
                continue
            sources += [source for source in found if not agents or source.agent in agents]
            if why:
                unread.append(Unread(path=file, why=why))
    return sources, unread


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield os.path.abspath(path)
        return
    for folder, folders, names in os.walk(os.path.abspath(path)):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))


def _of_file(formats: Formats, path: str) -> tuple[list[Source], str]:
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
