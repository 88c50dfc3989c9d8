"""A real Claude Code session is kept, whole and once, and the model got what the agent said."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.fakes.anthropic_server import Record
from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import RUN, Scene, assert_unchanged
from tests.fakes.script import play

pytestmark = [pytest.mark.real_agent, pytest.mark.timeout(300), needs_openmem]

# Made up, in the shape of a cloud access key; split, so that no scanner trips over this file.
SECRET = "AKIA" + "Q3EGVTRWLZ5XKJ7M"
Said = tuple[str, str, str]


def _expected(messages: list[dict[str, Any]]) -> Counter[Said]:
    """What must be stored of a conversation, by (role, kind, text); reminders are left out.

    Written from the contract's words alone, not with openmem's own reading of a request.
    """
    said: Counter[Said] = Counter()
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content:
            if message["role"] == "system":
                continue
            if block["type"] == "text" and not _is_reminder(block["text"]):
                said[message["role"], "text", block["text"]] += 1
            elif block["type"] == "tool_use":
                text = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
                said["assistant", "tool_use", text] += 1
            elif block["type"] == "tool_result":
                said["tool", "tool_result", _without_reminder(_result_text(block))] += 1
    return said


def _is_reminder(text: str) -> bool:
    return text.startswith("<system-reminder>") and text.rstrip().endswith("</system-reminder>")


def _without_reminder(text: str) -> str:
    return text.split("\n\n<system-reminder>")[0]


def _result_text(block: dict[str, Any]) -> str:
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in content if part["type"] == "text"]
    # What the client tells in a part of its own beside the result is a reminder's row.
    return "\n".join([text for text in texts if not _is_reminder(text)] or texts)


def _stored(rows: list[dict[str, Any]], threads: set[str] | None = None) -> Counter[Said]:
    return Counter(
        (row["role"], row["kind"], row["text"])
        for row in rows
        if row["role"] != "system"
        and row["kind"] != "thinking"
        and (threads is None or row["thread"] in threads)
    )


def _bash(command: str) -> dict[str, Any]:
    call = {"name": "Bash", "input": {"command": command, "description": "try it"}}
    return {"think": "I look first", "say": f"Running {command}.", "call": call}


def _agent_of(record: Record) -> str:
    return record.request.header("x-claude-code-agent-id")


def _first_prompt() -> str:
    both = [
        {
            "name": "Bash",
            "input": {"command": "printf 'größer 修剪\\n\\nzwei\\n'", "description": "x"},
        },
        {"name": "Bash", "input": {"command": "echo second", "description": "x"}},
    ]
    return play(
        "look at the zeppelin hangar",
        _bash("echo one"),
        {"think": "both", "calls": both},
        {"think": "done", "say": "The hangar is empty."},
    )


def _second_prompt() -> str:
    task = play("count the propellers", _bash("echo four"), {"say": "Four propellers."})
    call = {
        "name": "Agent",
        "input": {"description": "count", "prompt": task, "subagent_type": "claude"},
    }
    return play(
        f"the key is {SECRET}, keep it safe",
        {"say": "I ask a helper.", "call": call},
        {"say": "It was four."},
        {"say": "The helper is back."},
    )


@pytest.mark.parametrize("model", ["claude-opus-4-5", "claude-opus-4-6", "claude-opus-5-5"])
def test_every_message_is_stored_once_and_the_model_gets_the_same_bytes(
    scene: Scene, model: str
) -> None:
    """Issue 2, "Show it": streaming, tool calls, resume, sub-agent, three generations of models."""
    scene.set_up()
    with scene.tapped() as tap:
        first = scene.say(_first_prompt(), model=model)
        assert first.result == "The hangar is empty."
        sid = first.session_id
        scene.say(_second_prompt(), "--resume", sid, model=model)
    records = scene.server.of(RUN)
    assert [r.status for r in records] == [200] * len(records)
    assert any(_agent_of(r) for r in records)
    assert_unchanged(tap.requests, records)
    _check_rows(scene, sid, records)
    _check_secret(scene, records)
    assert scene.sink.asked == []


def _check_rows(scene: Scene, sid: str, records: list[Record]) -> None:
    rows = scene.rows(sid)
    fingerprints = [row["fingerprint"] for row in rows]
    assert len(set(fingerprints)) == len(fingerprints)
    wanted: Counter[Said] = Counter()
    for agent in {_agent_of(r) for r in records}:
        thread = [r for r in records if _agent_of(r) == agent]
        last = max(thread, key=lambda r: len(r.messages))
        wanted += _expected(last.messages)
    masked = Counter(
        {(role, kind, text.replace(SECRET, "\0")): n for (role, kind, text), n in wanted.items()}
    )
    stored = _stored(rows)
    # The last answers were never sent back: they are in the store, not yet in a request.
    extra = stored - wanted
    missing = wanted - stored
    assert all(SECRET in text for _, _, text in missing), missing
    assert sum(missing.values()) == sum(1 for key in masked if "\0" in key[2])
    unsent = {text for _, _, text in extra if "•" not in text and "[" not in text}
    assert unsent <= {"The helper is back.", "Four propellers.", "It was four."}, unsent
    assert all(n == 1 for n in extra.values())


def _check_secret(scene: Scene, records: list[Record]) -> None:
    """The model gets the key as it was said; nothing of ours keeps it."""
    assert any(SECRET.encode() in r.request.body for r in records)
    for path in scene.state.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
