"""Permissions of Claude Code that let our tools that erase run without being asked.

Idea: what refuses or asks wins over what allows, wherever it stands, so one entry that asks makes
every wide one harmless. Invariant: an entry that names exactly such a tool is a person's own word
and is not told. Trap: a star counts in what allows only behind `mcp__<server>__`, but anywhere in
what asks or refuses. Source: trials with 2.1.332 (docs/reference/claude-code.md).
"""

from __future__ import annotations

import re

from openmem.agents.agent import WideGrant
from openmem.agents.claude_code.places import (
    NAME,
    SERVER,
    WIDE_PERMISSION,
    Places,
    managed_settings,
    project_settings,
)
from openmem.agents.reading import list_at, read_or_none, table_at
from openmem.base.own_tools import ASKING
from openmem.plan.action import Json
from openmem.plan.system import System

_PREFIX = f"mcp__{SERVER}__"
_ERASING = tuple(_PREFIX + name for name in ASKING)
_NARROW = f"openmem install-mcp --agent {NAME} --allow-tools   names each tool in its place"


def is_wide(entry: Json) -> bool:
    """Return whether an entry that allows covers a tool that erases without naming it."""
    if not isinstance(entry, str) or entry in _ERASING:
        return False
    return entry == WIDE_PERMISSION or (entry.startswith(_PREFIX) and _covers(entry))


def _covers(entry: Json) -> bool:
    if not isinstance(entry, str):
        return False
    pattern = re.compile(".*".join(re.escape(part) for part in entry.split("*")), re.S)
    return entry == WIDE_PERMISSION or any(pattern.fullmatch(tool) for tool in _ERASING)


def wide_grants(
    system: System, found: Places, settings: Json, state: Json
) -> tuple[WideGrant, ...]:
    """Return what is too wide in a person's settings, in an organisation's and in projects'.

    `settings`, `state`: what stands in the person's two files. Projects are those that the state
    lists; a file of theirs that cannot be read is passed over, as Claude Code passes it over.
    """
    managed = read_or_none(system, managed_settings())
    if _asks(settings) or _asks(managed):
        return ()
    grants = _grants(found.settings, settings, _NARROW)
    grants += _grants(managed_settings(), managed, "who manages this machine can take it out")
    for folder in table_at(state, ("projects",)):
        if not folder.startswith("/"):
            continue
        files = {
            path: read_or_none(system, path)
            for path in project_settings(folder)
            if path != found.settings
        }
        if any(_asks(value) for value in files.values()):
            continue
        for path, value in files.items():
            grants += _grants(path, value, f"take it out of that file, then: {_NARROW}")
    return tuple(grants)


def _grants(path: str, settings: Json, narrow: str) -> list[WideGrant]:
    return [
        WideGrant(file=path, entry=f'permissions.allow "{entry}"', narrow=narrow)
        for entry in list_at(settings, ("permissions", "allow"))
        if is_wide(entry)
    ]


def _asks(settings: Json) -> bool:
    """Return whether the file has every tool that erases asked for, or refused."""
    return any(
        _covers(entry)
        for kind in ("ask", "deny")
        for entry in list_at(settings, ("permissions", kind))
    )
