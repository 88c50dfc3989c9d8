"""The child that keeps a finished turn, and the hook that starts it without waiting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from openmem.base.frame import framed
from openmem.base.io import ensure_private_dir, locked
from openmem.base.paths import Paths
from openmem.hook import keep as keeping
from openmem.hook.keep import Order, cursors_of, keep, read_cursor, wait_for_keepers
from openmem.hook.notes import log_file
from openmem.memory.ledger import Ledger
from openmem.memory.opening import open_memories
from openmem.memory.recall import at_start
from openmem.memory.scope import scope_of
from tests.fakes.agent_files import codex_lines, item, lines
from tests.fakes.agent_files import write as write_bytes
from tests.fakes.claude_transcript import assistant, call, user, write
from tests.hook.conftest import SID, Machine

BANK = "github.com/acme/site"


@pytest.fixture
def transcript(machine: Machine) -> Path:
    Path(machine.paths.config_file).unlink()  # which switches keeping off
    return Path(f"{machine.home}/.claude/projects/-repo/{SID}.jsonl")


def order(machine: Machine, transcript: Path, last: str = "") -> Order:
    return Order(
        sid=SID,
        agent="claude-code",
        folder=str(machine.repo),
        transcript=str(transcript),
        last_message=last,
    )


def kept(machine: Machine) -> list[str]:
    ledger = Ledger(machine.paths, b"")
    try:
        return [memory.text for memory in ledger.of_session(BANK, SID)]
    finally:
        ledger.close()


def wait_for(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends, "it did not happen in a minute"
        time.sleep(0.05)


def test_a_turn_is_kept_and_the_next_one_only_adds(machine: Machine, transcript: Path) -> None:
    """Issue 5, part 5: byte cursor with anchor."""
    write(transcript, user("What is the staging host?"), assistant("It is called heron-42."))
    assert keep(order(machine, transcript), machine.paths) == 2
    cursor = read_cursor(machine.paths, SID, str(transcript))
    assert cursor.offset == transcript.stat().st_size
    write(transcript, user("And the port of the database?"), call("Bash", command="cat ports.txt"))
    assert keep(order(machine, transcript), machine.paths) == 2
    assert kept(machine) == [
        "user: What is the staging host?",
        "assistant: It is called heron-42.",
        "user: And the port of the database?",
        "assistant used: Bash: cat ports.txt",
    ]
    assert keep(order(machine, transcript), machine.paths) == 0


def test_the_cursor_holds_nothing_of_the_transcript(machine: Machine, transcript: Path) -> None:
    """Ours: a forgotten word must not live on in a file beside."""
    write(transcript, user("quokkamarble is the code name"))
    keep(order(machine, transcript), machine.paths)
    for path in Path(keeping.cursors_of(machine.paths)).iterdir():
        assert b"quokkamarbl" not in path.read_bytes()


def test_a_late_last_message_is_waited_for_and_kept_once(
    machine: Machine, transcript: Path
) -> None:
    """Users' report 18: Stop fires before the final message is on disk."""
    write(transcript, user("What is the staging host?"))
    last = "It is called heron-42."
    late = threading.Timer(0.5, lambda: write(transcript, assistant(last)))
    late.start()
    assert keep(order(machine, transcript, last), machine.paths, late_seconds=30) == 2
    late.join()
    assert keep(order(machine, transcript), machine.paths) == 0
    assert kept(machine)[-1] == f"assistant: {last}"


def test_a_last_message_that_never_comes_is_kept_from_the_payload_once(
    machine: Machine, transcript: Path
) -> None:
    """Users' report 18: stored exactly once, now or on the next hook."""
    write(transcript, user("What is the staging host?"))
    last = "It is called heron-42."
    assert keep(order(machine, transcript, last), machine.paths, late_seconds=0.1) == 2
    write(transcript, assistant(last))
    assert keep(order(machine, transcript, last), machine.paths, late_seconds=0.1) == 0
    assert kept(machine).count(f"assistant: {last}") == 1


def test_a_session_without_a_transcript_keeps_its_last_message(
    machine: Machine, transcript: Path
) -> None:
    """Users' report 47: the transcript may not exist."""
    assert keep(order(machine, transcript, "It is called heron-42."), machine.paths,
                late_seconds=0.1) == 1  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["none", "pipe", "folder", "device", "circle"])
def test_a_transcript_that_cannot_be_read_is_one_line_in_the_log(
    kind: str, machine: Machine, transcript: Path
) -> None:
    """Issue 7, Bad input; ours: the child of a pipe waited for good, with the session's lock."""
    transcript.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(transcript)
    elif kind == "folder":
        transcript.mkdir()
    elif kind == "device":
        transcript.symlink_to("/dev/zero")
    elif kind == "circle":
        transcript.symlink_to(transcript)
    asked = order(machine, transcript, "The mast stands at quay 17-B, so deploy there.")
    assert keep(asked, machine.paths, late_seconds=0.1) == 1
    assert kept(machine) == ["assistant: The mast stands at quay 17-B, so deploy there."]
    (line,) = Path(log_file(machine.paths)).read_text().splitlines()
    assert "keep claude-code" in line or "claude-code keep" in line
    assert "its transcript cannot be read: " in line


def test_a_transcript_that_was_rewritten_adds_only_what_is_new(
    machine: Machine, transcript: Path
) -> None:
    """Issue 5, part 5: never twice."""
    write(transcript, user("What is the staging host?"))
    keep(order(machine, transcript), machine.paths)
    transcript.unlink()
    write(transcript, user("What is the staging host?"), assistant("It is called heron-42."))
    assert keep(order(machine, transcript), machine.paths) == 1


def test_two_at_once_keep_a_turn_once(machine: Machine, transcript: Path) -> None:
    """Users' report 7: one hook registered twice fires twice."""
    write(transcript, *(user(f"question number {n} of the day") for n in range(30)))
    threads = [
        threading.Thread(target=keep, args=(order(machine, transcript), machine.paths))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(kept(machine)) == 30


def test_a_policy_that_changed_meanwhile_is_obeyed(machine: Machine, transcript: Path) -> None:
    """Design, section 4."""
    write(transcript, user("What is the staging host?"))
    Path(machine.paths.policy_file).write_text("version = 1\n[defaults.git]\nstore = true\n")
    assert keep(order(machine, transcript), machine.paths) == 0
    assert not Path(machine.paths.state_dir).exists()


def test_keeping_can_be_switched_off(machine: Machine, transcript: Path) -> None:
    """Users' report 29: every setting has a reader."""
    write(transcript, user("What is the staging host?"))
    (machine.repo / ".openmem.toml").write_text("[memory]\nkeep_turns = false\n")
    assert keep(order(machine, transcript), machine.paths) == 0


def test_old_passages_go_when_a_turn_is_kept(machine: Machine, transcript: Path) -> None:
    """Users' report 29; design, section 8: aged out."""
    write(transcript, user("an old question about lunch", timestamp="2020-01-01T00:00:00Z"))
    assert keep(order(machine, transcript), machine.paths) == 1
    assert kept(machine) == []
    Path(machine.paths.config_file).write_text("[memory]\npassage_days = 0\n")
    os.unlink(f"{keeping.cursors_of(machine.paths)}/.swept")
    write(transcript, user("another old question", timestamp="2020-01-01T00:00:00Z"))
    keep(order(machine, transcript), machine.paths)
    assert kept(machine) == ["user: another old question"]


def test_ten_rounds_of_recall_and_stop_keep_the_store_as_it_is(
    machine: Machine, transcript: Path
) -> None:
    """Users' report 33: the store's size is constant after round one."""
    memories = open_memories(machine.paths)
    scope = scope_of(str(machine.repo), machine.paths, keeping.Actor(kind="person"))
    memories.add(scope, "The staging host is heron-42.")
    sizes = []
    for _ in range(10):
        told = at_start(memories, scope, tokens=1_200).text
        write(
            transcript,
            user(f"<system-reminder>SessionStart hook: {told}</system-reminder>"),
            user(f"{told}\nWhat is the staging host?"),
            assistant("It is called heron-42.\n" + framed(["- It is called heron-42."])),
        )
        keep(order(machine, transcript), machine.paths)
        sizes.append((len(memories.ledger.listing(BANK)), len(memories.ledger.history(bank=BANK))))
    memories.close()
    assert set(sizes) == {sizes[0]} and sizes[0][0] == 3


def test_the_hook_starts_a_child_and_waits_for_nothing(machine: Machine, transcript: Path) -> None:
    """Issue 5, part 5: hand-over to a detached child, so that the agent never waits."""
    write(transcript, user("What is the staging host?"))
    done = machine.run("stop", last_assistant_message="It is called heron-42.")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    wait_for(lambda: len(kept(machine)) == 2)
    # the child's last act: then it is gone
    wait_for(lambda: Path(f"{keeping.cursors_of(machine.paths)}/{SID}.json").exists())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"sid": 3}', b'{"sid": ""}', b"\xff"])
def test_a_child_with_no_order_does_nothing(
    machine: Machine, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: fails open."""
    import io
    from types import SimpleNamespace

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert keeping.main() == 0
    assert machine.files() == ["logs/hook.log"]


def test_a_long_last_message_is_left_to_the_transcript(machine: Machine, transcript: Path) -> None:
    """Ours: a pipe takes 64 KiB before anybody reads."""
    last = " ".join(f"悬空{number}" for number in range(9_000))
    write(transcript, user("What is the staging host?"), assistant(last))
    done = machine.run("stop", last_assistant_message=last)
    assert done.returncode == 0
    wait_for(lambda: len(kept(machine)) > 3)
    wait_for(lambda: Path(f"{keeping.cursors_of(machine.paths)}/{SID}.json").exists())
    assert json.loads(Path(f"{keeping.cursors_of(machine.paths)}/{SID}.json").read_text())


def test_a_turn_finishes_what_a_command_could_not(machine: Machine, transcript: Path) -> None:
    """Design, section 8: forgetting is finished once nobody holds old pages."""
    memories = open_memories(machine.paths)
    scope = scope_of(str(machine.repo), machine.paths, keeping.Actor(kind="person"))
    memories.add(scope, "The staging host is heron-42.")
    memories.ledger.enqueue("local", "erase", "", BANK)
    memories.close()
    write(transcript, user("ok"))
    keep(order(machine, transcript), machine.paths)
    ledger = Ledger(machine.paths, b"")
    assert ledger.outbox("local") == []
    ledger.close()


def test_a_turn_of_codex_is_kept_from_its_rollout(machine: Machine, transcript: Path) -> None:
    """Issue 7, Show it: the turn is kept, whichever agent it is."""
    rollout = machine.home / f".codex/sessions/2026/11/30/rollout-2026-{SID}.jsonl"
    said = [item("user", "What is the staging host?"), item("assistant", "It is called heron-42.")]
    asked = order(machine, rollout, "It is called heron-42.")
    asked = replace(asked, agent="codex")
    write_bytes(rollout, lines(*codex_lines(SID, str(machine.repo), *said[:1])))
    late = threading.Timer(
        0.3, lambda: write_bytes(rollout, lines(*codex_lines(SID, str(machine.repo), *said)))
    )
    late.start()
    assert keep(asked, machine.paths, late_seconds=30) == 2
    late.join()
    assert keep(asked, machine.paths) == 0
    assert kept(machine) == [
        "user: What is the staging host?",
        "assistant: It is called heron-42.",
    ]


def test_who_removes_openmem_waits_for_a_turn_that_is_being_kept(home: Path) -> None:
    """Ours: `uninstall --purge` met a folder that a child was filling."""
    paths = Paths(os.environ)
    assert wait_for_keepers(paths, seconds=0.0)  # no turn was ever kept
    folder = ensure_private_dir(cursors_of(paths))
    with locked(f"{folder}/s-1.lock"):
        assert not wait_for_keepers(paths, seconds=0.1)
    assert wait_for_keepers(paths, seconds=0.1)


def test_a_turn_that_ends_after_openmem_was_removed_leaves_nothing(
    home: Path, tmp_path: Path
) -> None:
    """Design, section 6; ours: a child outlives the removal by a moment."""
    order = {"sid": "s", "agent": "claude-code", "folder": str(tmp_path), "transcript": "/t"}
    done = subprocess.run(
        [sys.executable, "-m", "openmem.hook.keep"],
        input=json.dumps(order).encode(),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=30,
        check=True,
    )
    assert done.returncode == 0 and not os.path.exists(Paths(os.environ).state_dir)
