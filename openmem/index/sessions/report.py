"""What an import came to, as values."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class SessionReport:
    """One session. `added`: rows stored now; `known`: rows that were stored before; `shared`: rows
    that stand in the session it went on from (`parent`). `first_at`, `last_at`: UTC text or "".
    """

    session_id: str
    agent: str
    cwd: str = ""
    bank: str = ""
    parent: str = ""
    added: int = 0
    known: int = 0
    shared: int = 0
    masked: int = 0
    first_at: str = ""
    last_at: str = ""
    sources: list[str] = field(default_factory=list)

    def add(self, other: SessionReport) -> None:
        """Add what another source of the same session came to."""
        self.added += other.added
        self.known += other.known
        self.shared += other.shared
        self.masked += other.masked
        self.sources += other.sources
        if other.first_at:
            self.first_at = min(self.first_at or other.first_at, other.first_at)
            self.last_at = max(self.last_at, other.last_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedLine:
    """A line that could not be read. `line`: from 1, 0 for the whole; `offset`: bytes."""

    path: str
    line: int
    offset: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A place that was not read, or not to its end, and why. `is_fault`: it should have been."""

    path: str
    why: str
    is_fault: bool = False


@dataclass(slots=True, kw_only=True)
class Report:
    """The whole. `denied`: reason → sessions that policy does not let be stored, unnamed.

    `unchanged`: places that were read before and are as they were; `older`: last used before the
    day that was asked for. `bytes`: read now.
    """

    sessions: dict[str, SessionReport] = field(default_factory=dict)
    skipped: list[SkippedLine] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    denied: dict[str, int] = field(default_factory=dict)
    places: int = 0
    unchanged: int = 0
    older: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        """Add what another process found; `seconds` run beside each other and are not added."""
        for sid, session in other.sessions.items():
            known = self.sessions.setdefault(sid, session)
            if known is not session:
                known.add(session)
        self.skipped += other.skipped
        self.unread += other.unread
        for reason, count in other.denied.items():
            self.denied[reason] = self.denied.get(reason, 0) + count
        self.places += other.places
        self.unchanged += other.unchanged
        self.older += other.older
        self.bytes += other.bytes

    @property
    def added(self) -> int:
        return sum(session.added for session in self.sessions.values())

    @property
    def known(self) -> int:
        return sum(session.known for session in self.sessions.values())
