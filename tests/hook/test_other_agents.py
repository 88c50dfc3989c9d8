"""OpenCode's and Cursor's events: what they tell, what they are told, what is kept of a turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openmem.context.session import read_registration, take_trim_request
from openmem.hook import opencode, texts
from openmem.hook.delivery import last_delivery
from openmem.hook.handle import EVENTS, handle
from openmem.hook.keep import Order, keep
from openmem.hook.remembering import hand_over
from openmem.hook.session import Session
from openmem.memory.ledger import Ledger
from tests.hook.conftest import SID, Machine

OPENCODE_SID = "ses_dd365c4edffeRoPQPLJbMxZn94"
BANK = "github.com/acme/site"


def said(machine: Machine, event: str, agent: str, **fields: object) -> str:
    environ = {"HOME": str(machine.home), "OPENMEM_HOOK_PORT": "8913"}
    return handle(event, agent, fields, machine.paths, environ).stdout


@pytest.fixture
def wired(machine: Machine) -> Machine:
    folder = machine.home / ".config/opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text(
        '{ // mine\n"provider": {"gate": {"options": {"baseURL": '
        '"http://127.0.0.1:8913/a/opencode-gate"}}},\n'
        '"mcp": {"openmem": {"command": ["/s/hooks/openmem-mcp"]}} }'
    )
    return machine


def test_opencode_is_told_as_a_programs_word_and_once(wired: Machine) -> None:
    """Facts 4.3: what is told is stored by OpenCode, so a resume brings it along already."""
    folder = str(wired.repo)
    told = said(wired, "session-start", "opencode", session_id=OPENCODE_SID, cwd=folder,
                source="startup")  # fmt: skip
    text = json.loads(told)["hookSpecificOutput"]["additionalContext"]
    start = texts.session_start_text(OPENCODE_SID)
    assert text == f"<system-reminder>\n{start}\n</system-reminder>"
    found = read_registration(wired.paths, OPENCODE_SID)
    assert found is not None and (found.agent, found.cwd) == ("opencode", folder)
    for source, is_told in (("resume", False), ("compact", True)):
        again = said(wired, "session-start", "opencode", session_id=OPENCODE_SID, cwd=folder,
                     source=source)  # fmt: skip
        assert bool(again) == is_told
    delivered = last_delivery(wired.paths, "opencode")
    assert delivered is not None and delivered.event == "session-start"


def test_opencode_asks_for_a_trim_without_stopping_the_prompt(wired: Machine) -> None:
    """Facts 4.5: a hook of OpenCode cannot answer in place of the model."""
    told = said(wired, "prompt", "opencode", session_id=OPENCODE_SID, cwd=str(wired.repo),
                prompt="/smart-compact")  # fmt: skip
    value = json.loads(told)
    assert "decision" not in value
    assert texts.TRIM_REQUESTED in value["hookSpecificOutput"]["additionalContext"]
    assert take_trim_request(wired.paths, OPENCODE_SID) is not None


def test_the_address_of_the_provider_that_is_used_is_the_one_that_counts(wired: Machine) -> None:
    """Trap: with two providers one may come to us and the other not."""
    environ = {"HOME": str(wired.home)}
    assert opencode.port_in_settings(environ, "gate") == 8913
    for other in ("openai", "gat", "gate2", ""):
        assert opencode.port_in_settings(environ, other) == 0
    assert opencode.has_tools(environ)
    moved = {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(wired.home / ".config")}
    assert opencode.port_in_settings(moved, "gate") == 8913
    (wired.home / ".config/opencode/opencode.jsonc").write_bytes(b"\x00\xff = [")
    assert opencode.port_in_settings(environ, "gate") == 0 and not opencode.has_tools(environ)


def cursor_payload(machine: Machine, **fields: object) -> dict[str, object]:
    """What Cursor documents that every event has."""
    return {
        "conversation_id": SID,
        "generation_id": "g-1",
        "model": "m",
        "cursor_version": "3.7.21",
        "workspace_roots": [str(machine.repo)],
        "user_email": None,
        "transcript_path": None,
        **fields,
    }


def test_cursor_is_told_at_a_start_in_its_own_form(machine: Machine) -> None:
    """Cursor's documentation: `additional_context` of sessionStart."""
    environ = {"HOME": str(machine.home)}
    reply = handle(
        "session-start",
        "cursor",
        cursor_payload(machine, session_id=SID, is_background_agent=False),
        machine.paths,
        environ,
        recall=lambda event, session: "what is known",
    )
    assert json.loads(reply.stdout) == {"additional_context": "what is known"}
    found = read_registration(machine.paths, SID)
    assert found is not None and (found.agent, found.cwd) == ("cursor", str(machine.repo))


def test_a_prompt_of_cursor_is_let_through_and_both_halves_of_a_turn_are_kept(
    machine: Machine,
) -> None:
    """Cursor's documentation: beforeSubmitPrompt takes `continue`; a reply has its own event."""
    kept: list[tuple[str, str]] = []

    def retain(session: Session) -> None:
        kept.append((session.moment.prompt, session.moment.last_message))

    for event, fields in (
        ("prompt", {"prompt": "where is it?"}),
        ("stop", {"text": "Over there."}),
    ):
        reply = handle(
            event,
            "cursor",
            cursor_payload(machine, **fields),
            machine.paths,
            {"HOME": str(machine.home)},
            recall=lambda event, session: "never told here",
            retain=retain,
        )
        assert reply.stdout in ('{"continue": true}', "")
    assert kept == [("where is it?", ""), ("", "Over there.")]


def test_a_hook_of_claude_codes_that_cursor_runs_does_nothing(machine: Machine) -> None:
    """Cursor's documentation: it runs the hooks of Claude Code's settings too."""
    assert said(machine, "session-start", "claude-code", **cursor_payload(machine)) == ""
    assert read_registration(machine.paths, SID) is None


@pytest.mark.parametrize("agent", ["opencode", "cursor"])
@pytest.mark.parametrize("event", EVENTS)
def test_missing_and_extra_fields_are_no_fault(machine: Machine, event: str, agent: str) -> None:
    """Issue 7, Bad input: valid empty output, and one line in our log."""
    odd: list[dict[str, object]] = [
        {},
        {"session_id": 7, "conversation_id": []},
        {"session_id": "", "cwd": None, "workspace_roots": "x"},
        {"more": {"deep": []}, "workspace_roots": [7]},
    ]
    for number, payload in enumerate(odd, 1):
        assert said(machine, event, agent, **payload) == ""
        log = Path(machine.paths.logs_dir, "hook.log").read_text().splitlines()
        assert len(log) == number and f" {agent} {event} " in log[-1]


def test_a_turn_that_is_handed_over_becomes_passages_once(machine: Machine) -> None:
    """Issue 7 part 2: the turn is kept; there is no transcript to read on."""
    Path(machine.paths.config_file).write_text("")
    order = Order(
        sid=OPENCODE_SID,
        agent="opencode",
        folder=str(machine.repo),
        transcript="/no/such/file",
        prompt="the ballast pump of hangar nine is a Koerting model",
        last_message="A Koerting model, noted for hangar nine.",
    )
    assert keep(order, machine.paths) == 2
    assert keep(order, machine.paths) == 0
    ledger = Ledger(machine.paths, b"")
    found = [memory.text for memory in ledger.of_session(BANK, OPENCODE_SID)]
    ledger.close()
    assert sorted(found) == [
        "assistant: A Koerting model, noted for hangar nine.",
        "user: the ballast pump of hangar nine is a Koerting model",
    ]


def test_a_turn_too_long_for_a_pipe_is_handed_over_from_its_beginning(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Detached, trap: a pipe takes 64 KiB before anybody reads."""
    import openmem.hook.detached as detached

    handed: list[bytes] = []
    monkeypatch.setattr(detached, "start_detached", lambda module, data, env: handed.append(data))
    Path(machine.paths.config_file).write_text("")
    long = '"é\n' * 20_000
    handle(
        "stop",
        "opencode",
        {"session_id": SID, "cwd": str(machine.repo), "prompt": long,
         "last_assistant_message": long},
        machine.paths,
        {"HOME": str(machine.home)},
        retain=lambda session: hand_over(session, machine.paths, {}),
    )  # fmt: skip
    (data,) = handed
    assert len(data) <= detached.LIMIT_BYTES
    order = json.loads(data)
    assert order["prompt"] and long.startswith(order["prompt"])
    assert order["last_message"] == order["prompt"]
