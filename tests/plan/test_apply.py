"""A plan applied, read back and taken back, on real files."""

from __future__ import annotations

import os
from pathlib import Path

from openmem.base.paths import Paths
from openmem.plan.action import Edit, plan_of
from openmem.plan.apply import apply
from openmem.plan.edit.planner import plan_json_edit
from openmem.plan.receipt import plan_uninstall
from openmem.plan.system import DryRunSystem, RealSystem

ORIGINAL = b'{\r\n\t"model": "x",\r\n\t"env": {"A": "1"}\r\n}'


def _edits(version: str) -> list[Edit]:
    return [
        Edit(keys=("env", "ANTHROPIC_BASE_URL"), op="set", value=f"http://127.0.0.1:{version}"),
        Edit(
            keys=("hooks", "Stop"),
            op="append",
            value={"hooks": [{"type": "command", "command": f"openmem-hook stop {version}"}]},
            marker="openmem-hook",
        ),
    ]


def test_install_upgrade_uninstall_gives_back_the_bytes(home: Path) -> None:
    """Issue 2, part 2: `undo` and `uninstall` give back the bytes of before."""
    system, paths = RealSystem(os.environ), Paths(os.environ)
    settings = home / "settings.json"
    settings.write_bytes(ORIGINAL)
    for version in ("1", "2"):
        plan = plan_of(
            plan_json_edit(system, str(settings), _edits(version), strict=True, why="hooks")
        )
        apply(plan, system, paths, label="setup")
    assert settings.read_bytes().count(b"openmem-hook") == 1
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert settings.read_bytes() == ORIGINAL
    assert plan_uninstall(system, paths).is_empty


def test_a_dry_run_writes_nothing(home: Path) -> None:
    """Design, section 5: a dry run changes no file."""
    system, paths = RealSystem(os.environ), Paths(os.environ)
    settings = home / "settings.json"
    settings.write_bytes(ORIGINAL)
    dry = DryRunSystem(system)
    plan = plan_of(plan_json_edit(dry, str(settings), _edits("1"), strict=True, why="hooks"))
    apply(plan, dry, paths, label="setup")
    assert settings.read_bytes() == ORIGINAL
    assert os.listdir(home) == ["settings.json"]
    assert plan_json_edit(dry, str(settings), _edits("1"), strict=True, why="hooks") == []
