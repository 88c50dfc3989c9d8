"""The import: each source read from where it was left, its sessions stored, its cursor kept.

Idea: one lock for a group of sources at a time, so that two imports at once share the work.
Invariant: a cursor is kept after what it covers is stored; an import that is broken off loses at
most what it read since the last one, and reads that again.
Trap: a session may be written by the proxy meanwhile. What was matched is then matched anew from
the beginning; after some tries the session is left for the next time.
Source: users' reports 27, 28, 47 and 48.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openmem.base.clock import utc_text
from openmem.base.errors import StoreUnavailable
from openmem.base.io import ensure_private_dir, locked
from openmem.base.paths import Paths
from openmem.context.session import sanitize_sid
from openmem.context.store.beside import Beside
from openmem.context.store.importing import Counts, SessionImport
from openmem.context.store.inserting import Belongs, Moved
from openmem.context.store.masking import Masker
from openmem.context.transcript import Fault, Mark, Piece, Reader, Source
from openmem.index.sessions.cursors import Cursors, Kept
from openmem.index.sessions.fork import Shared
from openmem.index.sessions.gate import Gate
from openmem.index.sessions.report import Report, SessionReport, SkippedLine, Unread

Progress = Callable[[int, int, str], None]
"""Called with bytes done, bytes in all, and the agent's title."""

_BATCH_CHARACTERS = 1 << 20
_BATCH_PIECES = 4_000
_CHECKPOINT_BYTES = 128 << 20
_ATTEMPTS = 5
_LOCK_SECONDS = 3_600.0
_LOCKS = 16
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What an import works with. `since`: POSIX seconds, 0 for all.

    `stores_beside`: whether a second process stores what this one reads.
    """

    paths: Paths
    key: bytes
    readers: Mapping[str, Reader]
    is_dry: bool = False
    since: float = 0.0
    stores_beside: bool = False
    progress: Progress = lambda done, total, title: None


def import_sources(means: Means, sources: list[Source], report: Report) -> Report:
    """Read sources and store what may be stored; `report` is filled and returned.

    What cannot be read or stored is in the report; KeyboardInterrupt leaves everything whole.
    """
    begun = time.monotonic()
    wanted = [source for source in sources if source.modified_at >= means.since]
    report.places += len(sources)
    report.older += len(sources) - len(wanted)
    work = _Import(means, wanted, report)
    try:
        work.run()
    finally:
        work.close()
        report.seconds += time.monotonic() - begun
    return report


@dataclass(slots=True)
class _Session:
    """A session of the source that is being read. `report`: None when it may not be stored.

    `store`: None as long as nothing of it has to be; `state`: what the last import left of it.
    """

    sid: str
    belongs: Belongs = field(default_factory=Belongs)
    state: Mapping[str, Any] | None = None
    report: SessionReport | None = None
    store: SessionImport | None = None
    shared: Shared | None = None
    pending: list[Piece] = field(default_factory=list)


class _Import:
    def __init__(self, means: Means, sources: list[Source], report: Report) -> None:
        self._means = means
        self._report = report
        self._gate = Gate(means.paths)
        self.masker = Masker(means.paths, means.key)
        self.beside = Beside(means.paths, means.key) if means.stores_beside else None
        self._cursors = Cursors(means.paths, means.key, is_dry=means.is_dry)
        self._waiting = {(source.path, source.part): source for source in sources}
        self._by_name = {_name_of(source): source for source in sources}
        self._total = sum(source.size for source in sources)
        self._done = 0

    def run(self) -> None:
        while self._waiting:
            source = self._waiting.pop(next(iter(self._waiting)))
            if self._means.is_dry:
                self._one(source)
                continue
            ensure_private_dir(self._means.paths.context_dir)
            lock = f"{self._means.paths.context_dir}/{_lock_of(source)}"
            with locked(lock, timeout_seconds=_LOCK_SECONDS):
                self._one(source)

    def close(self) -> None:
        if self.beside:
            self.beside.close()
        self._cursors.close()
        self.masker.close()

    def _one(self, source: Source) -> None:
        """Import one source; what goes wrong with it is reported, and hides no other."""
        reader = self._means.readers[source.agent]
        title = reader.title
        self._means.progress(self._done, self._total, title)
        kept = self._cursors.get(source)
        is_unchanged = bool(kept.stamp) and kept.stamp == source.stamp
        if is_unchanged and not kept.is_denied:
            self._report.unchanged += 1
        else:
            try:
                if not (is_unchanged and self._is_denied_still(source, reader)):
                    self._with_attempts(source, reader, kept)
            except (OSError, sqlite3.Error) as error:
                why = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
                self._report.unread.append(Unread(path=source.path, why=why, is_fault=True))
            except StoreUnavailable as error:
                self._report.unread.append(
                    Unread(path=source.path, why=error.message, is_fault=True)
                )
        self._done += source.size
        self._means.progress(self._done, self._total, title)

    def _is_denied_still(self, source: Source, reader: Reader) -> bool:
        """Return whether what was denied still is; its folder may be in a repository by now.

        No more is read than says where the session ran: that is written down nowhere.
        """
        for item in reader.read(source, Mark()):
            if isinstance(item, Piece) and item.blocks:
                sid = sanitize_sid(item.session) or _fallback_sid(source)
                admission = self._gate.admit(sid, item.cwd or source.folder)
                if admission.may_store:
                    return False
                reason, denied = admission.reason, self._report.denied
                denied[reason] = denied.get(reason, 0) + 1
                break
        self._report.unchanged += 1
        return True

    def _with_attempts(self, source: Source, reader: Reader, kept: Kept) -> None:
        if source.part or not kept.mark.offset or self._was_rewritten(source, kept):
            kept = Kept()
        for attempt in range(_ATTEMPTS):
            work = _OneSource(self, source, reader, kept if attempt == 0 else Kept())
            try:
                work.read()
            except Moved:
                continue
            finally:
                work.close()
            work.add_to_report()
            return
        raise StoreUnavailable("its session is in use; the next import goes on with it.")

    def _was_rewritten(self, source: Source, kept: Kept) -> bool:
        return self._cursors.anchor_of(source.path, kept.mark.offset) != kept.anchor

    def before(self, parent: str) -> None:
        """Import the session that another one went on from first, if it is still to come."""
        source = self._by_name.get(parent)
        if source and self._waiting.pop((source.path, source.part), None):
            self._one(source)


class _OneSource:
    """One reading of one source."""

    def __init__(self, whole: _Import, source: Source, reader: Reader, kept: Kept) -> None:
        self._whole = whole
        self._means = whole._means
        self._source = source
        self._reader = reader
        self._kept = kept
        self._sessions: dict[str, _Session] = {}
        self._faults: list[SkippedLine] = []
        self._denied: dict[str, int] = {}
        self._pending_size = 0
        self._pending_pieces = 0
        self._bytes = 0

    def read(self) -> None:
        """Read to the end. Moved: nothing since the last cursor counts."""
        mark = last = self._kept.mark
        for item in self._reader.read(self._source, mark):
            if isinstance(item, Piece):
                if not self._take(item):
                    break
            elif isinstance(item, Fault):
                self._faults.append(
                    SkippedLine(
                        path=self._source.path, line=item.line, offset=item.offset, why=item.why
                    )
                )
            else:
                mark = item
                self._show(mark)
                if mark.offset - last.offset >= _CHECKPOINT_BYTES and self._checkpoint(mark):
                    last = mark
        self._flush()
        for session in self._stored():
            assert session.store is not None
            session.store.end()
        self._bytes = max(0, (mark.offset or self._source.size) - self._kept.mark.offset)
        kept = self._kept_at(mark, self._source.stamp)
        self.close()  # on disk before the cursor says so
        self._whole._cursors.put(self._source, kept)

    def close(self) -> None:
        for session in self._sessions.values():
            if session.store:
                session.store.close()
            if session.shared:
                session.shared.close()

    def add_to_report(self) -> None:
        """Add what was read to the report."""
        report = self._whole._report
        report.skipped += self._faults
        report.bytes += self._bytes
        for reason, count in self._denied.items():
            report.denied[reason] = report.denied.get(reason, 0) + count
        for session in self._sessions.values():
            if session.report:
                _merge(report, session.report, session, self._source.path)

    # pieces

    def _take(self, piece: Piece) -> bool:
        """Take a piece; False when nothing of the rest of the source may be stored."""
        session = self._sessions.get(piece.session)
        if not piece.blocks and not (session and piece.begins_anew):
            return True  # it says nothing that is stored
        if session is None:
            session = self._sessions[piece.session] = self._begin(piece)
        if session.report is None:
            # Only a file of Claude Code may hold another session, which may be stored.
            return self._reader.agent == "claude-code"
        if session.shared:
            if session.shared.holds(piece):
                return True
            session.report.shared += session.shared.rows
            session.shared = None
        if session.store is None:
            session.store = self._open(session)
        session.pending.append(piece)
        self._pending_pieces += 1
        self._pending_size += sum(len(block.text) for block in piece.blocks)
        if self._pending_size > _BATCH_CHARACTERS or self._pending_pieces > _BATCH_PIECES:
            self._flush()
        return True

    def _begin(self, piece: Piece) -> _Session:
        sid = sanitize_sid(piece.session) or _fallback_sid(self._source)
        folder = piece.cwd or self._source.folder
        admission = self._whole._gate.admit(sid, folder)
        session = _Session(sid=sid)
        if not admission.may_store:
            reason = admission.reason
            self._denied[reason] = self._denied.get(reason, 0) + 1
            return session
        parent = sanitize_sid(piece.parent)
        state = self._kept.sessions.get(sid) or {}
        if parent and parent != sid and not state.get("chains"):
            self._whole.before(parent)
            head = state.get("shared", "")
            session.shared = Shared(self._means.paths, self._means.key, parent, head)
        session.state = state if "last_seq" in state else None
        session.belongs = Belongs(agent=self._source.agent, cwd=admission.cwd, bank=admission.bank)
        session.report = SessionReport(
            session_id=sid,
            agent=self._source.agent,
            cwd=admission.cwd,
            bank=admission.bank,
            parent=parent if parent != sid else "",
        )
        return session

    def _open(self, session: _Session) -> SessionImport:
        return SessionImport(
            self._means.paths,
            session.sid,
            self._means.key,
            self._whole.masker,
            belongs=session.belongs,
            state=session.state,
            is_dry=self._means.is_dry,
            beside=self._whole.beside,
        )

    def _stored(self) -> list[_Session]:
        return [session for session in self._sessions.values() if session.store]

    def _flush(self) -> None:
        for session in self._stored():
            if session.pending and session.store:
                pieces, session.pending = session.pending, []
                session.store.add(pieces)
        self._pending_size = self._pending_pieces = 0

    # how far

    def _show(self, mark: Mark) -> None:
        whole = self._whole
        self._means.progress(whole._done + mark.offset, whole._total, self._reader.title)

    def _checkpoint(self, mark: Mark) -> bool:
        """Store everything before a mark and keep it; False when something waits for more."""
        self._flush()
        for session in self._stored():
            assert session.store is not None
            if not session.store.is_settled:
                return False
        self._whole._cursors.put(self._source, self._kept_at(mark, ""))
        return True

    def _kept_at(self, mark: Mark, stamp: str) -> Kept:
        states: dict[str, Any] = dict(self._kept.sessions)
        for session in self._stored():
            assert session.store is not None
            if not self._means.is_dry:
                states[session.sid] = session.store.state()
        for session in self._sessions.values():
            if session.shared and not session.store:
                states[session.sid] = {"shared": session.shared.head}
        anchor = "" if self._source.part else self._anchor(mark)
        denied = self._whole._gate.state if self._denied else self._kept.denied
        return Kept(stamp=stamp, mark=mark, sessions=states, anchor=anchor, denied=denied)

    def _anchor(self, mark: Mark) -> str:
        return self._whole._cursors.anchor_of(self._source.path, mark.offset)


def _merge(report: Report, found: SessionReport, session: _Session, path: str) -> None:
    """Add one source's part of a session to what the report holds of it."""
    counts = session.store.counts if session.store else Counts()
    if session.shared:
        found.shared += session.shared.rows  # all of it is the other session's
    found.added, found.known, found.masked = counts.added, counts.known, counts.masked
    found.sources = [path]
    if counts.first:
        found.first_at, found.last_at = utc_text(counts.first), utc_text(counts.last)
    known = report.sessions.setdefault(found.session_id, found)
    if known is not found:
        known.add(found)


def group_of(source: Source) -> str:
    """Return what names the sources that one process has to import in their order."""
    return f"{source.agent}\0{source.group}"


def _lock_of(source: Source) -> str:
    """Return the name of the lock that a source's group shares with some others."""
    return f"import.{zlib.crc32(group_of(source).encode('utf-8', 'replace')) % _LOCKS:x}.lock"


def _name_of(source: Source) -> str:
    """Return the session that a source is named after."""
    return source.part or _fallback_sid(source)


def _fallback_sid(source: Source) -> str:
    """Return an id for a session whose file tells none: the one in the file's name, or its name."""
    name = os.path.basename(source.path).partition(".")[0]
    found = _UUID.findall(name)
    return found[-1] if found else sanitize_sid(name) or "unnamed"
