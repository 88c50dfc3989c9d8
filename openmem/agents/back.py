"""The way back for some files only: what the runs made of them is taken back, the rest stays.

Idea: one run may have wired several agents; taking one out undoes that run for this agent's files
alone. Invariant: the receipts stay as they are; a later `undo` or `uninstall` finds these files as
they were before and has nothing left to do there.
Trap: the launchers belong to all agents; they go when no agent is left that runs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace

from openmem.agents.launchers import (
    HOOK,
    MCP,
    PROVIDER_KEY,
    launcher_path,
    plan_launcher_removal,
)
from openmem.base.paths import Paths
from openmem.plan.action import Keys, Plan
from openmem.plan.apply import preview
from openmem.plan.receipt import receipts
from openmem.plan.system import System
from openmem.plan.undo import plan_back


def plan_files_back(system: System, paths: Paths, files: Collection[str]) -> Plan:
    """Return the plan that takes back what active runs did to these files."""
    past = []
    for receipt in receipts(paths, system):
        entries = tuple(entry for entry in receipt.entries if entry.path in files)
        if receipt.is_active and entries:
            past.append(replace(receipt, entries=entries))
    return replace(plan_back(system, paths, past), undoes=())


def text_before(
    system: System, paths: Paths, file: str, keys: Keys, is_ours: Callable[[str], bool]
) -> str | None:
    """Return the text that stood at a place of a JSON file before active runs of ours set it.

    "" when nothing stood there, None when no run knows the place.
    """
    for receipt in receipts(paths, system):
        for entry in receipt.entries if receipt.is_active else ():
            for edit in entry.edits if entry.path == file else ():
                if edit.keys != keys or edit.op != "set":
                    continue
                before = _decoded(edit.was)
                if not is_ours(before):  # else an address of ours over an older one
                    return before
    return None


def _decoded(source: str | None) -> str:
    try:
        value = json.loads(source or "null")
    except ValueError:
        return ""  # a damaged receipt: as if nothing had stood there
    return value if isinstance(value, str) else ""


def plan_without_launchers(system: System, paths: Paths) -> Plan:
    """Return the plan that removes the launchers, whoever wrote them."""
    names = (HOOK, MCP, PROVIDER_KEY)
    back = plan_files_back(system, paths, {launcher_path(paths, name) for name in names})
    return back + Plan(actions=tuple(plan_launcher_removal(preview(back, system), paths)))
