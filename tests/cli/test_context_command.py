"""`openmem context`: what was recorded is listed, searched and shown, to people and scripts."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmem.cli.app import run
from tests.fakes.stored import Machine, answered, called, said

SID = "7f3a0c44-1111-4111-8111-000000000091"
OTHER = "7f3b0000-2222-4222-8222-000000000002"


@pytest.fixture
def site(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one session, another with a second; the first is the working folder."""
    machine = Machine(home)
    site, other = machine.repository("site"), machine.repository("other")
    machine.record(
        SID,
        site,
        [
            said("we rotate the signing key every 90 days"),
            answered("Noted: rotation every 90 days."),
            *called("Bash", {"command": "cat key"}, "signing key fingerprint 4A:1F\nsecond line"),
        ],
        agent="claude-code",
    )
    machine.record(OTHER, other, [said("the signing key of the other project")])
    machine.close()
    monkeypatch.chdir(site)
    return site


@pytest.fixture
def data(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def of(*words: str, status: int = 0) -> Any:
        capsys.readouterr()
        assert run([*words, "--json"]) == status
        envelope = json.loads(capsys.readouterr().out)
        assert envelope["exit_code"] == status
        return envelope["data"]

    return of


def test_search_gives_the_promised_keys(site: Path, data: Callable[..., Any]) -> None:
    """Issue 2, JSON that scripts may rely on."""
    found = data("context", "search", "signing key", "--context", "1")
    assert {"hits", "total_matches", "line_matches", "mode"} <= set(found)
    assert (found["total_matches"], found["line_matches"], found["mode"]) == (2, 2, "lexical")
    keys = ["session_id", "seq", "role", "kind", "name", "in_context", "excerpt", "before", "after"]
    for hit in found["hits"]:
        assert set(keys) <= set(hit) and hit["session_id"] == SID
    assert {hit["role"] for hit in found["hits"]} == {"user", "tool"}
    user = next(hit for hit in found["hits"] if hit["role"] == "user")
    assert user["after"][0]["excerpt"].startswith("Noted")


def test_the_search_is_of_this_project_unless_all_are_asked_for(
    site: Path, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2: `--all-workspaces`, `--session`."""
    everywhere = data("context", "search", "signing key", "--all-workspaces")
    assert {hit["session_id"] for hit in everywhere["hits"]} == {SID, OTHER}
    one = data("context", "search", "signing key", "--session", "7f3b")
    assert {hit["session_id"] for hit in one["hits"]} == {OTHER}
    os.chdir(site.parent)
    assert run(["context", "search", "signing key"]) == 0
    told = capsys.readouterr()
    assert told.out == "Nothing found.\n" and "--all-workspaces" in told.err


def test_roles_and_limit_and_pattern_narrow(site: Path, data: Callable[..., Any]) -> None:
    """Issue 2: `--role`, `--limit`."""
    assert data("context", "search", "rotation")["total_matches"] == 0
    assert data("context", "search", "rotation", "--role", "assistant")["total_matches"] == 1
    assert data("context", "search", "rotation", "--role", "all")["total_matches"] == 1
    two = data("context", "search", "signing key", "--limit", "1")
    assert len(two["hits"]) == 1 and two["total_matches"] == 2
    assert data("context", "search", "--pattern", r"4A:[0-9A-F]+")["total_matches"] == 1
    assert data("context", "search", "signing", "--trimmed")["total_matches"] == 0
    assert data("context", "search", "signing", "--in-context")["total_matches"] == 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["search"], "--pattern"),
        (["search", "x", "--role", "robot"], "'robot'"),
        (["search", "x", "--context", "9"], "0 to 5"),
        (["search", "x", "--limit", "0"], "1 to 200"),
        (["search", "x", "--session", "7f3"], "begins 2 sessions"),
        (["show", "7f3"], "begins 2 sessions"),
    ],
)
def test_wrong_words_are_exit_2(
    site: Path, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    """Design, section 5."""
    assert run(["context", *words]) == 2
    assert named in capsys.readouterr().err


def test_an_unknown_session_is_told_with_the_command_that_lists_them(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, Bad input."""
    for words in (["show", "nope"], ["search", "x", "--session", "nope"]):
        assert run(["context", *words]) == 1
        assert "openmem context status" in capsys.readouterr().err.replace("\n", " ")


def test_status_gives_the_promised_keys(site: Path, data: Callable[..., Any]) -> None:
    """Issue 2, JSON that scripts may rely on."""
    found = data("context", "status")
    assert {"sessions", "proxy", "policy"} <= set(found)
    keys = [
        "session_id",
        "agent",
        "cwd",
        "bank",
        "rows",
        "bytes",
        "prompt_tokens",
        "trims",
        "busts",
        "cache_read_tokens",
        "cache_creation_tokens",
        "input_tokens",
        "output_tokens",
        "fail_opens",
        "last_at",
    ]
    sessions = {session["session_id"]: session for session in found["sessions"]}
    assert set(sessions) == {SID, OTHER}
    assert set(keys) <= set(sessions[SID]) and sessions[SID]["rows"] == 4
    assert sessions[SID]["agent"] == "claude-code" and sessions[SID]["cwd"] == str(site)
    assert found["proxy"]["running"] is False and found["policy"]["problem"] == ""


def test_status_lists_the_newest_and_counts_the_rest(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """screens.md, openmem context status."""
    assert run(["context", "status", "--limit", "1"]) == 0
    told = capsys.readouterr().out
    assert "in 2 sessions" in told and "1 older" in told


def test_a_newer_store_is_one_line_and_hides_no_other(
    site: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, Bad input: skipped with one line, never written."""
    path = home / ".local/share/openmem/context/sessions" / f"{OTHER}.v4.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    for words in (["status"], ["search", "signing key", "--all-workspaces"]):
        assert run(["context", *words, "--json"]) == 0
        told = capsys.readouterr()
        envelope = json.loads(told.out)
        assert envelope["status"] == "partial" and "newer" in envelope["errors"][0]["message"]
        assert SID in told.out and path.read_bytes() == before
        assert told.err.count("openmem:") == 1


def test_a_session_is_shown_and_a_row_printed_whole(
    site: Path, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, part 8: context show."""
    rows = data("context", "show", "7f3a")["rows"]
    assert [row["role"] for row in rows] == ["user", "assistant", "assistant", "tool"]
    last = rows[-1]["seq"]
    assert run(["context", "show", SID, "--row", str(last)]) == 0
    assert capsys.readouterr().out == "signing key fingerprint 4A:1F\nsecond line\n"
    assert run(["context", "show", SID, "--row", "999"]) == 1
    assert run(["context", "show", SID, "--limit", "2"]) == 0
    assert "last 2 are shown" in capsys.readouterr().out


def test_reading_leaves_no_trace(site: Path, home: Path) -> None:
    """Design, section 5: read-only commands; the store's files stay byte for byte."""

    def snapshot() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(home.rglob("*")) if p.is_file()}

    before = snapshot()
    for words in (["status"], ["search", "signing"], ["show", "7f3a"]):
        assert run(["context", *words]) == 0
    assert snapshot() == before


def test_on_an_empty_machine_nothing_is_made(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: a getter never creates."""
    assert run(["context", "status"]) == 0 and run(["status"]) == 0
    assert run(["context", "search", "x", "--all-workspaces"]) == 0
    assert run(["doctor", "--no-network"]) in (0, 1)
    assert list(home.iterdir()) == []
