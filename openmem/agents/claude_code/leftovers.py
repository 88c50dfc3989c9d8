"""What earlier installations left outside the two files that wiring writes, and how it goes.

Idea: a hook that is registered twice fires twice, and Claude Code adds up user, project and local
settings; so the projects that it knows are looked through. Invariant: only entries with a mark
go, and a file that cannot be read or written is passed over: it is somebody else's to mend.
Source: users' reports 7 and 10.
"""

from __future__ import annotations

import posixpath

from openmem.agents.agent import Detected, Wanted
from openmem.agents.change import Change, written
from openmem.agents.claude_code.older import hooks_to_remove, servers_to_remove
from openmem.agents.claude_code.places import (
    BASE_URL,
    DEFAULT_UPSTREAM,
    NAME,
    TITLE,
    Places,
    project_settings,
)
from openmem.agents.entries import Entry
from openmem.agents.reading import read_or_none, table_at, text_at
from openmem.agents.skill import is_older_skill, skill_file
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.base.route import routed_port
from openmem.plan.action import Action, Json, ManualStep
from openmem.plan.edit.planner import plan_remove
from openmem.plan.system import System


def plan_elsewhere(
    system: System, state: Json, found: Places, wanted: Wanted
) -> tuple[list[Action], list[Entry]]:
    """Return what goes from projects' own files: a hook that is registered twice fires twice."""
    actions: list[Action] = []
    named: list[Entry] = []
    for folder in _projects(state, wanted):
        files = [path for path in project_settings(folder) if path != found.settings]
        for path in (*files, f"{folder}/.mcp.json"):
            value = read_or_none(system, path)
            change = Change()
            if path.endswith(".mcp.json"):
                entries = servers_to_remove(value, with_predecessors=True) if wanted.mcp else []
            else:
                entries = (
                    hooks_to_remove(value, keeps={}, with_predecessors=True) if wanted.hooks else []
                )
            if not entries:
                continue
            change.remove(value, entries)
            try:
                actions += written(system, path, change)
            except OpenmemError:
                continue  # a project's file that we may not write stays as it is
            named += [
                Entry(
                    keys=entry.keys,
                    says=f"{entry.says} in {path}",
                    is_predecessor=entry.is_predecessor,
                )
                for entry in entries
            ]
    return actions, named


def other_addresses(system: System, state: Json, found: Places, wanted: Wanted) -> list[str]:
    """Return what to say of projects whose own settings send their requests elsewhere."""
    warnings = []
    for folder in _projects(state, wanted):
        for path in project_settings(folder):
            url = text_at(read_or_none(system, path), BASE_URL).strip()
            if path != found.settings and url and not routed_port(url, NAME):
                warnings.append(
                    f"{path} sets ANTHROPIC_BASE_URL, which wins over yours; sessions in that "
                    "project do not go through the proxy."
                )
    return warnings


def _projects(state: Json, wanted: Wanted) -> list[str]:
    """Return the folders whose own settings are looked at: those named, those it knows."""
    known = [name for name in table_at(state, ("projects",)) if name.startswith("/")]
    return list(dict.fromkeys((*wanted.projects, *known)))


def plan_without_older_skill(system: System, found: Places) -> list[Action]:
    """Return the removal of the skill that OpenMem 0.8 brought; its words are about its tools."""
    path = skill_file(found.skills)
    folder = posixpath.dirname(path)
    try:
        there = system.stat(folder)
        text = system.read(path) if there is not None and there.kind == "dir" else None
    except OpenmemError:
        return []  # unreadable: not recognisable as anybody's
    if text is None or not is_older_skill(text):
        return []
    if there is not None and there.is_link:
        step = f"Remove the link {folder}; it points to the skill of OpenMem 0.8."
        return [ManualStep(text=step, why="its tools are not ours")]
    return plan_remove(system, path, "the skill of OpenMem 0.8")


def said(named: list[Entry], paths: Paths, detected: Detected) -> list[str]:
    """Return what to say of the entries that go."""
    if not named:
        return []
    home = f" {paths.home}/"
    words = [f"Taken out: {entry.says}.".replace(home, " ~/") for entry in named]
    is_local = "//127.0.0.1" in detected.upstream or "//localhost" in detected.upstream
    if any(entry.is_predecessor for entry in named) and is_local:
        words.append(
            f"{TITLE}'s requests went to {detected.upstream}, which may be the proxy of OpenMem "
            f"0.8; to leave it out: --upstream {DEFAULT_UPSTREAM}"
        )
    return words
