"""`openmem context import`, as a person runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pexpect
import pytest

from openmem.cli.progress import bar_line
from tests.fakes.agent_files import (
    ClaudeFile,
    claude_path,
    claude_talk,
    codex_lines,
    codex_path,
    item,
    lines,
    write,
)

SID = "11111111-2222-4333-8444-555555555555"
OTHER = "66666666-2222-4333-8444-555555555555"


@pytest.fixture
def repo(home: Path, tmp_path: Path) -> Path:
    write(tmp_path / "repo/.git/HEAD", b"ref: refs/heads/main\n")
    write(home / ".config/openmem/policy.toml",
          b"version = 1\n[defaults.git]\nstore = true\nrecall = true\n")  # fmt: skip
    return tmp_path / "repo"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openmem", "context", "import", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def data_of(*words: str) -> dict[str, Any]:
    done = run(*words, "--json")
    assert done.returncode == 0 and done.stderr == "", done
    envelope = json.loads(done.stdout)
    assert (envelope["schema"], envelope["command"]) == (1, "context import")
    found: dict[str, Any] = envelope["data"]
    return found


def test_a_person_sees_what_came_in_and_what_did_not(home: Path, repo: Path) -> None:
    """Issue 7: a clear summary; skipped lines with their place; the next command last."""
    talk = lines(*claude_talk(SID, str(repo)))
    write(claude_path(home, SID), b"// a comment\n" + talk)
    write(codex_path(home, OTHER), lines(*codex_lines(OTHER, "/private", item("user", "go"))))
    dry = run("--dry-run")
    assert "Nothing is stored yet." in dry.stderr and not (home / ".local/share").exists()
    done = run()
    assert done.returncode == 0, done
    assert done.stdout.split("\n")[:2] == [
        "AGENT        SESSIONS  ROWS NEW  KNOWN  FROM        TO",
        "Claude Code         1        10      0  2026-09-01  2026-09-01",
    ]
    assert "  = 1 session not stored by the policy: default for other folders" in done.stdout
    assert "What the policy lets be stored:  openmem policy show" in done.stderr
    assert "1 line skipped:" in done.stdout and "line 1: a line that is no JSON" in done.stdout
    assert f"~/.claude/projects/-repo/{SID}.jsonl" in done.stdout.replace("\n  ", "")
    assert done.stderr.rstrip().endswith("Search them:  openmem context search WORDS")
    assert all(len(line) <= 80 for line in (done.stdout + done.stderr).split("\n"))
    again = run("--agent", "claude-code")
    assert again.stdout == "Nothing to do; 1 as before.\n" and again.stderr == ""


def test_the_envelope_says_all_of_it(home: Path, repo: Path) -> None:
    """Design, section 5: keys are promises."""
    write(claude_path(home, SID), lines(*claude_talk(SID, str(repo))))
    data = data_of()
    assert sorted(data) == [
        "added", "bytes", "denied", "dry_run", "known", "older", "places", "seconds", "sessions",
        "skipped", "unchanged", "unread",
    ]  # fmt: skip
    (session,) = data["sessions"]
    assert session == {
        "session_id": SID, "agent": "claude-code", "cwd": str(repo), "bank": session["bank"],
        "parent": "", "added": 10, "known": 0, "shared": 0, "masked": 0,
        "first_at": "2026-09-01T10:00:01Z", "last_at": "2026-09-01T10:00:10Z",
        "sources": [str(claude_path(home, SID))],
    }  # fmt: skip
    assert data_of("--since", "1d")["unchanged"] == 1


def test_files_and_folders_may_be_named(home: Path, repo: Path, tmp_path: Path) -> None:
    """Issue 7, part 5: sniffed by content, not by the file's name."""
    write(tmp_path / "copies/a.bak", lines(*claude_talk(SID, str(repo))))
    write(tmp_path / "copies/deep/b", lines(*codex_lines(OTHER, str(repo), item("user", "go"))))
    write(tmp_path / "copies/README", b"# not a session\n")
    data = data_of(str(tmp_path / "copies"))
    assert {one["session_id"] for one in data["sessions"]} == {SID, OTHER}
    assert [Path(entry["path"]).name for entry in data["unread"]] == ["README"]
    assert data_of(str(tmp_path / "copies"), "--agent", "codex")["places"] == 1
    assert run(str(tmp_path / "nowhere")).returncode == 1


def test_a_file_that_is_no_session_does_not_hide_what_is_wrong_in_others(
    home: Path, repo: Path
) -> None:
    """Ours: 829 lines of a picture in an agent's folder were 829 sentences, ten of them shown."""
    write(claude_path(home, OTHER), b"no\n" * 400 + b'{"type":"user"' + b"\n" + b"no\n" * 400)
    write(claude_path(home, SID), b"// a comment\n" + lines(*claude_talk(SID, str(repo))))
    done = run()
    told = " ".join(done.stdout.split())
    assert "802 lines skipped:" in told and "more; --json names all" not in told
    assert f"{SID}.jsonl, line 1: a line that is no JSON" in told
    assert f"{OTHER}.jsonl, lines 1 to 400: a line that is no JSON" in told
    assert f"{OTHER}.jsonl, line 401: a record that breaks off" in told
    assert f"{OTHER}.jsonl, lines 402 to 801: a line that is no JSON" in told


def test_what_cannot_be_read_is_said_once_and_fails_when_there_is_nothing_else(
    home: Path, repo: Path, tmp_path: Path
) -> None:
    """Design, section 5: partial is 0, nothing useful is 1."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    done = run(str(loop))
    told = " ".join(done.stdout.split())
    assert done.returncode == 1 and told.count("loop: Too many levels") == 1, done
    assert "loop" not in done.stderr and "the next import" in done.stderr
    write(tmp_path / "a", lines(*claude_talk(SID, str(repo))))
    assert run(str(loop), str(tmp_path / "a")).returncode == 0
    envelope = json.loads(run(str(loop), "--json").stdout)
    assert (envelope["status"], envelope["exit_code"]) == ("error", 1)
    assert [one["code"] for one in envelope["errors"]] == ["unread"]


def test_what_is_wrong_is_said_before_anything_is_read(home: Path) -> None:
    """Design, section 5: exit codes."""
    cursor, nobody = run("--agent", "cursor"), run("--agent", "nobody")
    assert cursor.returncode == 1 and "sessions that Cursor keeps cannot be read" in cursor.stderr
    assert nobody.returncode == 2 and "no agent 'nobody'. Known: claude-code" in nobody.stderr
    assert run("--since", "soon").returncode == 2
    done = run()
    assert done.returncode == 7 and "there is no policy" in done.stderr


def test_a_terminal_shows_a_bar_and_a_pipe_none(home: Path, repo: Path) -> None:
    """Issue 7, Show it: with a progress bar."""
    file = ClaudeFile(SID, str(repo))
    big = [file.user(f"{n} " + "some words of a log " * 4000) for n in range(60)]
    write(claude_path(home, SID), lines(*big))
    child = pexpect.spawn(
        sys.executable, ["-m", "openmem", "context", "import"], timeout=90, encoding="utf-8",
        env={**os.environ, "TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "1"},
    )  # fmt: skip
    child.expect(r"[█░]{24} +\d+%  .* of 5 MB.*Claude Code")
    child.expect("60")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_the_bar_is_plain_where_it_must_be() -> None:
    """House style: correct without UTF-8."""
    assert bar_line(5_000_000, 10_000_000, "Codex", 0.5) == f"{'█' * 12}{'░' * 12}  50%  " + (
        "5 MB of 10 MB  Codex"
    )
    assert bar_line(0, 0, "x", 2.0, plain=True) == f"{'#' * 24} 100%  0 B of 0 B, 0 MB/s  x"


def test_an_interrupted_import_is_whole_and_goes_on(home: Path, repo: Path) -> None:
    """Issue 7: interrupted; exit 130, and the next one brings the rest."""
    for n in range(40):
        sid = f"{n:08d}-2222-4333-8444-555555555555"
        file = ClaudeFile(sid, str(repo))
        said = [file.user(f"{k} " + "words of a log " * 3000) for k in range(12)]
        write(claude_path(home, sid), lines(*said))
    command = [sys.executable, "-m", "openmem", "context", "import"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    sessions = home / ".local/share/openmem/context/sessions"
    ends = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < ends:
        if sessions.exists() and len(list(sessions.glob("*.v4.db"))) > 2:
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130
    data = data_of()
    assert data["unchanged"] < 40
    check = subprocess.run(
        [sys.executable, "-m", "openmem", "context", "verify", "--json"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert json.loads(check.stdout)["data"] == {"sessions": 40, "problems": []}
    status = subprocess.run(
        [sys.executable, "-m", "openmem", "context", "status", "--limit", "0", "--json"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert {one["rows"] for one in json.loads(status.stdout)["data"]["sessions"]} == {12}
