"""What is taken away at the very end: the folders that openmem made, and only these."""

from __future__ import annotations

import os
from pathlib import Path

from openmem.base.paths import Paths
from openmem.plan.apply import apply
from openmem.plan.receipt import plan_uninstall, purge
from openmem.plan.system import RealSystem
from tests.fakes.installer import installation, lay_out, snapshot


def test_purge_removes_every_folder_that_was_made(home: Path) -> None:
    """Facts, user row 8: HOME after uninstall and purge equals HOME before."""
    environ = dict(os.environ)
    system, paths = RealSystem(environ), Paths(environ)
    lay_out(str(home))
    before = snapshot(str(home))
    apply(installation(system, str(home)), system, paths, label="setup")
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert purge(paths) == ()
    assert snapshot(str(home)) == before and sorted(os.listdir(home)) == [".agent"]
    assert purge(paths) == ()


def test_purge_leaves_folders_that_others_use(home: Path) -> None:
    """Facts, users section 4: rustup deletes its folder only when empty."""
    environ = dict(os.environ)
    system, paths = RealSystem(environ), Paths(environ)
    lay_out(str(home))
    apply(installation(system, str(home)), system, paths, label="setup")
    (home / ".local/share/theirs").touch()
    assert purge(paths) == (str(home / ".local/share"), str(home / ".local"))
    assert os.listdir(home / ".local/share") == ["theirs"]
