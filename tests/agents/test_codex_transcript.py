"""What was said in a session of Codex, from its rollout: all of it, once, and nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path

from openmem.agents.codex.transcript import read_transcript
from openmem.agents.transcript import Cursor, Reading
from openmem.base.frame import framed
from tests.fakes.agent_files import Json, codex_call, codex_lines, item, lines, write

SID = "11111111-2222-4333-8444-555555555555"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(path: Path, cursor: Cursor | None = None) -> Reading:
    return read_transcript(str(path), cursor or Cursor(), digest)


def texts(reading: Reading) -> list[tuple[str, str]]:
    return [(said.role, said.text) for said in reading.said]


def rollout(*items: Json) -> bytes:
    return lines(*codex_lines(SID, "/repo", *items))


def test_person_model_and_short_calls_are_read_and_nothing_else(tmp_path: Path) -> None:
    """Issue 7, Show it: the turn is kept, and nothing that Codex told."""
    own = {"type": "function_call", "name": "memory_search", "namespace": "mcp__openmem",
           "call_id": "c2", "arguments": '{"query": "host"}'}  # fmt: skip
    path = write(
        tmp_path / "r",
        rollout(
            item("developer", "<permissions instructions>"),
            item("user", "<environment_context><cwd>/repo</cwd></environment_context>"),
            item("user", "# AGENTS.md instructions for /repo"),
            item("user", "What is the staging host?"),
            {"line": "event_msg", "type": "user_message", "message": "What is the staging host?"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "secret"}]},
            *codex_call("c1", "grep -r host .", "host = heron-42"),
            own,
            {"type": "function_call", "name": "shell", "call_id": "c3", "arguments": "{cut"},
            item("user", "<hook_prompt hook_run_id=1>go on</hook_prompt>"),
            item("user", f"{framed(['- The host is heron-42.'])}\nand the port?"),
            item("assistant", "heron-42, port 5432"),
            item("user", "Another language model started to solve this problem: x"),
        ),
    )
    reading = read(path)
    assert texts(reading) == [
        ("user", "What is the staging host?"),
        ("tool", "exec_command: grep -r host ."),
        ("user", "and the port?"),
        ("assistant", "heron-42, port 5432"),
    ]
    assert reading.said[0].at == "2026-09-02T10:00:04.500Z" and reading.bad_lines == []


def test_a_second_reading_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    """Users' report 27: a last line that is still written is left for the next time."""
    data = rollout(item("user", "one"), item("assistant", "two"))
    path = write(tmp_path / "r", data[:-9])
    first = read(path)
    assert texts(first) == [("user", "one")]
    path.write_bytes(data)
    assert texts(read(path, first.cursor)) == [("assistant", "two")]


def test_two_records_on_one_line_are_both_read(tmp_path: Path) -> None:
    """Oddities: the newline was lost when the session was resumed."""
    head, one, two = rollout(item("user", "one"), item("user", "two")).splitlines()
    path = write(
        tmp_path / "r", head + b"\n" + one + two + b'\n{"type":"response_item",\n' + two + b"\n"
    )
    reading = read(path)
    assert [text for _, text in texts(reading)] == ["one", "two", "two"]
    assert reading.bad_lines == [3]
