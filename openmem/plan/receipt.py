"""What openmem wrote on this machine, read back: the runs, the way back, and what drifted since.

The door for everybody outside the pillar; `journal.py` holds the form on disk, `undo.py` the way
back. Invariant: reading changes nothing and needs no lock.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from openmem.base.errors import Refused
from openmem.base.io import ABSENT, digest_of, remove_tree
from openmem.base.paths import Paths
from openmem.plan.action import Keys
from openmem.plan.edit.record import parse, still_stands
from openmem.plan.journal import Entry, Receipt, read_receipts
from openmem.plan.system import RealSystem, System
from openmem.plan.undo import plan_undo, plan_uninstall


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A file we wrote that is no longer as we left it.

    `kind`: "rewritten" (somebody changed it, all of ours still stands), "changed" (some of ours
    is gone: `missing` names the places, empty for a whole file), "removed", "unreadable".
    """

    path: str
    kind: Literal["rewritten", "changed", "removed", "unreadable"]
    missing: tuple[Keys, ...] = ()
    why: str = ""

    @property
    def is_harmless(self) -> bool:
        return self.kind == "rewritten"


def receipts(paths: Paths, system: System | None = None) -> tuple[Receipt, ...]:
    """Return every run, oldest first, those taken back included (`undone_by`)."""
    return read_receipts(system or RealSystem(paths.environ), paths)


def drift(system: System, paths: Paths) -> tuple[Drift, ...]:
    """Return the files that differ from what the runs still in force left there."""
    newest: dict[str, list[Entry]] = {}
    for receipt in read_receipts(system, paths):
        if receipt.is_active and receipt.state == "finished":
            for entry in receipt.entries:
                if entry.kind in ("write", "remove"):
                    newest.setdefault(entry.path, []).append(entry)
    found = [_drift_of(system, path, entries) for path, entries in newest.items()]
    return tuple(item for item in found if item is not None)


def _drift_of(system: System, path: str, entries: list[Entry]) -> Drift | None:
    last = entries[-1]
    if last.is_back:
        return None
    try:
        data = system.read(path)
        if (ABSENT if data is None else digest_of(data)) == last.after:
            return None
        if data is None:
            return Drift(path=path, kind="removed")
        if not last.edits:
            return Drift(path=path, kind="changed")
        document = parse(data, path, last.form)
    except Refused as error:
        return Drift(path=path, kind="unreadable", why=error.message)
    edits = [edit for entry in entries if entry.form == last.form for edit in entry.edits]
    missing = tuple(edit.keys for edit in edits if not still_stands(document, edit, edits))
    return Drift(path=path, kind="changed" if missing else "rewritten", missing=missing)


def purge(paths: Paths) -> tuple[str, ...]:
    """Remove all of openmem's own state, and the folders above it that were made for it.

    Returns the folders that stay because others use them by now. After this nothing can be
    undone: take everything back first.
    """
    made = [folder for receipt in receipts(paths) for folder in receipt.state_dirs]
    if os.path.isdir(paths.state_dir):
        remove_tree(paths.state_dir)
    stay: list[str] = []
    for folder in sorted(set(made), key=len, reverse=True):
        if os.path.isdir(folder):
            try:
                os.rmdir(folder)
            except OSError:
                stay.append(folder)
    return tuple(stay)


__all__ = ["Drift", "Receipt", "drift", "plan_undo", "plan_uninstall", "purge", "receipts"]
