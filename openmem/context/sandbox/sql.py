"""One SELECT on a session's database, by way of the sandbox.

What can be asked is told in `schema_help`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from openmem.base.errors import Failed, NotFound, Refused, StoreUnavailable
from openmem.context.sandbox.process import run_child, source_uri
from openmem.context.sandbox.statement import check_statement
from openmem.context.sandbox.table import Cell, line_text

DEADLINE_SECONDS = 2.0

# A child that was short of memory may not even get to say so.
_DIED: dict[str, object] = {"error": "memory", "message": "the statement ended its process"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a statement gave. `why`: what was cut off, empty when nothing was."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    why: str = ""

    @property
    def is_truncated(self) -> bool:
        return bool(self.why)

    def text(self) -> str:
        """Return the column names, then one line a row, cells separated by tabs."""
        lines = [line_text(self.columns), *(line_text(row) for row in self.rows)]
        if self.why:
            lines.append(f"[truncated: {self.why}]")
        return "\n".join(lines)


def run_sql(path: str, sql: str, *, deadline_seconds: float = DEADLINE_SECONDS) -> Table:
    """Run one SELECT on a session's database file (versions 1 to 4).

    Refused (code "sql-refused") names the word, function or table that is not allowed; Failed
    (code "sql-error", "sql-timeout", "sql-memory") says what SQLite said; StoreUnavailable when
    the file is not one that can be read; NotFound when there is none.
    """
    statement = check_statement(sql)
    if not os.path.isfile(path):
        raise NotFound(f"there is no session database at {path}.")
    job = {"kind": "sql", "uri": source_uri(path), "sql": statement, "deadline": deadline_seconds}
    answer = run_child(job, deadline_seconds)
    if answer.was_killed:
        raise _too_long(deadline_seconds)
    message = answer.messages[-1] if answer.messages else _DIED
    error = message.get("error")
    if error is None:
        return _table(message)
    text = str(message.get("message", ""))
    if error == "denied":
        raise Refused(
            f"only reading the session is allowed: {text} was refused.", code="sql-refused"
        )
    if error == "time":
        raise _too_long(deadline_seconds)
    if error == "memory":
        raise Failed(f"{text}.", hint="Select less, or cut texts with substr().", code="sql-memory")
    if error == "fault":
        raise Failed(f"the statement broke off ({text}).", code="sql-error")
    if error == "file":
        raise StoreUnavailable(f"the session database {text}.")
    tables = str(message.get("tables", ""))
    hint = f"There are: {tables}." if tables and "no such" in text else ""
    raise Failed(f"SQLite says: {text.rstrip('.')}.", hint=hint, code="sql-error")


def _too_long(seconds: float) -> Failed:
    return Failed(
        f"the statement was ended after {seconds:g} s.",
        hint="Narrow it with WHERE, or count instead of selecting.",
        code="sql-timeout",
    )


def _table(message: dict[str, object]) -> Table:
    columns, rows = message.get("columns"), message.get("rows")
    assert isinstance(columns, list) and isinstance(rows, list)
    reasons = [str(message["why"])] if message.get("why") else []
    if message.get("cut_cells"):
        cells = "1 cell" if message["cut_cells"] == 1 else f"{message['cut_cells']} cells"
        reasons.append(f"{cells} cut")
    return Table(
        columns=tuple(str(name) for name in columns),
        rows=tuple(tuple(row) for row in rows),
        why="; ".join(reasons),
    )
