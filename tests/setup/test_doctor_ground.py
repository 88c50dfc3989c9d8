"""The doctor's checks of interpreter, disk, mounts, permissions, settings and policy."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.setup.doctor import machine
from openmem.setup.doctor.finding import Finding, worst
from openmem.setup.doctor.settings import check_config, check_policy


def test_this_interpreter_is_fine() -> None:
    """Ours."""
    finding = machine.check_python()
    assert finding.outcome == "ok" and sqlite3.sqlite_version in finding.detail


def test_sqlite_without_full_text_search_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers, hands-on: a Python whose SQLite lacks parts switched peers off silently."""
    monkeypatch.setattr(machine, "has_full_text_search", lambda: False)
    assert machine.check_python().outcome == "error"


def test_a_shared_mount_is_told(home: Path, tmp_path: Path) -> None:
    """Users' report 21."""
    listing = tmp_path / "mounts"
    listing.write_text(f"1 0 0:1 / {home} rw - nfs4 server rw\n")
    finding = machine.check_mount(Paths(os.environ), str(listing))
    assert finding is not None and finding.outcome == "warning" and "nfs4" in finding.detail
    listing.write_text("1 0 8:1 / / rw - ext4 x rw\n")
    assert machine.check_mount(Paths(os.environ), str(listing)) is None
    assert machine.check_mount(Paths(os.environ), str(tmp_path / "none")) is None


def test_a_file_that_others_may_read_is_an_error(home: Path) -> None:
    """Design, section 6: folders 700, files 600."""
    paths = Paths(os.environ)
    assert machine.check_permissions(paths).outcome == "info"
    os.makedirs(paths.sessions_dir, mode=0o700)
    for folder in (paths.state_dir, paths.context_dir, paths.sessions_dir):
        os.chmod(folder, 0o700)
    assert machine.check_permissions(paths).outcome == "ok"
    leaked = Path(paths.sessions_dir) / "x.v4.db"
    leaked.write_text("")
    leaked.chmod(0o644)
    finding = machine.check_permissions(paths)
    assert finding.outcome == "error" and str(leaked) in finding.detail


def test_little_space_is_a_warning(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours: a full disk stops recording."""
    paths = Paths(os.environ)
    assert machine.check_disk(paths).outcome in ("ok", "warning")
    monkeypatch.setattr(machine, "LOW_DISK_BYTES", 1 << 62)
    assert machine.check_disk(paths).outcome == "warning"


def test_settings_that_cannot_be_used_are_named(home: Path) -> None:
    """House style, Errors."""
    paths = Paths(os.environ)
    assert check_config(paths).outcome == "ok"
    os.makedirs(paths.config_dir)
    Path(paths.config_file).write_text("[proxy]\nport = 'x'\n")
    finding = check_config(paths)
    assert finding.outcome == "error" and "proxy.port" in finding.detail


def test_no_policy_is_a_warning_and_a_broken_one_an_error(home: Path) -> None:
    """Issue 2, part 3: missing, unreadable or invalid → no, and status says so."""
    paths = Paths(os.environ)
    assert check_policy(paths).outcome == "warning"
    os.makedirs(paths.config_dir)
    Path(paths.policy_file).write_text("version = 9\n")
    assert check_policy(paths).outcome == "error"
    Path(paths.policy_file).write_text("version = 1\n[defaults.git]\nstore = true\n")
    finding = check_policy(paths)
    assert finding.outcome == "ok" and "git repositories" in finding.detail


def test_the_gravest_outcome_counts() -> None:
    """Ours: doctor exits 1 when there is an error."""
    found = [Finding(name="a", outcome=o, detail="") for o in ("ok", "warning", "skipped")]
    assert worst(found) == "warning" and worst([]) == "ok"
