"""What an event leads to, by the one function that both ways in share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from openmem.context.session import read_registration, registration_file, take_trim_request
from openmem.hook import texts
from openmem.hook.delivery import last_delivery
from openmem.hook.handle import EVENTS, handle
from openmem.hook.session import Session
from tests.hook.conftest import SID, Machine

ROUTED = {"CLAUDE_PID": "4242", "OPENMEM_HOOK_PORT": "8913"}


def _handle(machine: Machine, event: str, *, environ: dict[str, str] | None = None, **fields):  # type: ignore[no-untyped-def]
    machine.route()
    known = {"HOME": str(machine.home), **(ROUTED if environ is None else environ)}
    return handle(
        event, "claude-code", machine.payload(event, **fields), machine.paths, known
    ).stdout


def _context(stdout: str) -> str:
    return str(json.loads(stdout)["hookSpecificOutput"]["additionalContext"])


def test_a_session_start_registers_the_session(machine: Machine) -> None:
    """Issue 2 part 6: register; context-store contract, Location."""
    _handle(machine, "session-start")
    found = read_registration(machine.paths, SID)
    assert found is not None
    assert (found.agent, found.cwd, found.bank) == (
        "claude-code",
        str(machine.repo),
        "github.com/acme/site",
    )
    assert found.agent_pid == 4242
    assert found.transcript_path.endswith(f"{SID}.jsonl")
    assert found.registered_at.endswith("Z")


@pytest.mark.parametrize("event", ["prompt", "stop"])
def test_any_event_with_an_unknown_id_registers_it(machine: Machine, event: str) -> None:
    """Users' report 47: a clear changes the id with no start; the transcript does not exist."""
    _handle(machine, event, session_id="new-id", transcript_path="/nowhere/new-id.jsonl")
    found = read_registration(machine.paths, "new-id")
    assert found is not None and found.cwd == str(machine.repo)


def test_the_same_event_twice_changes_nothing(machine: Machine) -> None:
    """Users' report 7: one hook registered twice fires twice."""
    for event in EVENTS:
        first = _handle(machine, event)
        before = Path(registration_file(machine.paths, SID)).stat()
        assert _handle(machine, event) == first
        after = Path(registration_file(machine.paths, SID)).stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_resume_keeps_the_first_time_and_takes_the_new_process(machine: Machine) -> None:
    """Design 7: stop waits for the sessions that still use the proxy, so the id must be alive."""
    _handle(machine, "session-start")
    first = read_registration(machine.paths, SID)
    _handle(machine, "session-start", source="resume", environ={**ROUTED, "CLAUDE_PID": "5151"})
    second = read_registration(machine.paths, SID)
    assert first is not None and second is not None
    assert second == replace(first, agent_pid=5151)


def test_a_cd_inside_a_session_does_not_move_it(machine: Machine) -> None:
    """Design 6: the workspace of a session is what its hook registered."""
    _handle(machine, "session-start")
    assert _handle(machine, "prompt", cwd=str(machine.elsewhere)) == ""
    found = read_registration(machine.paths, SID)
    assert found is not None and found.cwd == str(machine.repo)


@pytest.mark.parametrize("event", EVENTS)
def test_a_denied_workspace_leaves_nothing(machine: Machine, event: str) -> None:
    """Design 6, difference 8; issue 2: nothing is on disk for a denied folder."""
    assert _handle(machine, event, cwd=str(machine.elsewhere), prompt="/smart-compact") == ""
    assert machine.files() == []


@pytest.mark.parametrize("damage", ["missing", "junk", "unreadable kind"])
def test_without_a_usable_policy_nothing_is_kept(machine: Machine, damage: str) -> None:
    """Design 4: missing or unreadable file is a no."""
    policy = Path(machine.paths.policy_file)
    policy.unlink()
    if damage == "junk":
        policy.write_text("version = [")
    if damage == "unreadable kind":
        policy.mkdir()
    assert _handle(machine, "session-start") == ""
    assert machine.files() == []


def test_a_session_resumed_in_a_denied_folder_is_registered_there(machine: Machine) -> None:
    """Ours: the proxy asks policy by the registered folder, so it has to be the one of now."""
    _handle(machine, "session-start")
    assert _handle(machine, "session-start", source="resume", cwd=str(machine.elsewhere)) == ""
    found = read_registration(machine.paths, SID)
    assert found is not None and found.cwd == str(machine.elsewhere) and found.bank == ""


def test_a_bank_is_named_only_where_it_may_be_used(machine: Machine) -> None:
    """Design 8: a bank follows from the workspace, as far as policy grants it."""
    Path(machine.paths.policy_file).write_text("version = 1\n[defaults.git]\nstore = true\n")
    _handle(machine, "session-start")
    found = read_registration(machine.paths, SID)
    assert found is not None and found.bank == ""


def test_the_start_text_names_session_and_tools_in_few_words(machine: Machine) -> None:
    """Issue 2 part 6: under 600 characters: session id, what can be searched, which tools."""
    stdout = _handle(machine, "session-start")
    assert json.loads(stdout)["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    text = _context(stdout)
    assert SID in text
    for tool in texts.SEARCH_TOOLS:
        assert tool in text
    assert len(texts.session_start_text("x" * 180)) < texts.LIMIT_CHARACTERS


def test_the_start_text_of_a_session_never_changes(machine: Machine) -> None:
    """Facts 1.4: the agent adds it again on resume unless it is byte-identical."""
    first = _handle(machine, "session-start")
    later = _handle(
        machine,
        "session-start",
        source="resume",
        context_tokens=9,
        environ={**ROUTED, "CLAUDE_PID": "77"},
    )
    assert later == first
    assert _handle(machine, "session-start", session_id="other") != first


@pytest.mark.parametrize("lack", ["route", "tools"])
def test_without_route_or_tools_a_start_says_nothing(machine: Machine, lack: str) -> None:
    """Ours: what is not recorded cannot be searched, and a tool that is not there not called."""
    machine.route()
    environ = {"HOME": str(machine.home), **ROUTED}
    if lack == "route":
        environ["OPENMEM_HOOK_PORT"] = "0"
    else:
        (machine.home / ".claude.json").write_text('{"mcpServers": {"other": {}}}')
    payload = machine.payload("session-start")
    assert handle("session-start", "claude-code", payload, machine.paths, environ).stdout == ""
    assert read_registration(machine.paths, SID) is not None


def test_smart_compact_sets_the_flag_and_makes_no_request(machine: Machine) -> None:
    """Issue 2 part 6; trial: a block shows its reason and costs no model call."""
    answer = json.loads(_handle(machine, "prompt", prompt=" /smart-compact \n"))
    assert answer == {"decision": "block", "reason": texts.TRIM_REQUESTED}
    assert take_trim_request(machine.paths, SID) == 0


def test_smart_compact_with_words_lets_the_words_through(machine: Machine) -> None:
    """Trial: a block would drop what the person asked for in the same breath."""
    assert _handle(machine, "prompt", prompt="/smart-compact\nand go on with the tests") == ""
    assert take_trim_request(machine.paths, SID) == 0


@pytest.mark.parametrize(
    "prompt", ["please /smart-compact", "/smart-compactor", "/compact", "", "what is smart-compact"]
)
def test_other_prompts_set_no_flag(machine: Machine, prompt: str) -> None:
    """Ours: only the command itself is one."""
    assert _handle(machine, "prompt", prompt=prompt) == ""
    assert take_trim_request(machine.paths, SID) is None


def test_smart_compact_of_a_session_that_goes_elsewhere_says_so(machine: Machine) -> None:
    """Ours: a flag that nobody takes would be a promise nobody keeps."""
    environ = {**ROUTED, "OPENMEM_HOOK_PORT": "0"}
    answer = json.loads(_handle(machine, "prompt", prompt="/smart-compact", environ=environ))
    assert answer == {"decision": "block", "reason": texts.TRIM_UNROUTED}
    assert take_trim_request(machine.paths, SID) is None


def test_a_sub_agents_event_is_not_the_sessions(machine: Machine) -> None:
    """Facts 1.3: sub-agents share the session id and carry an agent id."""
    assert _handle(machine, "prompt", agent_id="a1", prompt="/smart-compact") == ""
    assert machine.files() == []


def test_a_stop_prints_nothing_whatever_is_kept(machine: Machine) -> None:
    """Facts 1.4: JSON from a Stop hook makes the model run again, nine times."""
    kept: list[Session] = []
    machine.route()
    payload = machine.payload("stop", last_assistant_message="done")
    reply = handle("stop", "claude-code", payload, machine.paths, ROUTED, retain=kept.append)
    assert reply.stdout == ""
    assert [s.moment.last_message for s in kept] == ["done"]


def test_recall_and_retain_are_asked_only_where_policy_grants_them(machine: Machine) -> None:
    """Design 4: recall and retain are uses of their own."""
    Path(machine.paths.policy_file).write_text("version = 1\n[defaults.git]\nstore = true\n")
    kept: list[Session] = []
    asked: list[str] = []

    def recall(event: str, session: Session) -> str:
        asked.append(event)
        return "remembered"

    for event in EVENTS:
        payload = machine.payload(event)
        reply = handle(
            event,
            "claude-code",
            payload,
            machine.paths,
            {},
            recall=recall,
            retain=kept.append,
        )
        assert reply.stdout == ""
    assert kept == [] and asked == []


def test_recalled_text_reaches_the_prompt_in_the_agents_own_field(machine: Machine) -> None:
    """Users' report 17: a hint in a field that the model never sees."""
    reply = handle(
        "prompt",
        "claude-code",
        machine.payload("prompt"),
        machine.paths,
        {},
        recall=lambda event, session: f"nonce {session.workspace.bank}",
    )
    value = json.loads(reply.stdout)["hookSpecificOutput"]
    assert value["hookEventName"] == "UserPromptSubmit"
    assert value["additionalContext"] == "nonce github.com/acme/site"


@pytest.mark.parametrize(
    "fields",
    [
        {"session_id": None},
        {"session_id": "  "},
        {"session_id": 7},
        {"cwd": None},
        {"cwd": "relative/place"},
        {"cwd": "/nul\0byte"},
    ],
)
def test_a_payload_without_id_or_folder_is_noted_and_left(
    machine: Machine, fields: dict[str, object]
) -> None:
    """Brief of step 1: missing fields give valid empty output and one line in the log."""
    assert _handle(machine, "session-start", **fields) == ""
    assert machine.files() == ["logs/hook.log"]


def test_unknown_fields_are_ignored(machine: Machine) -> None:
    """Ours: an agent's next version adds fields."""
    stdout = _handle(machine, "session-start", seconds=3, nested={"a": [1]}, model=None)
    assert SID in stdout


def test_a_hostile_session_id_stays_in_its_folder(machine: Machine) -> None:
    """Context-store contract, Session id."""
    _handle(machine, "session-start", session_id="../../escape\n")
    assert [name for name in machine.files() if "escape" in name] == [
        "context/sessions/.._.._escape.json"
    ]


def test_odd_text_in_a_payload_is_survived(machine: Machine) -> None:
    """Users' report 24: a lone surrogate anywhere loses nothing."""
    odd = "/tmp/\ud83d"
    assert _handle(machine, "prompt", prompt="\ud83d", transcript_path=odd) == ""
    assert read_registration(machine.paths, SID) is not None


def test_a_state_folder_that_is_a_file_is_survived(machine: Machine) -> None:
    """Design 4: hooks fail open."""
    state = Path(machine.paths.state_dir)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("")
    assert _handle(machine, "session-start") == ""


def test_the_last_delivery_is_known(machine: Machine) -> None:
    """Users' report 17: doctor can show that hooks arrive."""
    assert last_delivery(machine.paths, "claude-code") is None
    _handle(machine, "session-start")
    _handle(machine, "stop")
    found = last_delivery(machine.paths, "claude-code")
    assert found is not None and (found.event, found.session_id) == ("stop", SID)


def test_what_is_kept_is_private(machine: Machine) -> None:
    """Design 6: folders 700, files 600."""
    _handle(machine, "prompt", prompt="/smart-compact")
    root = Path(machine.paths.state_dir)
    for path in [root, *root.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
