"""SQL in its child: what it answers, and ten ways out that do not lead out."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path

import pytest

from openmem.base.errors import Failed, NotFound, OpenmemError, Refused, StoreUnavailable
from openmem.context.sandbox import query_job
from openmem.context.sandbox.opening import open_session
from openmem.context.sandbox.process import run_child, source_uri
from openmem.context.sandbox.schema_help import SCHEMA_HELP
from openmem.context.sandbox.sql import run_sql
from tests.fakes.session_v3 import OldRow, write_old_session

ROWS = [
    OldRow(role="user", text="deploy needs the VPN\nkey KEY-7 = 42"),
    OldRow(role="assistant", text="noted: key KEY-7 = 42"),
    OldRow(role="tool", kind="tool_result", name="Bash", text="ERROR a\nERROR b\nok"),
    OldRow(role="user", text="naïve café 悬空 🎉 a\tb", in_context=False),
]


@pytest.fixture
def session(tmp_path: Path) -> str:
    return str(write_old_session(tmp_path / "s.db", ROWS))


def digests(folder: Path) -> dict[str, str]:
    """Return what lies in a folder; reading must leave no file beside a database either."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_answer_is_a_line_of_names_then_a_line_a_row(session: str) -> None:
    """Issue 3, part 1."""
    table = run_sql(session, "SELECT seq, role, name, text FROM messages ORDER BY seq;")
    assert table.text().split("\n") == [
        "seq\trole\tname\ttext",
        "1\tuser\tNULL\tdeploy needs the VPN\\nkey KEY-7 = 42",
        "2\tassistant\tNULL\tnoted: key KEY-7 = 42",
        "3\ttool\tBash\tERROR a\\nERROR b\\nok",
        "4\tuser\tNULL\tnaïve café 悬空 🎉 a\\tb",
    ]
    assert not table.is_truncated


def test_values_keep_their_kind(session: str) -> None:
    """Ours: the command line gives them as JSON."""
    table = run_sql(session, "SELECT 1, 2.5, 'a', NULL, x'00ff', 1e400")
    assert table.rows == ((1, 2.5, "a", None, "x'00ff'", float("inf")),)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM lines WHERE role = 'tool' AND text LIKE 'ERROR%'",
        "SELECT count(*) FROM lines WHERE text REGEXP '^ERROR [ab]$'",
        "SELECT count(*) FROM lines_fts WHERE lines_fts MATCH 'error'",
        "WITH e AS (SELECT * FROM lines WHERE text GLOB 'ERROR*') SELECT count(*) FROM e",
        "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY id) n FROM lines WHERE id > 0 "
        "AND instr(text, 'ERROR'))",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t WHERE n < 2) "
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM json_each('[1,2]')",
        "SELECT json_extract('{\"a\":2}', '$.a')",
        "SELECT count(*) FROM (SELECT snippet(messages_fts, 0, '', '', '…', 5), rank "
        "FROM messages_fts WHERE messages_fts MATCH 'key' ORDER BY rank)",
        "SELECT CAST(strftime('%Y', '0002-01-01') AS INTEGER)",
    ],
)
def test_what_a_reader_needs_works(session: str, sql: str) -> None:
    """Facts, libraries 4.4: MATCH, highlight and LIKE under the authorizer; each gives 2."""
    assert run_sql(session, sql).rows == ((2,),)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_each_earlier_version_are_read_and_left_as_they_are(
    tmp_path: Path, version: int
) -> None:
    """Issue 2, part 4: versions 1 to 3 are read without touching them."""
    path = write_old_session(tmp_path / "old.db", ROWS, version=version)
    before = digests(tmp_path)
    assert run_sql(str(path), "SELECT count(*) FROM messages").rows == ((4,),)
    assert digests(tmp_path) == before


ESCAPES = {
    "a second statement": "SELECT 1; DELETE FROM messages",
    "delete behind WITH": "WITH a AS (SELECT 1) DELETE FROM messages",
    "a comment that hides the end": "SELECT 1 /* ' */ ; DELETE FROM messages -- '",
    "attach another file": "ATTACH '{other}' AS o",
    "attach inside a select": "SELECT * FROM (ATTACH '{other}' AS o)",
    "vacuum into a file": "VACUUM INTO '{other}.copy'",
    "switch the guard off": "PRAGMA query_only = 0",
    "a pragma as a table": "SELECT * FROM pragma_database_list",
    "a pragma function": "SELECT * FROM pragma_table_info('messages')",
    "load code": "SELECT load_extension('{other}')",
    "read a file": "SELECT readfile('{other}')",
    "write a file": "SELECT writefile('{other}', 'x')",
    "replace the tokenizer": "SELECT fts3_tokenizer('simple', x'4141414141414141')",
    "quotes in quotes": 'SELECT "a\'""" ; DELETE FROM messages; --"',
    "write through the index": "INSERT INTO messages_fts(messages_fts) VALUES ('delete-all')",
    "write through a view": "UPDATE lines SET text = ''",
    "prepared statements of others": "SELECT * FROM sqlite_stmt",
    "raw pages": "SELECT * FROM sqlite_dbpage",
    "statistics of pages": "SELECT * FROM dbstat",
    "bytes out of nothing": "SELECT zeroblob(1000000000)",
    "random bytes": "SELECT randomblob(1000000000)",
    "a small s that is long": "\u017fELECT 1",
    "a full-width semicolon": "SELECT 1\uff1b DELETE FROM messages",
}


@pytest.mark.parametrize("name", ESCAPES)
def test_no_way_out_of_the_sandbox_works(session: str, tmp_path: Path, name: str) -> None:
    """Issue 3, show it: ten escape attempts on SQL fail; here are more."""
    other = tmp_path / "other.db"
    other.write_bytes(b"secret of another session")
    before = digests(tmp_path)
    with pytest.raises(OpenmemError) as caught:
        run_sql(session, ESCAPES[name].format(other=other))
    assert "secret" not in caught.value.message
    assert digests(tmp_path) == before


# What the text check would stop is tried once more without it: each layer holds by itself.
@pytest.mark.parametrize("name", ["attach another file", "switch the guard off", "load code"])
def test_the_authorizer_alone_stops_it_too(session: str, tmp_path: Path, name: str) -> None:
    """Facts, libraries 4.4: four layers, each with a hole."""
    sql = ESCAPES[name].format(other=tmp_path / "other.db")
    answer = run_child({"kind": "sql", "uri": source_uri(session), "sql": sql, "deadline": 2}, 2)
    assert answer.messages[-1]["error"] == "denied"
    assert list(tmp_path.glob("other*")) == []


def test_a_write_without_text_check_or_authorizer_meets_a_connection_that_only_reads(
    session: str,
) -> None:
    """The same: the third layer."""
    connection = sqlite3.connect(source_uri(session), uri=True)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM messages")
    connection.close()


def test_a_function_that_is_not_on_the_list_is_named(session: str) -> None:
    """Issue 3, bad input."""
    with pytest.raises(Refused, match="function randomblob was refused"):
        run_sql(session, "SELECT randomblob(4)")
    with pytest.raises(Refused, match="PRAGMA_DATABASE_LIST was refused"):
        run_sql(session, "SELECT * FROM pragma_database_list")


BOMBS = {
    "counting without end": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) "
    "SELECT count(*) FROM t",
    "a join of everything": "SELECT count(*) FROM json_each('[" + "1," * 900 + "1]') a, "
    "json_each('[" + "1," * 900 + "1]') b, json_each('[" + "1," * 900 + "1]') c, lines d",
    "200 MB in one call": "SELECT length(replace(printf('%.*c', 200000000, 'x'), 'x', 'yy'))",
    "many calls below the limit": "WITH RECURSIVE t(n, s) AS (SELECT 1, printf('%.*c', 1000000, "
    "'x') UNION ALL SELECT n+1, replace(s, 'x', 'xx') FROM t WHERE n < 500) SELECT count(*) FROM t",
    "a heap of values": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t "
    "WHERE n < 1000) SELECT count(*) FROM (SELECT DISTINCT n || printf('%.*c', 1000000, 'x') "
    "FROM t)",
    "a hard pattern": "SELECT '" + "a" * 60 + "b' REGEXP '(a+)+$'",
    "a wide print": "SELECT printf('%.*c', 200000000, 'x')",
    "a long pattern for LIKE": "SELECT printf('%.*c', 20000, 'a') LIKE '" + "%a" * 600 + "%b'",
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", BOMBS)
def test_no_statement_outlives_its_two_seconds_or_fills_the_memory(session: str, name: str) -> None:
    """Issue 3, show it: killed within 2.2 s; how fast is for a bench, that it ends is for here."""
    with pytest.raises(Failed) as caught:
        run_sql(session, BOMBS[name])
    assert caught.value.code in ("sql-timeout", "sql-memory", "sql-error")


def test_a_quoted_name_that_looks_like_a_statement_is_a_name(session: str) -> None:
    """Ours: the check must read quotes exactly as SQLite does, in both directions."""
    table = run_sql(session, 'SELECT 1 AS "a\'""; DELETE FROM messages; --"')
    assert table.columns == ("a'\"; DELETE FROM messages; --",)


def test_printf_is_that_of_sqlite_but_says_when_a_text_is_too_long(session: str) -> None:
    """Ours: SQLite gives NULL for it, which a model would take for an answer."""
    assert run_sql(session, "SELECT printf('%05d|%s', 7, 'a'), format('%.2f', 1)").rows == (
        ("00007|a", "1.00"),
    )
    assert run_sql(session, "SELECT printf(NULL)").rows == ((None,),)
    with pytest.raises(Failed, match="printf made a text longer than"):
        run_sql(session, "SELECT printf('%.*c', 2000000, 'x')")


def test_a_pattern_that_does_not_compile_is_told_with_its_place(session: str) -> None:
    """Issue 3, bad input."""
    with pytest.raises(Failed, match="unterminated subpattern at position 1"):
        run_sql(session, "SELECT 'a' REGEXP 'a(b'")


def test_the_child_has_no_environment_and_no_file_of_ours(
    session: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Issue 3, part 1; Claude Code's servers inherit the API key."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc to look into the child")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(secret, True)
    seen = tmp_path / "seen"
    spy = (
        "import os, sys\n"
        f"with open({str(seen)!r}, 'w') as out:\n"
        "    out.write(repr(sorted(os.environ)) + '\\n')\n"
        "    out.write(repr([os.path.realpath(f'/proc/self/fd/{n}') for n in "
        "os.listdir('/proc/self/fd')]))\n"
    )
    monkeypatch.setattr("openmem.context.sandbox.process._START", spy)
    run_child({"kind": "sql"}, 5)
    os.close(secret)
    text = seen.read_text()
    assert "ANTHROPIC_API_KEY" not in text and "secret" not in text
    assert text.startswith("[") and "pipe" in text


def test_rows_cells_and_the_whole_text_are_bounded_and_it_is_said(session: str) -> None:
    """Issue 3, part 1: 200 rows, cells of 2,000 characters, 30,000 in all."""
    many = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t WHERE n < {}) "
    table = run_sql(session, many.format(201) + "SELECT n FROM t")
    assert len(table.rows) == 200 and "200 rows" in table.why
    assert table.text().endswith("[truncated: only the first 200 rows]")
    assert not run_sql(session, many.format(200) + "SELECT n FROM t").is_truncated

    cut = run_sql(session, "SELECT printf('%.*c', 2001, 'x')")
    assert cut.rows == (("x" * 1999 + "…",),) and cut.is_truncated
    assert not run_sql(session, "SELECT printf('%.*c', 2000, 'x')").is_truncated

    wide = run_sql(session, many.format(100) + "SELECT printf('%.*c', 1900, 'x') FROM t")
    assert 0 < len(wide.rows) < 20 and len(wide.text()) <= 30_000 and wide.is_truncated

    row = run_sql(session, "SELECT " + ", ".join(["printf('%.*c', 1900, 'x')"] * 60))
    assert len(row.rows) == 1 and len(row.text()) <= 30_000 and row.is_truncated


def test_an_unknown_column_is_answered_with_those_that_are_there(session: str) -> None:
    """Ours: the model can mend its statement without another question."""
    with pytest.raises(Failed) as caught:
        run_sql(session, "SELECT content FROM messages")
    assert "no such column: content" in caught.value.message
    assert "messages(seq, " in caught.value.hint and "lines(id, message_seq" in caught.value.hint


def test_a_value_that_is_not_text_in_utf8_is_still_shown(tmp_path: Path) -> None:
    """Ours: a stray byte must not hide the other rows."""
    path = write_old_session(tmp_path / "s.db", ROWS)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE messages SET text = CAST(x'ff41' AS TEXT) WHERE seq = 1")
    connection.commit()
    connection.close()
    assert run_sql(str(path), "SELECT text FROM messages WHERE seq = 1").rows == (("\ufffdA",),)


def test_a_file_that_is_not_a_session_is_named(tmp_path: Path) -> None:
    """Issue 2, bad input: a store file newer than ours is skipped and never written."""
    with pytest.raises(NotFound):
        run_sql(str(tmp_path / "none.db"), "SELECT 1")
    newer = write_old_session(tmp_path / "newer.db", ROWS)
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreUnavailable, match="newer openmem"):
        run_sql(str(newer), "SELECT 1")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreUnavailable):
        run_sql(str(broken), "SELECT 1")


def test_a_session_that_is_being_written_can_be_read(session: str) -> None:
    """Context store contract, Concurrency: a file-size limit of zero broke exactly this."""
    writer = sqlite3.connect(session, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute(
        "INSERT INTO messages (fingerprint, thread, role, kind, text, created_at) "
        "VALUES ('f', 't', 'user', 'text', 'new', '')"
    )
    assert run_sql(session, "SELECT count(*) FROM messages").rows == ((4,),)
    writer.execute("COMMIT")
    assert run_sql(session, "SELECT count(*) FROM messages").rows == ((5,),)
    writer.close()


def test_the_schema_is_told_in_under_700_characters_with_the_echo_rule() -> None:
    """Issue 3, part 1."""
    assert len(SCHEMA_HELP) < 700
    assert "echo" in SCHEMA_HELP and "assistant" in SCHEMA_HELP


def test_functions_that_make_bytes_load_code_or_look_inside_are_not_on_the_list() -> None:
    """Ours: the list is of values only; this names what must never be added."""
    assert not query_job._FUNCTIONS & {
        "load_extension", "readfile", "writefile", "fts3_tokenizer", "randomblob", "zeroblob",
        "sqlite_log", "edit", "rtreecheck", "fts5", "sqlite_compileoption_get",
    }  # fmt: skip


def test_the_connection_itself_refuses_to_write(session: str) -> None:
    """Facts, libraries 4.4: each layer by itself."""
    connection = open_session(source_uri(session))
    assert connection.execute("PRAGMA query_only").fetchone() == (1,)
    connection.close()


def test_a_long_statement_ends_by_itself_before_it_has_to_be_killed(session: str) -> None:
    """Ours: the answer then says time, and nothing was torn down."""
    job = {"kind": "sql", "uri": source_uri(session), "sql": BOMBS["counting without end"]}
    answer = run_child({**job, "deadline": 0.5}, 30)
    assert not answer.was_killed and answer.messages[-1]["error"] == "time"
