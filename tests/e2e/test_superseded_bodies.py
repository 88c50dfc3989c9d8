"""The real Claude Code: a file is read, edited, read again; a trim leaves the old bodies out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import RUN, Scene, a_scene
from tests.fakes.script import Call, Step, play
from tests.fakes.strict.rules import Account, StrictRules

pytestmark = [pytest.mark.real_agent, pytest.mark.timeout(300), needs_openmem]

TOOLS = ("Bash", "Read", "Edit", "Write", "mcp__openmem")
MARK = re.compile(r'\[openmem: superseded by a later call[^]]*id="([^"]+)"[^]]*\]')


def _call(name: str, **given: Any) -> dict[str, Any]:
    return {"think": f"I call {name}", "call": {"name": name, "input": given}}


def _results(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        block
        for message in body["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def _calls(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        block
        for message in body["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "tool_use"
    ]


class Copying:
    """A model that copies what it sees: first the shell of a call, then its marker into a file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.is_on = False

    def step(self, run: str, body: dict[str, Any]) -> Step | None:
        if not self.is_on:
            return None
        spent = [call for call in _calls(body) if "openmem_superseded" in call["input"]]
        if not spent:
            return Step(say="nothing is left out")
        mark = spent[0]["input"]["openmem_superseded"]
        made = MARK.search(mark)
        assert made is not None
        turn = max(n for n, m in enumerate(body["messages"]) if m["role"] == "user" and _said(m))
        answered = sum(m["role"] == "assistant" for m in body["messages"][turn:])
        steps = [
            Step(think="as before", calls=(Call(name="Edit", input=dict(spent[0]["input"])),)),
            Step(calls=(Call(name="Write", input={"file_path": self.file, "content": mark}),)),
            Step(
                calls=(Call(name="mcp__openmem__smart_compact_get", input={"id": made.group(1)}),),
            ),
            Step(say="now I know"),
        ]
        return steps[answered]


def _said(message: dict[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, str) or any(block["type"] == "text" for block in content)


@pytest.fixture
def rules() -> StrictRules:
    return StrictRules(Account())


@pytest.fixture
def copying(tmp_path: Path) -> Copying:
    return Copying(str(tmp_path / "project" / "app.py"))


@pytest.fixture
def scene(tmp_path: Path, rules: StrictRules, copying: Copying) -> Iterator[Scene]:
    server = FakeAnthropic(rules=rules, script=copying.step)
    with server, a_scene(tmp_path, server) as made:
        made.openmem.ok("config", "set", "trim.superseded", "true")
        made.openmem.ok("config", "set", "trim.keep_steps", "1")
        made.set_up("--allow-tools")
        yield made


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5"])
def test_superseded_bodies_leave_with_a_trim_and_come_back_by_their_id(
    scene: Scene, rules: StrictRules, copying: Copying, model: str
) -> None:
    """Issue 4, part 6 and "Show it": 0 refusals, and the hook refuses a marker."""
    file = scene.project / "app.py"
    lines = [f"value_{n} = {n}  # a line of the program" for n in range(80)]
    file.write_text("\n".join(lines) + "\n")

    def edit(number: int) -> dict[str, Any]:
        old = "\n".join(lines[10 * number : 10 * number + 8])
        new = old.replace("a line", f"edited {number}")
        return _call("Edit", file_path=str(file), old_string=old, new_string=new)

    read = _call("Read", file_path=str(file))
    done = {"think": "so", "say": "Done."}
    first = scene.claude.run(
        play("one", _call("Bash", command="seq 3000", description="x"), done),
        model=model, tools=TOOLS,
    )  # fmt: skip
    assert first.result == "Done.", first
    sid = first.session_id
    second = scene.claude.run(
        play("two", read, edit(1), edit(2), read, _call("Bash", command="true"), done),
        "--continue", model=model, tools=TOOLS,
    )  # fmt: skip
    assert second.result == "Done.", second
    before = scene.server.of(RUN)[-1].json
    whole = [result["content"] for result in _results(before)]
    assert not any(MARK.search(json.dumps(text)) for text in whole)
    assert "edited 2" in json.dumps(whole[4])  # of a changed file it does not say "unchanged"

    scene.openmem.ok("context", "trim", sid, "--keep", "2")
    copying.is_on = True
    third = scene.claude.run("three", "--continue", model=model, tools=TOOLS)
    assert third.result == "now I know", third
    copying.is_on = False
    sent = [record.json for record in scene.server.of(RUN)]
    after = sent[-1]
    # The old bodies are gone, the calls and their path are there, and thinking went as a whole.
    calls = [call for call in _calls(after) if call["input"].get("file_path") == str(file)]
    assert [call["name"] for call in calls[:4]] == ["Read", "Edit", "Edit", "Read"]
    assert set(calls[1]["input"]) == {"file_path", "openmem_superseded"}
    assert "edited 2" in calls[2]["input"]["new_string"]
    results = {result["tool_use_id"]: json.dumps(result["content"]) for result in _results(after)}
    assert MARK.search(json.loads(results[calls[0]["id"]]))
    assert "edited 2" in results[calls[3]["id"]]
    # The copy of the shell is refused by the tool, the copy of the marker by the hook.
    asked = _calls(after)[-3:]
    assert [call["name"] for call in asked] == ["Edit", "Write", "mcp__openmem__smart_compact_get"]
    assert "InputValidationError" in results[asked[0]["id"]]
    assert "openmem: this call carries a marker" in results[asked[1]["id"]]
    assert MARK.search(file.read_text()) is None and "edited 2" in file.read_text()
    # The original comes back, word for word.
    got = json.loads(results[asked[2]["id"]])
    text = got if isinstance(got, str) else got[0]["text"]
    original = next(c for c in _calls(before) if "edited 1" in json.dumps(c["input"]))
    stored, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    assert stored == original["input"]
    assert rules.refusals == []
    # Resumed behind a proxy that starts anew, the prefix is the same.
    scene.openmem.ok("proxy", "stop", "--now")
    scene.openmem.ok("proxy", "start")
    fourth = scene.claude.run(play("four", done), "--continue", model=model, tools=TOOLS)
    assert fourth.result == "Done." and rules.refusals == []
    usage = fourth.json["usage"]
    assert usage["cache_read_input_tokens"] > 5 * usage["cache_creation_input_tokens"]
    rows = {row["seq"]: row for row in scene.rows(sid)}
    for name in MARK.findall(json.dumps(after)):
        row = rows[int(name.rpartition(":")[2])]
        assert row["in_context"] == 0 and row["trimmed_at_seq"]
