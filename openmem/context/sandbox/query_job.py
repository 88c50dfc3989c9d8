"""One SELECT on one session, under an authorizer that allows reading and nothing else.

Trap: constructing a virtual table asks to update `sqlite_master`, which the authorizer must
deny, so FTS and JSON tables are touched once before it is set. `data_version` is the one pragma
that FTS5 runs by itself.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Mapping

from openmem.context.sandbox.opening import NotASession, open_session
from openmem.context.sandbox.spoken import say
from openmem.context.sandbox.table import (
    CELL_LIMIT,
    NOTE_ROOM,
    ROW_LIMIT,
    TEXT_LIMIT,
    Cell,
    line_text,
)

_NAME_LIMIT = 100
PRINTED_BYTES = 1 << 20
_LIMITS = (
    # A value, or a row, in bytes: above the largest stored row, far below what fills the memory.
    (sqlite3.SQLITE_LIMIT_LENGTH, 32 << 20),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 50_000),
    (sqlite3.SQLITE_LIMIT_COLUMN, 200),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 50),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)

# Functions of values only. What makes bytes out of nothing (randomblob, zeroblob), loads code or
# reads SQLite's insides is not here; a function that a later SQLite adds is refused until added.
_FUNCTION_NAMES = """
    abs char coalesce concat concat_ws format glob hex if ifnull iif instr length like likelihood
    likely lower ltrim max min nullif octet_length printf quote random regexp replace round rtrim
    sign soundex sqlite_version substr substring trim typeof unhex unicode unlikely upper
    avg count group_concat string_agg median percentile sum total
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value
    nth_value
    date time datetime julianday strftime timediff unixepoch current_date current_time
    current_timestamp
    acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10
    log2 mod pi pow power radians sin sinh sqrt tan tanh trunc
    -> ->> json json_array json_array_length json_each json_extract json_group_array
    json_group_object json_insert json_object json_patch json_pretty json_quote json_remove
    json_replace json_set json_tree json_type json_valid
    match bm25 highlight snippet
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
_NOT_OURS = "a virtual table that is not the session's"
# Tables that SQLite may have built in; it does not say which one it was about to open.
_MODULES = (
    "dbstat sqlite_dbpage sqlite_stmt bytecode tables_used fts3tokenize fts5vocab fts4aux"
    " generate_series completion fsdir zipfile csv sqlite_dbdata sqlite_dbptr"
)


def run_query(job: Mapping[str, object]) -> None:
    """Run the job's statement and say its columns and rows, or the error."""
    deadline = time.monotonic() + float(str(job["deadline"])) - 0.1
    try:
        connection = open_session(str(job["uri"]))
    except NotASession as error:
        say({"error": "file", "message": str(error)})
        return
    denied: list[str] = []
    faults: list[str] = []
    try:
        prepare(connection, deadline, denied, faults)
        cursor = connection.execute(str(job["sql"]))
        columns = [str(column[0])[:_NAME_LIMIT] for column in cursor.description or ()]
        say(_collect(cursor, columns))
    except MemoryError:
        say({"error": "memory", "message": "the statement needs more memory than it may have"})
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        message = str(error)
        if denied:
            say(
                {
                    "error": "denied",
                    "message": denied[0] + _module_named(denied[0], str(job["sql"])),
                }
            )
        elif faults:
            say({"error": "sql", "message": faults[0]})
        elif message == "interrupted":
            say({"error": "time", "message": message})
        else:
            say({"error": "sql", "message": message, "tables": _tables(connection)})


def prepare(
    connection: sqlite3.Connection, deadline: float, denied: list[str], faults: list[str]
) -> None:
    """Set limits, deadline, functions and authorizer.

    What is refused is written into `denied`, what a function could not do into `faults`: SQLite
    itself only says that there was something.
    """
    for kind, amount in _LIMITS:
        connection.setlimit(kind, amount)
    connection.create_function("regexp", 2, _regexp(faults), deterministic=True)
    printf = _printf(faults)
    for name in ("printf", "format"):
        connection.create_function(name, -1, printf, deterministic=True)
    known = {"sqlite_master", "sqlite_schema", "json_each", "json_tree"}
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master").fetchall():
        known.add(str(name))
        if sql and re.match(r"CREATE VIRTUAL TABLE", str(sql), re.IGNORECASE):
            quoted = str(name).replace('"', '""')
            connection.execute(f'SELECT 1 FROM "{quoted}" LIMIT 0').fetchall()
    for name in ("json_each", "json_tree"):
        connection.execute(f"SELECT 1 FROM {name}('[]')").fetchall()
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    connection.set_authorizer(_authorizer(frozenset(known), denied))


def _authorizer(
    known: frozenset[str], denied: list[str]
) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    def refuse(what: str) -> int:
        denied.append(what)
        return sqlite3.SQLITE_DENY

    def authorize(
        action: int, first: str | None, second: str | None, _base: str | None, _by: str | None
    ) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            # Without a column nothing is read: that is how `count(*)` of a WITH table looks.
            return sqlite3.SQLITE_OK if first in known or not second else refuse(f"table {first}")
        if action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            return sqlite3.SQLITE_OK if name in _FUNCTIONS else refuse(f"function {name}")
        if action == sqlite3.SQLITE_PRAGMA and first == "data_version" and second is None:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            return refuse(_NOT_OURS)
        return refuse(f"action {action} on {first}")

    return authorize


def _module_named(refused: str, sql: str) -> str:
    words = set(re.findall(r"\w+", sql.lower())) if refused == _NOT_OURS else set()
    named = [name for name in _MODULES.split() if name in words]
    return f" ({', '.join(named)})" if named else ""


def _collect(cursor: sqlite3.Cursor, columns: list[str]) -> dict[str, object]:
    """Return columns and rows as far as rows, cells and the whole text may go."""
    room = TEXT_LIMIT - NOTE_ROOM - len(line_text(columns)) - 1
    cell_limit = min(CELL_LIMIT, max(room // max(len(columns), 1) - 2, 1))
    rows: list[list[Cell]] = []
    cut_cells = 0
    why = ""
    for row in cursor:
        if len(rows) == ROW_LIMIT:
            why = f"only the first {ROW_LIMIT} rows"
            break
        cells: list[Cell] = []
        for value in row:
            cell, was_cut = _cell(value, CELL_LIMIT)
            cut_cells += was_cut
            cells.append(cell)
        size = len(line_text(cells)) + 1
        if size > room and not rows:  # the first row alone is too long: a smaller share for each
            cells = [_cell(value, cell_limit // 2)[0] for value in row]
            cut_cells += 1
            size = len(line_text(cells)) + 1
        if size > room:
            why = f"only the first {len(rows)} rows, {TEXT_LIMIT} characters in all"
            break
        room -= size
        rows.append(cells)
    return {"columns": columns, "rows": rows, "why": why, "cut_cells": cut_cells}


def _cell(value: object, limit: int) -> tuple[Cell, bool]:
    """Return a value that fits in `limit` characters, and whether it was cut."""
    if isinstance(value, bytes):
        shown = value[: limit // 2].hex()
        return f"x'{shown}'", len(value) > limit // 2
    if isinstance(value, str):
        return (value, False) if len(value) <= limit else (value[: limit - 1] + "…", True)
    if isinstance(value, int | float):
        return value, False
    return None, False


def _tables(connection: sqlite3.Connection) -> str:
    """Return tables with their columns, for a statement that named one that is not there."""
    connection.set_authorizer(None)
    described = []
    for name in ("messages", "lines", "events"):
        try:
            cursor = connection.execute(f"SELECT * FROM {name} LIMIT 0")
        except sqlite3.Error:
            continue  # version 1 has no events
        described.append(f"{name}({', '.join(column[0] for column in cursor.description)})")
    return "; ".join(described)


def _printf(faults: list[str]) -> Callable[..., str | None]:
    """Return SQLite's own `printf` that fails where SQLite would give NULL for a too long text."""
    inner = sqlite3.connect(":memory:")
    inner.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, PRINTED_BYTES)

    def printf(*values: object) -> str | None:
        if not values:
            return None
        marks = ", ".join("?" * len(values))
        text = inner.execute(f"SELECT printf({marks})", values).fetchone()[0]
        if text is None and values[0] is not None:
            faults.append(f"printf made a text longer than {PRINTED_BYTES} bytes")
            raise ValueError
        return None if text is None else str(text)

    return printf


def _regexp(faults: list[str]) -> Callable[[object, object], bool | None]:
    """Return `value REGEXP pattern`: Python's syntax, anywhere in the value."""

    def regexp(pattern: object, value: object) -> bool | None:
        if pattern is None or value is None:
            return None
        try:
            return re.search(str(pattern), str(value)) is not None
        except re.error as error:
            faults.append(f"REGEXP: {error}")
            raise

    return regexp
