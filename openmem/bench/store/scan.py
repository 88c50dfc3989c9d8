"""Looking in one large session: words by the index, LIKE by reading, each beside a plain table."""

from __future__ import annotations

import contextlib
import sqlite3

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.bench.figures import Figure
from openmem.bench.store.corpus import COMMON, RARE, Corpus, incoming_of, rows_of
from openmem.bench.store.timing import Act, beside
from openmem.context.search.engine import Searcher
from openmem.context.search.query import Query, Scope
from openmem.context.store.database import session_file
from openmem.context.store.readonly import connect_for_reading
from openmem.context.store.recorder import Recorder

RARE_LIMIT = 0.01
COMMON_LIMIT = 1.0
LIKE_LIMIT = 3.0
_PER_REQUEST = 50_000
_LONG_ROW_LINES = 20_000
_SCAN = "SELECT count(*) FROM line WHERE instr(text, ?)"


def figures(paths: Paths, *, lines: int, repeats: int) -> list[Figure]:
    """Return the figures over one session of so many lines."""
    all_lines = Corpus(2).lines(lines, rare_at=(lines // 9, lines // 2, lines - 5))
    recorder = Recorder(paths, ensure_key(paths))
    for start in range(0, lines, _PER_REQUEST):
        texts = rows_of(all_lines[start : start + _PER_REQUEST])
        recorder.record_request("large", incoming_of(texts, agent_id=f"part-{start}"))
    recorder.close()
    plain = _plain_table(paths, "plain-lines", all_lines)
    searcher = Searcher(paths)
    found = [
        _word(searcher, plain, f"rare word, {lines:,} lines", RARE, RARE_LIMIT, repeats),
        _word(searcher, plain, "word in each tenth line", COMMON, COMMON_LIMIT, repeats),
    ]
    searcher.close()
    plain.close()
    return [*found, *_like(paths, repeats)]


def _plain_table(paths: Paths, name: str, lines: list[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{paths.state_dir}/{name}.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE line (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO line (text) VALUES (?)", [(line,) for line in lines])
    connection.execute("COMMIT")
    return connection


def _word(
    searcher: Searcher, plain: sqlite3.Connection, name: str, word: str, limit: float, repeats: int
) -> Figure:
    query = Query(text=word, session_id="large", limit=10)
    return beside(
        name,
        lambda: searcher.search(query, Scope(all_workspaces=True)),
        lambda: plain.execute(_SCAN, (word,)).fetchone(),
        limit=limit,
        repeats=repeats,
    )


def _like(paths: Paths, repeats: int) -> list[Figure]:
    """LIKE over one row of 20,000 lines: by line, and over the row's whole text."""
    lines = Corpus(3).lines(_LONG_ROW_LINES)
    recorder = Recorder(paths, ensure_key(paths))
    recorder.record_request("long-row", incoming_of(["\n".join(lines)]))
    recorder.close()
    plain = _plain_table(paths, "plain-long-row", lines)
    plain.execute("CREATE TABLE whole (text TEXT NOT NULL)")
    plain.execute("INSERT INTO whole VALUES (?)", ("\n".join(lines),))
    ours = connect_for_reading(session_file(paths, "long-row"))
    found = []
    # A whole text is put together from its lines when it is asked for; no limit is held there.
    for name, our_table, table, limit in (
        ("LIKE over a row's 20,000 lines", "lines", "line", LIKE_LIMIT),
        ("LIKE over that row's whole text", "messages", "whole", 0.0),
    ):
        for connection, source in ((ours, our_table), (plain, table)):
            connection.execute(f"SELECT count(*) FROM {source} WHERE text LIKE '%x%'").fetchone()
        found.append(
            beside(
                name,
                _asks(ours, f"SELECT count(*) FROM {our_table} WHERE text LIKE '%{RARE}%'"),
                _asks(plain, f"SELECT count(*) FROM {table} WHERE text LIKE '%{RARE}%'"),
                limit=limit,
                repeats=repeats,
                calls=5,
            )
        )
    with contextlib.closing(ours), contextlib.closing(plain):
        return found


def _asks(connection: sqlite3.Connection, statement: str) -> Act:
    return lambda: connection.execute(statement).fetchone()
