"""A plan applied, failing half way, killed, repeated, and raced by others, on real files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openmem.base.errors import (
    PlanConflict,
    Refused,
)
from openmem.base.paths import Paths
from openmem.plan.action import (
    Edit,
    MakeDir,
    ManualStep,
    Plan,
    RunCommand,
    WriteFile,
    plan_of,
)
from openmem.plan.apply import apply, apply_replanning, preview
from openmem.plan.edit.planner import plan_json_edit, plan_write
from openmem.plan.receipt import plan_undo, plan_uninstall, receipts
from openmem.plan.system import DryRunSystem, MemorySystem, RealSystem, System
from tests.fakes.installer import installation, lay_out, settings_edits, snapshot


@pytest.fixture
def system() -> RealSystem:
    return RealSystem(dict(os.environ))


@pytest.fixture
def paths() -> Paths:
    return Paths(dict(os.environ))


def test_install_upgrade_uninstall_gives_back_every_byte_and_mode(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Issue 2, part 2: `undo` and `uninstall` give back the bytes of before."""
    lay_out(str(home))
    before = snapshot(str(home))
    for version in ("1", "2", "2"):
        apply(installation(system, str(home), version), system, paths, label="setup")
    settings = (home / ".agent/settings.json").read_bytes()
    assert settings.count(b"openmem-hook") == 1 and b"stop 2" in settings
    assert len(receipts(paths)) == 2  # the third run had nothing to do
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert snapshot(str(home)) == before
    assert plan_uninstall(system, paths).is_empty


def test_applying_twice_is_applying_once(home: Path, system: RealSystem, paths: Paths) -> None:
    """Design, section 4: plan(apply(plan)) is empty; users section 4: touches no mtime."""
    lay_out(str(home))
    apply(installation(system, str(home)), system, paths, label="setup")
    times = {path: os.lstat(path).st_mtime_ns for path in snapshot(str(home))}
    assert installation(system, str(home)).is_empty
    receipt = apply(installation(system, str(home)), system, paths, label="setup")
    assert receipt.number == 0 and len(receipts(paths)) == 1
    assert {path: os.lstat(path).st_mtime_ns for path in snapshot(str(home))} == times


def test_a_dry_run_changes_nothing_and_sees_its_own_steps(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Design, section 5: a dry run changes no file."""
    lay_out(str(home))
    before = snapshot(str(home))
    dry = DryRunSystem(system)
    assert apply(installation(dry, str(home)), dry, paths, label="setup").number == 1
    assert installation(dry, str(home)).is_empty
    apply(plan_undo(dry, paths), dry, paths, label="undo")
    assert not installation(dry, str(home)).is_empty
    assert snapshot(str(home)) == before
    assert not (home / ".local").exists()


def test_the_same_plan_comes_out_in_memory(home: Path, system: RealSystem, paths: Paths) -> None:
    """Design, section 4: all three systems pass one contract."""
    lay_out(str(home))
    memory = MemorySystem(
        {path: data for path, (_, data) in snapshot(str(home)).items() if isinstance(data, bytes)},
        environ=dict(os.environ),
    )
    first = {path: data for path, data in memory.files.items()}
    apply(installation(memory, str(home)), memory, paths, label="setup")
    apply(installation(system, str(home)), system, paths, label="setup")
    ours = {p: d for p, d in memory.files.items() if "/.local/" not in p}
    assert ours == {
        path: data for path, (_, data) in snapshot(str(home)).items() if isinstance(data, bytes)
    }
    apply(plan_uninstall(memory, paths), memory, paths, label="uninstall")
    assert {p: d for p, d in memory.files.items() if "/.local/" not in p} == first


def test_records_and_copies_are_private(home: Path, system: RealSystem, paths: Paths) -> None:
    """Issue 2, part 2: backup once per run, 0600; design, section 6: folders 700, files 600."""
    lay_out(str(home))
    apply(installation(system, str(home)), system, paths, label="setup")
    found = [Path(folder) / n for folder, _, names in os.walk(paths.state_dir) for n in names]
    assert len([path for path in found if "/backups/0001/" in str(path)]) == 2
    for path in found:
        assert path.stat().st_mode & 0o777 == 0o600, path
        assert path.parent.stat().st_mode & 0o777 == 0o700, path.parent


def test_a_file_that_changed_since_the_plan_is_refused_and_nothing_is_written(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Design, section 4: differs from what is there at apply → refused, nothing written."""
    lay_out(str(home))
    plan = installation(system, str(home))
    (home / ".agent.json").write_text("{}")
    before = snapshot(str(home))
    with pytest.raises(PlanConflict, match=r"\.agent\.json was made by somebody else") as caught:
        apply(plan, system, paths, label="setup")
    assert caught.value.exit_status == 4
    assert snapshot(str(home)) == before and not (home / ".local").exists()


def test_a_symlinked_settings_file_keeps_link_and_mode(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Facts, user row 5: relative link into a git repository, target mode 0600."""
    lay_out(str(home))
    (home / "dotfiles").mkdir()
    os.rename(home / ".agent/settings.json", home / "dotfiles/claude.json")
    (home / "dotfiles/claude.json").chmod(0o600)
    (home / ".agent/settings.json").symlink_to("../dotfiles/claude.json")
    before = snapshot(str(home))
    apply(installation(system, str(home)), system, paths, label="setup")
    assert os.readlink(home / ".agent/settings.json") == "../dotfiles/claude.json"
    assert b"openmem-hook" in (home / "dotfiles/claude.json").read_bytes()
    assert (home / "dotfiles/claude.json").stat().st_mode & 0o777 == 0o600
    apply(plan_undo(system, paths), system, paths, label="undo")
    assert snapshot(str(home)) == before


@pytest.mark.parametrize("kind", ["dangling", "read-only", "unparseable", "folder"])
def test_a_file_we_may_not_touch_is_refused_while_planning(
    home: Path, system: RealSystem, paths: Paths, kind: str
) -> None:
    """Issue 2, bad input: exit 4, bytes unchanged, message names the place."""
    lay_out(str(home))
    path = home / ".agent/settings.json"
    if kind == "dangling":
        path.unlink()
        path.symlink_to("../nowhere.json")
    elif kind == "read-only":
        path.chmod(0o444)
    elif kind == "unparseable":
        path.write_text('{"a": 1,\n "b" }')
    else:
        path.unlink()
        path.mkdir()
    before = snapshot(str(home))
    with pytest.raises(Refused) as caught:
        installation(system, str(home))
    assert caught.value.exit_status == 4 and str(path) in caught.value.message
    assert snapshot(str(home)) == before


def test_the_owner_is_kept(home: Path, system: RealSystem, paths: Paths) -> None:
    """Issue 2, part 2: mode and owner kept; only a superuser can set up the case."""
    if os.geteuid() != 0:
        pytest.skip("30 Nov 2026: giving a file away needs a superuser")
    lay_out(str(home))
    os.chown(home / ".agent/settings.json", 12345, 54321)
    apply(installation(system, str(home)), system, paths, label="setup")
    found = (home / ".agent/settings.json").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (12345, 54321, 0o640)


def test_extended_attributes_are_kept(home: Path, system: RealSystem, paths: Paths) -> None:
    """Ours: access lists and labels are part of a file."""
    lay_out(str(home))
    path = home / ".agent/settings.json"
    try:
        os.setxattr(path, "user.note", b"mine")
    except (OSError, AttributeError):
        pytest.skip("30 Nov 2026: no extended attributes on this file system")
    apply(installation(system, str(home)), system, paths, label="setup")
    assert os.getxattr(path, "user.note") == b"mine"


def _command(home: Path, name: str, *, fail: bool = False) -> RunCommand:
    """A command that makes a file, with its probe and its undo."""
    made = f"{home}/{name}"
    return RunCommand(
        argv=("/bin/sh", "-c", f"touch {made}" + ("; echo broken >&2; exit 3" if fail else "")),
        probe=("/bin/sh", "-c", f"test -e {made}"),
        undo=("/bin/sh", "-c", f"rm {made}"),
        why=f"start {name}",
    )


def test_a_command_runs_when_its_probe_asks_for_it_and_is_taken_back(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Design, section 4: a command with a probe that tells whether it is needed."""
    (home / "there").touch()
    plan = plan_of([_command(home, "service"), _command(home, "there")])
    receipt = apply(plan, system, paths, label="start")
    assert (home / "service").exists()
    assert [entry.ran for entry in receipt.entries] == [True, False]
    undo = plan_undo(system, paths)
    assert len(undo.actions) == 1
    apply(undo, system, paths, label="undo")
    assert not (home / "service").exists() and (home / "there").exists()


def test_planning_again_runs_a_command_once_and_nothing_twice(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Ours: a command without a probe is in every plan."""
    command = RunCommand(argv=("/bin/sh", "-c", f"echo x >> {home}/ran"), why="tell the service")

    def plan() -> Plan:
        return plan_of([*plan_write(system, f"{home}/f", b"x", "x"), command])

    receipt = apply_replanning(plan, system, paths, label="x")
    assert (home / "ran").read_text() == "x\n" and receipt.number == 1
    (home / "there").touch()
    idle = plan_of([_command(home, "there")])
    assert apply(idle, system, paths, label="x").number == 0
    assert len(receipts(paths)) == 1


def test_an_undo_of_a_command_that_is_gone_already_runs_nothing(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Ours: the person may have stopped it by hand."""
    apply(plan_of([_command(home, "service")]), system, paths, label="start")
    (home / "service").unlink()
    apply(plan_undo(system, paths), system, paths, label="undo")  # `rm` would fail
    assert plan_undo(system, paths).is_empty


def test_steps_by_hand_alone_leave_no_record(system: RealSystem, paths: Paths) -> None:
    """Ours: nothing was changed, so there is nothing to take back."""
    plan = plan_of([ManualStep(text="Restart Claude Code.", why="it reads its settings once")])
    assert not plan.is_empty
    assert apply(plan, system, paths, label="x").number == 0 and receipts(paths) == ()


def test_the_next_part_can_be_planned_on_top_of_the_first(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Ours: hooks and base URL are planned apart and stand in one file."""
    path = str(home / "settings.json")
    Path(path).write_text("{}\n")

    def part(over: System, edit: Edit) -> Plan:
        return plan_of(plan_json_edit(over, path, [edit], strict=True, why=str(edit.keys[0])))

    first = part(system, settings_edits("1")[0])
    second = part(preview(first, system), settings_edits("1")[1])
    whole = first + second
    assert len(whole.actions) == 1 and whole.actions[0].why == "env, hooks"
    apply(whole, system, paths, label="setup")
    assert (home / "settings.json").read_text().count("openmem-hook") == 1
    with pytest.raises(PlanConflict):  # planned side by side, they do not fit together
        apply(first + part(system, Edit(keys=("x",), op="set", value=1)), system, paths, label="x")
    apply(plan_undo(system, paths), system, paths, label="undo")
    assert Path(path).read_text() == "{}\n"


def test_folders_are_made_for_a_file_and_removed_with_it(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Facts, users section 4: never remove a directory we did not create."""
    (home / "was").mkdir()
    plan = plan_of(
        [
            MakeDir(path=f"{home}/one/two", why="x"),
            *plan_write(system, f"{home}/was/new/f", b"x", "x"),
            *plan_write(system, f"{home}/one/two/g", b"x", "x"),
        ]
    )
    apply(plan, system, paths, label="setup")
    assert (home / "one/two").stat().st_mode & 0o777 == 0o700
    (home / "was/new/theirs").touch()
    undo = plan_undo(system, paths)
    assert [left.path for left in undo.left] == [f"{home}/was/new"]
    apply(undo, system, paths, label="undo")
    assert not (home / "one").exists() and os.listdir(home / "was/new") == ["theirs"]


def test_two_writes_to_one_file_in_one_run_are_taken_back_together(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Ours: a plan made by hand may hold both."""
    path = home / "f"
    path.write_bytes(b"0")
    one = plan_write(system, str(path), b"1", "x")[0]
    assert isinstance(one, WriteFile)
    two = WriteFile(path=str(path), before=one.after, data=b"2", why="y")
    apply(Plan(actions=(one, two)), system, paths, label="setup")
    assert path.read_bytes() == b"2"
    apply(plan_undo(system, paths), system, paths, label="undo")
    assert path.read_bytes() == b"0"
