"""A plan applied, failing half way, killed, repeated, and raced by others, on real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openmem.base.errors import (
    Failed,
    OpenmemError,
    PlanConflict,
    Refused,
    RolledBack,
    Unparseable,
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
from openmem.plan.apply import apply, apply_replanning, preview, recover
from openmem.plan.edit.planner import plan_json_edit, plan_write
from openmem.plan.receipt import plan_undo, plan_uninstall, receipts
from openmem.plan.system import DryRunSystem, MemorySystem, RealSystem, System
from tests.fakes.installer import installation, lay_out, settings_edits, snapshot

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


class FailingSystem(RealSystem):
    """The machine, failing at the n-th change of a person's file."""

    def __init__(self, at: int, error: BaseException) -> None:
        super().__init__(dict(os.environ))
        self.at, self.error, self.count = at, error, 0

    def _tick(self, path: str) -> None:
        if "/.local/share/openmem" in path:
            return
        self.count += 1
        if self.count == self.at:
            raise self.error

    def write(
        self, path: str, data: bytes, *, mode: int | None = None, expect: str | None = None
    ) -> None:
        self._tick(path)
        super().write(path, data, mode=mode, expect=expect)

    def remove(self, path: str, *, expect: str | None = None) -> None:
        self._tick(path)
        super().remove(path, expect=expect)


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


@pytest.mark.parametrize("at", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["disk full", "conflict", "interrupt", "bug"])
def test_a_failure_half_way_puts_everything_back(
    home: Path, paths: Paths, system: RealSystem, at: int, kind: str
) -> None:
    """Issue 2, part 2: `apply` rolls back a partial failure; design, section 5: exit 5."""
    lay_out(str(home))
    before = snapshot(str(home))
    errors: dict[str, BaseException] = {
        "disk full": OSError(28, "No space left on device", "settings.json"),
        "conflict": PlanConflict("settings.json was changed."),
        "interrupt": KeyboardInterrupt(),
        "bug": ZeroDivisionError("x"),
    }
    error = errors[kind]
    failing = FailingSystem(at, error)
    with pytest.raises(BaseException) as caught:
        apply(installation(system, str(home)), failing, paths, label="setup")
    assert snapshot(str(home)) == before
    if kind == "interrupt":
        assert caught.value is error
    elif at > 1:
        assert isinstance(caught.value, RolledBack) and caught.value.exit_status == 5
        assert caught.value.__cause__ is error
        assert [receipt.state for receipt in receipts(paths)] == ["rolled-back"]
    elif kind == "conflict":
        assert caught.value is error and receipts(paths) == ()
    elif kind == "disk full":
        assert isinstance(caught.value, Failed) and "No space left" in caught.value.message
    assert plan_undo(system, paths).is_empty
    assert not [name for name in os.listdir(paths.backups_dir)]
    assert apply(installation(system, str(home)), system, paths, label="setup").number


def test_a_run_killed_anywhere_is_put_back_or_finished(home: Path, system: RealSystem) -> None:
    """Issue 2, part 2: journal first; here: kill -9 at every change, then `recover`."""
    outcomes: list[str] = []
    for at in range(1, 60):
        folder = home / str(at)
        folder.mkdir()
        lay_out(str(folder))
        before = snapshot(str(folder))
        environ = {**os.environ, "HOME": str(folder)}
        argv = [sys.executable, "-m", "tests.fakes.installer", "crash", str(at)]
        code = subprocess.run(argv, cwd=ROOT, env=environ, timeout=60, check=False).returncode
        here, paths = RealSystem(environ), Paths(environ)
        if code == 0:
            assert recover(here, paths) is None
            break
        assert code == -9
        recover(here, paths)
        assert recover(here, paths) is None
        known = receipts(paths, here)
        outcomes.append(known[-1].state if known else "before the journal")
        if outcomes[-1] == "finished":
            assert installation(here, str(folder)).is_empty
            apply(plan_uninstall(here, paths), here, paths, label="uninstall")
        assert snapshot(str(folder)) == before
        assert not [
            p for p in folder.rglob("*") if ".openmem-" in p.name and ".local" not in str(p)
        ]
    else:
        pytest.fail("the installation never ended by itself")
    assert outcomes[0] == "before the journal" and outcomes.count("rolled-back") > 5
    assert outcomes[-1] == "finished"


def test_what_a_killed_write_left_beside_its_target_is_swept(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Ours: no file of ours stays in the person's folders."""
    lay_out(str(home))
    before = snapshot(str(home))
    assert _ended(_child("crash-inside")) == -9
    assert [name for name in os.listdir(home / ".agent") if ".openmem-" in name]
    with pytest.raises(Refused) as caught:
        apply(installation(system, str(home)), system, paths, label="setup")
    assert caught.value.code == "interrupted-run" and caught.value.exit_status == 4
    receipt = recover(system, paths)
    assert receipt and receipt.state == "rolled-back"
    assert snapshot(str(home)) == before


def test_undo_cleans_up_after_a_killed_run_too(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Ours: the next command can put back."""
    lay_out(str(home))
    before = snapshot(str(home))
    assert _ended(_child("crash", "18")) == -9
    assert snapshot(str(home)) != before
    apply(plan_undo(system, paths), system, paths, label="undo")
    assert snapshot(str(home)) == before
    assert recover(system, paths) is None and plan_undo(system, paths).is_empty


def test_a_killed_undo_is_put_back_and_can_be_repeated(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Ours: an undo is a run like any other."""
    lay_out(str(home))
    before = snapshot(str(home))
    apply(installation(system, str(home)), system, paths, label="setup")
    installed = snapshot(str(home))
    code = (
        "import os\nfrom openmem.base.paths import Paths\nfrom openmem.plan.apply import apply\n"
        "from openmem.plan.receipt import plan_undo\n"
        "from tests.fakes.installer import KilledSystem\n"
        "s, p = KilledSystem(dict(os.environ), 14), Paths(os.environ)\n"
        "apply(plan_undo(s, p), s, p, label='undo')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == -9 and snapshot(str(home)) not in (before, installed)
    receipt = recover(system, paths)
    assert receipt and receipt.undoes == (1,)
    assert snapshot(str(home)) == installed
    apply(plan_undo(system, paths), system, paths, label="undo")
    assert snapshot(str(home)) == before


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
    waits: list[float] = []
    apply_replanning(plan, system, paths, label="several", pause=waits.append)
    assert json.loads(path.read_text()) == {"theirs": 1, "new2": 1, "new1": 1, "new0": 1, "ours": 1}
    assert len(waits) == 2 and sorted(os.listdir(home)) == [".local", "f.json"]


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


def test_a_failing_command_takes_back_itself_and_what_was_before_it(
    home: Path, system: RealSystem, paths: Paths
) -> None:
    """Issue 2, part 2: `apply` rolls back a partial failure."""
    lay_out(str(home))
    before = snapshot(str(home))
    plan = installation(system, str(home)) + plan_of(
        [_command(home, "first"), _command(home, "second", fail=True)]
    )
    with pytest.raises(RolledBack, match="ended with 3: broken"):
        apply(plan, system, paths, label="setup")
    assert snapshot(str(home)) == before


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


def test_a_rollback_that_fails_says_where_the_old_bytes_are(
    home: Path, paths: Paths, system: RealSystem
) -> None:
    """Ours: never "put back" without it being so."""
    lay_out(str(home))

    class Broken(FailingSystem):
        def _tick(self, path: str) -> None:
            if "/.local/share/openmem" not in path:
                self.count += 1
            if self.count >= self.at and "/.local/share/openmem" not in path:
                raise self.error

    broken = Broken(2, OSError(28, "No space left on device", "f"))
    with pytest.raises(OpenmemError) as caught:
        apply(installation(system, str(home)), broken, paths, label="setup")
    assert caught.value.code == "rollback-failed" and "backups/0001" in caught.value.hint
    before = (home / ".agent/settings.json").read_bytes()
    assert b"openmem-hook" in before
    receipt = recover(system, paths)
    assert receipt and receipt.state == "rolled-back"
    assert b"openmem" not in (home / ".agent/settings.json").read_bytes()
