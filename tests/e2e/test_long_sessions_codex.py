"""The real Codex in a long session over the threshold, before the strict service.

Resume, a loop over the hard threshold, the default model and an older one, a sub-agent, hooks and
a compaction. Needs `OPENMEM_TEST_CODEX`; left out of CI for its size.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.codex import needs_codex
from tests.fakes.codex_scene import CUSTOM, GATE, CodexScene, a_codex_scene
from tests.fakes.long_session import POINTER, Steps
from tests.fakes.script import play

pytestmark = [pytest.mark.timeout(600), pytest.mark.heavy, needs_codex]

NEWEST, OLDER = "gpt-6.2-sol", "gpt-5.1-codex"
# The default model's shell is in a namespace of its own.
SHELL = {NEWEST: "functions/exec_command", OLDER: "exec_command"}


def _work(scene: CodexScene, sid: str, model: str, name: str, rounds: int) -> None:
    first = abs(hash(name)) % 900 + 100
    steps: list[dict[str, Any]] = [
        {
            "think": f"{name} {number}",
            "call": {
                "name": SHELL[model],
                "input": {"cmd": f"seq {first}{number:02d}000 {first}{number:02d}900"},
            },
        }
        for number in range(rounds)
    ]
    said = scene.run(
        play(name, *steps, {"think": "so", "say": f"{name} is done."}), "-m", model, resume=sid
    ).said
    assert said[-1] == f"{name} is done."


def _texts(bodies: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(body["input"]) for body in bodies]


def test_a_long_session_goes_through_loops_models_sub_agents_and_a_compaction(
    tmp_path: Path,
) -> None:
    """Issue 4, Show it: 0 refusals, no reasoning lost beyond what a cut or the client takes."""
    limit = "model_auto_compact_token_limit = 60000\n"
    with a_codex_scene(tmp_path, limit + CUSTOM + GATE) as scene:
        steps = Steps()
        scene.service.script = steps.of_items
        scene.openmem("config", "set", "trim.soft_tokens", "18000")
        scene.openmem("config", "set", "trim.hard_tokens", "24000")
        scene.install("--trust-hooks", "--allow-tools")
        sid = scene.run(play("the staging host is heron-42", {"say": "Noted."})).session_id
        _work(scene, sid, OLDER, "a first part", 4)
        _work(scene, sid, OLDER, "one long loop", 12)
        assert any(POINTER in text for text in _texts(scene.bodies))
        for number, model in enumerate((NEWEST, OLDER, NEWEST)):
            _work(scene, sid, model, f"part {number} elsewhere", 3)
        _work(scene, sid, OLDER, "a part at home", 3)
        assert scene.service.refusals == []
        big = {"input_tokens": 90_000, "total_tokens": 90_010}
        scene.run(play("nearly full", {"say": "Full.", "usage": big}), "-m", OLDER, resume=sid)
        _work(scene, sid, OLDER, "after the summary", 2)
        assert scene.service.refusals == []
        events = scene.events(sid)
        kinds = [event["kind"] for event in events]
        assert kinds.count("trim") >= 3 and "compaction" in kinds
        assert [event["error"] for event in events if event["kind"] == "fail_open"] == []
        causes = {event["error"] for event in events if event["kind"] == "trim"}
        assert "hard" in causes
        asked = {"call": {"name": "mcp__openmem/smart_compact_search",
                          "input": {"session_id": sid, "query": "heron-42"}}}  # fmt: skip
        scene.run(play("which host?", asked, {"say": "That."}), "-m", OLDER, resume=sid)
        outputs = [i["output"] for i in scene.bodies[-1]["input"]
                   if i["type"] == "function_call_output"]  # fmt: skip
        assert "heron-42" in str(outputs[-1])
        assert scene.sink.asked == []
