"""Codex's events: what it tells, what it is told, and what its settings say of us."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from openmem.context.session import read_registration, take_trim_request
from openmem.hook import codex, texts
from openmem.hook.delivery import last_delivery
from openmem.hook.handle import EVENTS, handle
from tests.hook.conftest import ROOT, SID, Machine

ADDRESS = 'openai_base_url = "http://127.0.0.1:8913/a/codex"\n'
TABLE = '[mcp_servers.openmem]\ncommand = "x"\n'


def payload(machine: Machine, event: str, **fields: object) -> dict[str, object]:
    """Return an event as Codex 0.171.0 tells it."""
    told = {
        **machine.payload(event),
        "transcript_path": f"{machine.home}/.codex/sessions/2026/11/30/rollout-{SID}.jsonl",
        "model": "gpt-6.2-sol",
        "permission_mode": "bypassPermissions",
    }
    if event != "session-start":
        told["turn_id"] = "0c0de000-0000-4000-8000-00000000000a"
    if event == "stop":
        told |= {"stop_hook_active": False, "last_assistant_message": "Done."}
    return {**told, **fields}


@pytest.fixture
def wired(machine: Machine) -> Machine:
    folder = machine.home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(ADDRESS + TABLE)
    return machine


def said(machine: Machine, event: str, **fields: object) -> str:
    environ = {"HOME": str(machine.home), "OPENMEM_HOOK_PORT": "8913"}
    return handle(event, "codex", payload(machine, event, **fields), machine.paths, environ).stdout


def test_a_session_of_codex_is_registered_and_told_of_its_tools(wired: Machine) -> None:
    """Issue 7 part 1; facts 1.4: JSON context works as for Claude Code."""
    told = json.loads(said(wired, "session-start"))["hookSpecificOutput"]
    assert told == {
        "hookEventName": "SessionStart",
        "additionalContext": texts.session_start_text(SID),
    }
    found = read_registration(wired.paths, SID)
    assert found is not None and (found.agent, found.cwd) == ("codex", str(wired.repo))
    assert found.transcript_path.endswith(f"rollout-{SID}.jsonl")
    delivered = last_delivery(wired.paths, "codex")
    assert delivered is not None and delivered.event == "session-start"


def test_a_resumed_session_is_not_told_again_and_a_compacted_one_is(wired: Machine) -> None:
    """Facts 1.4: Codex adds the same text again on every resume; compaction drops it."""
    assert said(wired, "session-start") != ""
    assert said(wired, "session-start", source="resume") == ""
    assert said(wired, "session-start", source="compact") != ""
    unknown = said(wired, "session-start", source="resume", session_id="older-than-openmem")
    assert "older-than-openmem" in unknown


def test_a_stop_prints_nothing_and_a_sub_agents_prompt_leaves_nothing(wired: Machine) -> None:
    """Facts 1.3 and 1.4: the prompt hook fires for a sub-agent's prompt too, with `agent_id`."""
    assert said(wired, "stop") == ""
    assert said(wired, "prompt", session_id="s-sub", agent_id="a-1", agent_type="default") == ""
    assert read_registration(wired.paths, "s-sub") is None


def test_smart_compact_is_answered_in_place_of_the_model(wired: Machine) -> None:
    """Facts 1.4: a block on the prompt makes no model call."""
    told = json.loads(said(wired, "prompt", prompt="/smart-compact"))
    assert told == {"decision": "block", "reason": texts.TRIM_REQUESTED}
    assert take_trim_request(wired.paths, SID) == 0


def test_an_agent_without_our_tools_is_not_sent_after_them(wired: Machine) -> None:
    """Texts, trap: only tools that exist are named."""
    (wired.home / ".codex/config.toml").write_text(ADDRESS)
    assert said(wired, "session-start") == ""


@pytest.mark.parametrize("event", EVENTS)
def test_missing_and_extra_fields_are_no_fault(wired: Machine, event: str) -> None:
    """Issue 7, Bad input: exit 0 with valid empty output."""
    environ = {"HOME": str(wired.home), "OPENMEM_HOOK_PORT": "8913"}
    for odd in ({}, {"session_id": 7}, {"session_id": "", "cwd": None}, {"more": {"deep": []}}):
        assert handle(event, "codex", odd, wired.paths, environ).stdout == ""
    assert said(wired, event, cwd=7, source=[], prompt={}, more="x") is not None


@pytest.mark.parametrize(
    ("text", "port"),
    [
        (ADDRESS, 8913),
        ('[model_providers.x]\nbase_url = "http://127.0.0.1:9001/a/codex" # ours\n', 9001),
        ("[model_providers.x]\n  base_url='http://localhost:9001/a/codex/'\n", 9001),
        (f"# {ADDRESS}", 0),
        ('openai_base_url = "https://gate.example/a/codex"\n', 0),
        ('openai_base_url = "http://127.0.0.1:8913/a/claude-code"\n', 0),
        ("\x00\xff = [", 0),
    ],
)
def test_the_address_in_codexs_settings_says_whether_its_requests_come_to_us(
    machine: Machine, text: str, port: int
) -> None:
    """Facts 1.1: Codex gives its hooks no address in the environment."""
    folder = machine.home / "moved"
    folder.mkdir()
    (folder / "config.toml").write_bytes(text.encode("latin-1"))
    environ = {"HOME": "/nowhere", "CODEX_HOME": str(folder)}
    assert codex.port_in_settings(environ) == port
    assert codex.port_in_settings({"HOME": "/nowhere"}) == 0
    assert not codex.has_tools(environ)


def test_the_hook_runs_as_codex_runs_it(wired: Machine) -> None:
    """Facts 1.1: nothing of the session is in the environment, only in stdin."""
    code = (
        "import sys\nsys.path.append(sys.argv.pop(1))\n"
        "from openmem.hook.client import main\nsys.exit(main())"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(ROOT), "session-start"]
    (wired.home / ".codex/config.toml").write_text(TABLE)  # not routed: nothing is revived
    done = subprocess.run(
        [*command, "--agent", "codex"],
        input=json.dumps(payload(wired, "session-start")).encode(),
        capture_output=True,
        env={"HOME": str(wired.home), "PATH": "/usr/bin:/bin"},
        cwd=wired.repo,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    found = read_registration(wired.paths, SID)
    assert found is not None and found.agent == "codex"
    assert not Path(wired.paths.logs_dir, "hook.log").exists()
