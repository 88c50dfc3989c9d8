"""`undo` and `verify` as a person runs them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.cli.app import run
from openmem.plan.action import Plan
from openmem.plan.apply import apply
from openmem.plan.edit.planner import plan_write
from openmem.plan.journal import journal_path
from openmem.plan.system import RealSystem


@pytest.fixture
def one_run(home: Path) -> Path:
    """Apply one run that changes a file, and return the file."""
    target = home / "x.txt"
    target.write_text("before\n")
    system, paths = RealSystem(os.environ), Paths(os.environ)
    actions = plan_write(system, str(target), b"after\n", "to have something to undo")
    apply(Plan(actions=tuple(actions)), system, paths, label="setup")
    return target


def test_undo_gives_back_the_bytes_of_before(one_run: Path, capsys: object) -> None:
    """Issue 2, part 2."""
    assert run(["undo", "--yes"]) == 0
    assert one_run.read_text() == "before\n"
    assert run(["undo", "--yes"]) == 0


def test_a_dry_undo_changes_nothing_and_says_what_it_would(
    one_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Design, section 5."""
    assert run(["undo", "--dry-run", "--diff"]) == 0
    told = capsys.readouterr().out
    assert one_run.read_text() == "after\n"
    assert "~ ~/x.txt" in told and "-after" in told and "+before" in told
    assert "Takes back: setup." in told and told.rstrip().endswith("openmem undo")


def test_nothing_is_asked_without_a_terminal(
    one_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Design, section 5: fail naming the flag."""
    assert run(["undo"]) == 2
    assert "--yes" in capsys.readouterr().err and one_run.read_text() == "after\n"


def test_the_runs_are_listed(one_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Users' contract: backups listed by `undo --list`."""
    assert run(["undo", "--list"]) == 0
    assert "setup" in capsys.readouterr().out
    assert run(["undo", "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["receipt"] == 2
    assert run(["undo", "--list", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["data"]["runs"]
    assert [(r["number"], r["undone_by"]) for r in runs] == [(1, 2), (2, 0)]
    assert runs[0]["paths"] == [str(one_run)]


def test_a_number_that_is_no_run_is_told(one_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """House style, Errors."""
    assert run(["undo", "--to", "9", "--yes"]) == 1
    assert "undo --list" in capsys.readouterr().err


def test_undo_with_nothing_to_undo_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """House style: the second run says "Nothing to do."; it writes nothing either."""
    assert run(["undo", "--yes"]) == 0
    assert capsys.readouterr().out == "Nothing to do.\n"
    assert list(home.iterdir()) == []


def test_verify_is_3_when_a_file_drifted(one_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Design, section 5: exit 3, changes pending."""
    assert run(["verify"]) == 0
    assert "in place" in capsys.readouterr().out
    one_run.write_text("somebody\n")
    assert run(["verify", "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "success" and told["exit_code"] == 3
    assert told["data"]["drift"][0]["path"] == str(one_run)
    assert run(["verify"]) == 3
    assert "~ ~/x.txt" in capsys.readouterr().out


def test_undo_leaves_what_somebody_changed_and_says_so(
    one_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Design, section 4: or says what it left and why."""
    one_run.write_text("somebody\n")
    assert run(["undo", "--yes"]) == 0
    assert one_run.read_text() == "somebody\n"
    told = capsys.readouterr()
    assert "~/x.txt" in told.err + told.out and "it stays" in told.err + told.out


def test_undo_after_a_run_that_was_cut_off_mends_that_run_only(
    one_run: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, part 2: journal first; the run before stays in force."""
    paths = Paths(os.environ)
    system = RealSystem(os.environ)
    other = home / "y.txt"
    actions = plan_write(system, str(other), b"new\n", "a second run")
    receipt = apply(Plan(actions=tuple(actions)), system, paths, label="setup")
    journal = Path(journal_path(paths, receipt.number))
    journal.write_text(journal.read_text().replace('"finished"', '"started"'))
    other.unlink()  # it died before the write
    assert run(["verify"]) == 3
    assert run(["undo", "--dry-run"]) == 0
    assert run(["undo", "--yes"]) == 0
    assert "put back" in capsys.readouterr().err
    assert one_run.read_text() == "after\n" and run(["verify"]) == 0


def test_after_everything_was_taken_back_nothing_is_said_to_be_in_place(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: after an uninstall `verify` said that everything openmem wrote is in place."""
    assert run(["verify"]) == 0
    assert capsys.readouterr().out == "Nothing of openmem is in force.\n"
