"""`openmem context` verify, sql, sweep, pin, forget, scan-secrets, export, as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pexpect
import pytest

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.base.redact import Redacted
from openmem.context.formats.messages import split_request
from openmem.context.store.model import Incoming
from openmem.context.store.recorder import Recorder
from tests.fakes.session_v3 import OldRow, write_old_session
from tests.fakes.stored import Machine, answered, said

SECRET = "ghp_" + "aB3d" * 9
pytestmark = pytest.mark.timeout(600)  # many commands each; on a busy machine one takes seconds


@pytest.fixture
def stored(home: Path) -> Paths:
    """Two sessions, one with a secret that was stored before it could be told."""
    paths = Paths(os.environ)
    recorder = Recorder(paths, ensure_key(paths), lambda text, key: Redacted(text))
    for sid, text in (("aaaa1111", f"quokka one\ntoken {SECRET}"), ("bbbb2222", "quokka two")):
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        recorder.record_request(sid, Incoming(agent="claude-code", view=split_request(body)))
    recorder.close()
    return paths


def run(*words: str, said: str = "") -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "openmem", *words, "--json"],
        input=said,
        capture_output=True,
        text=True,
        timeout=180,
    )
    return done.returncode, json.loads(done.stdout), done.stdout + done.stderr


def holds(paths: Paths, word: str) -> bool:
    return any(
        word.encode() in Path(folder, name).read_bytes()
        for folder, _, names in os.walk(paths.state_dir)
        for name in names
    )


def test_a_session_is_checked_asked_and_exported(stored: Paths, tmp_path: Path) -> None:
    """Issue, what a user can do."""
    assert run("context", "verify")[1]["data"] == {"sessions": 2, "problems": []}
    code, answer, _ = run("context", "sql", "aaaa", "SELECT count(*) AS n FROM lines")
    assert (code, answer["data"]["columns"], answer["data"]["rows"]) == (0, ["n"], [[2]])
    code, answer, _ = run("context", "sql", "aaaa", "DELETE FROM line")
    assert code == 4 and "DELETE" in answer["errors"][0]["message"]
    target = str(tmp_path / "out.md")
    run("context", "export", "aaaa", "--format", "markdown", "--out", target)
    assert "quokka one" in Path(target).read_text() and os.stat(target).st_mode & 0o777 == 0o600
    assert run("context", "export", "aaaa", "--out", target)[0] == 1


def test_forgetting_needs_a_yes_and_says_what_went(stored: Paths) -> None:
    """Issue, part 4; design, section 5: no prompt without a terminal."""
    assert run("context", "forget", "--pattern", "quokka")[0] == 2
    code, answer, _ = run("context", "forget", "--pattern", "quokka", "--dry-run")
    assert code == 0 and len(answer["data"]["rows"]) == 2 and holds(stored, "quokka")
    code, answer, _ = run("context", "forget", "--pattern", "quokka", "--yes")
    assert code == 0 and answer["data"]["rows"] == 2 and not holds(stored, "quokka")
    assert run("context", "forget", "--pattern", "quokka", "--yes")[0] == 1
    assert run("context", "forget", "--pattern", "(", "--yes")[0] == 2
    assert run("context", "forget", "--yes")[0] == 2
    assert run("context", "forget", "--session", "cccc", "--yes")[0] == 1


def test_a_secret_is_read_from_standard_input_only(stored: Paths) -> None:
    """Issue: `--secret -` from standard input."""
    code, _, output = run("context", "forget", "--secret", SECRET, "--yes")
    assert code == 2 and SECRET not in output
    code, answer, output = run("context", "forget", "--secret", "-", "--yes", said=SECRET + "\n")
    assert code == 0 and answer["data"]["masked"] == 1 and SECRET not in output
    assert not holds(stored, SECRET) and holds(stored, "quokka one")
    code, answer, _ = run("context", "forget", "--secret", "-", "--yes", said=SECRET)
    assert code == 1 and "1 row held it" in answer["errors"][0]["message"]


def test_stored_secrets_are_shown_without_their_value(stored: Paths) -> None:
    """Issue, part 5."""
    code, answer, output = run("context", "scan-secrets")
    assert code == 1 and answer["data"]["found"][0]["rule"] == "github" and SECRET not in output
    code, answer, _ = run("context", "scan-secrets", "--fix", "--yes")
    assert code == 0 and answer["data"]["masked"] == 1 and not holds(stored, SECRET)
    assert run("context", "scan-secrets")[0] == 0


def test_a_sweep_shows_first_and_keeps_what_is_pinned(stored: Paths) -> None:
    """Issue, part 3."""
    run("context", "pin", "aaaa")
    for name in os.listdir(stored.sessions_dir):
        os.utime(f"{stored.sessions_dir}/{name}", (1_600_000_000, 1_600_000_000))
    code, answer, _ = run("context", "sweep", "--dry-run")
    assert code == 0 and [s["session_id"] for s in answer["data"]["sessions"]] == ["bbbb2222"]
    assert run("context", "sweep")[0] == 2
    assert run("context", "sweep", "--yes")[1]["data"]["removed"] >= 1
    assert {n[:4] for n in os.listdir(stored.sessions_dir)} == {"aaaa"}
    assert run("context", "sweep", "--yes")[1]["data"]["removed"] == 0


def test_what_goes_for_good_is_asked_for_with_no_as_the_default(stored: Paths) -> None:
    """House style: nothing destructive by one Enter; a secret is typed unseen."""
    command = f"{sys.executable} -m openmem context forget --secret -"
    for answer, is_gone in (("\r", False), ("y", True)):
        child = pexpect.spawn("/bin/sh", ["-c", command], timeout=120, encoding="utf-8")
        child.expect("not shown")
        child.send("quokka\r")
        child.expect("#1")
        child.expect("for good")
        child.send(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert holds(stored, "quokka") != is_gone
        assert (child.exitstatus == 0) == is_gone


def test_a_pin_is_no_use_of_a_session(stored: Paths) -> None:
    """Ours: pinning made a session young again, so that a sweep did not name it as kept."""
    then = time.time() - 40 * 86_400
    for name in os.listdir(stored.sessions_dir):
        os.utime(f"{stored.sessions_dir}/{name}", (then, then))
    assert run("context", "pin", "aaaa")[0] == 0
    _, answer, _ = run("context", "sweep", "--dry-run")
    assert [one["session_id"] for one in answer["data"]["sessions"]] == ["bbbb2222"]
    assert answer["data"]["kept"] == [{"session_id": "aaaa1111", "why": "pinned"}]
    assert run("context", "pin", "aaaa", "--off")[0] == 0
    assert len(run("context", "sweep", "--dry-run")[1]["data"]["sessions"]) == 2


def test_a_forgotten_row_says_so_wherever_it_is_shown(stored: Paths) -> None:
    """Issue 3, bad input: a tombstoned text that arrives again is not stored, and counted."""
    assert run("context", "forget", "--pattern", "quokka two", "--yes")[0] == 0
    recorder = Recorder(stored, ensure_key(stored))
    messages = [{"role": "user", "content": text} for text in ("quokka two", "hello")]
    body = json.dumps({"messages": messages}).encode()
    recorder.record_request("cccc3333", Incoming(agent="claude-code", view=split_request(body)))
    recorder.close()
    for sid, count in (("bbbb", 1), ("cccc", 2)):
        _, answer, _ = run("context", "show", sid)
        assert (answer["data"]["row_count"], answer["data"]["forgotten_count"]) == (count, 1)
        assert answer["data"]["rows"][0]["is_forgotten"] is True
    shown = subprocess.run(
        [sys.executable, "-m", "openmem", "context", "show", "cccc"],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    assert "2 rows, 1 forgotten" in shown.stdout and "(forgotten)" in shown.stdout
    _, exported, _ = run("context", "export", "cccc", "--format", "markdown")
    assert "(forgotten)" in exported["data"]["text"] and not holds(stored, "quokka two")


def repository(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def test_a_folder_that_is_not_there_is_never_taken_for_the_project_around_it(
    home: Path, tmp_path: Path
) -> None:
    """Ours: a slip of the pen would have taken every session of the project for good."""
    machine = Machine(home)
    project, other = repository(tmp_path / "project"), repository(tmp_path / "other")
    machine.record("aaaa1111", project, [said("in the project")])
    machine.record("bbbb2222", other, [said("elsewhere")])
    machine.close()
    asked = ("context", "forget", "--dry-run", "--project")
    assert run(*asked, str(project / "no-such-folder"))[0] == 1
    assert run(*asked, str(project))[1]["data"]["sessions"] == ["aaaa1111"]
    (project / "below").mkdir()
    assert run(*asked, str(project / "below"))[1]["data"]["sessions"] == ["aaaa1111"]
    other.rename(tmp_path / "moved")
    assert run(*asked, str(other))[1]["data"]["sessions"] == ["bbbb2222"], "of a folder now gone"
    assert run(*asked, str(tmp_path))[0] == 1


def test_a_row_that_is_not_there_stops_the_whole_command(stored: Paths) -> None:
    """Issue 3, bad input: a name that is wrong is told, not passed over; nothing changed."""
    code, answer, _ = run("context", "forget", "--session", "aaaa", "--row", "1", "--row", "99")
    assert code == 1 and "no row 99" in answer["errors"][0]["message"]
    huge = str(10**30)
    for words in (("--row", huge), ("--row", "0"), ("--row", "-1")):
        assert run("context", "forget", "--session", "aaaa", *words, "--yes")[0] == 1
        assert run("context", "show", "aaaa", *words)[0] == 1
    assert holds(stored, "quokka one")
    forget = ("context", "forget", "--session", "aaaa", "--row", "1", "--yes")
    assert run(*forget)[1]["data"]["rows"] == 1
    code, answer, _ = run(*forget)
    assert code == 0 and answer["data"]["rows"] == {}, "a second run has nothing to do"


def test_looking_and_finding_nothing_makes_no_file(home: Path) -> None:
    """Design, section 5: a dry run changes no file; house style: a getter never creates."""
    for words in (
        ("forget", "--pattern", "x", "--yes"),
        ("forget", "--pattern", "x", "--dry-run"),
        ("forget", "--session", "x", "--dry-run"),
        ("scan-secrets",),
        ("sweep", "--dry-run"),
        ("verify",),
    ):
        assert run("context", *words)[0] in (0, 1)
    assert run("context", "forget", "--secret", "-", "--yes", said="hunter22")[0] == 1
    assert [str(path) for path in home.rglob("*")] == []


def test_a_secret_that_is_none_is_refused(stored: Paths) -> None:
    """Ours: an empty pipe must not end as "shorter than", and bytes that are no text as nothing."""
    forget = ["context", "forget", "--secret", "-", "--yes"]
    for said_, told in (("", "no secret"), ("  \n", "no secret"), ("abc", "shorter than 4")):
        code, answer, _ = run(*forget, said=said_)
        assert code == 2 and told in answer["errors"][0]["message"]
    done = subprocess.run(
        [sys.executable, "-m", "openmem", *forget], input=b"\xff\xfe\xfdsecret", capture_output=True
    )
    assert done.returncode == 2 and b"UTF-8" in done.stderr


def test_a_pattern_means_the_same_for_searching_and_for_forgetting(home: Path) -> None:
    """Ours: what a search shows, forgetting takes: line ends of Windows, patterns across lines."""
    paths = Paths(os.environ)
    recorder = Recorder(paths, ensure_key(paths))
    for sid, text in (("cr", "alpha\r\nbeta gamma\r\n"), ("rows", "one\ntwo\nthree")):
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        recorder.record_request(sid, Incoming(agent="claude-code", view=split_request(body)))
    recorder.close()
    for pattern in ("alpha$", "^beta gamma$", "(?s)one.*three", "two\\nthree", "^two$", "lpha$"):
        found = run("context", "search", "--pattern", pattern, "--all-workspaces")[1]["data"]
        taken = run("context", "forget", "--pattern", pattern, "--dry-run")[1]["data"]
        assert {hit["session_id"] for hit in found["hits"]} == set(taken["rows"]), pattern


def test_a_pattern_that_never_ends_changes_nothing(stored: Paths) -> None:
    """Ours: half an answer is no ground to forget on, and a person waits no longer than this."""
    recorder = Recorder(stored, ensure_key(stored))
    body = json.dumps({"messages": [{"role": "user", "content": "a" * 60 + "b"}]}).encode()
    recorder.record_request("hard", Incoming(agent="claude-code", view=split_request(body)))
    recorder.close()
    code, answer, _ = run("context", "forget", "--pattern", "quokka|(a+)+$", "--yes")
    assert code == 1 and "takes more than" in answer["errors"][0]["message"]
    assert holds(stored, "quokka one")


def test_halves_of_characters_are_looked_for_without_a_fault(stored: Paths) -> None:
    """Users' report 24: a lone surrogate comes from a model's JSON, or from bytes in the shell."""
    recorder = Recorder(stored, ensure_key(stored))
    body = b'{"messages": [{"role": "user", "content": "half \\ud83d here"}]}'
    recorder.record_request("half", Incoming(agent="claude-code", view=split_request(body)))
    recorder.close()
    odd = "\udcff"  # how Python hands over the byte 0xFF of a command line
    assert run("context", "search", odd, "--all-workspaces")[0] == 0
    assert run("context", "search", "--pattern", f"{odd}|half", "--all-workspaces")[0] == 0
    assert run("context", "search", "--pattern", r"\ud83d", "--all-workspaces")[0] == 0
    for words in ((odd,), ("half", f"SELECT '{odd}'"), ("half", "SELECT :x")):
        command = ("show", *words) if len(words) == 1 else ("sql", *words)
        assert run("context", *command)[0] in (1, 4)
    assert run("context", "forget", "--pattern", odd, "--dry-run")[0] == 1


def test_stored_text_drives_no_terminal(stored: Paths) -> None:
    """House style: what an agent wrote must not move the cursor or set a title; a pipe is exact."""
    recorder = Recorder(stored, ensure_key(stored))
    text = "\x1b]0;owned\x07 \x1b[31mred"
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    recorder.record_request("esc", Incoming(agent="claude-code", view=split_request(body)))
    recorder.close()
    openmem = f"{sys.executable} -m openmem context"
    for words in (
        "sql esc 'SELECT text FROM messages'",
        "export esc --format markdown",
        "show esc --row 1",
        "forget --pattern red --dry-run",
    ):
        child = pexpect.spawn("/bin/sh", ["-c", f"{openmem} {words}"], timeout=120)
        shown = child.read()
        child.close()
        assert b"\\x1b]0;owned" in shown and b"\x1b]0" not in shown and b"\x07" not in shown, words
    exact = subprocess.run(
        ["/bin/sh", "-c", f"{openmem} export esc --format markdown"], capture_output=True
    )
    assert text.encode() in exact.stdout


def test_an_export_that_cannot_be_written_leaves_no_half(stored: Paths, tmp_path: Path) -> None:
    """Ours: half an export looks like a whole one."""
    target = tmp_path / "out.jsonl"
    limited = f"ulimit -f 1; exec {sys.executable} -m openmem context export big --out {target}"
    recorder = Recorder(stored, ensure_key(stored))
    body = json.dumps({"messages": [{"role": "user", "content": "long line\n" * 9000}]}).encode()
    recorder.record_request("big", Incoming(agent="claude-code", view=split_request(body)))
    recorder.close()
    done = subprocess.run(["/bin/sh", "-c", limited], capture_output=True, text=True)
    assert done.returncode == 1 and str(target) in done.stderr and not target.exists()


def test_an_earlier_systems_session_is_shown_masked_outside_and_goes_whole(home: Path) -> None:
    """Issue 3, part 5: exports are masked; design, section 6: versions 1 to 3 are only read."""
    paths = Paths(os.environ)
    Path(paths.sessions_dir).mkdir(parents=True)
    rows = [OldRow(role="user", text="quokka"), OldRow(role="tool", text=f"token {SECRET}")]
    write_old_session(Path(paths.sessions_dir, "old1.db"), rows)
    for form in ("jsonl", "markdown"):
        _, answer, output = run("context", "export", "old1", "--format", form)
        assert "quokka" in answer["data"]["text"] and SECRET not in output
    before = Path(paths.sessions_dir, "old1.db").read_bytes()
    for words, told in ((("--pattern", "quokka"), ""), (("--secret", "-"), SECRET)):
        for how in ("--dry-run", "--yes"):
            code, answer, _ = run("context", "forget", *words, how, said=told)
            assert code == 1 and "earlier system" in answer["errors"][0]["message"]
    assert run("context", "forget", "--session", "old1", "--row", "1", "--yes")[0] == 1
    assert run("context", "scan-secrets", "--fix", "--yes")[0] == 1
    assert Path(paths.sessions_dir, "old1.db").read_bytes() == before
    assert run("context", "forget", "--session", "old1", "--yes")[0] == 0
    assert not holds(paths, SECRET)


def test_forgetting_a_session_tells_of_its_forks_and_of_no_other(home: Path) -> None:
    """Issue 3, part 4: the receipt says what and where; a fork holds the same words."""
    machine = Machine(home)
    talk = [said("hello"), answered("hi"), said("the word is quokka")]
    machine.record("aaaa1111", None, [*talk, answered("noted")])
    machine.record("bbbb2222", None, [*talk, answered("noted"), said("and on")])
    machine.record("cccc3333", None, [said("hello"), answered("another hi")])
    machine.close()
    for how in ("--dry-run", "--yes"):
        _, answer, _ = run("context", "forget", "--session", "aaaa", how)
        (line,) = answer["data"]["left"]
        assert "bbbb2222" in line and "4 rows" in line
    _, answer, _ = run("context", "forget", "--session", "bbbb", "--dry-run")
    assert answer["data"]["left"] == []


_KEYS = {
    ("show", "aaaa"): {
        "session_id", "agent", "cwd", "bank", "rows", "row_count", "forgotten_count",
    },
    ("show", "aaaa", "--row", "1"): {"session_id", "row"},
    ("sql", "aaaa", "SELECT 1"): {"columns", "rows", "truncated"},
    ("verify",): {"sessions", "problems"},
    ("export", "aaaa"): {"session_id", "format", "out", "text"},
    ("pin", "aaaa"): {"session_id", "pinned"},
    ("sweep", "--dry-run"): {"ttl_days", "sessions", "blobs", "kept", "removed"},
    ("scan-secrets",): {"found", "in_files", "masked", "pending"},
    ("forget", "--pattern", "quokka", "--dry-run"): {"rows", "copies", "left", "dry_run"},
    ("forget", "--session", "aaaa", "--dry-run"): {"sessions", "left", "dry_run"},
    ("forget", "--pattern", "quokka", "--yes"): {
        "sessions", "rows", "lines", "blobs", "files", "tombstones", "masked", "pending", "failed",
        "left",
    },
}  # fmt: skip


def test_the_keys_of_each_answer_are_those_of_the_page(stored: Paths) -> None:
    """House style: with `--json` keys are promises and have a test."""
    page = Path(__file__).parents[2].joinpath("docs/reference/json.md").read_text()
    for words, keys in _KEYS.items():
        _, answer, _ = run("context", *words)
        assert set(answer["data"]) == keys, words
        assert f"`context {words[0]} --json`" in page
        assert all(key in page for key in keys), words
