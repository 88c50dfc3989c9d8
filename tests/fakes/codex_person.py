"""One person's machine with Codex: real files, plans applied for real."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openmem.agents.back import plan_without_launchers
from openmem.agents.base import AGENTS, Detected, Wanted, Wired
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.apply import apply, preview
from openmem.plan.receipt import plan_undo, plan_uninstall
from openmem.plan.system import RealSystem

CODEX = AGENTS["codex"]
CONFIG = """# what I like
model = "gpt-6.2-sol"   # the newest
approval_policy = "on-request"

[projects."/work/app"]
trust_level = "trusted"
"""
CUSTOM = """model_provider = "gate"

[model_providers.gate]
name = "Our gate"               # keep this
base_url = "https://gate.example/v1"
env_key = "GATE_KEY"
query_params = { "api-version" = "2026-01" }
"""


@dataclass
class CodexPerson:
    """`environ`: of the shell in which openmem runs."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> Paths:
        return Paths(self.environ)

    @property
    def system(self) -> RealSystem:
        return RealSystem(self.environ)

    @property
    def folder(self) -> Path:
        return Path(self.environ.get("CODEX_HOME", str(self.home / ".codex")))

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def hooks(self) -> Path:
        return self.folder / "hooks.json"

    def write(self, path: Path, data: str | bytes | object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(data, str | bytes):
            data = json.dumps(data, indent=2) + "\n"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def settings(self) -> dict[str, Any]:
        return tomllib.loads(self.config.read_text())

    def groups(self, event: str) -> list[Any]:
        found: list[Any] = json.loads(self.hooks.read_bytes())["hooks"].get(event, [])
        return found

    def detect(self) -> Detected:
        found = CODEX.detect(self.system, self.environ)
        assert found is not None
        return found

    def plan(self, **wanted: Any) -> Plan:
        return CODEX.wiring(self.system, self.paths, self.detect(), Wanted(**wanted))

    def wire(self, **wanted: Any) -> Plan:
        plan = self.plan(**wanted)
        apply(plan, self.system, self.paths, label="wire")
        return plan

    def wired(self) -> Wired:
        return CODEX.wired(self.system, self.paths, self.detect())

    def unwire(self, upstream: str = "") -> Plan:
        plan = CODEX.unwiring(self.system, self.paths, self.detect(), upstream=upstream)
        plan += plan_without_launchers(preview(plan, self.system), self.paths)
        apply(plan, self.system, self.paths, label="unwire")
        return plan

    def undo(self) -> None:
        apply(plan_undo(self.system, self.paths), self.system, self.paths, label="undo")

    def uninstall(self) -> None:
        apply(plan_uninstall(self.system, self.paths), self.system, self.paths, label="uninstall")

    def tree(self) -> dict[str, bytes | str]:
        """Every file of HOME outside our own state: path → bytes, or the target of a link."""
        found: dict[str, bytes | str] = {}
        for path in sorted(self.home.rglob("*")):
            name = str(path.relative_to(self.home))
            if name.startswith(".local/share/openmem") or name in (".local", ".local/share"):
                continue
            if path.is_symlink():
                found[name] = os.readlink(path)
            elif path.is_file():
                found[name] = path.read_bytes()
            else:
                found[name] = b"<folder>"
        return found


def a_codex(home: Path, config: str | None = CONFIG) -> CodexPerson:
    """A HOME that Codex has been used in; `config` None: without settings."""
    person = CodexPerson(home=home, environ={"HOME": str(home), "PATH": "/nowhere"})
    if config is not None:
        person.write(person.config, config)
    return person
