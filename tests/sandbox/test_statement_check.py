"""The text check of SQL: one SELECT passes, everything else is refused with its word."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.base.errors import Refused
from openmem.context.sandbox.statement import check_statement

PASSES = [
    "SELECT 1",
    " \n select 1 ;  ",
    "WITH a AS (SELECT 1) SELECT * FROM a",
    "SELECT replace(text, 'a', 'b') FROM messages",
    "SELECT replace  (text, 'a', 'b') FROM messages",
    "SELECT 'DELETE FROM x; DROP' AS \"UPDATE\", `INSERT`, [PRAGMA] FROM t",
    "SELECT 1 -- ; DROP TABLE x\n, 2",
    "SELECT 1 /* ; ATTACH */ + 2",
    "SELECT 'it''s; fine'",
    "SELECT 1 /* open to the end ; DROP",
    "SELECT updated, deleted_at, begin_at FROM t",
    "SELECT naïve_delete FROM t",
]

REFUSED = [
    ("DELETE FROM messages", "DELETE"),
    ("delete from messages", "DELETE"),
    ("WITH a AS (SELECT 1) DELETE FROM messages", "DELETE"),
    ("WITH a AS (SELECT 1) REPLACE INTO messages SELECT 1", "REPLACE"),
    ("WITH a AS (SELECT 1) INSERT INTO messages SELECT 1", "INSERT"),
    ("SELECT 1; DROP TABLE messages", "a second statement"),
    ("SELECT 1;;", "a second statement"),
    ("SELECT 1 /* x */; /* y */ PRAGMA query_only = 0", "a second statement"),
    ("PRAGMA journal_mode", "PRAGMA"),
    ("/**/ATTACH/**/'x' AS y", "ATTACH"),
    ("EXPLAIN SELECT 1", "EXPLAIN"),
    ("VALUES (1)", "VALUES"),
    ("-- SELECT 1\nVACUUM INTO '/tmp/x'", "VACUUM"),
    ("(SELECT 1)", "does not begin with a word"),
    ("", "no statement"),
    (" ; ", "no statement"),
    ("/* SELECT 1 */", "no statement"),
    ("'SELECT' 1", "does not begin with a word"),
    ("SELECT 'open", "quote"),
    ('SELECT "open', "quote"),
    ("SELECT 1\0", "NUL"),
    ("\u017fELECT 1", "was refused"),
    ("\ufeffSELECT 1", "was refused"),
    ("SELECT\u00a01; DELETE FROM messages", "a second statement"),
    ("SELECT " + "1+" * 6000 + "1", "longer than"),
]


@pytest.mark.parametrize("sql", PASSES)
def test_a_single_select_passes_whatever_its_quotes_and_comments_hold(sql: str) -> None:
    """Context store contract, SQL, rule 1."""
    assert check_statement(sql).strip()


@pytest.mark.parametrize(("sql", "named"), REFUSED)
def test_anything_else_is_refused_and_the_refused_word_is_named(sql: str, named: str) -> None:
    """Issue 3, bad input: SQL that is not one SELECT is refused with the word."""
    with pytest.raises(Refused) as caught:
        check_statement(sql)
    assert named in caught.value.message
    assert caught.value.code == "sql-refused"


_PIECES = st.lists(
    st.sampled_from(
        [
            "SELECT",
            "1",
            "'",
            '"',
            "`",
            "[",
            "]",
            "--",
            "/*",
            "*/",
            "\n",
            ";",
            "x",
            " ",
            "''",
            "DELETE FROM t",
            "DROP TABLE t",
            "INSERT INTO t VALUES (2)",
            "WITH",
            "AS",
            "(",
            ")",
        ]
    ),
    max_size=12,
)


@given(_PIECES)
def test_what_the_check_passes_never_changes_a_database(pieces: list[str]) -> None:
    """Ours: the check reads quotes and comments as SQLite does; a difference would show here."""
    sql = " ".join(pieces)
    try:
        statement = check_statement(sql)
    except Refused:
        return
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (x)")
    connection.execute("INSERT INTO t VALUES (1)")
    try:
        connection.execute(statement).fetchall()
    except (sqlite3.Error, sqlite3.Warning):
        pass
    assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]
    connection.close()
