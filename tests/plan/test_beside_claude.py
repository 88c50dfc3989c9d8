"""Editing `.claude.json` while the real Claude Code rewrites it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from openmem.base.errors import PlanConflict, RolledBack, Unparseable
from openmem.base.paths import Paths
from openmem.plan.action import Edit, Plan, plan_of
from openmem.plan.apply import apply, apply_replanning
from openmem.plan.edit.planner import plan_json_edit
from openmem.plan.receipt import plan_uninstall
from openmem.plan.system import RealSystem
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude import Claude, Sink, claude_binary, make_project

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.skipif(claude_binary() is None, reason="30 Nov 2026: no Claude Code here"),
]
ADDS = 8


def test_the_agents_own_file_is_edited_while_it_rewrites_it(home: Path, tmp_path: Path) -> None:
    """Issue 2, part 2: the real Claude Code rewriting its own `.claude.json` meanwhile.

    A first start writes the file several times, and so does each `claude mcp add`.
    """
    system, paths = RealSystem(dict(os.environ)), Paths(dict(os.environ))
    path = home / ".claude.json"
    path.write_text('{\n  "mine": true\n}\n')
    project = make_project(tmp_path / "project")
    codes: list[int] = []

    with FakeAnthropic() as server, Sink() as sink:
        claude = Claude(home=home, project=project, sink_url=sink.url, base_url=server.url)

        def work() -> None:
            codes.append(claude.run("hello", timeout_seconds=60).status)
            for number in range(ADDS):
                words = ["mcp", "add", "--scope", "user", f"theirs{number}", "--", "/bin/true"]
                done = subprocess.run(
                    [str(claude_binary()), *words],
                    cwd=project,
                    env=claude.environ(),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=60,
                    check=False,
                )
                codes.append(done.returncode)

        agent = threading.Thread(target=work)
        agent.start()
        written = 0
        while agent.is_alive():
            _put(system, paths, path, f"ours{written}")
            written += 1
            json.loads(path.read_bytes())  # never half a file
            agent.join(timeout=0.05)
        _put(system, paths, path, "ours")

    assert codes == [0] * (ADDS + 1) and written > ADDS
    root = json.loads(path.read_bytes())
    assert root["mine"] is True and root["userID"]
    assert {f"theirs{number}" for number in range(ADDS)} <= set(root["mcpServers"])
    assert "ours" in root["mcpServers"]

    plan = plan_uninstall(system, paths)
    apply(plan, system, paths, label="uninstall")
    after = json.loads(path.read_bytes())
    assert set(after["mcpServers"]) == {f"theirs{number}" for number in range(ADDS)}
    assert {**after, "mcpServers": 0} == {**root, "mcpServers": 0}


def _put(system: RealSystem, paths: Paths, path: Path, name: str) -> None:
    """Add a server of ours; a refusal in the race is an outcome too."""
    edit = Edit(keys=("mcpServers", name), op="set", value={"command": "/bin/true"})

    def plan() -> Plan:
        return plan_of(plan_json_edit(system, str(path), [edit], strict=True, why="mcp"))

    try:
        apply_replanning(plan, system, paths, label="install-mcp")
    except (PlanConflict, RolledBack, Unparseable):
        pass  # nothing was written, which is what the next look at the file holds us to
