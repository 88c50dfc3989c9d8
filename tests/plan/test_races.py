"""Files that other programs write while we do: nothing of theirs is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openmem.base.errors import (
    PlanConflict,
    RolledBack,
    Unparseable,
)
from openmem.base.paths import Paths
from openmem.plan.action import (
    Edit,
    Plan,
    plan_of,
)
from openmem.plan.apply import apply, apply_replanning
from openmem.plan.edit.planner import plan_json_edit
from openmem.plan.receipt import plan_uninstall, receipts
from openmem.plan.system import RealSystem

ROOT = str(Path(__file__).parents[2])


@pytest.fixture
def system() -> RealSystem:
    return RealSystem(dict(os.environ))


@pytest.fixture
def paths() -> Paths:
    return Paths(dict(os.environ))


def _child(*words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "tests.fakes.installer", *words]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _ended(child: subprocess.Popen[str]) -> int:
    with child:
        child.communicate(timeout=60)
    return child.returncode


@pytest.fixture
def writer(home: Path) -> Iterator[Callable[[], tuple[Path, subprocess.Popen[str]]]]:
    """A process that rewrites a JSON file in place every 20 ms."""
    children: list[subprocess.Popen[str]] = []

    def start() -> tuple[Path, subprocess.Popen[str]]:
        path = home / ".agent.json"
        path.write_text('{"theirs": true}')
        child = _child("write", str(path))
        children.append(child)
        assert child.stdout and child.stdout.readline() == "ready\n"
        return path, child

    yield start
    for child in children:
        with child:
            child.kill()


def test_a_file_rewritten_all_the_time_is_edited_or_refused_and_loses_nothing(
    writer: Callable[[], tuple[Path, subprocess.Popen[str]]], system: RealSystem, paths: Paths
) -> None:
    """Facts, user row 13: valid JSON with the other writer's latest keys, or a refusal."""
    path, child = writer()
    applied = refused = 0
    for number in range(25):
        edit = Edit(keys=("mcpServers", f"openmem{number}"), op="set", value={"command": "x"})
        seen = _count(child)
        try:
            apply_replanning(
                lambda edit=edit: plan_of(  # type: ignore[misc]
                    plan_json_edit(system, str(path), [edit], strict=True, why="mcp")
                ),
                system,
                paths,
                label="install",
            )
            applied += 1
        except (PlanConflict, Unparseable, RolledBack):
            refused += 1
        newer = _count(child)
        assert newer > seen  # the other writer was never blocked nor broken
    assert applied > 0
    child.kill()
    child.wait(timeout=30)
    try:
        root = json.loads(path.read_text())
    except ValueError:
        return  # killed in the middle of its own write
    assert root["theirs"] is True and root["counter"] >= newer


def _count(child: subprocess.Popen[str]) -> int:
    assert child.stdout
    return int(child.stdout.readline())


def test_two_installers_at_once_both_get_their_entry_in(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Ours: a lock, and a plan made again when the other one was first."""
    (home / ".agent.json").write_text('{"mcpServers": {}}\n')
    children = [_child("add", key) for key in ("one", "two", "three")]
    assert [_ended(child) for child in children] == [0, 0, 0]
    root = json.loads((home / ".agent.json").read_text())
    assert sorted(root["mcpServers"]) == ["one", "three", "two"]
    assert [receipt.number for receipt in receipts(paths)] == [1, 2, 3]
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert (home / ".agent.json").read_text() == '{"mcpServers": {}}\n'


@pytest.mark.parametrize("in_place", [True, False])
def test_somebody_writing_in_the_last_moment_wins(
    home: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    """Issue 2, part 2: compare-and-swap before replace, also between compare and replace."""
    import openmem.plan.system.real as real

    path = home / "f.json"
    path.write_text('{"theirs": 1}')
    races = [3]
    exchange = real.exchange

    def raced(one: str, other: str) -> bool:
        is_ours_coming = "ours" not in path.read_text()
        if other == str(path) and races[0] and is_ours_coming:
            races[0] -= 1
            newer = json.dumps({**json.loads(path.read_text()), f"new{races[0]}": 1})
            if in_place:
                path.write_text(newer)
            else:
                (home / "f.theirs").write_text(newer)
                os.replace(home / "f.theirs", path)
        return exchange(one, other)

    monkeypatch.setattr(real, "exchange", raced)
    system = RealSystem(dict(os.environ))
    edit = Edit(keys=("ours",), op="set", value=1)

    def plan() -> Plan:
        return plan_of(plan_json_edit(system, str(path), [edit], strict=True, why="x"))

    with pytest.raises(PlanConflict):
        apply(plan(), system, paths, label="one try")
    assert json.loads(path.read_text()) == {"theirs": 1, "new2": 1}
    apply_replanning(plan, system, paths, label="several")
    assert json.loads(path.read_text()) == {"theirs": 1, "new2": 1, "new1": 1, "new0": 1, "ours": 1}
    assert races == [0] and sorted(os.listdir(home)) == [".local", "f.json"]


def test_a_change_of_ours_that_is_overwritten_at_once_is_made_again(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Facts, user row 10: the outcome is what a parser finds, not what was meant."""
    path = home / "f.json"
    path.write_text("{}")
    edit = Edit(keys=("ours",), op="set", value=1)
    calls: list[int] = []

    def plan() -> Plan:
        calls.append(1)
        if len(calls) == 2:
            path.write_text('{"theirs": 1}')  # read before ours, written after it
        return plan_of(plan_json_edit(system, str(path), [edit], strict=True, why="x"))

    apply_replanning(plan, system, paths, label="x", pause=lambda _: None)
    assert json.loads(path.read_text()) == {"theirs": 1, "ours": 1} and len(calls) == 3
