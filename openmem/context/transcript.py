"""What is read from the sessions that agents kept on disk: places, what was said, faults.

Idea: every agent writes its sessions in a form of its own; a reader turns each into the same few
values, and whoever stores them knows no agent. Reading is a stream, and says at which places it
may be taken up again.
Invariant: a reader changes nothing, keeps nothing between two files, and raises only what the file
system raises; whatever is wrong inside a file is a `Fault` beside the rest.
Trap: the keys of rows follow from the order of blocks. A reader gives them in the order in which
the agent sends them to its model, or a session that the proxy recorded is not known again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from openmem.context.rows import Block

HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A place that holds a session, or several. `part`: which of a database's, "" for a file.

    `size`: bytes, a guess for a part. `modified_at`: POSIX seconds. `stamp`: equal as long as
    nothing changed there. `folder`: where the session ran, when only the place tells. `group`:
    equal for an agent's sources that may hold one session, or a session and its forks.
    """

    agent: str
    path: str
    part: str = ""
    size: int = 0
    modified_at: float = 0.0
    stamp: str = ""
    folder: str = ""
    group: str = ""


class Piece(NamedTuple):
    """Something said at one time in one thread of a session.

    `session`: the agent's id of it. `agent_id`: the sub-agent's, "" for the main conversation.
    `at`: POSIX seconds, 0 when it is not told. `cwd`, `model`, `parent` (the session that this one
    went on from): "" when not told here. `begins_anew`: the agent goes on from here without what
    was before, this piece being what it kept of it; `sums_up`: the same, but in the same thread.
    """

    session: str
    blocks: tuple[Block, ...] = ()
    agent_id: str = ""
    at: float = 0.0
    cwd: str = ""
    model: str = ""
    parent: str = ""
    begins_anew: bool = False
    sums_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that could not be read. `line`: from 1, 0 for the whole; `offset`: in bytes."""

    line: int
    offset: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place where reading may go on later, with what the reader has to know then (JSON-able).

    Everything before it was given. `line`: the number of the line that begins at `offset`.
    """

    offset: int = 0
    line: int = 1
    state: Mapping[str, Any] = field(default_factory=dict)


Item = Piece | Fault | Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of a file: its bytes, its first values, whether it is one document."""

    data: bytes
    values: tuple[Any, ...] = ()
    is_document: bool = False


class Reader(Protocol):
    """Reads one agent's sessions. `agent`: as in `--agent`; `title`: as people call it."""

    @property
    def agent(self) -> str: ...
    @property
    def title(self) -> str: ...

    def sources(self, environ: Mapping[str, str], home: str) -> Iterator[Source]:
        """Yield the places on this machine that hold sessions. Nothing is opened but folders."""
        ...

    def sources_in(self, path: str) -> list[Source] | None:
        """Return what a file named by hand holds, None when its beginning must tell."""
        ...

    def knows(self, head: Head) -> bool:
        """Return whether a file that begins so is this agent's."""
        ...

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        """Yield what a source holds from a mark on. OSError; sqlite3.Error for a database."""
        ...
