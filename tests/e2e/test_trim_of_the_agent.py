"""The real Claude Code over the threshold before the strict service: first turn, and a repair."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.faults import NAMED
from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import RUN, Scene, a_scene
from tests.fakes.script import Call, Step, play
from tests.fakes.strict.rules import Account, StrictRules

pytestmark = [pytest.mark.real_agent, pytest.mark.timeout(300), needs_openmem]

POINTER = "[openmem: session_id="
DONE = {"think": "so", "say": "Done."}


def _shell(command: str) -> dict[str, Any]:
    call = {"name": "Bash", "input": {"command": command, "description": "x"}}
    return {"think": f"I run {command}", "call": call}


@pytest.fixture
def rules() -> StrictRules:
    return StrictRules(Account())


def long_task(run: str, body: dict[str, Any]) -> Step | None:
    """Return the next of eight steps by the newest one that is seen: a trim takes the older ones,
    so they cannot be counted."""
    asked = [m for m in body["messages"] if m["role"] == "user" and _texts(m)]
    if not asked or "one long task" not in _texts(asked[-1])[-1]:
        return None
    behind = body["messages"][body["messages"].index(asked[-1]) :]
    done = [
        int(block["input"]["command"].split()[1][0])
        for message in behind
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    number = max(done, default=0) + 1
    if number > 8:
        return Step(think="so", say="Done.")
    command = {"command": f"seq {number}0000 {number}2500", "description": "x"}
    return Step(think="on", calls=(Call(name="Bash", input=command),))


@pytest.fixture
def scene(tmp_path: Path, rules: StrictRules) -> Iterator[Scene]:
    server = FakeAnthropic(rules=rules, script=long_task)
    with server, a_scene(tmp_path, server) as made:
        yield made


def _texts(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


def test_one_long_first_turn_has_its_pointer_in_the_first_message(
    scene: Scene, rules: StrictRules
) -> None:
    """Issue 4, part 2: the in-turn gap by steps; the hard threshold between complete rounds."""
    scene.set_up()
    base = scene.say(play("how large", DONE))
    usage = base.json["usage"]
    floor = sum(usage[k] for k in usage if k.endswith("input_tokens"))
    scene.openmem.ok("config", "set", "trim.soft_tokens", str(floor + 8_000))
    scene.openmem.ok("config", "set", "trim.hard_tokens", str(floor + 12_000))
    scene.openmem.ok("config", "set", "trim.to_fraction", "0.9")
    scene.openmem.ok("proxy", "stop", "--now")
    scene.openmem.ok("proxy", "start")
    began = len(scene.server.of(RUN))
    done = scene.say("one long task")
    assert done.result == "Done.", done
    bodies = [record.json for record in scene.server.of(RUN)[began:]]
    trimmed = [body for body in bodies if POINTER in json.dumps(body["messages"])]
    assert trimmed and len(bodies[-1]["messages"]) < 2 * 8
    for body in trimmed:
        head = _texts(body["messages"][0])
        assert head[0].startswith(POINTER) and "one long task" in head[-1]
        assert body["messages"][1]["role"] == "system"  # its surroundings stay behind it
        assert not any(POINTER in text for m in body["messages"][1:] for text in _texts(m))
    again = scene.say(play("and then", DONE), "--continue")
    assert again.result == "Done." and rules.refusals == []
    assert [record.status for record in scene.server.of(RUN)] == [200] * len(scene.server.of(RUN))


def test_a_trim_that_is_refused_for_its_thinking_is_repaired_and_the_client_never_knows(
    scene: Scene, rules: StrictRules
) -> None:
    """Decision table: a 400 on a trimmed request is ours to repair, one on another the client's."""
    scene.set_up()
    first = scene.say(play("one", _shell("seq 3000"), _shell("echo 1"), DONE))
    sid = first.session_id
    scene.say(play("two", _shell("seq 2000"), DONE), "--continue")
    scene.openmem.ok("context", "trim", sid, "--keep", "1")
    number = len(scene.server.of(RUN)) + 1
    scene.server.faults[RUN, number] = NAMED["binding-without-header"]
    third = scene.say(play("three", _shell("echo 3"), DONE), "--continue")
    assert third.result == "Done.", third
    records = scene.server.of(RUN)[number - 1 :]
    assert [record.status for record in records] == [400, 200, 200]
    refused, repaired, later = (record.json for record in records)
    assert POINTER in json.dumps(refused["messages"])
    assert "block_binding" not in refused["thinking"]
    for record, body in zip(records[1:], (repaired, later), strict=True):
        assert body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
        betas = dict(record.request.headers)["anthropic-beta"]
        assert "thinking-binding-controls-2026-08-01" in betas
    kinds = [b["type"] for m in repaired["messages"] for b in m["content"] if isinstance(b, dict)]
    assert "thinking" not in kinds
    (transcript,) = scene.home.glob(f".claude/projects/*/{sid}.jsonl")
    assert "thinking_stripped" not in transcript.read_text()
    assert "BindingRefused" in [event["error"] for event in _events(scene, sid)]
    # Behind a proxy that starts anew the thread still asks for it, and is accepted.
    scene.openmem.ok("proxy", "stop", "--now")
    scene.openmem.ok("proxy", "start")
    scene.say(play("four", DONE), "--continue")
    last = scene.server.of(RUN)[-1]
    assert last.status == 200 and "block_binding" in last.json["thinking"]
    assert rules.refusals == []


def _events(scene: Scene, sid: str) -> list[dict[str, Any]]:
    with contextlib.closing(sqlite3.connect(scene.store(sid))) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM events ORDER BY id")]
