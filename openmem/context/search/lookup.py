"""Looking terms up in one session's file, with the same filters for rows, lines and counts.

Idea: roles and echo are part of a line's id, so a filter is a range of ids. A word that is in very
many lines is counted in full, but only its newest lines take part in the ranking, or its newest
rows where a few long ones have all those lines.
Trap: a file of the earlier system has other ids and an index that takes a run of CJK as one word;
it is looked up by joining, and such terms by reading its lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from openmem.base.frame import carries_own_text, is_own_tool
from openmem.base.tokens import index_text
from openmem.context.search.query import LIMIT_LIMIT, Query
from openmem.context.search.terms import Term, Tier
from openmem.context.store.reader import SessionReader
from openmem.context.store.schema import (
    GROUP_SHIFT,
    LAST_LINE,
    LAST_SEQ,
    LINE_BITS,
    VERSION,
    ranges_of,
)

_LIKE = "LIKE ? ESCAPE '\\'"
Sql = tuple[str, list[object]]
Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where a term was found in a session. `lines_by_row`: row → lines; only the newest ones when
    `is_partial`. `rows` and `lines` are exact."""

    lines_by_row: Mapping[int, int]
    rows: int
    lines: int
    is_partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a row: its number from 1 and its text."""

    number: int
    text: str


class Lookup(Protocol):
    """One session under one query's filters. Rows are named by keys; `seq_of` gives the seq."""

    reader: SessionReader

    def find(self, term: Term, tier: Tier, most_lines: int) -> Found:
        """Return where a term is found. `most_lines`: how many lines to look at one by one."""
        ...

    def rows_with_any(self, terms: Sequence[tuple[Term, Tier]]) -> int:
        """Return how many rows hold any of the terms."""
        ...

    def lines_with_all(self, terms: Sequence[tuple[Term, Tier]]) -> int:
        """Return how many lines hold all of the terms."""
        ...

    def rows_with_phrase(self, phrase: str) -> set[int]:
        """Return the rows in which a line holds the phrase."""
        ...

    def lines_of(self, key: int, term: Term, tier: Tier, limit: int) -> list[int]:
        """Return the numbers of a row's lines that hold the term."""
        ...

    def texts(self, key: int, numbers: Sequence[int]) -> list[Line]:
        """Return lines of a row by their numbers."""
        ...

    def row_count(self) -> int:
        """Return how many rows the session has."""
        ...

    def seq_of(self, key: int) -> int:
        """Return the seq of a row."""
        ...

    def line_count(self, key: int) -> int:
        """Return how many lines a row has."""
        ...


class Lookups:
    """Makes the lookups of one query; its statements are built once for all sessions."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._statements = Statements4(query)

    def lookup(self, reader: SessionReader) -> Lookup:
        """Return the lookup that fits the file's version."""
        if reader.version == VERSION:
            return Lookup4(reader, self._statements)
        return EarlierLookup(reader, self._query)


class Lookup4:
    """Version 4. A row's key is its group and seq, which is what its lines' ids begin with."""

    def __init__(self, reader: SessionReader, statements: Statements4) -> None:
        self.reader = reader
        self._execute = reader.connection.execute
        self._ids = statements.ids
        self._ranges = statements.ranges

    def find(self, term: Term, tier: Tier, most_lines: int) -> Found:
        lines_by_row: dict[int, int] = {}
        sql, values = self._ids([(term, tier)], self._ranges)
        for key, lines in self._execute(
            f"SELECT id >> {LINE_BITS}, count(*) FROM ({sql} LIMIT ?) GROUP BY 1",
            [*values, most_lines + 1],
        ):
            lines_by_row[key] = lines
        lines = sum(lines_by_row.values())
        if lines <= most_lines:
            return Found(lines_by_row=lines_by_row, rows=len(lines_by_row), lines=lines)
        lines, rows = self._execute(
            f"SELECT count(*), count(DISTINCT id >> {LINE_BITS}) FROM ({sql})", values
        ).fetchone()
        lines_by_row.clear()
        for each in _groups(self._ranges):
            sql, values = self._ids([(term, tier)], [each])
            lines_by_row.update(
                self._execute(
                    f"SELECT id >> {LINE_BITS}, count(*)"
                    f" FROM ({sql} ORDER BY id DESC LIMIT ?) GROUP BY 1",
                    [*values, most_lines],
                )
            )
        if len(lines_by_row) < min(rows, LIMIT_LIMIT):
            lines_by_row = self._newest_rows(term, tier)
        return Found(lines_by_row=lines_by_row, rows=rows, lines=lines, is_partial=True)

    def _newest_rows(self, term: Term, tier: Tier) -> dict[int, int]:
        """Return the newest rows whatever their length: a few long ones kept the others out."""
        found: dict[int, int] = {}
        for each in _groups(self._ranges):
            sql, values = self._ids([(term, tier)], [each])
            found.update(
                self._execute(
                    f"SELECT id >> {LINE_BITS}, count(*) FROM ({sql})"
                    " GROUP BY 1 ORDER BY 1 DESC LIMIT ?",
                    [*values, LIMIT_LIMIT],
                )
            )
        return found

    def rows_with_any(self, terms: Sequence[tuple[Term, Tier]]) -> int:
        parts, values = [], list[object]()
        for each in terms:
            sql, some = self._ids([each], self._ranges)
            parts.append(f"SELECT id >> {LINE_BITS} FROM ({sql})")
            values += some
        return int(
            self._execute(f"SELECT count(*) FROM ({' UNION '.join(parts)})", values).fetchone()[0]
        )

    def lines_with_all(self, terms: Sequence[tuple[Term, Tier]]) -> int:
        sql, values = self._ids(terms, self._ranges)
        return int(self._execute(f"SELECT count(*) FROM ({sql})", values).fetchone()[0])

    def rows_with_phrase(self, phrase: str) -> set[int]:
        whole = (Term(text="", phrase=phrase, literal=""), Tier.INDEX)
        sql, values = self._ids([whole], self._ranges)
        return {
            key
            for (key,) in self._execute(f"SELECT DISTINCT id >> {LINE_BITS} FROM ({sql})", values)
        }

    def lines_of(self, key: int, term: Term, tier: Tier, limit: int) -> list[int]:
        first = key << LINE_BITS
        sql, values = self._ids([(term, tier)], [(first, first | LAST_LINE)])
        rows = self._execute(f"SELECT id FROM ({sql} ORDER BY id LIMIT ?)", [*values, limit])
        return [number & LAST_LINE for (number,) in rows]

    def texts(self, key: int, numbers: Sequence[int]) -> list[Line]:
        found: list[Line] = []
        for number in numbers:
            row = self._execute(
                "SELECT text FROM line WHERE id = ?", (key << LINE_BITS | number,)
            ).fetchone()
            if row:
                found.append(Line(number=number, text=row[0]))
        return found

    def row_count(self) -> int:
        return int(self._execute("SELECT rows FROM session").fetchone()[0])

    def seq_of(self, key: int) -> int:
        return key & LAST_SEQ

    def line_count(self, key: int) -> int:
        row = self._execute(
            "SELECT line_count FROM row WHERE seq = ?", (key & LAST_SEQ,)
        ).fetchone()
        return int(row[0]) if row else 1


class Statements4:
    """SELECTs of line ids of version 4 under one query's filters, each built once."""

    def __init__(self, query: Query) -> None:
        self.ranges = tuple(ranges_of(query.wanted_roles, query.include_echo))
        self._in_context = query.in_context
        self._built: dict[object, Sql] = {}

    def ids(self, terms: Sequence[tuple[Term, Tier]], ranges: Sequence[Range]) -> Sql:
        """Return a SELECT of the ids of the lines that hold all the terms, one branch a range."""
        key = (tuple(terms), tuple(ranges))
        found = self._built.get(key)
        if found is None:
            found = self._built[key] = self._build(terms, ranges)
        return found

    def _build(self, terms: Sequence[tuple[Term, Tier]], ranges: Sequence[Range]) -> Sql:
        phrases = [term.phrase for term, tier in terms if tier is not Tier.LITERAL]
        literals = [
            term.like
            for term, tier in terms
            if tier is Tier.LITERAL or (tier is Tier.INDEX and term.literal)
        ]
        parts, values = [], list[object]()
        for first, last in ranges:
            if phrases:
                sql = "SELECT f.rowid AS id FROM lines_fts AS f"
                sql += " JOIN line AS l ON l.id = f.rowid" if literals else ""
                where = "lines_fts MATCH ? AND f.rowid BETWEEN ? AND ?"
                values.append(" AND ".join(phrases))
            else:
                sql, where = "SELECT l.id AS id FROM line AS l", "l.id BETWEEN ? AND ?"
            values += (first, last)
            where += f" AND l.text {_LIKE}" * len(literals)
            values += literals
            if self._in_context is not None:
                id_of = "f.rowid" if phrases else "l.id"
                sql += f" JOIN row ON row.seq = (({id_of} >> {LINE_BITS}) & {LAST_SEQ})"
                where += " AND row.in_context = ?"
                values.append(int(self._in_context))
            parts.append(f"{sql} WHERE {where}")
        return " UNION ALL ".join(parts), values


def _groups(ranges: Sequence[Range]) -> list[Range]:
    """Return the ranges cut into one for each role and echo."""
    found: list[Range] = []
    for first, last in ranges:
        for group in range(first >> GROUP_SHIFT, (last >> GROUP_SHIFT) + 1):
            found.append((group << GROUP_SHIFT, ((group + 1) << GROUP_SHIFT) - 1))
    return found


class EarlierLookup:
    """Versions 1 to 3, read as the earlier system wrote them. A row's key is its seq."""

    def __init__(self, reader: SessionReader, query: Query) -> None:
        self.reader = reader
        self._execute = reader.connection.execute
        self._roles = query.wanted_roles
        self._in_context = query.in_context
        self._echoes: set[int] | None = None if not query.include_echo else set()

    def find(self, term: Term, tier: Tier, most_lines: int) -> Found:
        counts = self._counts([(term, tier)])
        return Found(lines_by_row=counts, rows=len(counts), lines=sum(counts.values()))

    def rows_with_any(self, terms: Sequence[tuple[Term, Tier]]) -> int:
        return len({seq for each in terms for seq in self._counts([each])})

    def lines_with_all(self, terms: Sequence[tuple[Term, Tier]]) -> int:
        return sum(self._counts(terms).values())

    def rows_with_phrase(self, phrase: str) -> set[int]:
        return set(self._counts([(Term(text="", phrase=phrase, literal=""), Tier.INDEX)]))

    def lines_of(self, key: int, term: Term, tier: Tier, limit: int) -> list[int]:
        sql, values = self._lines([(term, tier)])
        rows = self._execute(
            f"SELECT line_no FROM ({sql} AND l.message_seq = ?) ORDER BY line_no LIMIT ?",
            [*values, key, limit],
        )
        return [number for (number,) in rows]

    def texts(self, key: int, numbers: Sequence[int]) -> list[Line]:
        wanted = ", ".join(str(int(number)) for number in numbers)
        return [
            Line(number=number, text=text)
            for number, text in self._execute(
                "SELECT line_no, text FROM lines"
                f" WHERE message_seq = ? AND line_no IN ({wanted}) ORDER BY line_no",
                (key,),
            )
        ]

    def row_count(self) -> int:
        return int(self._execute("SELECT count(*) FROM messages").fetchone()[0])

    def seq_of(self, key: int) -> int:
        return key

    def line_count(self, key: int) -> int:
        row = self._execute("SELECT count(*) FROM lines WHERE message_seq = ?", (key,)).fetchone()
        return int(row[0])

    def _counts(self, terms: Sequence[tuple[Term, Tier]]) -> dict[int, int]:
        sql, values = self._lines(terms)
        echoes = self._echo_rows()
        return {
            seq: count
            for seq, count in self._execute(
                f"SELECT message_seq, count(*) FROM ({sql}) GROUP BY 1", values
            )
            if seq not in echoes
        }

    def _lines(self, terms: Sequence[tuple[Term, Tier]]) -> Sql:
        phrases: list[str] = []
        literals: list[str] = []
        for term, tier in terms:
            # Its index has a run of CJK as one word and no emoji at all.
            in_index = tier is not Tier.LITERAL and index_text(term.text) == term.text
            if in_index:
                phrases.append(term.phrase)
            if not in_index or (tier is Tier.INDEX and term.literal):
                literals.append(term.like)
        sql = "SELECT l.message_seq, l.line_no FROM lines AS l"
        where, values = [f"l.role IN ({', '.join('?' * len(self._roles))})"], [*self._roles]
        found: list[object] = list(values)
        if phrases:
            sql += " JOIN lines_fts AS f ON f.rowid = l.id"
            where.append("lines_fts MATCH ?")
            found.append(" AND ".join(phrases))
        where += [f"l.text {_LIKE}"] * len(literals)
        found += literals
        if self._in_context is not None:
            sql += " JOIN messages AS m ON m.seq = l.message_seq"
            where.append("m.in_context = ?")
            found.append(int(self._in_context))
        return f"{sql} WHERE {' AND '.join(where)}", found

    def _echo_rows(self) -> set[int]:
        if self._echoes is None:
            self._echoes = {
                seq
                for seq, name, text in self._execute(
                    "SELECT seq, name, CASE WHEN instr(text, 'openmem') THEN text ELSE '' END"
                    " FROM messages WHERE name IS NOT NULL OR instr(text, 'openmem')"
                )
                if is_own_tool(name or "") or carries_own_text(text)
            }
        return self._echoes
