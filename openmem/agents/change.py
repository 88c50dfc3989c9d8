"""What becomes of one settings file: edits, and what they come to in a few words."""

from __future__ import annotations

from dataclasses import dataclass, field

from openmem.agents.entries import Entry, whole
from openmem.plan.action import Action, Edit, Json
from openmem.plan.edit.planner import plan_json_edit
from openmem.plan.system import System


@dataclass(slots=True)
class Change:
    """The edits of one file, gathered. `parts`: what changes, for the one sentence on the screen.

    `named`: older entries that go.
    """

    edits: list[Edit] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    named: list[Entry] = field(default_factory=list)

    def remove(self, document: Json, entries: list[Entry]) -> None:
        """Take entries out, and what they leave empty."""
        self.named += entries
        for keys in whole(document, entries):
            self.edits.append(Edit(keys=keys, op="remove"))


def written(system: System, path: str, change: Change, *, strict: bool = True) -> list[Action]:
    """Return the write of the file, or nothing to do. `strict`: its reader takes no comments."""
    why = ", ".join(dict.fromkeys(change.parts)) or "older entries"
    return plan_json_edit(system, path, change.edits, strict=strict, why=why)
