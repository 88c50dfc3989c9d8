"""Edits carried over to what somebody else has just written, and those that may not be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from openmem.base.errors import PlanConflict
from openmem.base.io import digest_of
from openmem.base.paths import Paths
from openmem.plan.action import Edit, Plan, plan_of
from openmem.plan.apply import apply, apply_replanning, settled
from openmem.plan.edit.planner import plan_json_edit, plan_toml_edit, plan_write
from openmem.plan.journal import read_receipts
from openmem.plan.receipt import drift, plan_uninstall
from openmem.plan.system import MemorySystem, SteadySystem

PATH = "/home/u/.agent.json"
URL = Edit(keys=("env", "URL"), op="set", value="ours")
HOOK = Edit(keys=("hooks", "Stop"), op="append", value={"run": "ours"}, marker="ours")
Change = Callable[[dict[str, Any]], None]


def changed(system: MemorySystem, change: Change) -> None:
    root = json.loads(system.files[PATH])
    change(root)
    theirs(system, json.dumps(root, indent=2).encode())


def theirs(system: MemorySystem, data: bytes, path: str = PATH) -> None:
    """Somebody else writes."""
    MemorySystem.write(system, path, data)


def put(key: str, value: object) -> Change:
    return lambda root: root.__setitem__(key, value)


@pytest.fixture
def system() -> MemorySystem:
    return MemorySystem({PATH: b'{\n  "n": 0,\n  "env": {"URL": "theirs"},\n  "hooks": {}\n}\n'})


@pytest.fixture
def paths(system: MemorySystem) -> Paths:
    return Paths(system.environ)


def edits(system: MemorySystem) -> Plan:
    return plan_of(plan_json_edit(system, PATH, [URL, HOOK], strict=True, why="x"))


def test_edits_go_into_what_is_there_by_now_and_out_again_to_the_byte(
    system: MemorySystem, paths: Paths
) -> None:
    """Issue 7, Show it: an agent rewriting its file meanwhile. The receipt tells of that file."""
    plan = edits(system)
    changed(system, put("n", 7))
    before = system.files[PATH]
    receipt = apply(plan, system, paths, label="install", follows=True)
    root = json.loads(system.files[PATH])
    assert (root["n"], root["env"]["URL"], root["hooks"]["Stop"]) == (7, "ours", [{"run": "ours"}])
    (entry,) = receipt.entries
    assert (entry.before, entry.after) == (digest_of(before), digest_of(system.files[PATH]))
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert system.files[PATH] == before


def test_without_being_told_to_follow_a_plan_is_carried_out_as_it_was_shown(
    system: MemorySystem, paths: Paths
) -> None:
    """`openmem apply FILE`: exactly it; refused when a file changed since it was made."""
    plan = edits(system)
    changed(system, put("n", 7))
    with pytest.raises(PlanConflict):
        apply(plan, system, paths, label="apply")


@pytest.mark.parametrize(
    "change",
    [
        put("env", {"URL": "another of theirs"}),
        put("env", {}),
        put("env", "none"),
        put("hooks", {"Stop": [{"run": "theirs"}]}),
        put("hooks", {"Stop": [{"run": "ours"}]}),
        put("hooks", {"Stop": [{"run": "an older one of ours"}]}),
    ],
)
def test_an_edit_that_would_mean_something_else_there_does_not_follow(
    change: Change, system: MemorySystem, paths: Paths
) -> None:
    """Ours: what was shown and agreed to replaced this value, and made this entry the first."""
    plan = edits(system)
    changed(system, change)
    before = system.files[PATH]
    with pytest.raises(PlanConflict):
        apply(plan, system, paths, label="install", follows=True)
    assert system.files[PATH] == before and read_receipts(system, paths) == ()


def test_a_file_that_was_emptied_is_being_written(paths: Paths) -> None:
    """Ours: an empty TOML file parses, and is somebody's in the middle of a write."""
    path = "/home/u/a.toml"
    system = MemorySystem({path: b"a = 1\n"})
    plan = plan_of(plan_toml_edit(system, path, [Edit(keys=("b",), op="set", value=1)], why="x"))
    theirs(system, b"", path)
    with pytest.raises(PlanConflict):
        apply(plan, system, paths, label="install", follows=True)
    assert system.files[path] == b""


def test_a_whole_file_never_follows(system: MemorySystem, paths: Paths) -> None:
    """Ours: nobody knows what of somebody's newer bytes to keep."""
    plan = plan_of(plan_write(system, PATH, b"{}", "x"))
    changed(system, put("n", 7))
    with pytest.raises(PlanConflict):
        apply(plan, system, paths, label="install", follows=True)


class Busy(MemorySystem):
    """Somebody writes before each of our first writes to the file."""

    races = 0

    def write(
        self, path: str, data: bytes, *, mode: int | None = None, expect: str | None = None
    ) -> None:
        if path == PATH and self.races:
            self.races -= 1
            changed(self, lambda root: root.__setitem__("n", root["n"] + 1))
        super().write(path, data, mode=mode, expect=expect)


def test_in_and_out_beside_somebody_who_writes_before_every_write_of_ours(
    system: MemorySystem, paths: Paths
) -> None:
    """Issue 7, Show it: every 20 ms; planning anew always came too late."""
    busy = Busy(system.files)
    busy.races = 9
    apply_replanning(lambda: edits(busy), busy, paths, label="install")
    root = json.loads(busy.files[PATH])
    assert (root["n"], root["env"]["URL"]) == (9, "ours")
    assert drift(busy, paths) == ()
    busy.races = 9
    apply_replanning(lambda: plan_uninstall(busy, paths), busy, paths, label="uninstall")
    assert json.loads(busy.files[PATH]) == {"n": 18, "env": {"URL": "theirs"}, "hooks": {}}


def test_somebody_who_never_leaves_a_moment_wins_and_is_told(
    system: MemorySystem, paths: Paths
) -> None:
    """Ours: bounded, and nothing was written."""
    busy = Busy(system.files)
    busy.races = 10_000
    with pytest.raises(PlanConflict):
        apply_replanning(lambda: edits(busy), busy, paths, label="install", pause=lambda _: None)
    assert json.loads(busy.files[PATH])["env"] == {"URL": "theirs"}
    assert drift(busy, paths) == ()


def test_a_plan_tells_of_one_moment_of_every_file(system: MemorySystem) -> None:
    """Ours: parts of a plan that were read one after the other contradicted each other."""
    steady = SteadySystem(system)
    first = steady.read(PATH)
    changed(system, put("n", 7))
    assert steady.read(PATH) == first
    steady.write(PATH, b"{}")
    assert steady.read(PATH) == b"{}" and json.loads(system.files[PATH])["n"] == 7


def test_a_plan_that_met_half_a_file_is_made_anew_and_one_that_stays_so_is_refused(
    system: MemorySystem,
) -> None:
    """Issue 7, Bad input: refused with the place, but not for a moment."""
    whole = system.files[PATH]
    theirs(system, b'{"n":')
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            theirs(system, whole)

    assert not settled(lambda: edits(system), pause).is_empty and len(waits) == 2
    theirs(system, b'{"n":')
    with pytest.raises(Exception, match="does not parse"):
        settled(lambda: edits(system), lambda _: None)


def test_a_file_out_of_which_ours_went_is_nobodys_drift(system: MemorySystem, paths: Paths) -> None:
    """Ours: after uninstall-coding-agent and an edit by hand, `verify` said it had drifted, and
    the next uninstall that it "stays as it is"."""
    for number in range(3):
        apply(edits(system), system, paths, label="install")
        changed(system, put("n", number + 1))
        back = plan_uninstall(system, paths)
        assert back.left == ()
        # as uninstall-coding-agent does: a run of its own, that takes no run back
        apply(Plan(actions=back.actions), system, paths, label="uninstall-coding-agent")
        changed(system, put("own", number))
        assert drift(system, paths) == ()
    assert json.loads(system.files[PATH])["env"] == {"URL": "theirs"}
    assert plan_uninstall(system, paths).left == ()
