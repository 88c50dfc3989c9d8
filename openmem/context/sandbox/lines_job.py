"""A pattern over the lines of sessions, with what was found so far when time runs out.

Python's matcher looks for signals inside one hard match, so the timer interrupts it and the
counts stay exact up to there. It does not look while it only scans; the state is therefore also
said from time to time, for the parent that has to kill.
"""

from __future__ import annotations

import re
import signal
import sqlite3
import time
from collections.abc import Iterator, Mapping

from openmem.base.frame import is_own_tool
from openmem.context.sandbox.found import Found
from openmem.context.sandbox.line_rule import LineRule
from openmem.context.sandbox.literal import needed_literal
from openmem.context.sandbox.opening import NotASession, open_session
from openmem.context.sandbox.spoken import say

LINE_LIMIT = 20_000
_BATCH = 256
_HEAD = 1_000  # a longer line may take long by itself, so the state is said before it


class _TimeIsUp(Exception):
    """Raised by the timer, wherever the search is."""


def _ring(_signal: int, _frame: object) -> None:
    raise _TimeIsUp


def run_lines(job: Mapping[str, object]) -> None:
    """Run the job's pattern over its sources, in their order, newest rows first."""
    try:
        rule = LineRule(str(job["pattern"]))
    except (re.error, OverflowError, RecursionError) as error:
        place = getattr(error, "pos", None)
        say({"error": "pattern", "message": getattr(error, "msg", str(error)), "place": place})
        return
    found = Found(int(str(job["limit"])))
    deadline_seconds = float(str(job["deadline"]))
    deadline = time.monotonic() + deadline_seconds
    timed_out = False
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, deadline_seconds)
    try:
        _search_all(job, rule, found, deadline)
    except _TimeIsUp:
        timed_out = True
    signal.setitimer(signal.ITIMER_REAL, 0)
    found.say(is_final=True, timed_out=timed_out)


def _search_all(job: Mapping[str, object], rule: LineRule, found: Found, deadline: float) -> None:
    sources = job["sources"]
    assert isinstance(sources, list)
    for uri, session_id in sources:
        try:
            connection = open_session(uri)
        except NotASession as error:
            found.skip(f"session {session_id} {error}")
            continue
        try:
            # The timer's exception is only raised between steps of Python; a scan inside SQLite
            # that gives no row is ended here.
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            _search(job, connection, session_id, rule, found)
        except sqlite3.Error as error:
            if time.monotonic() > deadline:
                raise _TimeIsUp from None
            found.skip(f"session {session_id} cannot be read: {error}")
        finally:
            connection.close()


def _search(
    job: Mapping[str, object],
    connection: sqlite3.Connection,
    session_id: str,
    rule: LineRule,
    found: Found,
) -> None:
    if rule.on_rows is not None:
        matches = _matches_of_rows(job, connection, rule.on_rows, found)
    else:
        matches = _matches_of_lines(job, connection, rule.on_lines, found)
    found.begin_file(session_id)
    for seq, number, line, match in matches:
        # In a whole row the match's place counts from the row's start, of which a line may be far.
        place = match.start() - match.string.rfind("\n", 0, match.start()) - 1
        found.add_line(seq, number, line, place)
        if job.get("group") and rule.on_lines.groups:
            found.add_group(match)


def _matches_of_lines(
    job: Mapping[str, object],
    connection: sqlite3.Connection,
    pattern: re.Pattern[str],
    found: Found,
) -> Iterator[tuple[int, int, str, re.Match[str]]]:
    """Yield each matching line: rows in no order, the last line of a row first."""
    conditions, values = _of_roles(job)
    wanted: frozenset[int] | None = None
    if "echo" in _columns(connection, "lines"):
        if not job.get("include_echo"):
            conditions.append("NOT echo")
        if job.get("in_context") is not None:
            wanted = _wanted_rows(job, connection)
    else:
        wanted = _wanted_rows(job, connection)
    literal = needed_literal(pattern)
    if literal:
        conditions.append("instr(text, ?)")
        values.append(literal)
    cursor = connection.execute(
        "SELECT message_seq, line_no, text FROM lines WHERE "
        f"{' AND '.join(conditions)} ORDER BY id DESC",
        values,
    )
    search = pattern.search
    while batch := cursor.fetchmany(_BATCH):
        found.say_now_and_then()
        for seq, number, line in batch:
            if wanted is not None and seq not in wanted:
                continue
            text = line[:-1] if line.endswith("\r") else line
            if len(text) > _HEAD:
                found.say_now_and_then()
                if len(text) > LINE_LIMIT:
                    found.add_long_line()
                    text = text[:LINE_LIMIT]
            match = search(text)
            if match:
                yield seq, number, line, match


def _matches_of_rows(
    job: Mapping[str, object],
    connection: sqlite3.Connection,
    on_rows: re.Pattern[str],
    found: Found,
) -> Iterator[tuple[int, int, str, re.Match[str]]]:
    """Yield, for each match in a whole row, the line it begins on, once; the last one first."""
    for seq in sorted(_wanted_rows(job, connection), reverse=True):
        found.say_now_and_then()
        row = connection.execute("SELECT text FROM messages WHERE seq = ?", (seq,)).fetchone()
        text = str(row[0])
        if len(text) > LINE_LIMIT:
            found.add_long_line()
            text = text[:LINE_LIMIT]
        lines = text.split("\n")
        by_line: dict[int, re.Match[str]] = {}
        for match in on_rows.finditer(text):
            by_line.setdefault(text.count("\n", 0, match.start()), match)
        for number in sorted(by_line, reverse=True):
            yield seq, number + 1, lines[number], by_line[number]


def _of_roles(job: Mapping[str, object]) -> tuple[list[str], list[object]]:
    roles = job.get("roles")
    if not isinstance(roles, list) or not roles:
        return ["1"], []
    return [f"role IN ({', '.join('?' * len(roles))})"], list(roles)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    cursor = connection.execute(f"SELECT * FROM {table} LIMIT 0")
    return [str(column[0]) for column in cursor.description]


def _wanted_rows(job: Mapping[str, object], connection: sqlite3.Connection) -> frozenset[int]:
    """Return the rows that pass the filters on role, context and echo."""
    columns = _columns(connection, "messages")
    conditions, values = _of_roles(job)
    if job.get("in_context") is not None:
        conditions.append("in_context = ?")
        values.append(int(bool(job["in_context"])))
    if "source" in columns:  # a row of a rewritten history has no lines of its own
        conditions.append("source IS NULL")
    judges_names = False
    if not job.get("include_echo"):
        if "echo" in columns:
            conditions.append("NOT echo")
        else:  # files of versions 1 to 3 were written without the mark
            conditions.append("instr(text, '<openmem-recall') = 0 AND instr(text, '[openmem:') = 0")
            judges_names = True
    rows = connection.execute(
        f"SELECT seq, name FROM messages WHERE {' AND '.join(conditions)}", values
    )
    return frozenset(seq for seq, name in rows if not (judges_names and is_own_tool(name or "")))
