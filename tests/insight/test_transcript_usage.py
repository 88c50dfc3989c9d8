"""What a Claude Code transcript says of its calls. The lines are made up in its form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.claude_code.usage import courses_in, courses_of_lines
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
