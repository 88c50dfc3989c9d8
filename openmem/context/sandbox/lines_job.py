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
from openmem.context.sandbox.child import NotASession, open_session, say
from openmem.context.sandbox.literal import needed_literal

LINE_LIMIT = 20_000
GROUP_LIMIT = 200
GROUPS_HELD = 100_000
SHOWN_LINES = 10
SHOWN_CHARACTERS = 2_000
_SNAPSHOT_SECONDS = 0.2
_BATCH = 256
_HEAD = 1_000  # a longer line may take long by itself, so the state is said before it
# A pattern that can cross a line end is tried on whole rows; any other on each line by itself.
_CROSSES_LINES = re.compile(r"\\n|\n|\(\?[a-zA-Z]*s|\[\\s\\S\]|\[\\S\\s\]")


class _TimeIsUp(Exception):
    """Raised by the timer, wherever the search is."""


def _ring(_signal: int, _frame: object) -> None:
    raise _TimeIsUp


class _Found:
    """What was found so far."""

    def __init__(self, wanted_rows: int) -> None:
        self.wanted_rows = wanted_rows
        self.rows = 0
        self.lines = 0
        self.hits: list[dict[str, object]] = []
        self.groups: dict[tuple[str, ...], int] = {}
        self.long_lines = 0
        self.skipped: list[str] = []
        self.said_at = time.monotonic()

    def say(self, *, is_final: bool, timed_out: bool = False) -> None:
        groups = sorted(self.groups.items(), key=lambda item: (-item[1], item[0]))
        say(
            {
                "final": is_final,
                "timed_out": timed_out,
                "rows": self.rows,
                "lines": self.lines,
                "hits": self.hits,
                "groups": groups[:GROUP_LIMIT],
                "group_count": len(groups),
                "long_lines": self.long_lines,
                "skipped": self.skipped,
            }
        )
        self.said_at = time.monotonic()

    def say_now_and_then(self) -> None:
        if time.monotonic() - self.said_at > _SNAPSHOT_SECONDS:
            self.say(is_final=False)

    def add_line(self, seq: int, session_id: str, number: int, line: str, is_new: bool) -> None:
        """Count a matching line; `is_new`: the first one of its row."""
        self.lines += 1
        if is_new:
            self.rows += 1
            if len(self.hits) < self.wanted_rows:
                self.hits.append({"session_id": session_id, "seq": seq, "lines": []})
        last = self.hits[-1] if self.hits else None
        if last and (last["seq"], last["session_id"]) == (seq, session_id):
            shown = last["lines"]
            assert isinstance(shown, list)
            shown.insert(0, [number, line[:SHOWN_CHARACTERS]])  # lines come last one first
            del shown[SHOWN_LINES:]

    def add_group(self, match: re.Match[str]) -> None:
        key = tuple("" if value is None else value for value in match.groups())
        if key in self.groups or len(self.groups) < GROUPS_HELD:
            self.groups[key] = self.groups.get(key, 0) + 1


def run_lines(job: Mapping[str, object]) -> None:
    """Run the job's pattern over its sources, in their order, newest rows first."""
    try:
        pattern = re.compile(str(job["pattern"]))
    except (re.error, OverflowError, RecursionError) as error:
        place = getattr(error, "pos", None)
        say({"error": "pattern", "message": getattr(error, "msg", str(error)), "place": place})
        return
    found = _Found(int(str(job["limit"])))
    deadline_seconds = float(str(job["deadline"]))
    deadline = time.monotonic() + deadline_seconds
    timed_out = False
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, deadline_seconds)
    try:
        _search_all(job, pattern, found, deadline)
    except _TimeIsUp:
        timed_out = True
    signal.setitimer(signal.ITIMER_REAL, 0)
    found.say(is_final=True, timed_out=timed_out)


def _search_all(
    job: Mapping[str, object], pattern: re.Pattern[str], found: _Found, deadline: float
) -> None:
    sources = job["sources"]
    assert isinstance(sources, list)
    crosses = bool(_CROSSES_LINES.search(pattern.pattern))
    for uri, session_id in sources:
        try:
            connection = open_session(uri)
        except NotASession as error:
            found.skipped.append(f"session {session_id} {error}")
            continue
        try:
            # The timer's exception is only raised between steps of Python; a scan inside SQLite
            # that gives no row is ended here.
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            _search(job, connection, session_id, pattern, found, crosses)
        except sqlite3.Error as error:
            if time.monotonic() > deadline:
                raise _TimeIsUp from None
            found.skipped.append(f"session {session_id} cannot be read: {error}")
        finally:
            connection.close()


def _search(
    job: Mapping[str, object],
    connection: sqlite3.Connection,
    session_id: str,
    pattern: re.Pattern[str],
    found: _Found,
    crosses: bool,
) -> None:
    wanted = _wanted_rows(job, connection)
    if not wanted:
        return
    matches = _matches_of_rows if crosses else _matches_of_lines
    previous = -1
    for seq, number, line, match in matches(connection, pattern, wanted, found):
        found.add_line(seq, session_id, number, line, seq != previous)
        previous = seq
        if job.get("group"):
            found.add_group(match)


def _wanted_rows(job: Mapping[str, object], connection: sqlite3.Connection) -> set[int]:
    """Return the rows that pass the filters on role, context and echo."""
    cursor = connection.execute("SELECT * FROM messages LIMIT 0")
    has_echo = "echo" in [column[0] for column in cursor.description]
    conditions, values = ["1"], list[object]()
    roles = job.get("roles")
    if isinstance(roles, list) and roles:
        conditions.append(f"role IN ({', '.join('?' * len(roles))})")
        values.extend(roles)
    if job.get("in_context") is not None:
        conditions.append("in_context = ?")
        values.append(int(bool(job["in_context"])))
    skips_echo = not job.get("include_echo")
    if skips_echo and has_echo:
        conditions.append("NOT echo")
    elif skips_echo:  # files of versions 1 to 3 were written without the mark
        conditions.append("instr(text, '<openmem-recall') = 0 AND instr(text, '[openmem:') = 0")
    statement = f"SELECT seq, name FROM messages WHERE {' AND '.join(conditions)}"
    rows = connection.execute(statement, values)
    if skips_echo and not has_echo:
        return {seq for seq, name in rows if not is_own_tool(name or "")}
    return {seq for seq, _ in rows}


def _matches_of_lines(
    connection: sqlite3.Connection, pattern: re.Pattern[str], wanted: set[int], found: _Found
) -> Iterator[tuple[int, int, str, re.Match[str]]]:
    """Yield each matching line, the newest first."""
    search = pattern.search
    literal = needed_literal(pattern)
    condition = "WHERE instr(text, ?)" if literal else ""
    cursor = connection.execute(
        f"SELECT message_seq, line_no, text FROM lines {condition} ORDER BY id DESC",
        (literal,) if literal else (),
    )
    while batch := cursor.fetchmany(_BATCH):
        found.say_now_and_then()
        for seq, number, line in batch:
            if seq not in wanted:
                continue
            text = line[:-1] if line.endswith("\r") else line
            if len(text) > _HEAD:
                found.say_now_and_then()
                if len(text) > LINE_LIMIT:
                    found.long_lines += 1
                    text = text[:LINE_LIMIT]
            match = search(text)
            if match:
                yield seq, number, line, match


def _matches_of_rows(
    connection: sqlite3.Connection, pattern: re.Pattern[str], wanted: set[int], found: _Found
) -> Iterator[tuple[int, int, str, re.Match[str]]]:
    """Yield, for each match in a whole row, the line it begins on, once; the newest first."""
    on_rows = re.compile(pattern.pattern, pattern.flags | re.MULTILINE)
    for seq in sorted(wanted, reverse=True):
        found.say_now_and_then()
        text = str(
            connection.execute("SELECT text FROM messages WHERE seq = ?", (seq,)).fetchone()[0]
        )
        if len(text) > LINE_LIMIT:
            found.long_lines += 1
            text = text[:LINE_LIMIT]
        lines = text.split("\n")
        by_line: dict[int, re.Match[str]] = {}
        for match in on_rows.finditer(text):
            by_line.setdefault(text.count("\n", 0, match.start()), match)
        for number in sorted(by_line, reverse=True):
            yield seq, number + 1, lines[number], by_line[number]
