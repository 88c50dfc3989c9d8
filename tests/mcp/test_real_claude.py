"""The real Claude Code starts the server by itself, shows its tools and gives its answer on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude import Claude, Sink, claude_binary, make_project
from tests.fakes.mcp_process import CHECKOUT
from tests.fakes.script import play
from tests.fakes.stored import Machine, said

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.skipif(claude_binary() is None, reason="no Claude Code on this machine"),
]
LINE = "we rotate the signing key every 90 days, the next is on 14 January"


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5"])
def test_claude_code_calls_the_search_and_the_model_reads_the_line(home: Path, model: str) -> None:
    """Issue 2, part 7: `alwaysLoad` puts the tools into the request."""
    machine = Machine(home)
    project = make_project(home / "site")
    machine.record("earlier", project, [said(f"remember this:\n{LINE}")])
    machine.close()
    server = {
        "type": "stdio",
        "command": sys.executable,
        "args": ["-m", "openmem.mcp"],
        "env": {"PYTHONPATH": str(CHECKOUT)},
        "alwaysLoad": True,
    }
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"openmem": server}}))
    prompt = play(
        "When do we rotate?",
        {"call": {"name": "mcp__openmem__smart_compact_search", "input": {"query": "signing key"}}},
        {"say": "every 90 days"},
    )
    with Sink() as sink, FakeAnthropic() as api:
        claude = Claude(home=home, project=project, sink_url=sink.url, base_url=api.url_of("mcp"))
        outcome = claude.run(prompt, model=model)
        assert outcome.status == 0 and outcome.result == "every 90 days", outcome.stderr
        first, second = api.of("mcp")[-2:]
    names = {tool["name"] for tool in first.json["tools"]}
    assert {
        "mcp__openmem__smart_compact_search",
        "mcp__openmem__smart_compact_get",
        "mcp__openmem__smart_compact_sql",
        "mcp__openmem__context_status",
    } <= names
    assert "openmem records this session" in json.dumps(first.json)
    results = [
        block
        for message in second.json["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block.get("type") == "tool_result"
    ]
    (result,) = results
    content = result["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    assert LINE in text.split("\n") and not result.get("is_error")
