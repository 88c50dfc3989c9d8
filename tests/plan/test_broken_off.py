"""A run that fails or is killed half way: everything is put back, and said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openmem.base.errors import (
    Failed,
    OpenmemError,
    PlanConflict,
    Refused,
    RolledBack,
)
from openmem.base.paths import Paths
from openmem.plan.action import (
    RunCommand,
    plan_of,
)
from openmem.plan.apply import apply, recover
from openmem.plan.receipt import plan_undo, plan_uninstall, receipts
from openmem.plan.system import RealSystem
from tests.fakes.installer import installation, lay_out, snapshot

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


def _command(home: Path, name: str, *, fail: bool = False) -> RunCommand:
    """A command that makes a file, with its probe and its undo."""
    made = f"{home}/{name}"
    return RunCommand(
        argv=("/bin/sh", "-c", f"touch {made}" + ("; echo broken >&2; exit 3" if fail else "")),
        probe=("/bin/sh", "-c", f"test -e {made}"),
        undo=("/bin/sh", "-c", f"rm {made}"),
        why=f"start {name}",
    )


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
