"""What a Claude Code transcript says of its calls. The lines are made up in its form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.usage.claude_code import courses_of_lines
from openmem.agents.usage.files import courses_in
from openmem.base.errors import Failed, NotFound


def _said(text: str, **more: Any) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}, **more})


def _result() -> str:
    content = [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}})


def _answered(message_id: str, at: int, read: int, written: int, **more: Any) -> str:
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": at,
    }
    message = {
        "id": message_id,
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [],
        "usage": usage,
    }
    stamp = f"2026-11-30T10:{at:02d}:00.250Z"
    return json.dumps(
        {"type": "assistant", "sessionId": "s-1", "timestamp": stamp, "message": message, **more}
    )


LINES = [
    '{"type":"permission-mode","permissionMode":"auto","sessionId":"s-1"}',
    "# a comment that is no JSON",
    _said("hello"),
    _answered("m1", 0, 0, 20_000),
    _answered("m1", 1, 0, 20_000),
    _result(),
    _answered("m2", 2, 20_003, 900),
    _said("caveat", isMeta=True),
    _answered("m3", 3, 20_903, 900),
    _said("and now", isSidechain=True),
    _answered("m4", 4, 0, 9_000, isSidechain=True),
    _answered("m5", 5, 0, 7_000, agentId="a7", isSidechain=True),
    _said("go on"),
    _answered("m6", 6, 21_803, 500),
    json.dumps({"type": "assistant", "message": {"id": "m7", "usage": {"input_tokens": "x"}}}),
    '{"type":"assistant","message":{"id":"m8","usa',
]


def test_calls_are_read_once_with_their_turns() -> None:
    """Issue 4, part 7: or transcripts; one answer stands on several lines."""
    main, sidechain, agent = courses_of_lines(LINES, name="f")
    assert [call.prompt for call in main.calls] == [20_003, 20_906, 21_806, 22_306]
    assert [call.opens_turn for call in main.calls] == [True, False, False, True]
    assert [call.output for call in main.calls] == [1, 2, 3, 6]
    assert main.session_id == "s-1" and main.model == "claude-opus-4-6"
    assert main.calls[2].at - main.calls[1].at == 60.0
    assert (sidechain.kind, len(sidechain.calls)) == ("sub-agent", 1)
    assert (agent.agent_id, len(agent.calls)) == ("a7", 1)


def test_a_file_without_calls_is_no_course(tmp_path: Path) -> None:
    """Ours: nothing is made up."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xff\xfe not text\n[1,2]\n" + _said("hello").encode())
    assert courses_in(str(path)) == []


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """House style, errors."""
    with pytest.raises(NotFound, match="nowhere"):
        courses_in(str(tmp_path / "nowhere"))
    with pytest.raises(Failed, match="cannot be read"):
        courses_in(str(tmp_path))


def _codex(kind: str, at: str, **payload: Any) -> str:
    return json.dumps({"timestamp": f"2026-11-30T10:{at}Z", "type": kind, "payload": payload})


def _counted(at: str, total: int, prompt: int, cached: int) -> str:
    used = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": 40}
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": used}
    return _codex("event_msg", at, type="token_count", info=info)


CODEX = [
    _codex("session_meta", "00:00.000", id="s-7", source="cli"),
    _codex("turn_context", "00:00.001", model="gpt-5.1-codex"),
    _codex("event_msg", "00:00.002", type="user_message", message="hello"),
    _codex("event_msg", "00:00.003", type="token_count", info=None),
    _counted("00:09.000", 20_040, 20_000, 2_000),
    # A newline was lost between two objects; the second says the first's count again.
    _counted("00:19.000", 41_040, 21_000, 20_000) + _counted("00:20.000", 41_040, 21_000, 20_000),
    _codex("event_msg", "00:30.000", type="user_message", message="more"),
    _codex("turn_context", "00:30.001", model="gpt-6.2-sol"),
    _counted("00:39.000", 63_000, 21_960, 0),
    _counted("00:49.000", 64_000, 0, 0),
    '{"timestamp":"2026-11-30T10:00:59.000Z","type":"event_m',
]


def test_codexs_counts_are_calls_once_without_what_was_read(tmp_path: Path) -> None:
    """Issue 4, part 7: transcripts; a count that is told again is no second call."""
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(CODEX))
    (course,) = courses_in(str(path))
    assert (course.session_id, course.kind) == ("s-7", "main")
    found = [(call.uncached, call.read, call.model) for call in course.calls]
    assert found == [
        (18_000, 2_000, "gpt-5.1-codex"),
        (1_000, 20_000, "gpt-5.1-codex"),
        (21_960, 0, "gpt-6.2-sol"),
    ]
    assert [call.opens_turn for call in course.calls] == [True, False, True]
    assert course.calls[1].at - course.calls[0].at == 10.0


def test_a_forked_session_does_not_count_its_parents_calls(tmp_path: Path) -> None:
    """Ours: a fork's file begins with its parent's history, stamped with the moment of the fork."""
    source = {"subagent": {"thread_spawn": {"depth": 1}}}
    lines = [
        _codex("session_meta", "00:00.500", id="child", forked_from_id="parent", source=source),
        _codex("session_meta", "00:00.501", id="parent", source="cli"),
        _counted("00:00.501", 20_040, 20_000, 2_000),
        _counted("00:00.502", 41_040, 21_000, 20_000),
        _counted("00:12.000", 64_000, 22_900, 21_000),
    ]
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(lines))
    (course,) = courses_in(str(path))
    assert (course.session_id, course.kind, course.agent_id) == ("child", "sub-agent", "child")
    assert [call.prompt for call in course.calls] == [22_900]


def _opencode(role: str, at: int, **more: Any) -> dict[str, Any]:
    return {"role": role, "modelID": "gpt-5.3-codex", "time": {"created": at * 1000}, **more}


def _tokens(prompt: int, read: int) -> dict[str, Any]:
    return {"input": prompt, "output": 9, "reasoning": 3, "cache": {"read": read, "write": 0}}


@pytest.mark.parametrize("indent", [None, 2])
def test_an_exported_session_of_opencode_is_read_in_either_form(
    tmp_path: Path, indent: int | None
) -> None:
    """Issue 4, part 7: transcripts. An export is one document, on one line or on many."""
    finished = [{"type": "text"}] + [
        {"type": "step-finish", "tokens": _tokens(n, 9_000)} for n in (100, 200)
    ]
    document = {
        "info": {"id": "ses_1", "parentID": "ses_0"},
        "messages": [
            {"info": _opencode("user", 1), "parts": [{"type": "text"}]},
            {"info": _opencode("assistant", 2, tokens=_tokens(9_000, 0)), "parts": []},
            {"info": _opencode("assistant", 3, tokens=_tokens(200, 9_000)), "parts": finished},
            {"info": _opencode("assistant", 4, tokens=_tokens(0, 0)), "parts": None},
            {"info": None},
        ],
    }
    path = tmp_path / "export.json"
    path.write_text(json.dumps(document, indent=indent))
    (course,) = courses_in(str(path))
    assert (course.session_id, course.kind, course.agent_id) == ("ses_1", "sub-agent", "ses_1")
    assert [call.prompt for call in course.calls] == [9_000, 9_100, 9_200]
    assert [call.opens_turn for call in course.calls] == [True, False, False]


def test_a_log_of_opencodes_events_counts_each_message_in_its_last_state(tmp_path: Path) -> None:
    """Ours: a message comes again and again as it grows; sub-agents share the log."""

    def event(kind: str, info: dict[str, Any]) -> str:
        return json.dumps({"timestamp": 1, "event": {"type": kind, "properties": {"info": info}}})

    def message(name: str, session: str, tokens: dict[str, Any]) -> str:
        info = {"id": name, "sessionID": session, **_opencode("assistant", 2, tokens=tokens)}
        return event("message.updated", info)

    path = tmp_path / "events.jsonl"
    lines = [
        event("session.created", {"id": "ses_b", "parentID": "ses_a"}),
        message("m1", "ses_a", _tokens(0, 0)),
        message("m1", "ses_a", _tokens(500, 0)),
        message("m2", "ses_b", _tokens(700, 0)),
        "not json",
    ]
    path.write_text("\n".join(lines))
    main, child = courses_in(str(path))
    assert [call.prompt for call in main.calls] == [500] and main.kind == "main"
    assert [call.prompt for call in child.calls] == [700] and child.kind == "sub-agent"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"messages": 7}', '{"type":"event_msg","payload":[1]}', "\x00"]
)
def test_a_file_of_nobody_gives_no_course(tmp_path: Path, text: str) -> None:
    """Issue 4, bad input: nothing is made up, nothing breaks."""
    path = tmp_path / "t"
    path.write_text(text)
    assert courses_in(str(path)) == []
