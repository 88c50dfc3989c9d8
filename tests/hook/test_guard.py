"""Before a file changes: a call that carries a placeholder of ours is refused, any other runs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.launchers import HOOK, rendered
from openmem.context.trim.pointer import pointer_text, shortened_text
from openmem.context.trim.spent.marker import marker
from openmem.hook.handle import handle
from tests.hook.conftest import SID, Machine
from tests.hook.worker import listening, says

WRITE = {"file_path": "/work/a.py", "content": "print('hello')\n"}


def _asked(machine: Machine, given: dict[str, Any], **more: Any) -> str:
    payload = {**machine.payload("tool"), "tool_name": "Write", "tool_input": given, **more}
    return handle("tool", "claude-code", payload, machine.paths, {}).stdout


def _reason(stdout: str) -> str:
    told = json.loads(stdout)["hookSpecificOutput"]
    assert (told["hookEventName"], told["permissionDecision"]) == ("PreToolUse", "deny")
    return str(told["permissionDecisionReason"])


@pytest.mark.parametrize(
    "given",
    [
        {"file_path": "/a", "content": f"before\n{marker(SID, 77)}\nafter"},
        {"file_path": "/a", "edits": [{"old_string": "x", "new_string": marker(SID, 77)}]},
        {"file_path": "/a", "openmem_superseded": marker(SID, 77)},
    ],
)
def test_a_marker_in_a_call_is_refused_and_the_way_to_the_original_told(
    machine: Machine, given: dict[str, Any]
) -> None:
    """Issue 4, part 6; users' report 431 of another system: a half value was written to files."""
    reason = _reason(_asked(machine, given))
    assert f'smart_compact_get(id="{SID}:77")' in reason
    assert machine.files() == []  # nothing is written, whatever the workspace


def test_a_pointer_and_a_shortened_result_are_refused_too(machine: Machine) -> None:
    """Ours: they are placeholders as much as a marker is."""
    pointer = pointer_text(SID, 12, 0)
    assert "smart_compact_search" in _reason(_asked(machine, {"content": pointer}))
    short = shortened_text("line\n" * 900, address=f"{SID}:8", end_characters=200)
    assert f'smart_compact_get(id="{SID}:8")' in _reason(_asked(machine, {"content": short}))
    other = shortened_text("line\n" * 900, address="another:8", end_characters=200)
    assert _asked(machine, {"content": other}) == ""


def test_a_sub_agents_call_is_looked_at_as_well(machine: Machine) -> None:
    """Users' report 250 of another system: a sub-agent got a truncated prompt."""
    told = _asked(machine, {"content": marker(SID, 5)}, agent_id="a1", agent_type="x")
    assert _reason(told)


@pytest.mark.parametrize(
    "given",
    [
        WRITE,
        {"content": marker("another-session", 77)},  # our own documentation, say
        {"content": '[openmem: superseded by a later call…] and smart_compact_get(id="…")'},
        {"content": 'f"[openmem: session_id=\\"{sid}\\" - {n} earlier messages are gone]"'},
        {},
        {"content": 7, "edits": None},
    ],
)
def test_any_other_call_runs(machine: Machine, given: dict[str, Any]) -> None:
    """Ours: only what this session was shown counts."""
    assert _asked(machine, given) == ""


@pytest.mark.parametrize("tool_input", ["a text", None, 3, [[[]]]])
def test_a_payload_of_another_kind_lets_the_call_run(machine: Machine, tool_input: Any) -> None:
    """Brief: an agent must never stop because of us."""
    payload = {**machine.payload("tool"), "tool_input": tool_input}
    assert handle("tool", "claude-code", payload, machine.paths, {}).stdout == ""


def _launch(machine: Machine, stdin: bytes, tmp_path: Path, **names: str) -> bytes:
    """Run the launcher as the agent does."""
    launcher = tmp_path / HOOK
    launcher.write_bytes(rendered(HOOK, machine.paths, **names))
    launcher.chmod(0o700)
    done = subprocess.run(
        f"{shlex.quote(str(launcher))} tool --agent claude-code",
        shell=True,
        input=stdin,
        capture_output=True,
        env={**machine.environ, "PATH": os.environ["PATH"]},
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_no_interpreter_is_started_for_a_call_that_does_not_name_us(
    machine: Machine, tmp_path: Path
) -> None:
    """Issue 4, part 6: the hook's cost; it runs before each change of a file."""
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\necho started >> {tmp_path}/started\n")
    fake.chmod(0o700)
    plain = {**machine.payload("tool"), "tool_name": "Write", "tool_input": WRITE}
    large = {**plain, "tool_input": {"content": "\\ % $(x) `y` \u0000 ä\n" * 100_000}}
    for payload in (plain, large):
        stdin = json.dumps(payload).encode()
        assert _launch(machine, stdin, tmp_path, python=str(fake)) == b""
    assert not (tmp_path / "started").exists()
    named = {**plain, "tool_input": {"content": "[openmem: x"}}
    _launch(machine, json.dumps(named).encode(), tmp_path, python=str(fake))
    assert (tmp_path / "started").read_text() == "started\n"


def test_the_launcher_hands_the_call_over_byte_for_byte(machine: Machine, tmp_path: Path) -> None:
    """Ours: the shell has held it meanwhile."""
    odd = "\\n \\\\ % %s $(x) `y` 'q' \"d\" ä\u2028 \u0000 " + marker(SID, 9) + "\ttab\n" * 20_000
    payload = {**machine.payload("tool"), "tool_name": "Write", "tool_input": {"content": odd}}
    stdin = json.dumps(payload, ensure_ascii=False).encode()
    with listening(machine.paths, says({"ok": True, "stdout": "told"})) as worker:
        assert _launch(machine, stdin, tmp_path) == b"told"
    assert worker.requests[0]["payload"] == payload
    assert worker.requests[0]["event"] == "tool"
    told = _launch(machine, stdin, tmp_path)  # and without a proxy
    assert _reason(told.decode())
