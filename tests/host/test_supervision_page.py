"""The reference page and the code name the same things."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

from openmem.host import crew, desk, launcher, record, usage

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/supervision.md").read_text()


def first_cells(heading: str) -> set[str]:
    """Return the code words in the first cells of the tables below a heading."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE))


def test_the_page_lists_every_operation_of_the_control_socket() -> None:
    """Issue 2, part 1: reference pages held by tests."""
    worker = cast(Any, None)
    assert first_cells("Control socket") - {"op"} == set(desk.Desk(worker).handlers())


def test_the_page_lists_every_word_of_the_launcher() -> None:
    """Issue 2, part 1: reference pages held by tests."""
    words = {cell.split(" ")[0] for cell in first_cells("What a hook does")}
    told = set(re.findall(r"^`(--[a-z-]+)", launcher.__doc__ or "", re.MULTILINE))
    assert words == told - {"--adopt"}  # a worker's own business


def test_the_page_lists_the_record_s_fields_and_the_modes() -> None:
    """Issue 2, part 1: reference pages held by tests."""
    made = record.Record(
        port=1, supervisor_pid=1, version="", started_at="", manager="detached"
    ).to_json()
    line = next(row for row in PAGE.splitlines() if row.startswith("| `run/proxy.json`"))
    assert all(name in line for name in set(made) - {"schema"})
    assert first_cells("States") == {"recording", "plain", "draining", "starting"}
    assert crew.PLAIN_AFTER_DEATHS == 4 and "Four workers in a row" in PAGE
    assert crew.FULL_AGAIN_SECONDS == 600 and "after ten minutes" in PAGE
    assert usage.LINGER_SECONDS == 60 and "a minute" in PAGE
