"""The real Claude Code, wired by our plan: what it runs, registers, sends and switches off."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.claude_code.grants import is_wide
from openmem.agents.claude_code.places import EVENTS, NAME
from openmem.agents.launchers import HOOK, launcher_path
from openmem.context.session import read_registration, take_trim_request
from openmem.hook.delivery import last_delivery
from openmem.hook.texts import SEARCH_TOOLS, TRIM_REQUESTED, session_start_text
from tests.agents.conftest import Person
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude import Claude, Sink, claude_binary, make_project
from tests.fakes.script import play

pytestmark = pytest.mark.real_agent

POLICY = "version = 1\n[defaults.git]\nstore = true\nrecall = true\nretain = true\n"


class Bench:
    """A wired Claude Code before a fake model that stands at the address of our proxy."""

    def __init__(self, person: Person, server: FakeAnthropic, sink: Sink, project: Path) -> None:
        self.person, self.server, self.project = person, server, project
        self.claude = Claude(home=person.home, project=project, sink_url=sink.url)
        person.write(Path(person.paths.policy_file), POLICY)

    def wire(self, **wanted: object) -> None:
        self.person.wire(port=self.server.port, **wanted)

    def bodies(self) -> list[dict[str, Any]]:
        return [record.json for record in self.server.of("default")]


@pytest.fixture
def bench(person: Person, tmp_path: Path) -> Iterator[Bench]:
    person.state.unlink()  # a fresh HOME: Claude Code has never run
    binary = claude_binary()
    assert binary is not None
    person.environ["PATH"] = os.path.dirname(binary)
    with FakeAnthropic() as server, Sink() as sink:
        yield Bench(person, server, sink, make_project(tmp_path / "project"))


def _texts(value: object) -> list[str]:
    """Every text of a request's messages."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return [text for key in ("text", "content") if key in value for text in _texts(value[key])]
    return []


def test_a_wired_session_is_registered_and_told_of_its_tools(bench: Bench) -> None:
    """Issue 2 part 6: hooks fire, the session is registered, the text is in the request, once."""
    bench.wire()
    first = bench.claude.run("hello")
    sid = first.session_id
    assert first.status == 0, first
    found = read_registration(bench.person.paths, sid)
    assert found is not None
    assert (found.agent, found.cwd) == (NAME, str(bench.project))
    assert found.agent_pid > 1 and sid in found.transcript_path
    delivery = last_delivery(bench.person.paths, NAME)
    assert delivery is not None and (delivery.event, delivery.session_id) == ("stop", sid)
    again = bench.claude.run("more", "--resume", sid)
    assert again.session_id == sid
    for body in bench.bodies():
        texts = "\n".join(_texts(body["messages"]))
        assert texts.count(session_start_text(sid)) == 1
    assert not Path(bench.person.paths.logs_dir, "hook.log").exists()


def test_a_fork_is_a_session_of_its_own(bench: Bench) -> None:
    """Users' report 47: a fork changes the id; both are known."""
    bench.wire()
    first = bench.claude.run("hello").session_id
    second = bench.claude.run("more", "--resume", first, "--fork-session").session_id
    assert second != first
    for sid in (first, second):
        assert read_registration(bench.person.paths, sid) is not None


def test_a_denied_folder_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    """Design 6, difference 8: pass through, no registration, no word to the model."""
    bench.wire()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = sorted(Path(bench.person.paths.state_dir).rglob("*"))
    claude = Claude(home=bench.person.home, project=elsewhere, sink_url=bench.claude.sink_url)
    done = claude.run("hello")
    assert done.status == 0
    assert sorted(Path(bench.person.paths.state_dir).rglob("*")) == before
    texts = "\n".join(_texts(bench.bodies()[0]["messages"]))
    assert "SessionStart" not in texts and done.session_id not in texts


def test_smart_compact_costs_no_request(bench: Bench) -> None:
    """Trial: blocked by our hook, its answer is the result, and nothing is sent."""
    bench.wire()
    done = bench.claude.run("/smart-compact")
    assert done.status == 0 and TRIM_REQUESTED in done.stdout
    assert bench.bodies() == []
    assert take_trim_request(bench.person.paths, done.session_id) == 0


def test_smart_compact_with_words_sends_the_words(bench: Bench) -> None:
    """Trial: the command's file hands them on; the model is not told of the command before."""
    bench.wire()
    bench.claude.run("hello")
    done = bench.claude.run("/smart-compact then count to nine", "--continue")
    plain, words = ("\n".join(_texts(body["messages"])) for body in bench.bodies())
    assert "smart-compact" not in plain
    assert "then count to nine" in words
    assert take_trim_request(bench.person.paths, done.session_id) == 0


def test_our_server_is_in_the_tools_from_the_first_request(bench: Bench) -> None:
    """Facts 2: without alwaysLoad only the name is listed; the text names tools that exist."""
    bench.wire(allow_tools=True)
    bench.claude.run("hello", tools=())
    names = {tool["name"] for tool in bench.bodies()[0]["tools"] if not tool.get("defer_loading")}
    assert {f"mcp__openmem__{name}" for name in SEARCH_TOOLS} <= names


def test_what_erases_is_asked_for_whatever_else_is_allowed(bench: Bench) -> None:
    """Issue 5, part 4: no tool that erases is agreed to in passing; nobody is there to ask."""
    bench.wire(allow_tools=True)
    search = {"name": "mcp__openmem__memory_search", "input": {"query": "x"}}
    forget = {"name": "mcp__openmem__memory_forget", "input": {"id": "m-1"}}
    prompt = play("look it up", {"call": search}, {"call": forget}, {"say": "Done."})
    bench.claude.run(prompt, tools=())
    results = [
        block
        for message in bench.bodies()[-1]["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    allowed, refused = (str(block["content"]) for block in results)
    assert "permission" not in allowed and "0 memories" in allowed
    assert "permission" in refused and "not-found" not in refused


@pytest.mark.parametrize(
    "entry", ["mcp__openmem", "mcp__openmem__memory_*", "mcp__*", "mcp__openmem(*)"]
)
def test_what_doctor_calls_wide_is_what_lets_it_run(bench: Bench, entry: str) -> None:
    """Trial with 2.1.332: a star counts only behind the server's name."""
    bench.wire()
    settings = bench.person.read()
    bench.person.write(bench.person.settings, {**settings, "permissions": {"allow": [entry]}})
    forget = {"name": "mcp__openmem__memory_forget", "input": {"id": "m-1"}}
    bench.claude.run(play("forget it", {"call": forget}, {"say": "Done."}), tools=())
    ran = "not-found" in json.dumps(bench.bodies()[-1]["messages"])
    assert ran == is_wide(entry) == bool(bench.person.wired().wide)


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5"])
def test_tools_are_loaded_on_demand_behind_our_address(bench: Bench, model: str) -> None:
    """Users' report 45: a base URL of its own must not put every tool into every request."""
    bench.wire(mcp=None)
    bench.claude.run("hello", model=model)
    tools = [tool["name"] for tool in bench.bodies()[0]["tools"]]
    assert "ToolSearch" in tools and "WebFetch" not in tools


@pytest.mark.parametrize(
    ("project", "is_ours"),
    [(None, True), ({"env": {"ANTHROPIC_BASE_URL": "{other}"}}, False)],
)
def test_whose_address_wins(bench: Bench, project: dict[str, Any] | None, is_ours: bool) -> None:
    """Issue 2 part 5: settings over shell; a project's own settings over the person's.

    Written down in docs/reference/claude-code.md.
    """
    bench.wire()
    other = bench.server.url_of("other")
    if project:
        text = json.dumps(project).replace("{other}", other)
        bench.person.write(bench.project / ".claude/settings.json", text)
    shell = Claude(
        home=bench.person.home,
        project=bench.project,
        sink_url=bench.claude.sink_url,
        base_url=other,
    )
    assert shell.run("hello").status == 0
    assert len(bench.server.of("default")) == (1 if is_ours else 0)
    assert len(bench.server.of("other")) == (0 if is_ours else 1)


@pytest.mark.parametrize("fault", ["comment", "trailing comma"])
def test_claude_code_drops_a_settings_file_that_is_not_strict_json(
    bench: Bench, fault: str
) -> None:
    """Issue 2 part 6: why such a file is refused: nothing in it, our hooks included, would run."""
    bench.wire()
    text = bench.person.settings.read_text().rstrip()
    text = f"// mine\n{text}" if fault == "comment" else f"{text[:-1]},}}"
    bench.person.settings.write_text(text)
    elsewhere = Claude(
        home=bench.person.home,
        project=bench.project,
        sink_url=bench.claude.sink_url,
        base_url=bench.server.url_of("shell"),
    )
    done = elsewhere.run("hello")
    assert done.status == 0
    assert len(bench.server.of("shell")) == 1 and bench.server.of("default") == []
    assert read_registration(bench.person.paths, done.session_id) is None


def test_a_byte_order_mark_does_no_harm(bench: Bench) -> None:
    """Users' report 12: kept by our edit, and taken by Claude Code."""
    bench.person.write(bench.person.settings, b"\xef\xbb\xbf{}\n")
    bench.wire()
    assert bench.person.settings.read_bytes().startswith(b"\xef\xbb\xbf{")
    done = bench.claude.run("hello")
    assert read_registration(bench.person.paths, done.session_id) is not None


def test_hooks_of_a_removed_installation_say_nothing(bench: Bench) -> None:
    """Design 4: fail open: the package is gone, the entries are still there."""
    bench.wire(proxy=None, mcp=None, skill=None)
    launcher = Path(launcher_path(bench.person.paths, HOOK))
    lines = launcher.read_text().splitlines()
    lines = ["python='/no/python'" if line.startswith("python=") else line for line in lines]
    launcher.write_text("\n".join(lines) + "\n")
    claude = Claude(
        home=bench.person.home,
        project=bench.project,
        sink_url=bench.claude.sink_url,
        base_url=bench.server.url_of("direct"),
        extra={"PATH": "/usr/bin:/bin"},
    )
    done = claude.run("hello")
    assert (done.status, done.stderr.strip()) == (0, "")
    body = bench.server.of("direct")[0].json
    assert "openmem" not in "\n".join(_texts(body["messages"]))


def test_the_skill_is_listed_to_the_model(bench: Bench) -> None:
    """Issue 7 part 4: when to search, which bank, how to correct, when to ask."""
    bench.wire(hooks=None, proxy=None, mcp=None)
    claude = Claude(
        home=bench.person.home,
        project=bench.project,
        sink_url=bench.claude.sink_url,
        base_url=bench.server.url_of("direct"),
    )
    assert claude.run("hello").status == 0
    body = bench.server.of("direct")[0].json
    assert "openmem: Find what was said" in "\n".join(_texts(body["messages"]))


def test_claude_codes_own_writes_and_ours_live_together(bench: Bench) -> None:
    """Issue 2 part 2: the real Claude Code rewriting its own .claude.json meanwhile."""
    bench.claude.run("hello")  # makes its .claude.json
    bench.wire()
    bench.claude.run("hello")
    assert bench.person.wired().mcp and bench.person.wired().hooks == tuple(EVENTS)
    own = bench.person.read(bench.person.state)
    bench.person.unwire()
    left = bench.person.read(bench.person.state)
    own.pop("mcpServers")
    assert left == own
    assert bench.person.wired().is_empty
