"""The slash command `/smart-compact` as a file of an agent's, ours or somebody else's.

Invariant: a file of that name that is not ours is neither written nor removed, only named.
"""

from __future__ import annotations

from openmem.agents.agent import COMMAND
from openmem.base.assets import read_asset
from openmem.base.errors import OpenmemError
from openmem.base.paths import display
from openmem.plan.action import Action
from openmem.plan.edit.planner import plan_remove, plan_write
from openmem.plan.system import System

_MARK = b"openmem"


def plan_command(system: System, path: str, agent: str, *, is_wanted: bool) -> list[Action]:
    """Return the write or removal at `path`, or nothing to do; the text is `agent`'s template."""
    if is_foreign(system, path):
        return []
    if not is_wanted:
        return plan_remove(system, path, f"no /{COMMAND}")
    data = read_asset("templates", agent, f"{COMMAND}.md").encode()
    return plan_write(system, path, data, f"the command /{COMMAND}", 0o644)


def is_ours(system: System, path: str) -> bool:
    """Return whether the command is there and is ours."""
    return _MARK in (_read(system, path) or b"")


def is_foreign(system: System, path: str) -> bool:
    """Return whether somebody else's file stands at the command's place."""
    data = _read(system, path)
    return data is not None and _MARK not in data


def warnings(system: System, path: str, home: str) -> list[str]:
    """Return what to say of a command of that name that is not ours."""
    if not is_foreign(system, path):
        return []
    return [f"{display(path, home)} is not ours and stays; /{COMMAND} does what it says."]


def _read(system: System, path: str) -> bytes | None:
    try:
        return system.read(path)
    except OpenmemError:
        return b""  # a folder or a dangling link: not ours, and in the way
