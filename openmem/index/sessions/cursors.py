"""How far each source was read, so that the next import reads only what is new.

Invariant: holds places, counts and keyed digests, never what was said; without it everything is
read again and stored once. Of a source of which nothing may be stored it holds digests alone, so
that no name of a denied folder or session is on disk; they count under the same policy only.
Trap: a file may be cut and written anew under its name; the digest of the bytes before the offset
tells.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.context.store.readonly import connect_for_reading
from openmem.context.transcript import Mark, Source
from openmem.index.sessions.gate import policy_state

_VERSION = 1
_ANCHOR_BYTES = 256
_BUSY_SECONDS = 10.0
_SCHEMA = """CREATE TABLE IF NOT EXISTS source (path TEXT NOT NULL, part TEXT NOT NULL,
    agent TEXT NOT NULL, stamp TEXT NOT NULL, state TEXT NOT NULL, read_at INTEGER NOT NULL,
    PRIMARY KEY (path, part)) WITHOUT ROWID"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of a source. `stamp`: of the source as it was read whole, "" when it was not.

    `sessions`: session id → state of its import. `anchor`: digest of the bytes before the mark.
    `denied`: under which policy something in it was denied (`gate.policy_state`), "" for nothing.
    """

    stamp: str = ""
    mark: Mark = field(default_factory=Mark)
    sessions: Mapping[str, Any] = field(default_factory=dict)
    anchor: str = ""
    denied: str = ""

    @property
    def is_denied(self) -> bool:
        """Whether nothing of the source could be stored."""
        return bool(self.denied) and not self.sessions


def cursors_file(paths: Paths) -> str:
    """Return where cursors are kept; nothing is created."""
    return f"{paths.context_dir}/imports.db"


class Cursors:
    """The cursors of one installation. `is_dry`: nothing is written."""

    def __init__(self, paths: Paths, key: bytes, *, is_dry: bool = False) -> None:
        self._paths = paths
        self._path = cursors_file(paths)
        self._folder = paths.context_dir
        self._key = key
        self._is_dry = is_dry
        self._connection: sqlite3.Connection | None = None

    def get(self, source: Source) -> Kept:
        """Return what is kept of a source; an empty value when nothing is, or it cannot be read,
        or something in it was denied by another policy than the one there is now."""
        if not os.path.exists(self._path):
            return Kept()
        query = "SELECT stamp, state FROM source WHERE path = ? AND part = ?"
        places = ((_bindable(source.path), source.part), self._denied_place(source))
        try:
            found = (self._opened().execute(query, place).fetchone() for place in places)
            row = next((row for row in found if row), None)
            kept = _decoded(str(row[0]), json.loads(row[1])) if row else Kept()
        except (sqlite3.Error, ValueError, KeyError, TypeError):
            return Kept()  # a cache: everything is read again, and stored once
        if kept.denied and kept.denied != policy_state(self._paths):
            return Kept()
        if kept.is_denied:
            is_same = kept.stamp == self._digest(source.stamp)
            return replace(kept, stamp=source.stamp if is_same else "")
        return kept

    def put(self, source: Source, kept: Kept) -> None:
        """Keep how far a source was read."""
        if self._is_dry:
            return
        place: tuple[str, str] = (_bindable(source.path), source.part)
        other = self._denied_place(source)
        if kept.is_denied:
            stamp = self._digest(source.stamp) if kept.stamp else ""
            kept = Kept(stamp=stamp, denied=kept.denied)
            place, other = other, place
        mark = kept.mark
        state = {
            "version": _VERSION,
            "mark": [mark.offset, mark.line, dict(mark.state)],
            "sessions": dict(kept.sessions),
            "anchor": kept.anchor,
            "denied": kept.denied,
        }
        agent = "" if kept.is_denied else source.agent
        row = (*place, agent, kept.stamp, json.dumps(state), int(time.time()))
        statement = "INSERT OR REPLACE INTO source VALUES (?, ?, ?, ?, ?, ?)"
        try:
            self._opened().execute(statement, row)
            self._opened().execute("DELETE FROM source WHERE path = ? AND part = ?", other)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self.close()  # damaged: a cache, made anew
            os.unlink(self._path)
            self._opened().execute(statement, row)

    def anchor_of(self, path: str, offset: int) -> str:
        """Return the digest of the bytes before an offset, "" at the beginning. OSError."""
        if not offset:
            return ""
        with open(path, "rb") as file:
            file.seek(max(0, offset - _ANCHOR_BYTES))
            data = file.read(min(offset, _ANCHOR_BYTES))
        return hmac.digest(self._key, b"import\0" + data, "sha256").hex()[:32]

    def _denied_place(self, source: Source) -> tuple[str, str]:
        """Return where the cursor of a denied source stands: nothing that names it."""
        return "denied:" + self._digest(f"{source.path}\0{source.part}"), ""

    def _digest(self, text: str) -> str:
        data = b"denied\0" + text.encode("utf-8", "surrogateescape")
        return hmac.digest(self._key, data, "sha256").hex()[:32]

    def close(self) -> None:
        """Close the file."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection:
            return self._connection
        if self._is_dry:
            self._connection = connect_for_reading(self._path)
            return self._connection
        ensure_private_dir(self._folder)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        # Every source is one write; one that is lost with the machine's power is read again.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(_SCHEMA)
        self._connection = connection
        return connection


def _decoded(stamp: str, state: Mapping[str, Any]) -> Kept:
    if state["version"] != _VERSION:
        return Kept()
    offset, line, told = state["mark"]
    return Kept(
        stamp=stamp,
        mark=Mark(offset=int(offset), line=int(line), state=told),
        sessions=state["sessions"],
        anchor=str(state["anchor"]),
        denied=str(state.get("denied", "")),
    )


def _bindable(path: str) -> str:
    """Return a path that SQLite takes; a name may hold bytes that are no UTF-8."""
    return path.encode("utf-8", "backslashreplace").decode()
