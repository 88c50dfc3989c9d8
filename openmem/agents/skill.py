"""The page that tells a model when to search, keep, correct and ask: one file, the same for all.

Idea: agents read skills from a folder of their own and put only name and description into a
session; the page is read when it is needed. Invariant: a page of somebody else's at that place
stays. Trap: OpenMem 0.8 brought a skill of the same name about tools that are no more; that one is
replaced.
"""

from __future__ import annotations

from openmem.base.assets import read_asset
from openmem.base.errors import OpenmemError
from openmem.base.paths import display
from openmem.plan.action import Action
from openmem.plan.edit.planner import plan_remove, plan_write
from openmem.plan.system import System

FOLDER = "openmem"
_MARK = b"The MCP server `openmem`"


def skill_file(skills_dir: str) -> str:
    """Return the skill's file below an agent's folder of skills."""
    return f"{skills_dir}/{FOLDER}/SKILL.md"


def plan_skill(system: System, skills_dir: str, *, is_wanted: bool | None) -> list[Action]:
    """Return the write or removal of the skill, or nothing to do; somebody's own file stays."""
    path = skill_file(skills_dir)
    if is_wanted is None or is_foreign_skill(system, skills_dir):
        return []
    if not is_wanted:
        return plan_remove(system, path, "no skill of ours")
    data = read_asset("templates", "skill", "SKILL.md").encode()
    return plan_write(system, path, data, "the skill: when to search, what to keep", 0o644)


def has_skill(system: System, skills_dir: str) -> bool:
    """Return whether the skill is there and is ours."""
    return _MARK in (_read(system, skills_dir) or b"")


def is_older_skill(data: bytes) -> bool:
    """Return whether a skill's text is the one of OpenMem 0.8."""
    return b"memory_" in data and b"openmem" in data.lower() and _MARK not in data


def is_foreign_skill(system: System, skills_dir: str) -> bool:
    """Return whether somebody else's file, link or folder stands at the skill's place."""
    try:
        there = system.stat(f"{skills_dir}/{FOLDER}")
    except OpenmemError:
        return True  # it cannot be looked at, so it is not for us to write there
    if there is not None and (there.is_link or there.kind != "dir"):
        return True
    data = _read(system, skills_dir)
    return data is not None and _MARK not in data and not is_older_skill(data)


def skill_warnings(system: System, skills_dir: str, home: str) -> list[str]:
    """Return what to say of a skill of that name that is not ours."""
    if not is_foreign_skill(system, skills_dir):
        return []
    where = display(f"{skills_dir}/{FOLDER}", home)
    return [f"{where} is not ours and stays; our skill is not put there."]


def _read(system: System, skills_dir: str) -> bytes | None:
    try:
        return system.read(skill_file(skills_dir))
    except OpenmemError:
        return b""  # a folder or a dangling link: not ours, and in the way
