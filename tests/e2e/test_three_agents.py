"""The real Claude Code, Codex and OpenCode in one repository: one memory and one store for all."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.frame import FRAME_CLOSE, FRAME_OPEN
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.any_person import tree_of
from tests.fakes.chat_server import FakeChat
from tests.fakes.claude import Claude, Sink, claude_binary, make_project
from tests.fakes.codex import QUIET, Codex, codex_binary, needs_codex
from tests.fakes.codex_scene import CUSTOM, GATE
from tests.fakes.machine import Machine, taken_down
from tests.fakes.opencode import OpenCode, needs_opencode, opencode_binary
from tests.fakes.opencode_scene import FAKE
from tests.fakes.openmem import needs_openmem
from tests.fakes.responses_server import FakeResponses
from tests.fakes.scene import free_port
from tests.fakes.script import play

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.timeout(600),
    needs_openmem,
    needs_codex,
    needs_opencode,
]

FACTS = {
    "claude-code": "The mooring mast stands at quay 17-B.",
    "codex": "Riggers need a permit of colour teal.",
    "opencode": "The ballast pump is serviced in odd weeks.",
}
TOOL = {
    "claude-code": "mcp__openmem__{}",
    "codex": "mcp__openmem/{}",
    "opencode": "openmem_{}",
}


class Crew:
    """Three agents of one person, each before its own service, in one repository."""

    def __init__(self, machine: Machine, services: dict[str, Any], agents: dict[str, Any]) -> None:
        self.machine, self.services, self.agents = machine, services, agents

    def say(self, name: str, words: str, *steps: dict[str, Any]) -> tuple[str, str]:
        """Run one session; returns its id and all that its last request held."""
        done = self.agents[name].run(play(words, *steps))
        assert done.status == 0, done
        records = [r for r in self.services[name].records if r.request.body]
        bodies = [r.json for r in records if "tools" in r.json or "input" in r.json]
        return done.session_id, "\n".join(_texts(bodies[-1]))

    def learn(self, name: str) -> str:
        """One agent keeps its fact, a person accepts it; returns the session's id."""
        call = {"name": TOOL[name].format("memory_add"), "input": {"text": FACTS[name]}}
        sid, _ = self.say(name, f"remember this, says {name}", {"call": call}, {"say": "Kept."})
        pending = self.machine.data("memory", "review", "--list")["memories"]
        (one,) = [memory for memory in pending if memory["content"] == FACTS[name]]
        assert one["provenance"]["actor"] == f"agent:{name}", one
        self.machine.openmem("memory", "review", "--accept", one["id"])
        return sid

    def told(self, name: str) -> str:
        """What openmem tells a new session of an agent, between its marks."""
        _, body = self.say(name, "good morning to you all", {"say": "Good morning."})
        return "".join(part.partition(FRAME_CLOSE)[0] for part in body.split(FRAME_OPEN)[1:])


def _texts(value: Any) -> list[str]:
    """Every text anywhere in a request."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _texts(item)]


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    home = tmp_path / "person"
    with (
        FakeAnthropic() as anthropic,
        FakeResponses() as responses,
        FakeChat() as chat,
        Sink() as sink,
    ):
        settings = {"env": {"ANTHROPIC_BASE_URL": anthropic.url_of("default")}}
        files = {
            ".claude/settings.json": json.dumps(settings, indent=2) + "\n",
            ".codex/config.toml": f"{CUSTOM}{QUIET}{GATE.replace('{url}', responses.url)}",
            ".config/opencode/opencode.jsonc": FAKE.replace("{url}", chat.url),
        }
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        project = make_project(tmp_path / "project")
        codex = Codex(home=home, project=project, sink_url=sink.url)
        programs = (claude_binary(), codex_binary(), opencode_binary())
        folders = [str(Path(program or "").parent) for program in programs]
        environ = {
            **codex.environ(),
            "PATH": ":".join([*folders, "/usr/local/bin", "/usr/bin", "/bin"]),
        }
        machine = Machine(home=home, project=project, sink=sink, environ=environ, port=free_port())
        agents = {
            "claude-code": Claude(home=home, project=project, sink_url=sink.url, path=folders[0]),
            "codex": codex,
            "opencode": OpenCode(home=home, project=project, sink_url=sink.url),
        }
        services = {"claude-code": anthropic, "codex": responses, "opencode": chat}
        with taken_down(machine):
            yield Crew(machine, services, agents)


def settings_of(crew: Crew) -> dict[str, bytes | str]:
    """Every file that is an agent's settings; what agents keep for themselves is left out."""
    kept = (".claude/settings.json", ".codex/config.toml", ".codex/hooks.json",
            ".config/opencode/opencode.jsonc")  # fmt: skip
    places = ("skills/openmem", "opencode/plugins", "commands", "/command/")
    return {
        name: data
        for name, data in tree_of(crew.machine.home).items()
        if name in kept or any(place in name for place in places)
    }


def test_what_one_learned_and_a_person_accepted_the_next_one_gets(crew: Crew) -> None:
    """Issue 7, Show it: one scenario uses all three in one repository."""
    machine = crew.machine
    for name in FACTS:  # each makes its own files first
        crew.say(name, "hello", {"say": "Hello."})
    before = settings_of(crew)
    machine.install("--trust-hooks", "--allow-tools")
    again = machine.openmem("install-coding-agent", "--yes", "--trust-hooks", "--allow-tools")
    assert "othing to do" in again.stdout + again.stderr

    # what one learned and a person accepted, the next one gets
    first = crew.learn("claude-code")
    assert FACTS["claude-code"] in crew.told("codex")
    second = crew.learn("codex")
    told = crew.told("opencode")
    assert FACTS["claude-code"] in told and FACTS["codex"] in told
    third = crew.learn("opencode")
    told = crew.told("claude-code")
    assert all(fact in told for fact in FACTS.values()) and "not reviewed" not in told

    # one store for all: each agent finds what was said to another
    for name in FACTS:
        search = {"name": TOOL[name].format("smart_compact_search"), "input": {"query": "remember"}}
        _, body = crew.say(name, "what was kept?", {"call": search}, {"say": "That."})
        for sid in (first, second, third):
            assert sid in body, (name, sid)
    hits = machine.found("remember")
    assert {hit["session_id"] for hit in hits} >= {first, second, third}

    # the matrix: agent × hooks, MCP, proxy, skill, last delivery
    agents = {one["name"]: one for one in machine.data("status")["agents"]}
    for name in FACTS:
        one = agents[name]
        assert one["hooks"] and one["mcp"] and one["proxy"] and one["skill"], one
        assert one["untrusted_hooks"] == [] and one["problem"] == "" and one["version"]
        assert one["last_event"] == "stop" and one["last_session"]
    assert not agents["cursor"]["is_found"]
    shown = machine.openmem("status").stdout
    assert all(word in shown for word in ("HOOKS", "MCP", "PROXY", "SKILL", "LAST DELIVERED"))

    # killed, and back for whoever comes next
    for pid in machine.processes():
        with contextlib.suppress(ProcessLookupError):  # ended with the one before it
            os.kill(pid, signal.SIGKILL)
    sid, _ = crew.say("opencode", "are you there?", {"say": "Here."})
    assert [row["text"] for row in machine.rows(sid)][-1] == "Here."

    # and out again, to the byte
    machine.openmem("uninstall-coding-agent", "--yes")
    assert settings_of(crew) == before
    for name in FACTS:
        crew.say(name, "still there?", {"say": "Yes."})
