"""The plug-in's file: which of the two forms, filled in for this installation.

Invariant: a file of somebody else's at its place is refused, never replaced. Trap: version 1 loads
every file of its folders and fails on one whose form it does not know, so the form follows the
version that is there.
"""

from __future__ import annotations

import json
import os
import re

from openmem.agents.agent import Detected
from openmem.agents.launchers import HOOK, launcher_path
from openmem.agents.opencode.places import Places
from openmem.base.assets import read_asset
from openmem.base.errors import OpenmemError, Refused
from openmem.base.paths import Paths
from openmem.plan.action import Action
from openmem.plan.edit.planner import plan_remove, plan_write
from openmem.plan.system import System

_EMPTY = 'const HOOK = ""'
_MARK = HOOK.encode()


def is_version_2(version: str) -> bool:
    """Return whether a version is one of the second plug-in form, or later."""
    match = re.match(r"(\d+)\.", version)
    return match is not None and int(match.group(1)) >= 2


def rendered(paths: Paths, detected: Detected) -> bytes:
    """Return the plug-in for this installation and this version of OpenCode."""
    name = "openmem-v2.js" if is_version_2(detected.version) else "openmem.js"
    program = json.dumps(os.path.abspath(launcher_path(paths, HOOK)))
    text = read_asset("hooks", "opencode", name)
    assert text.count(_EMPTY) == 1
    return text.replace(_EMPTY, f"const HOOK = {program}").encode()


def plan_plugin(
    system: System, paths: Paths, found: Places, detected: Detected, *, is_wanted: bool
) -> list[Action]:
    """Return what makes the plug-in be there once, or nowhere. Refused for somebody else's file."""
    actions: list[Action] = []
    for path in found.older_plugins:
        if is_ours(system, path):
            actions += plan_remove(system, path, "the plug-in a second time")
    if is_wanted:
        if system.read(found.plugin) is not None and not is_ours(system, found.plugin):
            raise Refused(
                f"{found.plugin} is not openmem's. Nothing was written.",
                hint="Move it away and run it again.",
            )
        data = rendered(paths, detected)
        actions += plan_write(system, found.plugin, data, "the plug-in with the hooks", 0o644)
    elif is_ours(system, found.plugin):
        actions += plan_remove(system, found.plugin, "no plug-in of ours")
    return actions


def is_ours(system: System, path: str) -> bool:
    """Return whether a file is a plug-in of ours, of whatever version."""
    try:
        return _MARK in (system.read(path) or b"")
    except OpenmemError:
        return False  # a folder, a dangling link, or not ours to read


def is_current(system: System, paths: Paths, found: Places, detected: Detected) -> bool:
    """Return whether the plug-in that is there runs this installation."""
    try:
        return system.read(found.plugin) == rendered(paths, detected)
    except OpenmemError:
        return False
