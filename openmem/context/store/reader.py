"""Reading a session's file, of any version, without changing it.

Idea: versions 1 to 4 show the same relations (`messages`, `lines`, `events`); what a version lacks
reads as nothing.
Invariant: no file is written, made or locked against its writer; a newer version is not guessed at.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from openmem.base.errors import NotFound, StoreUnavailable
from openmem.base.frame import carries_own_text, is_own_tool
from openmem.base.paths import Paths
from openmem.context.store.catalog import Entry, entry_of
from openmem.context.store.prepare import FORGOTTEN
from openmem.context.store.readonly import connect_for_reading
from openmem.context.store.schema import LAST_SEQ, VERSION

_COLUMNS = (
    "seq, fingerprint, thread, role, kind, name, text, blob_id, in_context, trimmed_at_seq,"
    " trimmed_at, created_at"
)
_COUNT_ROWS = "SELECT count(*) FROM messages"
_FACTS = _COLUMNS.replace(" text,", " '',")
_NEW_COLUMNS = ", echo, masked, source"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """A row as stored. `text`: masked; its lines end with `\\n`. `name`, `trimmed_at`: "" for none.

    `masked`: how many secrets were masked, -1 when the text was forgotten. `source`: seq of the row
    that holds the same text in a history that the client rewrote, 0 for none; searches show only
    that one.
    """

    seq: int
    fingerprint: str
    thread: str
    role: str
    kind: str
    name: str
    text: str
    blob_ids: tuple[str, ...]
    in_context: bool
    trimmed_at_seq: int
    trimmed_at: str
    created_at: str
    echo: bool
    masked: int
    source: int

    @property
    def is_forgotten(self) -> bool:
        """Whether the text was forgotten, also one that came again; its place is kept."""
        return self.masked == FORGOTTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event: its id, time, kind, and the other columns that are not NULL, by name."""

    id: int
    at: str
    kind: str
    values: dict[str, object]


def open_session(paths: Paths, sid: str) -> SessionReader:
    """Return a reader of a session. `sid`: sanitised.

    NotFound when it has no store; StoreUnavailable when it is newer than ours or damaged.
    """
    entry = entry_of(paths, sid)
    if entry is None:
        raise NotFound(
            f"there is no stored session {sid}.",
            hint="`openmem context status` lists the sessions.",
        )
    return open_entry(entry)


def open_entry(entry: Entry, *, immutable: bool | None = None) -> SessionReader:
    """Return a reader of a session of the catalogue; errors as `open_session`."""
    try:
        connection = connect_for_reading(entry.path, immutable=immutable)
    except sqlite3.Error as error:
        raise damaged(entry, error) from error
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        connection.close()
        raise damaged(entry, error) from error
    if version > VERSION:
        connection.close()
        raise StoreUnavailable(
            f"session {entry.session_id}: its store has version {version}, newer than this openmem"
            f" ({VERSION}); not read.",
            hint="Upgrade openmem.",
            code="store-newer",
        )
    if version == 0 or entry.is_legacy == (version == VERSION):
        connection.close()
        raise StoreUnavailable(f"session {entry.session_id}: its store was not finished; not read.")
    return SessionReader(entry, connection, version)


def damaged(entry: Entry, error: BaseException) -> StoreUnavailable:
    """Return our error for a file that cannot be read."""
    return StoreUnavailable(f"session {entry.session_id}: its store cannot be read ({error}).")


class SessionReader:
    """An open session. Closing is the caller's, or the `with` statement's.

    Any method raises StoreUnavailable when the file turns out to be damaged.
    """

    def __init__(self, entry: Entry, connection: sqlite3.Connection, version: int) -> None:
        self.entry = entry
        self.version = version
        self.connection = connection
        if version < VERSION:
            # The earlier system did not check its texts; one that is no UTF-8 hides no other row.
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")

    @property
    def session_id(self) -> str:
        return self.entry.session_id

    def __enter__(self) -> SessionReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def rows(self, *, after: int = 0, limit: int = -1) -> Iterator[StoredRow]:
        """Yield the rows after a seq, in order; `limit` -1 for all."""
        yield from self._rows("WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit))

    def last_rows(self, limit: int) -> list[StoredRow]:
        """Return the last rows in order, 0 for all of them."""
        if limit <= 0:
            return list(self.rows())
        return list(self._rows("ORDER BY seq DESC LIMIT ?", (limit,)))[::-1]

    def forgotten_count(self) -> int:
        """Return how many rows were forgotten."""
        if self.version < VERSION:
            return 0
        query = f"SELECT count(*) FROM row WHERE masked = {FORGOTTEN}"
        try:
            return int(self.connection.execute(query).fetchone()[0])
        except sqlite3.Error as error:
            raise damaged(self.entry, error) from error

    def row(self, seq: int) -> StoredRow | None:
        """Return one row; None when there is none of that number, whatever the number is."""
        if not 0 < seq <= LAST_SEQ:
            return None
        return next(self._rows("WHERE seq = ?", (seq,)), None)

    def row_count(self) -> int:
        """Return how many rows the session has."""
        query = "SELECT rows FROM session" if self.version == VERSION else _COUNT_ROWS
        try:
            row = self.connection.execute(query).fetchone()
        except sqlite3.Error as error:
            raise damaged(self.entry, error) from error
        return int(row[0]) if row else 0

    def row_facts(self, seq: int) -> StoredRow | None:
        """Return one row with an empty text, which is what costs."""
        return next(self._rows("WHERE seq = ?", (seq,), columns=_FACTS), None)

    def neighbours(self, seq: int, count: int) -> tuple[list[StoredRow], list[StoredRow]]:
        """Return up to `count` rows before and after a row, of its thread, in order.

        Reminders are left out: they stand between what was said and say nothing of it.
        """
        row = self.row(seq)
        if row is None or count <= 0:
            return [], []
        condition = "WHERE thread = ? AND role <> 'system' AND seq"
        before = self._rows(f"{condition} < ? ORDER BY seq DESC LIMIT ?", (row.thread, seq, count))
        after = self._rows(f"{condition} > ? ORDER BY seq LIMIT ?", (row.thread, seq, count))
        return list(before)[::-1], list(after)

    def events(self, kind: str = "") -> Iterator[StoredEvent]:
        """Yield the events in order, of one kind or all. None in files of version 1."""
        if self.version == 1:
            return
        where = "WHERE kind = ?" if kind else ""
        try:
            cursor = self.connection.execute(
                f"SELECT * FROM events {where} ORDER BY id", (kind,) if kind else ()
            )
            names = [column[0] for column in cursor.description]
            for values in cursor:
                found = dict(zip(names, values, strict=True))
                yield StoredEvent(
                    id=found.pop("id"),
                    at=found.pop("at"),
                    kind=found.pop("kind"),
                    values={name: value for name, value in found.items() if value is not None},
                )
        except sqlite3.Error as error:
            raise damaged(self.entry, error) from error

    def _rows(
        self, condition: str, values: tuple[object, ...], columns: str = _COLUMNS
    ) -> Iterator[StoredRow]:
        columns += _NEW_COLUMNS if self.version == VERSION else ""
        try:
            for row in self.connection.execute(
                f"SELECT {columns} FROM messages {condition}", values
            ):
                yield _stored_row(row)
        except sqlite3.Error as error:
            raise damaged(self.entry, error) from error


def _stored_row(row: tuple[object, ...]) -> StoredRow:
    name, text, blob_ids = str(row[5] or ""), str(row[6] or ""), str(row[7] or "")
    return StoredRow(
        seq=_number(row[0]),
        fingerprint=str(row[1]),
        thread=str(row[2]),
        role=str(row[3]),
        kind=str(row[4]),
        name=name,
        text=text,
        blob_ids=tuple(blob_ids.split(",")) if blob_ids else (),
        in_context=bool(row[8]),
        trimmed_at_seq=_number(row[9]),
        trimmed_at=str(row[10] or ""),
        created_at=str(row[11] or ""),
        # The earlier system did not mark echoes; they are told by the same rule.
        echo=bool(row[12]) if len(row) > 12 else is_own_tool(name) or carries_own_text(text),
        masked=_number(row[13]) if len(row) > 13 else 0,
        source=_number(row[14]) if len(row) > 14 else 0,
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
