"""One person's machine with any of the agents: real files, plans applied for real."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openmem.agents.back import plan_without_launchers
from openmem.agents.base import AGENTS, Agent, Detected, Wanted, Wired
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.apply import apply, preview
from openmem.plan.receipt import plan_undo, plan_uninstall
from openmem.plan.system import RealSystem

# Settings of a person's own, in each agent's format, with entries of others where ours go. The
# counter is what the agent in a race counts up.
OWN: dict[str, dict[str, str]] = {
    "claude-code": {
        ".claude/settings.json": json.dumps(
            {
                "counter": 0,
                "env": {"THEIRS": "1"},
                "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]},
            },
            indent=2,
        ),
        ".claude.json": json.dumps({"counter": 0, "mcpServers": {"theirs": {"command": "x"}}}),
    },
    "codex": {
        ".codex/config.toml": 'counter = 0\nmodel = "gpt-6.2-sol" # mine\n\n'
        '[mcp_servers.theirs]\ncommand = "x"\n',
        ".codex/hooks.json": json.dumps(
            {
                "counter": 0,
                "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]},
            },
            indent=2,
        ),
    },
    "opencode": {
        ".config/opencode/opencode.jsonc": "{\n"
        '  "$schema": "https://opencode.ai/config.json",\n'
        "  // what I like\n"
        '  "counter": 0,\n'
        '  "model": "gate/m1",\n'
        '  "provider": {\n'
        '    "gate": { "npm": "@ai-sdk/openai-compatible",\n'
        '              "options": { "baseURL": "https://gate.example/v1" } }, // mine\n'
        "  },\n"
        '  "mcp": { "theirs": { "type": "local", "command": ["x"], "enabled": true } }\n'
        "}\n",
    },
    "cursor": {
        ".cursor/hooks.json": json.dumps(
            {"version": 1, "counter": 0, "hooks": {"stop": [{"command": "theirs"}]}}, indent=2
        ),
        ".cursor/mcp.json": json.dumps({"counter": 0, "mcpServers": {"theirs": {"command": "x"}}}),
    },
}


@dataclass
class AnyPerson:
    """`name`: of the agent. `environ`: of the shell in which openmem runs."""

    name: str
    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def agent(self) -> Agent:
        return AGENTS[self.name]

    @property
    def paths(self) -> Paths:
        return Paths(self.environ)

    @property
    def system(self) -> RealSystem:
        return RealSystem(self.environ)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def detect(self) -> Detected:
        found = self.agent.detect(self.system, self.environ)
        assert found is not None
        return found

    def wanted(self, **wanted: Any) -> Wanted:
        detected = self.detect()
        given = {one.route: one.upstream or one.default for one in detected.addresses}
        return Wanted(**{"upstreams": given, **wanted})

    def plan(self, **wanted: Any) -> Plan:
        return self.agent.wiring(self.system, self.paths, self.detect(), self.wanted(**wanted))

    def wire(self, **wanted: Any) -> Plan:
        plan = self.plan(**wanted)
        apply(plan, self.system, self.paths, label="wire")
        return plan

    def wired(self) -> Wired:
        return self.agent.wired(self.system, self.paths, self.detect())

    def unwire(self) -> Plan:
        plan = self.agent.unwiring(self.system, self.paths, self.detect())
        plan += plan_without_launchers(preview(plan, self.system), self.paths)
        apply(plan, self.system, self.paths, label="unwire")
        return plan

    def undo(self) -> None:
        apply(plan_undo(self.system, self.paths), self.system, self.paths, label="undo")

    def uninstall(self) -> None:
        apply(plan_uninstall(self.system, self.paths), self.system, self.paths, label="uninstall")

    def tree(self) -> dict[str, bytes | str]:
        """Every file of HOME outside our own state: path → bytes, or the target of a link."""
        return tree_of(self.home)


def tree_of(home: Path) -> dict[str, bytes | str]:
    """Return every file of a HOME outside our own state."""
    found: dict[str, bytes | str] = {}
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        own = (".local/share/openmem", ".config/openmem")
        if name.startswith(own) or name in (".local", ".local/share", ".config"):
            continue
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
        else:
            found[name] = b"<folder>"
    return found


def a_person(name: str, home: Path, *, has_own: bool = True) -> AnyPerson:
    """A HOME that an agent has been used in, with settings of the person's own."""
    person = AnyPerson(name=name, home=home, environ={"HOME": str(home), "PATH": "/nowhere"})
    for path, text in OWN[name].items() if has_own else ():
        person.write(path, text)
    return person
