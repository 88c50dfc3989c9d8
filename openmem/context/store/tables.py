"""The statements on a session's tables, one method each; no decisions.

All methods but `find…` and `read…` want an open transaction. Keys are hex outside, bytes inside.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain

from openmem.base.tokens import index_text
from openmem.context.rows import KINDS, ROLES
from openmem.context.store.model import Event
from openmem.context.store.prepare import FORGOTTEN, Prepared
from openmem.context.store.schema import (
    LAST_LINE,
    LAST_SEQ,
    THREAD_KINDS,
    base_id,
    group_of,
)

_ROLE_NUMBERS = {role: number for number, role in enumerate(ROLES)}
_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_SYSTEM = _ROLE_NUMBERS["system"]
_EVENT_FIELDS = tuple(field.name for field in fields(Event))
_ADD_EVENT = (
    f"INSERT INTO events ({', '.join(_EVENT_FIELDS)})"
    f" VALUES ({', '.join('?' * len(_EVENT_FIELDS))})"
)
_ADD_ROW = (
    "INSERT INTO row (seq, fingerprint, content_key, digest, thread, prev, role, kind, name,"
    " line_count, size, in_context, created_at, echo, masked, source)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)"
)
_ADD_LINE = "INSERT INTO line (id, text) VALUES (?, ?)"
_AT_ONCE = 256  # values: id and text of 128 lines
_ADD_LINES = _ADD_LINE + ", (?, ?)" * (_AT_ONCE // 2 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A row that is stored. `is_trimmed`: a trim of ours took it out, not the client."""

    seq: int
    in_context: bool = True
    is_trimmed: bool = False
    source: int | None = None


class Tables:
    """A session's tables over one connection. `now`: POSIX seconds of this call."""

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        self.now = now
        self._connection = connection
        self._execute = connection.execute
        self._rows: list[tuple[object, ...]] = []
        self._lines: dict[int, list[int | str]] = {}
        self._indexed: dict[int, list[tuple[int, str]]] = {}
        self._blobs: list[tuple[int, str, str, int]] = []
        self._last_seq = 0
        self._added_bytes = 0

    # reading

    def find_row(self, fingerprint: str) -> Found | None:
        """Return the row with this fingerprint."""
        row = self._execute(
            "SELECT seq, in_context, trimmed_at_seq, source FROM row WHERE fingerprint = ?",
            (bytes.fromhex(fingerprint),),
        ).fetchone()
        if row is None:
            return None
        return Found(
            seq=row[0], in_context=bool(row[1]), is_trimmed=row[2] is not None, source=row[3]
        )

    def find_system_row(self, thread_id: int, digest: str) -> Found | None:
        """Return the system row of a thread with this stored text."""
        row = self._execute(
            f"SELECT seq, in_context, trimmed_at_seq FROM row"
            f" WHERE thread = ? AND digest = ? AND role = {_SYSTEM}",
            (thread_id, bytes.fromhex(digest)),
        ).fetchone()
        if row is None:
            return None
        return Found(seq=row[0], in_context=bool(row[1]), is_trimmed=row[2] is not None)

    def find_thread(self, fingerprint: str) -> int:
        """Return the id of a thread, 0 when it is not there."""
        row = self._execute(
            "SELECT id FROM thread WHERE fingerprint = ?", (bytes.fromhex(fingerprint),)
        ).fetchone()
        return int(row[0]) if row else 0

    def is_main(self, thread_id: int) -> bool:
        """Return whether a thread is a main conversation."""
        row = self._execute("SELECT kind FROM thread WHERE id = ?", (thread_id,)).fetchone()
        return bool(row) and row[0] == 0

    def read_session(self) -> tuple[str, str, str, int]:
        """Return (agent, cwd, bank, last seq)."""
        row = self._execute("SELECT agent, cwd, bank, last_seq FROM session").fetchone()
        return str(row[0]), str(row[1]), str(row[2]), int(row[3])

    def read_family(self, kind: str, agent_id: str) -> list[int]:
        """Return the ids of the threads of one agent, the last used first."""
        return [
            int(row[0])
            for row in self._execute(
                "SELECT id FROM thread WHERE kind = ? AND agent_id = ?"
                " ORDER BY last_at DESC, id DESC",
                (THREAD_KINDS.index(kind), agent_id),
            )
        ]

    def count_rows(self, thread_ids: Collection[int]) -> int:
        """Return how many rows the threads have."""
        return sum(
            int(row[0])
            for thread_id in thread_ids
            for row in self._execute("SELECT rows FROM thread WHERE id = ?", (thread_id,))
        )

    def read_content(self, thread_ids: Collection[int]) -> Iterable[tuple[bytes, int]]:
        """Return (content key, seq) of the threads' rows that hold text of their own."""
        for thread_id in thread_ids:
            yield from self._execute(
                "SELECT content_key, seq FROM row"
                " WHERE thread = ? AND content_key IS NOT NULL AND source IS NULL ORDER BY seq",
                (thread_id,),
            )

    def read_place(self, seq: int) -> tuple[str, int]:
        """Return a row's (fingerprint, thread id)."""
        row = self._execute("SELECT fingerprint, thread FROM row WHERE seq = ?", (seq,)).fetchone()
        return bytes(row[0]).hex(), int(row[1])

    def read_thinking(self, thread_ids: Collection[int]) -> Iterable[tuple[bytes, int]]:
        """Return (digest, seq) of the threads' rows of thinking."""
        for thread_id in thread_ids:
            yield from self._execute(
                "SELECT digest, seq FROM row WHERE thread = ? AND kind = ? ORDER BY seq",
                (thread_id, _KIND_NUMBERS["thinking"]),
            )

    def read_in_context(self, thread_id: int) -> set[int]:
        """Return the rows of a thread that are in context."""
        return {
            int(row[0])
            for row in self._execute(
                "SELECT seq FROM row WHERE thread = ? AND in_context = 1", (thread_id,)
            )
        }

    def read_links(self) -> list[tuple[int, int, bool]]:
        """Return (seq, source, in context) of the rows whose text another row holds."""
        return [
            (int(seq), int(source), bool(in_context))
            for seq, source, in_context in self._execute(
                "SELECT seq, source, in_context FROM row WHERE source IS NOT NULL"
            )
        ]

    # writing

    def ensure_thread(
        self,
        fingerprint: str,
        *,
        kind: str,
        agent_id: str,
        parent: int | None,
        model: str,
        at: int = 0,
    ) -> int:
        """Return the id of a thread, made when it is not there. `at`: when it began, 0 for now."""
        found = self.find_thread(fingerprint)
        if found:
            return found
        cursor = self._execute(
            "INSERT INTO thread (fingerprint, kind, agent_id, parent, model, created_at, last_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                bytes.fromhex(fingerprint),
                THREAD_KINDS.index(kind),
                agent_id,
                parent,
                model,
                at or self.now,
                at or self.now,
            ),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def begin_rows(self) -> None:
        """Start adding rows after the last one of the session."""
        self._last_seq = self.read_session()[3]

    def add_row(
        self,
        row: Prepared,
        *,
        thread_id: int,
        prev: int | None,
        source: int | None,
        at: int = 0,
    ) -> int:
        """Add a row, in memory until `flush_rows`, and return its seq.

        `source`: the row that holds the same text already; then no line is stored. `at`: when it
        was said, 0 for now.
        """
        seq = self._last_seq + 1
        if seq > LAST_SEQ:
            raise sqlite3.DataError("a session holds 67 million rows at most")
        self._last_seq = seq
        # Only line feeds end a line: pasted text holds other characters that some call line ends.
        has_text = source is None and row.masked != FORGOTTEN
        lines = row.text.split("\n", LAST_LINE - 1) if has_text else []
        self._rows.append(
            (
                seq,
                bytes.fromhex(row.fingerprint),
                bytes.fromhex(row.content_key) if row.content_key else None,
                bytes.fromhex(row.digest),
                thread_id,
                prev,
                _ROLE_NUMBERS[row.role],
                _KIND_NUMBERS[row.kind],
                row.name if row.name and row.masked != FORGOTTEN else None,
                len(lines),
                row.size,
                at or self.now,
                row.echo,
                row.masked,
                source,
            )
        )
        group = group_of(row.role, row.echo)
        first = base_id(group, seq) + 1
        numbered = list(enumerate(lines, first))
        self._lines.setdefault(group, []).extend(chain.from_iterable(numbered))
        # Told once a row: the index takes ASCII as it is, and most rows are nothing else.
        words = [each for each in numbered if each[1] and not each[1].isspace()]
        self._indexed.setdefault(group, []).extend(
            words
            if row.is_ascii
            else [(number, line if line.isascii() else index_text(line)) for number, line in words]
        )
        if source is None:
            self._added_bytes += row.size
            self._blobs.extend((seq, blob.id, blob.media, len(blob.data)) for blob in row.blobs)
        return seq

    def flush_rows(self, thread_id: int, model: str, *, at: int = 0) -> int:
        """Write the rows added, add them to the sums and return how many they are.

        `at`: when the last one was said, 0 for now.
        """
        rows, added = len(self._rows), self._added_bytes
        many = self._connection.executemany
        many(_ADD_ROW, self._rows)
        # In the order of ids: an id below the last one makes the index write out what it gathered,
        # which took as long again for rows of alternating roles.
        for group in sorted(self._lines):
            self._add_lines(self._lines[group])
            # The index takes rows one by one: it writes out what it gathered at each statement.
            many("INSERT INTO lines_fts (rowid, text) VALUES (?, ?)", self._indexed[group])
        many("INSERT OR IGNORE INTO blob (seq, id, media, size) VALUES (?, ?, ?, ?)", self._blobs)
        self._rows, self._blobs, self._lines, self._indexed = [], [], {}, {}
        self._added_bytes = 0
        self._execute(
            "UPDATE session SET last_seq = ?, rows = rows + ?, bytes = bytes + ?,"
            " last_at = max(last_at, ?)",
            (self._last_seq, rows, added, at or self.now),
        )
        self._execute(
            "UPDATE thread SET rows = rows + ?, bytes = bytes + ?, last_at = max(last_at, ?),"
            " model = coalesce(?, model) WHERE id = ?",
            (rows, added, at or self.now, model or None, thread_id),
        )
        return rows

    def _add_lines(self, values: list[int | str]) -> None:
        """Insert lines, given as id, text, id, text; many by one statement, which takes half."""
        whole = len(values) // _AT_ONCE * _AT_ONCE
        many = self._connection.executemany
        many(_ADD_LINES, (values[at : at + _AT_ONCE] for at in range(0, whole, _AT_ONCE)))
        many(_ADD_LINE, (values[at : at + 2] for at in range(whole, len(values), 2)))

    def set_session(self, agent: str, cwd: str, bank: str) -> None:
        """Store what is known of the session."""
        self._execute("UPDATE session SET agent = ?, cwd = ?, bank = ?", (agent, cwd, bank))

    def set_times(self, first: int, last: int) -> None:
        """Store when the session began and was last used, for one that was read from elsewhere."""
        self._execute("UPDATE session SET created_at = ?, last_at = ?", (first, last))

    def leave_context(self, thread_id: int, at: int, *, keeps_prompts: bool) -> int:
        """Mark a thread's rows as gone from context, the person's words not where they are kept."""
        but = f" AND role <> {_ROLE_NUMBERS['user']}" if keeps_prompts else ""
        cursor = self._execute(
            "UPDATE row SET in_context = 0, trimmed_at = ?"
            f" WHERE thread = ? AND in_context = 1{but}",
            (at, thread_id),
        )
        return max(cursor.rowcount, 0)

    def take_out_of_context(self, seqs: Collection[int], thread_id: int | None = None) -> int:
        """Mark rows as gone from context; return how many were in it. `thread_id`: only of this."""
        where = "" if thread_id is None else f" AND thread = {thread_id:d}"
        cursor = self._connection.executemany(
            "UPDATE row SET in_context = 0, trimmed_at = ?"
            f" WHERE seq = ? AND in_context = 1{where}",
            [(self.now, seq) for seq in seqs],
        )
        return max(cursor.rowcount, 0)

    def count_masked(self, seqs: Collection[int]) -> int:
        """Return how many secrets are masked in these rows."""
        masked = (
            self._execute("SELECT masked FROM row WHERE seq = ?", (seq,)).fetchone() for seq in seqs
        )
        return sum(max(0, int(row[0])) for row in masked if row)

    def whole_of_kind(self, seqs: Sequence[int], kind: str, place: int) -> int:
        """Return of these rows the one that is the `place`-th of its kind, 0 when there is none or
        it does not hold its text word for word."""
        found = [
            (seq, int(row[1]))
            for seq in seqs
            if (
                row := self._execute(
                    "SELECT kind, masked FROM row WHERE seq = ?", (seq,)
                ).fetchone()
            )
            and KINDS[row[0]] == kind
        ]
        return found[place][0] if place < len(found) and found[place][1] == 0 else 0

    def mark_trimmed(self, seqs: Collection[int], turn: int) -> None:
        """Mark rows, and those that hold their text, as taken out by a trim at the row `turn`.

        They stay out.
        """
        self._connection.executemany(
            "UPDATE row SET in_context = 0, trimmed_at = ?1, trimmed_at_seq = ?2"
            " WHERE (seq = ?3 OR seq = (SELECT source FROM row WHERE seq = ?3))"
            " AND trimmed_at_seq IS NULL",
            [(self.now, turn, seq) for seq in seqs],
        )

    def put_back_in_context(self, seqs: Collection[int]) -> None:
        """Mark rows as in context again; one that a trim of ours took out stays out."""
        self._connection.executemany(
            "UPDATE row SET in_context = 1, trimmed_at = NULL"
            " WHERE seq = ? AND in_context = 0 AND trimmed_at_seq IS NULL",
            [(seq,) for seq in seqs],
        )

    def add_event(self, event: Event, at: str, thread_id: int, *, is_main: bool) -> None:
        """Append an event and add its counts to the session and to the thread (0: to none)."""
        values = [getattr(event, name) for name in _EVENT_FIELDS]
        values[_EVENT_FIELDS.index("at")] = at
        self._execute(_ADD_EVENT, values)
        counts: dict[str, int] = {
            "trims": int(event.kind == "trim"),
            "busts": int(bool(event.bust)),
            "cache_read_tokens": event.cache_read_tokens or 0,
            "cache_creation_tokens": event.cache_creation_tokens or 0,
            "input_tokens": event.input_tokens or 0,
            "output_tokens": event.output_tokens or 0,
        }
        sums = ", ".join(f"{name} = {name} + :{name}" for name in counts)
        parts = (event.input_tokens, event.cache_read_tokens, event.cache_creation_tokens)
        prompt = sum(part or 0 for part in parts)
        values_by_name = {
            **counts,
            "prompt": prompt,
            "now": self.now,
            "thread": thread_id,
            "fail_opens": int(event.kind == "fail_open"),
        }
        is_usage = event.kind == "usage" and any(part is not None for part in parts)
        of_prompt = ", prompt_tokens = :prompt" if is_usage else ""
        self._execute(
            f"UPDATE session SET {sums}, fail_opens = fail_opens + :fail_opens, last_at = :now"
            + (of_prompt if is_main else ""),
            values_by_name,
        )
        if thread_id:
            self._execute(
                f"UPDATE thread SET {sums}, last_at = :now{of_prompt} WHERE id = :thread",
                values_by_name,
            )
