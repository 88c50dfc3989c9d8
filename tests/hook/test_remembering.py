"""What a session is told from memory, by the one function that both ways in share."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.frame import FRAME_CLOSE
from openmem.hook.handle import handle
from openmem.memory.facade import Memories
from openmem.memory.model import Actor
from openmem.memory.opening import open_memories
from openmem.memory.providers.local.bank_file import path_of
from openmem.memory.scope import Scope, scope_of
from tests.hook.conftest import SID, Machine

BANK = "github.com/acme/site"
PROMPT = "how do I connect to the heron-42 database?"
HERON = "The staging database is called heron-42."


@pytest.fixture
def memories(machine: Machine) -> Iterator[Memories]:
    opened = open_memories(machine.paths)
    yield opened
    opened.close()


def scope(machine: Machine, folder: Path | None = None) -> Scope:
    person = Actor(kind="person", name="ada")
    return scope_of(str(folder or machine.repo), machine.paths, person)


def tell(machine: Machine, event: str, **fields: object) -> str:
    """Return what the model is told at an event, in an agent that is not routed."""
    environ = {"HOME": str(machine.home), "OPENMEM_HOOK_PORT": "0"}
    payload = machine.payload(event, **fields)
    stdout = handle(event, "claude-code", payload, machine.paths, environ).stdout
    if not stdout:
        return ""
    output = json.loads(stdout)["hookSpecificOutput"]
    names = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}
    assert output["hookEventName"] == names[event]
    return str(output["additionalContext"])


def test_a_start_tells_what_is_known_and_a_prompt_what_fits(
    machine: Machine, memories: Memories
) -> None:
    """Issue 5, part 5; users' report 17: in the shape that the agent documents."""
    memories.add(scope(machine), "Deploys need the VPN.")
    start = tell(machine, "session-start")
    assert "Deploys need the VPN." in start and start.endswith(FRAME_CLOSE)
    memories.add(scope(machine), HERON)
    assert HERON in tell(machine, "prompt", prompt=PROMPT)


def test_nothing_is_told_twice_in_a_session(machine: Machine, memories: Memories) -> None:
    """Issue 5, part 5: not repeated when already shown in this session."""
    memories.add(scope(machine), HERON)
    assert HERON in tell(machine, "prompt", prompt=PROMPT)
    assert tell(machine, "prompt", prompt=PROMPT) == ""
    assert HERON in tell(machine, "prompt", prompt=PROMPT, session_id="another")
    start = tell(machine, "session-start", session_id="third")
    assert HERON in start
    assert tell(machine, "prompt", prompt=PROMPT, session_id="third") == ""


def test_a_resume_is_told_the_same_bytes_and_a_compaction_all_again(
    machine: Machine, memories: Memories
) -> None:
    """Claude Code 2.1.332: a resume adds the text only when it differs; after a compaction the
    context holds nothing of it."""
    memories.add(scope(machine), HERON)
    first = tell(machine, "session-start")
    new = memories.add(scope(machine), "Deploys need the VPN.").memory
    assert tell(machine, "session-start", source="resume") == first
    again = tell(machine, "session-start", source="compact")
    assert HERON in again and new.text in again
    assert tell(machine, "session-start", source="resume") == again


@pytest.mark.parametrize("prompt", ["ok", "continue", "yes please go on with it", "run the tests"])
def test_a_prompt_that_nothing_fits_prints_nothing(
    machine: Machine, memories: Memories, prompt: str
) -> None:
    """Users' report 35: zero tokens."""
    memories.add(scope(machine), HERON)
    assert tell(machine, "prompt", prompt=prompt) == ""


def test_where_recall_is_denied_nothing_is_told_and_nothing_written(
    machine: Machine, memories: Memories
) -> None:
    """Design, section 4: policy."""
    memories.add(scope(machine), HERON)
    Path(machine.paths.policy_file).write_text(
        "version = 1\n[defaults.git]\nstore = true\nretain = true\n"
    )
    assert tell(machine, "session-start") == "" == tell(machine, "prompt", prompt=PROMPT)
    assert not Path(machine.paths.state_dir, "memory", "shown").exists()


def test_where_only_recall_is_allowed_no_session_is_registered(
    machine: Machine, memories: Memories
) -> None:
    """Design, section 4: store, recall and retain are three answers."""
    memories.add(scope(machine), HERON)
    Path(machine.paths.policy_file).write_text("version = 1\n[defaults.git]\nrecall = true\n")
    assert HERON in tell(machine, "prompt", prompt=PROMPT)
    assert not Path(machine.paths.sessions_dir).exists()


def test_recall_can_be_switched_off_by_person_and_project(
    machine: Machine, memories: Memories
) -> None:
    """Users' report 29: every setting has a reader."""
    memories.add(scope(machine), HERON)
    project = machine.repo / ".openmem.toml"
    for text in ("recall = false", "start_tokens = 0\nprompt_hits = 0"):
        project.write_text(f"[memory]\n{text}\n")
        assert tell(machine, "session-start") == "" == tell(machine, "prompt", prompt=PROMPT)
    project.unlink()
    assert tell(machine, "prompt", prompt=PROMPT) != ""


def test_a_prompt_tells_no_more_than_the_setting_allows(
    machine: Machine, memories: Memories
) -> None:
    """Users' report 29."""
    for number in range(4):
        memories.add(scope(machine), f"The heron-42 database has replica {number}.")
    Path(machine.paths.config_file).write_text("[memory]\nprompt_hits = 2\nkeep_turns = false\n")
    assert tell(machine, "prompt", prompt=PROMPT).count("\n- (m-") == 2


def test_broken_settings_and_a_broken_ledger_cost_the_recall_only(
    machine: Machine, memories: Memories
) -> None:
    """Design, section 7: the agent goes on; a fault is one line in the log."""
    memories.add(scope(machine), HERON)
    memories.close()
    config = Path(machine.paths.config_file)
    before = config.read_text()
    config.write_text("[memory]\nrecall = 3\n")
    assert tell(machine, "prompt", prompt=PROMPT) == ""
    config.write_text(before)
    Path(machine.paths.ledger_file).write_bytes(b"not a database" * 100)
    assert tell(machine, "session-start") == ""
    log = Path(machine.paths.logs_dir, "hook.log").read_text()
    assert "no recall: invalid-config" in log and "no recall: store-unavailable" in log
    assert HERON not in log


@pytest.mark.parametrize("what", ["bank", "ledger"])
def test_a_store_that_does_not_answer_holds_no_session(
    machine: Machine, memories: Memories, what: str
) -> None:
    """Issue 5: a provider that never answers: exit 0 with valid output in 2 s, 1 s at a prompt."""
    memories.add(scope(machine), HERON)
    memories.close()
    path = path_of(machine.paths, BANK) if what == "bank" else machine.paths.ledger_file
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("PRAGMA user_version")
    try:
        for event in ("session-start", "prompt"):
            done = machine.run(event, prompt=PROMPT)
            assert done.returncode == 0 and done.stderr == b""
            assert done.stdout == b"" or json.loads(done.stdout)
    finally:
        holder.close()
    log = Path(machine.paths.logs_dir, "hook.log").read_text()
    assert "no recall: store-locked" in log
    assert "out of time" not in log  # the timer that holds the budget was not needed
    done = machine.run("prompt", prompt=PROMPT, session_id="later")
    assert HERON.encode() in done.stdout


def test_the_hook_as_a_process_tells_the_same(machine: Machine, memories: Memories) -> None:
    """Issue 5, part 5: stand-alone, without the proxy."""
    memories.add(scope(machine), HERON)
    memories.close()
    done = machine.run("prompt", prompt=PROMPT)
    told = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert HERON in told and done.returncode == 0
    assert SID not in told


def test_a_server_that_accepts_and_never_answers_holds_no_session(
    machine: Machine, memories: Memories
) -> None:
    """Users' report 15: provider URL accepting TCP but never answering."""
    memories.add(scope(machine), HERON)
    memories.close()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        Path(machine.paths.config_file).write_text(
            f'provider = "hindsight"\n[server]\nurl = "http://127.0.0.1:{port}"\n'
            "[memory]\nkeep_turns = false\n"
        )
        for event in ("session-start", "prompt", "stop"):
            done = machine.run(event, prompt=PROMPT, session_id=f"s-{event}")
            assert done.returncode == 0 and done.stderr == b""
            assert done.stdout == b"" or json.loads(done.stdout)
            if event == "session-start":  # what is known stands in the ledger
                assert HERON.encode() in done.stdout
    log = Path(machine.paths.logs_dir, "hook.log").read_text()
    assert "no recall: provider-timeout" in log and "out of time" not in log
