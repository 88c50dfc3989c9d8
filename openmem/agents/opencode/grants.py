"""Permissions of OpenCode that let our tools that erase run without being asked.

Idea: OpenCode asks before no MCP tool by itself, and of its entries the last one that matches
counts, so an entry that allows undoes one that asks when it stands behind it. Invariant: an entry
that names exactly such a tool is a person's own word and is not told. Trap: the settings files
count as one, the keys of the lower ones first. Source: trials with 1.18.33
(docs/reference/opencode.md); its documentation for an agent's own permissions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from openmem.agents.agent import WideGrant
from openmem.agents.opencode.places import NAME, SERVER, Places
from openmem.agents.opencode.settings import Settings
from openmem.agents.reading import read_json, table_at, value_at
from openmem.base.errors import OpenmemError
from openmem.base.own_tools import ASKING
from openmem.plan.action import Json, Keys
from openmem.plan.system import System

PERMISSION: Keys = ("permission",)
ASK = "ask"
_ALLOW = "allow"
_PREFIX = f"{SERVER}_"
_AGENTS = ("agent", "mode")
# What OpenCode asks its entries about: a tool of an MCP server, whatever its arguments are.
_ANY = "*"


def wide_grants(system: System, found: Places, settings: Settings) -> tuple[WideGrant, ...]:
    """Return what lets a tool that erases run unasked: for everybody, or for one agent."""
    grants: dict[Keys, WideGrant] = {}
    for tool in ASKING:
        name = _PREFIX + tool
        everywhere = value_at(settings.whole, PERMISSION)
        decides, place = _decision(everywhere, name, PERMISSION)
        if decides == _ALLOW and place != (*PERMISSION, name):
            grants[place] = _grant(system, found, settings, name, place)
        for keys, own in _agents(settings.whole):
            decides, place = _decision(own, name, keys)
            if decides == _ALLOW and place not in (keys, (*keys, name)):
                grants[place] = _grant(system, found, settings, name, place)
    return tuple(grants.values())


def _agents(whole: Json) -> Iterator[tuple[Keys, Json]]:
    """Yield the permissions that agents have of their own; they count behind everybody's."""
    for kind in _AGENTS:
        for agent in table_at(whole, (kind,)):
            own = value_at(whole, (kind, agent, *PERMISSION))
            if own is not None:
                yield (kind, agent, *PERMISSION), own if isinstance(own, dict) else {_ANY: own}


def _decision(permission: Json, tool: str, keys: Keys) -> tuple[str, Keys]:
    """Return what is done with a tool and the place of the entry that says so.

    The place is `keys` itself where no entry says anything, and then OpenCode allows.
    """
    if isinstance(permission, str):
        return permission, (*keys, _ANY)
    said, place = _ALLOW, keys
    for pattern, value in table_at(permission, ()).items():
        answer = _answer(value) if _matches(pattern, tool) else None
        if answer is not None:
            said, place = answer, (*keys, pattern)
    return said, place


def _answer(value: Json) -> str | None:
    """Return what an entry says of any call, None when it speaks of some calls only."""
    if isinstance(value, str):
        return value
    said = [
        answer
        for pattern, answer in table_at(value, ()).items()
        if isinstance(answer, str) and _matches(pattern, _ANY)
    ]
    return said[-1] if said else None


def _matches(pattern: str, text: str) -> bool:
    parts = re.split(r"([*?])", pattern)
    wild = {"*": ".*", "?": "."}
    return bool(re.fullmatch("".join(wild.get(p, re.escape(p)) for p in parts), text, re.S))


def _grant(system: System, found: Places, settings: Settings, tool: str, place: Keys) -> WideGrant:
    file = next((path for path in found.configs if _holds(system, path, place)), settings.file)
    if place == PERMISSION:
        return WideGrant(
            file=file,
            entry=f"permission has no entry for {tool}",
            narrow=f"openmem install-mcp --agent {NAME}   has it asked",
        )
    *above, last = place
    is_text = isinstance(value_at(settings.whole, tuple(above)), str)
    where = ".".join(str(key) for key in above)
    return WideGrant(
        file=file,
        entry=f'{where} "{_ALLOW if is_text else last}"',
        narrow=f'write {where} as a table that ends with "{tool}": "{ASK}"'
        if is_text
        else f'behind it: "{tool}": "{ASK}"',
    )


def _holds(system: System, path: str, place: Keys) -> bool:
    try:
        value = read_json(system, path, strict=False)
    except OpenmemError:
        return False  # gone since it was read; the first file stands for it
    above = value_at(value, place[:-1])
    return isinstance(above, str) or place[-1] in table_at(above, ())
