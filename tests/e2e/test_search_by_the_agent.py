"""What was said is found: by the person on the command line, by the agent through MCP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import RUN, Scene
from tests.fakes.script import play

pytestmark = [pytest.mark.real_agent, pytest.mark.timeout(300), needs_openmem]


def _search(query: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "mcp__openmem__smart_compact_search",
        "input": {"query": query, **more},
    }


def _results(scene: Scene) -> list[str]:
    """The texts of the tool results that the newest request carries."""
    found = []
    for message in scene.server.of(RUN)[-1].messages:
        content = message["content"]
        for block in content if isinstance(content, list) else []:
            if block["type"] == "tool_result":
                inner = block["content"]
                found.append(
                    inner if isinstance(inner, str) else "\n".join(p.get("text", "") for p in inner)
                )
    return found


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5-5"])
def test_the_agent_finds_earlier_words_through_the_server_it_started(
    scene: Scene, model: str
) -> None:
    """Issue 2, "Show it": search through the MCP server that Claude Code itself started."""
    scene.set_up()
    said = play("the mooring mast stands at quay 17-B", {"say": "Noted."})
    sid = scene.say(said, model=model).session_id
    steps = ({"call": _search("mooring mast")}, {"say": "At quay 17-B."})
    scene.say(play("where does it stand?", *steps), "--resume", sid, model=model)
    record = scene.server.of(RUN)[-1]
    tools = {tool["name"]: tool for tool in record.json["tools"]}
    assert "mcp__openmem__smart_compact_search" in tools
    assert "defer_loading" not in tools["mcp__openmem__smart_compact_search"]
    (result,) = _results(scene)
    lines = [line for line in result.splitlines() if line.startswith("the mooring mast stands")]
    assert lines, result


def test_another_workspace_is_not_searched_and_its_id_is_refused(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Issue 2, part 7: this workspace only; an explicit id outside it needs a grant."""
    from tests.fakes.claude import Claude, make_project

    scene.set_up()
    sid = scene.say(play("a dirigible in hangar nine", {"say": "Noted."})).session_id
    other = make_project(tmp_path_factory.mktemp("elsewhere") / "project")
    elsewhere = Claude(
        home=scene.home, project=other, sink_url=scene.sink.url, path=scene.claude.path
    )
    calls = [_search("dirigible"), _search("dirigible", session_id=sid)]
    outcome = elsewhere.run(play("search", {"calls": calls}, {"say": "Nothing."}))
    assert outcome.result == "Nothing.", outcome
    for result in _results(scene):
        assert "hangar nine" not in result


def test_the_person_finds_it_on_the_command_line(scene: Scene) -> None:
    """Issue 2: `context search`, its JSON, and `context status`."""
    scene.set_up()
    sid = scene.say(play("the ballast is 480 kilograms", {"say": "Heavy."})).session_id
    found = scene.openmem.ok("context", "search", "ballast", "--json").data
    assert [(hit["session_id"], hit["role"]) for hit in found["hits"]] == [(sid, "user")]
    assert found["total_matches"] == 1 and found["line_matches"] == 1
    assert "480 kilograms" in found["hits"][0]["excerpt"]
    status = scene.openmem.ok("context", "status", "--json").data
    (session,) = status["sessions"]
    assert session["session_id"] == sid and session["agent"] == "claude-code"
    assert session["cwd"] == str(scene.project)
    assert session["rows"] > 0 and session["output_tokens"] > 0 and session["fail_opens"] == 0
    shown = scene.openmem.ok("context", "search", "ballast").stdout
    assert "480 kilograms" in shown
    nothing = scene.openmem("context", "search", "submarine", "--json")
    assert json.loads(nothing.stdout)["data"]["total_matches"] == 0
