"""The plan that makes Cursor's settings as wanted, worked out from what stands there.

Invariant: only entries that carry our mark are replaced or removed, and `version` is set only where
none stands. Source: Cursor's documentation of hooks and of MCP.
"""

from __future__ import annotations

from openmem.agents.agent import Detected, Wanted
from openmem.agents.change import Change, written
from openmem.agents.cursor.places import (
    EVENTS,
    HOOKS_VERSION,
    NAME,
    SERVER,
    TIMEOUT_SECONDS,
    Places,
    places_of,
)
from openmem.agents.entries import Entry, is_our_server, mentions
from openmem.agents.launchers import HOOK, MCP, hook_command, launcher_path, plan_launchers
from openmem.agents.reading import list_at, read_json, table_at, value_at
from openmem.agents.skill import plan_skill, skill_warnings
from openmem.base.errors import Refused
from openmem.base.paths import Paths, display
from openmem.plan.action import Action, Edit, Json, Keys, Plan
from openmem.plan.system import System

_SERVER: Keys = ("mcpServers", SERVER)


def plan_wiring(system: System, paths: Paths, detected: Detected, wanted: Wanted) -> Plan:
    """Return the plan that makes the settings as wanted; empty when they are.

    Unparseable or Refused, naming the place, for a file that must not be edited.
    """
    found = places_of(detected)
    hooks, servers = read_json(system, found.hooks), read_json(system, found.servers)
    names = ((HOOK,) if wanted.hooks else ()) + ((MCP,) if wanted.mcp else ())
    actions: list[Action] = plan_launchers(system, paths, names)
    warnings: list[str] = []
    actions += plan_skill(system, found.skills, is_wanted=wanted.skill)
    if wanted.skill:
        warnings += skill_warnings(system, found.skills, paths.home)
    actions += _hook_actions(system, paths, found, hooks, wanted)
    change = Change()
    there = value_at(servers, _SERVER)
    if wanted.mcp:
        entry = _server_entry(paths, there)
        change.edits.append(Edit(keys=_SERVER, op="set", value=entry, marker=MCP))
        change.parts.append(f'the MCP server "{SERVER}"')
        if there is not None and not is_our_server(there):
            where = display(found.servers, paths.home)
            warnings.append(
                f'An MCP server "{SERVER}" of another program stands in {where}; ours takes its '
                "place."
            )
    elif wanted.mcp is False and is_our_server(there):
        change.remove(servers, [Entry(keys=_SERVER, says="", is_predecessor=False)])
        change.parts.append("no MCP server of ours")
    actions += written(system, found.servers, change)
    return Plan(actions=tuple(actions), warnings=tuple(warnings))


def hook_value(paths: Paths, event: str) -> dict[str, Json]:
    """Return the entry that we write for one of Cursor's events."""
    return {"command": hook_command(paths, EVENTS[event], NAME), "timeout": TIMEOUT_SECONDS}


def _hook_actions(
    system: System, paths: Paths, found: Places, hooks: Json, wanted: Wanted
) -> list[Action]:
    if wanted.hooks is None:
        return []
    change = Change()
    keeps = EVENTS if wanted.hooks else {}
    gone = [
        Entry(keys=("hooks", event, number), says="", is_predecessor=False)
        for event in table_at(hooks, ("hooks",))
        for number, hook in enumerate(list_at(hooks, ("hooks", event)))
        if mentions(hook, HOOK) and event not in keeps
    ]
    change.remove(hooks, gone)
    if wanted.hooks:
        version = value_at(hooks, ("version",))
        if version is None:
            change.edits.append(Edit(keys=("version",), op="set", value=HOOKS_VERSION))
        elif isinstance(version, bool) or not isinstance(version, int | float):
            raise Refused(
                f"{found.hooks}: its version is {version!r}, and Cursor wants a number. "
                "Nothing was written.",
                hint="Mend the file and run it again.",
            )
        elif version != HOOKS_VERSION:
            raise Refused(
                f"{found.hooks}: its version is {version}, which openmem does not know. "
                "Nothing was written.",
                hint="Update openmem, or leave its hooks out: --no-hooks",
            )
    for event in keeps:
        value: Json = dict(hook_value(paths, event))
        change.edits.append(Edit(keys=("hooks", event), op="append", value=value, marker=HOOK))
    change.parts.append(f"{len(EVENTS)} hooks" if wanted.hooks else "no hooks of ours")
    return written(system, found.hooks, change)


def _server_entry(paths: Paths, there: Json) -> Json:
    """Return our MCP entry; what a person added to the one that is there is kept."""
    program = launcher_path(paths, MCP)
    entry: dict[str, Json] = {"command": program, "args": [], "env": {}}
    if isinstance(there, dict) and there.get("command") == program:
        entry |= there
    return entry
