"""One person's machine with Claude Code: real files, plans applied for real."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from openmem.agents.back import plan_without_launchers
from openmem.agents.base import AGENTS, Detected, Wanted, Wired
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.apply import apply, preview
from openmem.plan.receipt import plan_undo, plan_uninstall
from openmem.plan.system import RealSystem

CLAUDE = AGENTS["claude-code"]


@dataclass
class Person:
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
    def settings(self) -> Path:
        return self.home / ".claude" / "settings.json"

    @property
    def state(self) -> Path:
        return self.home / ".claude.json"

    def write(self, path: Path, data: str | bytes | object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(data, str | bytes):
            data = json.dumps(data, indent=2) + "\n"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def detect(self) -> Detected:
        found = CLAUDE.detect(self.system, self.environ)
        assert found is not None
        return found

    def plan(self, **wanted: object) -> Plan:
        return CLAUDE.wiring(self.system, self.paths, self.detect(), Wanted(**wanted))  # type: ignore[arg-type]

    def wire(self, **wanted: object) -> Plan:
        plan = self.plan(**wanted)
        apply(plan, self.system, self.paths, label="wire")
        return plan

    def wired(self) -> Wired:
        return CLAUDE.wired(self.system, self.paths, self.detect())

    def unwire(self, upstream: str = "") -> Plan:
        plan = CLAUDE.unwiring(self.system, self.paths, self.detect(), upstream=upstream)
        plan += plan_without_launchers(preview(plan, self.system), self.paths)
        apply(plan, self.system, self.paths, label="unwire")
        return plan

    def undo(self) -> None:
        apply(plan_undo(self.system, self.paths), self.system, self.paths, label="undo")

    def uninstall(self) -> None:
        apply(plan_uninstall(self.system, self.paths), self.system, self.paths, label="uninstall")

    def read(self, path: Path | None = None) -> dict[str, object]:
        value = json.loads((path or self.settings).read_bytes())
        assert isinstance(value, dict)
        return value

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


@pytest.fixture
def person(home: Path) -> Person:
    """A HOME that Claude Code has been used in."""
    person = Person(home=home, environ={"HOME": str(home), "PATH": "/nowhere"})
    person.write(person.state, {"numStartups": 3, "projects": {}})
    return person
