"""Checks a session's file against itself: digests, links of the chain, lines, payloads.

What was masked cannot be made again from what is stored; of such a row the digest and the link are
checked, not the fingerprint.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from openmem.base.errors import InvalidConfig
from openmem.base.installation import read_key
from openmem.base.paths import Paths
from openmem.context.rows import (
    Block,
    blob_id_of,
    content_key_of,
    digest_of_text,
    fingerprint_of,
    seed_of,
)
from openmem.context.store.blobs import find_blob
from openmem.context.store.reader import SessionReader, damaged, open_session
from openmem.context.store.schema import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that does not fit. `seq`: the row, 0 for the file. `what`: a sentence's rest."""

    seq: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    seq: int
    fingerprint: str
    content_key: str
    digest: str
    thread: int
    prev: int
    source: int
    role: str
    kind: str
    name: str
    text: str
    line_count: int
    lines_found: int
    size: int
    masked: int
    blobs: tuple[tuple[str, str], ...]


_ROWS = """SELECT m.seq, m.fingerprint, m.content_key, m.digest, row.thread,
    coalesce(row.prev, 0), coalesce(row.source, 0), m.role, m.kind, coalesce(m.name, ''), m.text,
    row.line_count, row.size, row.masked FROM messages AS m JOIN row ON row.seq = m.seq
    ORDER BY m.seq"""


def verify(paths: Paths, sid: str) -> list[Problem]:
    """Return what does not fit in a session's file, [] when everything does.

    Files of versions 1 to 3 carry no digests; of them only the database's structure is checked.
    NotFound and StoreUnavailable as `open_session`; InvalidConfig when the installation's key is
    gone, without which nothing can be recomputed.
    """
    with open_session(paths, sid) as reader:
        try:
            # One view of the file throughout: its writer may go on meanwhile.
            reader.connection.execute("BEGIN")
            problems = _check_structure(reader)
            if reader.version == VERSION:
                key = read_key(paths)
                if key is None:
                    raise InvalidConfig(f"{paths.key_file} is missing; {sid} cannot be verified.")
                problems += _Checker(paths, reader.connection, key).problems()
        except sqlite3.Error as error:
            raise damaged(reader.entry, error) from error
    return problems


def _check_structure(reader: SessionReader) -> list[Problem]:
    answers = reader.connection.execute("PRAGMA quick_check").fetchall()
    texts = [str(answer[0]) for answer in answers]
    return [] if texts == ["ok"] else [Problem(seq=0, what=f"SQLite says: {t}") for t in texts]


class _Checker:
    def __init__(self, paths: Paths, connection: sqlite3.Connection, key: bytes) -> None:
        self._paths = paths
        self._connection = connection
        self._key = key
        self._problems: list[Problem] = []
        self._chain: dict[int, tuple[str, bool]] = {}
        self._seeds = {
            int(thread): seed_of(key, str(kind), str(agent_id))
            for thread, kind, agent_id in connection.execute(
                "SELECT thread.id, threads.kind, thread.agent_id FROM thread"
                " JOIN threads ON threads.thread = lower(hex(thread.fingerprint))"
            )
        }

    def problems(self) -> list[Problem]:
        for row in self._rows():
            self._check_text(row)
            self._check_link(row)
            self._check_blobs(row)
            self._chain[row.seq] = (row.fingerprint, bool(row.content_key))
        self._check_sums()
        return self._problems

    def _rows(self) -> Iterator[_Row]:
        """Yield the rows in order, one at a time: a session may be larger than the memory."""
        blobs: dict[int, list[tuple[str, str]]] = {}
        for seq, blob_id, media in self._connection.execute("SELECT seq, id, media FROM blob"):
            blobs.setdefault(int(seq), []).append((str(blob_id), str(media)))
        found: dict[int, int] = dict(
            self._connection.execute("SELECT message_seq, count(*) FROM lines GROUP BY message_seq")
        )
        known: set[int] = set()
        for values in self._connection.execute(_ROWS):
            seq, source = int(values[0]), int(values[6])
            known.add(seq)
            yield _Row(
                seq=seq,
                fingerprint=str(values[1]),
                content_key=str(values[2] or ""),
                digest=str(values[3]),
                thread=int(values[4]),
                prev=int(values[5]),
                source=source,
                role=str(values[7]),
                kind=str(values[8]),
                name=str(values[9]),
                text=str(values[10]),
                line_count=int(values[11]),
                lines_found=found.get(seq, 0),
                size=int(values[12]),
                masked=int(values[13]),
                blobs=tuple(blobs.get(source or seq, ())),
            )
        for seq in sorted(found.keys() - known):
            self._say(seq, "lines without a row")

    def _say(self, seq: int, what: str) -> None:
        self._problems.append(Problem(seq=seq, what=what))

    def _check_text(self, row: _Row) -> None:
        if row.lines_found != row.line_count:
            self._say(row.seq, f"{row.lines_found} lines of {row.line_count} are there")
        elif digest_of_text(self._key, row.text) != row.digest:
            self._say(row.seq, "the text is not the one that was stored")
        elif len(row.text.encode("utf-8")) != row.size:
            self._say(row.seq, "the text's size is not the one that was stored")
        if row.source and row.source not in self._chain:
            self._say(row.seq, f"row {row.source}, which holds its text, is not there")

    def _check_link(self, row: _Row) -> None:
        if row.prev:
            previous, advances = self._chain.get(row.prev, ("", False))
            if not previous or not advances:
                self._say(row.seq, f"the row before it, {row.prev}, is not there")
                return
        else:
            previous = self._seeds.get(row.thread, "")
        blocks = [] if row.masked else self._blocks(row)
        if blocks and all(
            fingerprint_of(self._key, b, previous) != row.fingerprint for b in blocks
        ):
            self._say(row.seq, "its key does not follow from the row before it and its content")
        elif blocks and all(content_key_of(self._key, b) != row.content_key for b in blocks):
            self._say(row.seq, "its content key does not follow from its content")

    def _blocks(self, row: _Row) -> list[Block]:
        """Return what the row may have been made from; [] when that is not stored."""
        if not row.blobs:
            return [Block(role=row.role, kind=row.kind, name=row.name, text=row.text)]
        if row.kind not in ("image", "document"):
            return []  # a text with a payload inside, which stands elsewhere now
        blob = find_blob(self._paths, row.blobs[0][0])
        if blob is None:
            return []
        return [
            Block(role=row.role, kind=row.kind, name=row.name, payload=blob.data, media=media)
            for media in (row.blobs[0][1], "")
        ]

    def _check_blobs(self, row: _Row) -> None:
        if row.source:
            return
        for blob_id, _ in row.blobs:
            blob = find_blob(self._paths, blob_id)
            if blob is None:
                self._say(row.seq, f"blob {blob_id} is not there")
            elif blob_id_of(self._key, blob.data) != blob_id:
                self._say(row.seq, f"blob {blob_id} is not what was stored")

    def _check_sums(self) -> None:
        rows, size, last = self._connection.execute(
            "SELECT count(*), coalesce(sum(size) FILTER (WHERE source IS NULL), 0),"
            " coalesce(max(seq), 0) FROM row"
        ).fetchone()
        said = self._connection.execute("SELECT rows, bytes, last_seq FROM session").fetchone()
        if (rows, size) != tuple(said[:2]) or last > said[2]:
            self._say(0, f"it says {said[0]} rows, {said[1]} bytes; there are {rows}, {size}")
