"""Rows as text that a model reads and a script splits: one line a row, a tab between cells."""

from __future__ import annotations

from collections.abc import Sequence

Cell = str | int | float | None

ROW_LIMIT = 200
CELL_LIMIT = 2_000
TEXT_LIMIT = 30_000
NOTE_ROOM = 200  # what is kept free for the line that says what was cut

_ESCAPED = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


def cell_text(value: Cell) -> str:
    """Return a value on one line: tab, newline and return are escaped, no value is `NULL`."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return value.translate(_ESCAPED)
    return repr(value) if isinstance(value, float) else str(value)


def line_text(cells: Sequence[Cell]) -> str:
    """Return one row, without a newline."""
    return "\t".join(cell_text(cell) for cell in cells)
