"""Figures: how a measurement is set against its floor, and how a report is shown."""

from __future__ import annotations

import json

import pytest

from openmem.bench.figures import Figure, Report, median


def _figure(value: float, *, limit: float = 1.3, compare: str = "ratio") -> Figure:
    return Figure(
        name="time to first byte, 300 KB",
        unit="ms",
        value=value,
        floor=2.0,
        compare="difference" if compare == "difference" else "ratio",
        limit=limit,
        samples=9,
    )


@pytest.mark.parametrize(("value", "holds"), [(2.0, True), (2.6, True), (2.61, False)])
def test_a_ratio_holds_up_to_its_limit(value: float, holds: bool) -> None:
    """Issue 2, "Show it": <= 1.3 times the floor of the same run."""
    assert _figure(value).holds is holds


@pytest.mark.parametrize(("value", "holds"), [(1.0, True), (2.15, True), (2.16, False)])
def test_a_difference_holds_up_to_its_limit(value: float, holds: bool) -> None:
    """Issue 2, "Show it": `claude -p` grows by <= 0.15 s."""
    assert _figure(value, limit=0.15, compare="difference").holds is holds


def test_a_missed_limit_is_said_in_the_table_and_in_json() -> None:
    """Issue 2, "Show it": where a figure falls short, write it down."""
    report = Report(bench="proxy", figures=(_figure(2.0), _figure(9.0)), notes=("a note",))
    assert not report.holds
    lines = report.lines()
    assert [("NOT HELD" in line) for line in lines] == [False, False, True, False]
    assert all(len(line) <= 80 for line in lines)
    value = json.loads(json.dumps(report.as_json()))
    assert value["holds"] is False
    assert [figure["holds"] for figure in value["figures"]] == [True, False]


def test_a_floor_of_nothing_never_holds_and_no_samples_are_an_error() -> None:
    """Ours: a broken floor must not look like a good figure."""
    broken = Figure(name="x", unit="ms", value=1.0, floor=0.0, limit=1.3)
    assert not broken.holds
    with pytest.raises(ValueError, match="no samples"):
        median([])
    assert median([3.0, 1.0, 2.0]) == 2.0
