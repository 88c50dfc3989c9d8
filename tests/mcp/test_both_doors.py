"""SQL and patterns through the command line and the server: the same limits, the same words.

The sandbox's own tests try more ways; these see that no door leads around it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.mcp_process import CHECKOUT, McpProcess
from tests.fakes.stored import Machine, answered, called, said

SID = "5e55-10a1"
LOG = "\n".join(f"{level} code={n % 3} at {n}" for n in range(300) for level in ("ERROR", "INFO"))


class Doors:
    """One session behind both: `told` gives what each says and whether it is an error."""

    def __init__(self, folder: Path, home: Path, server: McpProcess) -> None:
        self.folder, self.home, self.server = folder, home, server

    def by_command(self, *words: str) -> tuple[dict[str, Any], str, bool]:
        done = subprocess.run(
            [sys.executable, "-m", "openmem", "context", *words, "--json"],
            cwd=self.folder,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        answer = json.loads(done.stdout)
        assert done.returncode != 70, done.stderr
        words_said = " ".join(error["message"] for error in answer["errors"])
        return answer["data"] or {}, words_said, done.returncode != 0

    def sql(self, statement: str) -> list[tuple[str, bool]]:
        """Return both doors' text; for the command line the rows as JSON."""
        data, fault, is_error = self.by_command("sql", SID, statement)
        text, is_refused = self.server.call("smart_compact_sql", session_id=SID, sql=statement)
        return [(fault or json.dumps(data["rows"]), is_error), (text, is_refused)]


@pytest.fixture
def doors(home: Path) -> Iterator[Doors]:
    machine = Machine(home)
    site = machine.repository("site")
    messages = [
        said("count the errors\n" + "a" * 60 + "b"),
        *called("Bash", {"command": "cat log"}, LOG),
        answered("There are 300 lines that say ERROR code=1."),
        *called("mcp__openmem__smart_compact_search", {"query": "x"}, "ERROR code=1", id="t2"),
        said("thanks"),
    ]
    machine.record(SID, site, messages)
    machine.close()
    environ = {"HOME": str(home), "CLAUDE_PROJECT_DIR": str(site)}
    with McpProcess(site, environ) as server:
        yield Doors(site, home, server)


ESCAPES = {
    "DELETE FROM line": "DELETE",
    "SELECT 1; DROP TABLE line": "second statement",
    "WITH a AS (SELECT 1) INSERT INTO line SELECT 1, 'x'": "INSERT",
    "ATTACH '/etc/passwd' AS o": "ATTACH",
    "PRAGMA query_only = 0": "PRAGMA",
    "SELECT * FROM pragma_database_list": "PRAGMA_DATABASE_LIST",
    "VACUUM INTO '/tmp/openmem-escape.db'": "VACUUM",
    "SELECT load_extension('/tmp/x.so')": "load_extension",
    "SELECT readfile('/etc/passwd')": "readfile",
    "SELECT writefile('/tmp/openmem-escape', 'x')": "writefile",
    "SELECT zeroblob(1000000000)": "zeroblob",
    "SELECT * FROM dbstat": "dbstat",
}


@pytest.mark.heavy
def test_no_escape_works_at_either_door_and_what_was_refused_is_named(doors: Doors) -> None:
    """Issue 3, "Show it": ten escape attempts on SQL fail; bad input: the refused word."""
    for statement, word in ESCAPES.items():
        for text, is_error in doors.sql(statement):
            assert is_error and word.lower() in text.lower(), (statement, text)
            assert "root:" not in text
    assert not Path("/tmp/openmem-escape").exists() and not Path("/tmp/openmem-escape.db").exists()
    for text, is_error in doors.sql("SELECT count(*) FROM lines WHERE text LIKE 'ERROR%'"):
        assert not is_error and "301" in text


@pytest.mark.heavy
def test_an_expression_of_two_hundred_megabytes_and_one_without_end_are_ended(doors: Doors) -> None:
    """Issue 3, "Show it"."""
    grow = "replace(printf('%.*c', 1000000, 'x'), 'x', printf('%.*c', 200, 'y'))"
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT max(n) FROM t"
    for statement in (f"SELECT length({grow})", endless):
        for text, is_error in doors.sql(statement):
            assert is_error and text


@pytest.mark.heavy
def test_a_hard_pattern_ends_with_a_flag_at_both_doors(doors: Doors) -> None:
    """Issue 3, "Show it": within 1.5 s, which the bench measures; here that it ends and says so."""
    data, _, is_error = doors.by_command("search", "--pattern", "(a+)+$", "--session", SID)
    assert not is_error and data["timed_out"] is True
    text, is_error = doors.server.call("smart_compact_search", pattern="(a+)+$", session_id=SID)
    assert not is_error and "time was up" in text
    started = time.monotonic()
    text, _ = doors.server.call("smart_compact_search", pattern="ERROR", session_id=SID, count=True)
    assert "300 lines match" in text and time.monotonic() - started < 60, "the server lives on"


def test_counts_are_the_same_at_both_doors_and_leave_out_what_only_repeats(doors: Doors) -> None:
    """Issue 3, part 1: the agent's answer and our own tool's result say the line again."""
    pattern = r"^ERROR code=(\d)"
    data, _, _ = doors.by_command("search", "--pattern", pattern, "--count", "--session", SID)
    assert (data["line_matches"], data["hits"]) == (300, [])
    assert {group["captured"][0]: group["lines"] for group in data["groups"]} == {
        "0": 100, "1": 100, "2": 100,
    }  # fmt: skip
    text, _ = doors.server.call("smart_compact_search", pattern=pattern, count=True)
    assert text.split("\n")[1:] == ["lines\tcaptured", "100\t0", "100\t1", "100\t2"]
    counting = (
        "SELECT count(*) FROM lines WHERE text LIKE 'ERROR%' AND role IN ('user','tool')"
        " AND NOT echo"
    )
    assert [text.split("\n")[-1].strip("[]") for text, _ in doors.sql(counting)] == ["300", "300"]
    everything, _, _ = doors.by_command(
        "search", "--pattern", "ERROR code=1", "--count", "--role", "all", "--include-echo"
    )
    assert everything["line_matches"] == 102


def test_a_pattern_that_does_not_compile_is_told_with_its_place(doors: Doors) -> None:
    """Issue 3, bad input."""
    _, fault, is_error = doors.by_command("search", "--pattern", "a(b")
    assert is_error and "character 2" in fault
    text, is_error = doors.server.call("smart_compact_search", pattern="a(b")
    assert is_error and "character 2" in text
