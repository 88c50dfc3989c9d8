"""The plan that makes OpenCode's settings as wanted, worked out from what stands there.

Idea: each part (plug-in, MCP entry, base URLs, skill) is true, false or left as it is, so one
function wires, re-wires after an upgrade, takes the addresses out for `proxy stop` and puts them
back. Invariant: only entries that carry our mark are replaced or removed; comments and the
person's providers stay. Trap: what stood at a base URL before us is found in the receipts; it may
stand in a file below the one that is written, and then taking ours out is enough.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents import slash_command
from openmem.agents.agent import Detected, Wanted
from openmem.agents.back import text_before
from openmem.agents.change import Change, written
from openmem.agents.entries import Entry, is_our_server
from openmem.agents.launchers import HOOK, MCP, launcher_path, plan_launchers
from openmem.agents.opencode.detect import project_warnings
from openmem.agents.opencode.grants import ASK, PERMISSION
from openmem.agents.opencode.places import NAME, SCHEMA, SERVER, places_of
from openmem.agents.opencode.plugin import plan_plugin
from openmem.agents.opencode.settings import (
    Provider,
    Settings,
    providers_in_use,
    read_settings,
)
from openmem.agents.reading import table_at, text_at, value_at
from openmem.agents.skill import plan_skill, skill_warnings
from openmem.base.own_tools import ASKING
from openmem.base.paths import Paths, display
from openmem.base.route import base_url, routed_port
from openmem.plan.action import Action, Edit, Json, Keys, Plan
from openmem.plan.system import System

_SERVER: Keys = ("mcp", SERVER)
# What erases goes on asking, as with the other agents; OpenCode asks before no MCP tool by itself.
_ASKING: tuple[Keys, ...] = tuple((*PERMISSION, f"{SERVER}_{name}") for name in ASKING)


def plan_wiring(
    system: System,
    paths: Paths,
    detected: Detected,
    wanted: Wanted,
    environ: Mapping[str, str],
) -> Plan:
    """Return the plan that makes the settings as wanted; empty when they are.

    Unparseable or Refused, naming the place, for a file that must not be edited.
    """
    found = places_of(detected, environ, paths.home)
    settings = read_settings(system, found)
    names = ((HOOK,) if wanted.hooks else ()) + ((MCP,) if wanted.mcp else ())
    actions: list[Action] = plan_launchers(system, paths, names)
    warnings: list[str] = []
    if wanted.hooks is not None:
        actions += plan_plugin(system, paths, found, detected, is_wanted=wanted.hooks)
        actions += slash_command.plan_command(system, found.command, NAME, is_wanted=wanted.hooks)
        warnings += (
            slash_command.warnings(system, found.command, paths.home) if wanted.hooks else []
        )
    actions += plan_skill(system, found.skills, is_wanted=wanted.skill)
    change = Change()
    _put_server(paths, settings, wanted, change)
    providers = providers_in_use(system, found, settings.whole, environ)
    _put_addresses(system, paths, settings, providers, wanted, change)
    if change.edits and system.read(settings.file) is None:
        # OpenCode adds it to a file without by itself, and so would change what we wrote.
        change.edits.insert(0, Edit(keys=("$schema",), op="set", value=SCHEMA))
    # Last: from here on the agent's requests come to us.
    actions += written(system, settings.file, change, strict=False)
    if wanted.mcp:
        warnings += _foreign_server(settings, paths)
    if wanted.skill:
        warnings += skill_warnings(system, found.skills, paths.home)
    if wanted.proxy:
        warnings += project_warnings(system, wanted.projects)
    return Plan(actions=tuple(actions), warnings=tuple(dict.fromkeys(warnings)))


def _put_server(paths: Paths, settings: Settings, wanted: Wanted, change: Change) -> None:
    there = value_at(settings.own, _SERVER)
    if wanted.mcp:
        entry = server_entry(paths, there)
        change.edits.append(Edit(keys=_SERVER, op="set", value=entry, marker=MCP))
        change.parts.append(f'the MCP server "{SERVER}"')
        if _says_nothing_of_ours(settings.whole):
            change.edits += [Edit(keys=keys, op="set", value=ASK) for keys in _ASKING]
            change.parts.append("forgetting asks first")
    elif wanted.mcp is False and is_our_server(there):
        gone = [_SERVER, *(keys for keys in _ASKING if value_at(settings.own, keys) == ASK)]
        change.remove(
            settings.own, [Entry(keys=keys, says="", is_predecessor=False) for keys in gone]
        )
        change.parts.append("no MCP server of ours")


def _says_nothing_of_ours(whole: Json) -> bool:
    """Return whether the person's permissions leave our tools to OpenCode, which asks for none."""
    permission = value_at(whole, PERMISSION)
    if permission is None:
        return True
    names = permission if isinstance(permission, dict) else (f"{SERVER}_",)
    return not any(name.startswith(f"{SERVER}_") for name in names)


def server_entry(paths: Paths, there: Json) -> Json:
    """Return our MCP entry; what a person added to the one that is there is kept."""
    ours: dict[str, Json] = {
        "type": "local",
        "command": [launcher_path(paths, MCP)],
        "enabled": True,
    }
    if isinstance(there, dict) and there.get("command") == ours["command"]:
        return ours | there
    return ours


def _put_addresses(
    system: System,
    paths: Paths,
    settings: Settings,
    providers: tuple[Provider, ...],
    wanted: Wanted,
    change: Change,
) -> None:
    if wanted.proxy is None:
        return
    in_use = {one.name: one for one in providers}
    for one in providers:
        is_routed = wanted.proxy and not one.unrouted and _has_upstream(one, wanted)
        if is_routed:
            url = base_url(wanted.port, one.route)
            change.edits.append(Edit(keys=one.place, op="set", value=url, marker=f"/a/{one.route}"))
            change.parts.append("the proxy's address")
    # An address of ours that is no longer wanted, also of a provider that is no longer in use.
    for name in table_at(settings.own, ("provider",)):
        one = in_use.get(name, Provider(name=name))
        stated = text_at(settings.own, one.place)
        if not routed_port(stated, one.route):
            continue
        if wanted.proxy and name in in_use and not one.unrouted:
            continue
        _put_back(system, paths, settings, one, wanted, change)
        change.parts.append("the address of before")


def _has_upstream(one: Provider, wanted: Wanted) -> bool:
    """Return whether it is known where its requests go on to; else it would lead nowhere."""
    return bool((one.stated and not one.port) or one.own or wanted.upstreams.get(one.route))


def _put_back(
    system: System,
    paths: Paths,
    settings: Settings,
    one: Provider,
    wanted: Wanted,
    change: Change,
) -> None:
    """Give an address the value of before us, or take it out when there was none."""
    before = text_before(
        system, paths, settings.file, one.place, lambda url: bool(routed_port(url, one.route))
    )
    upstream = wanted.upstreams.get(one.route, "").rstrip("/")
    if before is None and upstream and upstream != one.own:
        before = upstream
    if before:
        change.edits.append(Edit(keys=one.place, op="set", value=before))
        return
    change.remove(settings.own, [Entry(keys=one.place, says="", is_predecessor=False)])


def _foreign_server(settings: Settings, paths: Paths) -> list[str]:
    server = value_at(settings.whole, _SERVER)
    if server is None or is_our_server(server):
        return []
    where = display(settings.file, paths.home)
    return [
        f'An MCP server "{SERVER}" of another program is in force; ours in {where} replaces it.'
    ]
