"""Where a fault came from: what the log, the store's events and the agents are told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmem.base.clock import seconds_of
from openmem.base.config import load_config
from openmem.base.errors import InvalidConfig
from openmem.base.fault import described, place_of, steps_of

SECRET = "sk-ant-secret"


def _of_ours(tmp_path: Path) -> InvalidConfig:
    broken = tmp_path / "config.toml"
    broken.write_text(f'key = "{SECRET}')
    with pytest.raises(InvalidConfig) as caught:
        load_config(str(broken), {})
    return caught.value


def test_a_place_is_the_innermost_line_of_ours(tmp_path: Path) -> None:
    """docs/reference/context-store.md: `location` is file and line, named as in the package."""
    file, line = place_of(_of_ours(tmp_path)).split(":")
    assert file == "base/config.py" and line.isdecimal()


def test_a_place_passes_over_the_lines_of_others() -> None:
    """Ours: the innermost line of somebody else's parser says nothing about us."""
    with pytest.raises(ValueError) as caught:
        seconds_of(SECRET)
    assert "strptime" in steps_of(caught.value)[-1][0]
    assert place_of(caught.value).startswith("base/clock.py:")
    with pytest.raises(ValueError) as theirs:
        int(SECRET)
    assert place_of(theirs.value) == "unknown"


def test_a_fault_is_described_without_its_text(tmp_path: Path) -> None:
    """Ours: the text of an exception may quote a request."""
    told = described(_of_ours(tmp_path))
    assert told.startswith("InvalidConfig at base/config.py:") and SECRET not in told
    assert "test_fault.py:" in told, "whoever called stands behind it"
    assert described(FileNotFoundError(2, "No", "/home/x")) == "FileNotFoundError (errno 2)"


def test_steps_begin_where_it_was_caught(tmp_path: Path) -> None:
    """Ours: a report is read from the command down."""
    steps = steps_of(_of_ours(tmp_path))
    assert steps[0][0] == __file__ and steps[-1][0].endswith("base/config.py")
