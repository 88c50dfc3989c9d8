"""Measured figures, their floors and limits, as a table for people and a value for scripts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement beside its floor. `limit`: of the ratio or the difference, 0 for none."""

    name: str
    unit: str
    value: float
    floor: float
    compare: Literal["ratio", "difference"] = "ratio"
    limit: float = 0.0
    samples: int = 0

    @property
    def against_floor(self) -> float:
        """The ratio to the floor, or the difference from it in `unit`."""
        if self.compare == "difference":
            return self.value - self.floor
        return self.value / self.floor if self.floor > 0 else float("inf")

    @property
    def holds(self) -> bool:
        return self.limit <= 0 or self.against_floor <= self.limit

    def as_json(self) -> dict[str, object]:
        """Return the figure as plain values; numbers rounded to what the clock can tell."""
        return {
            "name": self.name,
            "unit": self.unit,
            "value": round(self.value, 4),
            "floor": round(self.floor, 4),
            "compare": self.compare,
            "against_floor": round(self.against_floor, 4),
            "limit": self.limit,
            "holds": self.holds,
            "samples": self.samples,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one bench found. `notes`: what a reader must know to believe the figures."""

    bench: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        return all(figure.holds for figure in self.figures)

    def as_json(self) -> dict[str, object]:
        return {
            "bench": self.bench,
            "holds": self.holds,
            "figures": [figure.as_json() for figure in self.figures],
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """Return the table, at most 80 columns wide."""
        rows = [("FIGURE", "MEASURED", "FLOOR", "AGAINST IT", "LIMIT")]
        rows += [_row(figure) for figure in self.figures]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        table = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return [*table, *(f"  {note}" for note in self.notes)]


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    is_ratio = figure.compare == "ratio"
    against = f"{figure.against_floor:.2f} x" if is_ratio else f"{figure.against_floor:+.3f}"
    limit = ""
    if figure.limit > 0:
        limit = f"{figure.limit:.2f} {'ok' if figure.holds else 'NOT HELD'}"
    return (
        figure.name,
        f"{figure.value:.3f} {figure.unit}",
        f"{figure.floor:.3f} {figure.unit}",
        against,
        limit,
    )


def median(values: Sequence[float]) -> float:
    """Return the median; ValueError without values."""
    if not values:
        raise ValueError("no samples were taken")
    return float(statistics.median(values))
