"""The command `/smart-compact`, as a file of OpenCode: a prompt that begins with its own name.

The plug-in sees the prompt and asks for the trim; the model is told so and says it on.
"""

from __future__ import annotations

from openmem.agents.opencode.places import COMMAND, Places
from openmem.base.assets import read_asset
from openmem.base.errors import OpenmemError
from openmem.base.paths import display
from openmem.plan.action import Action
from openmem.plan.edit.planner import plan_remove, plan_write
from openmem.plan.system import System

_MARK = b"openmem"


def plan_command(system: System, found: Places, *, is_wanted: bool) -> list[Action]:
    """Return the write or removal of the command, or nothing to do; somebody's own file stays."""
    if _is_foreign(system, found):
        return []
    if not is_wanted:
        return plan_remove(system, found.command, f"no /{COMMAND}")
    data = read_asset("templates", "opencode", f"{COMMAND}.md").encode()
    return plan_write(system, found.command, data, f"the command /{COMMAND}", 0o644)


def is_ours(system: System, found: Places) -> bool:
    """Return whether the command is there and is ours."""
    return _MARK in (_read(system, found) or b"")


def _is_foreign(system: System, found: Places) -> bool:
    data = _read(system, found)
    return data is not None and _MARK not in data


def warnings(system: System, found: Places, home: str) -> list[str]:
    """Return what to say of a command of that name that is not ours."""
    if not _is_foreign(system, found):
        return []
    where = display(found.command, home)
    return [f"{where} is not ours and stays; /{COMMAND} does what it says."]


def _read(system: System, found: Places) -> bytes | None:
    try:
        return system.read(found.command)
    except OpenmemError:
        return b""  # a folder or a dangling link: not ours, and in the way
