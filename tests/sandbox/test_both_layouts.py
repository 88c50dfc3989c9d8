"""The sandbox over our own files (version 4) answers as over the earlier system's (version 3)."""

from __future__ import annotations

import sqlite3

import pytest

from openmem.base.errors import Failed, Refused
from openmem.context.sandbox.pattern import Filters, Lines, Source, find_lines
from openmem.context.sandbox.sql import run_sql
from openmem.context.store.database import session_file
from tests.fakes.session_v3 import OldRow, write_old_session
from tests.fakes.stored import Machine, answered, called, said

OWN_TOOL = "mcp__openmem__smart_compact_search"
RESULT = "svc=api ERROR 3\nERROR\nsvc=web ok"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, Source]:
    """One conversation in both layouts; its last row is out of the context. Nothing writes it."""
    machine = Machine(tmp_path_factory.mktemp("home"))
    machine.record(
        "new",
        machine.repository("site"),
        [
            said("svc=api ERROR 1\nsvc=web ERROR 2"),
            *called("Bash", {"command": "cat"}, RESULT),
            answered("svc=api ERROR 1"),
            said("[openmem: continuing session x]\nsvc=api ERROR 1"),
            *called(OWN_TOOL, {"query": "ERROR"}, "svc=api ERROR 1", id="toolu_2"),
            said("svc=db ERROR 9\n悬空的 ERROR 🎉"),
        ],
    )
    machine.close()
    path = session_file(machine.paths, "new")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE row SET in_context = 0 WHERE seq = (SELECT max(seq) FROM row)")
    connection.close()
    old = write_old_session(
        tmp_path_factory.mktemp("old") / "old.db",
        [
            OldRow(role="user", text="svc=api ERROR 1\nsvc=web ERROR 2"),
            OldRow(role="assistant", kind="tool_use", name="Bash", text='{"command":"cat"}'),
            OldRow(role="tool", kind="tool_result", name="Bash", text=RESULT),
            OldRow(role="assistant", text="svc=api ERROR 1"),
            OldRow(role="user", text="[openmem: continuing session x]\nsvc=api ERROR 1"),
            OldRow(role="assistant", kind="tool_use", name=OWN_TOOL, text='{"query":"ERROR"}'),
            OldRow(role="tool", kind="tool_result", name=OWN_TOOL, text="svc=api ERROR 1"),
            OldRow(role="user", text="svc=db ERROR 9\n悬空的 ERROR 🎉", in_context=False),
        ],
    )
    return Source(path=path, session_id="s"), Source(path=str(old), session_id="s")


def told(lines: Lines) -> object:
    return lines.line_matches, lines.row_matches, lines.groups, [row.lines for row in lines.rows]


@pytest.mark.parametrize(
    "pattern", ["ERROR", r"svc=(\w+)", r"^ERROR$", "悬空", r"ERROR 1\nsvc", "x^"]
)
@pytest.mark.parametrize(
    "filters",
    [
        Filters(),
        Filters(in_context=True),
        Filters(in_context=False),
        Filters(include_echo=True),
        Filters(roles=("assistant",)),
        Filters(roles=("tool",)),
        Filters(roles=("user", "tool", "assistant"), include_echo=True),
        Filters(roles=(), in_context=False),
    ],
)
def test_a_pattern_finds_the_same_lines_in_both(
    pair: tuple[Source, Source], pattern: str, filters: Filters
) -> None:
    """Design, section 6: ours keeps the columns' meanings; how lines are kept is free."""
    new, old = (find_lines([one], pattern, filters, limit=8, group=True) for one in pair)
    assert told(new) == told(old)
    assert new.skipped == old.skipped == ()


def test_the_echo_rule_of_the_help_counts_right(pair: tuple[Source, Source]) -> None:
    """Issue 3, part 1: the rule in the help is the one that works."""
    sql = "SELECT count(*) FROM lines WHERE role IN ('user','tool') AND NOT echo AND text REGEXP "
    assert run_sql(pair[0].path, sql + "'ERROR'").rows == ((6,),)
    assert find_lines([pair[0]], "ERROR", Filters(), limit=0).line_matches == 6
    with pytest.raises(Failed) as caught:  # files of version 3 have no such column, and it is said
        run_sql(pair[1].path, sql + "'ERROR'")
    assert "no such column: echo" in caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT seq, role, kind, name, text, in_context FROM messages ORDER BY seq",
        "SELECT message_seq, line_no, role, text FROM lines ORDER BY 1, 2",
        "SELECT count(*) FROM events",
        "SELECT count(*) FROM lines_fts WHERE lines_fts MATCH 'error'",
        "SELECT role, count(*) FROM messages GROUP BY role ORDER BY role",
        "SELECT m.name, l.text FROM lines l JOIN messages m ON m.seq = l.message_seq "
        "WHERE m.kind = 'tool_result' ORDER BY 1, 2",
    ],
)
def test_a_query_of_the_contract_gives_the_same_rows_in_both(
    pair: tuple[Source, Source], sql: str
) -> None:
    """Context store contract: column names and meanings."""
    new, old = (run_sql(one.path, sql) for one in pair)
    assert (new.columns, new.rows) == (old.columns, old.rows)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE row SET in_context = 1",
        "DELETE FROM lines",
        "SELECT load_extension('x')",
        "WITH a AS (SELECT 1) UPDATE messages SET text = ''",
        "INSERT INTO lines_fts(lines_fts) VALUES ('rebuild')",
    ],
)
def test_our_own_layout_is_as_closed(pair: tuple[Source, Source], sql: str) -> None:
    """Issue 3, show it: writable through views."""
    with pytest.raises(Refused):
        run_sql(pair[0].path, sql)
