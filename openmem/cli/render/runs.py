"""Runs that changed something, and files that are no longer as a run left them."""

from __future__ import annotations

from collections.abc import Sequence

from openmem.base.counts import counted
from openmem.base.paths import display
from openmem.cli.console import visible
from openmem.cli.render.plan import Entry, entry_lines
from openmem.cli.render.table import clipped, columns
from openmem.plan.journal import Receipt
from openmem.plan.receipt import Drift

_KINDS = {
    "rewritten": "somebody changed it; all of ours still stands",
    "changed": "changed since openmem wrote it",
    "removed": "no longer there",
    "unreadable": "cannot be read",
}


def run_lines(receipts: Sequence[Receipt], home: str, width: int) -> list[str]:
    """Return the runs, newest first."""
    if not receipts:
        return ["Nothing has been changed yet."]
    rows = [["RUN", "WHEN", "WHAT", "STATE", "CHANGED"]]
    for receipt in reversed(receipts):
        rows.append(
            [
                str(receipt.number),
                receipt.started_at,
                clipped(visible(receipt.label), 20),
                _state(receipt),
                counted(len(receipt.paths_written), "file"),
            ]
        )
    return [
        *(clipped(line, width) for line in columns(rows, right=(0,))),
        "",
        "Back to the state after run N:  openmem undo --to N",
    ]


def _state(receipt: Receipt) -> str:
    if receipt.undone_by:
        return f"undone by {receipt.undone_by}"
    if receipt.undoes:
        return "undoes " + ",".join(str(number) for number in receipt.undoes)
    return {"started": "cut off", "finished": "in force", "rolled-back": "put back"}[receipt.state]


def drift_lines(drift: Sequence[Drift], home: str, width: int) -> list[str]:
    """Return what differs from what openmem left, one entry a file."""
    entries = []
    for item in drift:
        why = item.why or _KINDS[item.kind]
        if item.missing:
            places = [".".join(str(key) for key in keys) for keys in item.missing]
            why += f"; gone: {', '.join(places)}"
        mark = "=" if item.is_harmless else "~"
        entries.append(Entry(mark=mark, name=display(item.path, home), why=why))
    return [*entry_lines(entries, width), ""] if entries else []
