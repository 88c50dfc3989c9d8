"""The plan that makes Claude Code's settings as wanted, worked out from what stands there.

Idea: each part (hooks, MCP entry, base URL, permission) is true, false or left as it is, so one
function wires, re-wires after an upgrade, takes the address out for `proxy stop` and puts it back.
Invariant: only entries that carry our mark, or OpenMem 0.8's, are replaced or removed; planning
again after applying gives nothing. Trap: what stood at the base URL before us is found in the
receipts, not guessed: the file itself no longer tells.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from openmem.agents import slash_command
from openmem.agents.agent import Detected, Wanted
from openmem.agents.change import Change, written
from openmem.agents.claude_code.grants import is_wide
from openmem.agents.claude_code.leftovers import (
    other_addresses,
    plan_elsewhere,
    plan_without_older_skill,
    said,
)
from openmem.agents.claude_code.older import (
    hooks_to_remove,
    is_predecessors,
    servers_to_remove,
)
from openmem.agents.claude_code.places import (
    BASE_URL,
    DEFAULT_UPSTREAM,
    EVENTS,
    KEEP_DAYS,
    MATCHERS,
    NAME,
    PERMISSIONS,
    SERVER,
    TOOL_SEARCH,
    Places,
    places_of,
)
from openmem.agents.entries import is_our_server
from openmem.agents.launchers import HOOK, MCP, hook_command, launcher_path, plan_launchers
from openmem.agents.reading import list_at, read_json, table_at, text_at, value_at
from openmem.agents.skill import plan_skill, skill_warnings
from openmem.base.paths import Paths, display
from openmem.base.route import base_url, routed_port
from openmem.plan.action import Action, Edit, Json, ManualStep, Plan
from openmem.plan.receipt import receipts
from openmem.plan.system import System

_ROUTE_MARK = f"/a/{NAME}"
_ALLOWED = ("permissions", "allow")
_SERVER = ("mcpServers", SERVER)


def plan_wiring(system: System, paths: Paths, detected: Detected, wanted: Wanted) -> Plan:
    """Return the plan that makes the settings as wanted; empty when they are.

    Unparseable or Refused, naming the place, for a file that must not be edited.
    """
    found = places_of(detected)
    settings, state = read_json(system, found.settings), read_json(system, found.state)
    settings_change = _settings_change(system, paths, found, settings, wanted)
    state_change = _state_change(paths, state, wanted)
    actions: list[Action] = []
    names = ((HOOK,) if wanted.hooks else ()) + ((MCP,) if wanted.mcp else ())
    actions += plan_launchers(system, paths, names)
    if wanted.hooks is not None:
        actions += slash_command.plan_command(system, found.command, NAME, is_wanted=wanted.hooks)
    if wanted.hooks:
        # Ours is written over it; a link is the person's to remove.
        older = plan_without_older_skill(system, found)
        actions += [step for step in older if not wanted.skill or isinstance(step, ManualStep)]
    actions += plan_skill(system, found.skills, is_wanted=wanted.skill)
    actions += written(system, found.state, state_change)
    # Last: from here on the agent's requests come to us.
    actions += written(system, found.settings, settings_change)
    named = settings_change.named + state_change.named
    warnings: list[str] = []
    if wanted.hooks or wanted.mcp:
        more, more_named = plan_elsewhere(system, state, found, wanted)
        actions += more
        named += more_named
    if wanted.skill:
        warnings += skill_warnings(system, found.skills, paths.home)
    if wanted.hooks:
        warnings += slash_command.warnings(system, found.command, paths.home)
    if wanted.mcp:
        warnings += _foreign_server(state, paths, found)
    if wanted.proxy:
        warnings += other_addresses(system, state, found, wanted)
    warnings += said(named, paths, detected)
    return Plan(actions=tuple(actions), warnings=tuple(dict.fromkeys(warnings)))


def _settings_change(
    system: System, paths: Paths, found: Places, settings: Json, wanted: Wanted
) -> Change:
    change = Change()
    if wanted.hooks is not None:
        keeps = EVENTS if wanted.hooks else {}
        change.remove(
            settings,
            hooks_to_remove(settings, keeps=keeps, with_predecessors=wanted.hooks),
        )
        for event, (ours, seconds) in EVENTS.items() if wanted.hooks else ():
            hook: Json = {
                "type": "command",
                "command": hook_command(paths, ours, NAME),
                "timeout": seconds,
            }
            group: Json = {"hooks": [hook]}
            if event in MATCHERS:
                group = {"matcher": MATCHERS[event], "hooks": [hook]}
            change.edits.append(Edit(keys=("hooks", event), op="append", value=group, marker=HOOK))
        change.parts.append(f"{len(EVENTS)} hooks" if wanted.hooks else "no hooks of ours")
    if wanted.proxy is True:
        url = base_url(wanted.port, NAME)
        change.edits.append(Edit(keys=BASE_URL, op="set", value=url, marker=_ROUTE_MARK))
        change.parts.append("the proxy's address")
        if TOOL_SEARCH[-1] not in table_at(settings, TOOL_SEARCH[:-1]):
            change.edits.append(Edit(keys=TOOL_SEARCH, op="set", value="true"))
            change.parts.append("tool loading on demand")
    elif wanted.proxy is False and routed_port(text_at(settings, BASE_URL), NAME):
        change.edits.append(_way_back(system, paths, found, wanted))
        change.parts.append("the address of before")
    if wanted.keep_days is not None:
        change.edits.append(Edit(keys=KEEP_DAYS, op="set", value=wanted.keep_days))
        change.parts.append(f"its session files kept {wanted.keep_days} days")
    if wanted.allow_tools is True and wanted.mcp is not False:
        change.edits += _disallowed(settings, ())
        change.edits += [Edit(keys=_ALLOWED, op="append", value=one) for one in PERMISSIONS]
        change.parts.append("its tools allowed, but for memory_forget")
    elif wanted.allow_tools is False or wanted.mcp is False:
        change.edits += _disallowed(settings, PERMISSIONS)
    return change


def _way_back(system: System, paths: Paths, found: Places, wanted: Wanted) -> Edit:
    """Return the edit that gives the base URL the value of before us.

    The receipts know what we replaced. Without them: the upstream that is asked for, unless it is
    the agent's default or what the shell says anyway.
    """
    for receipt in receipts(paths, system):
        if not receipt.is_active:
            continue
        for entry in receipt.entries:
            if entry.path != found.settings:
                continue
            for edit in entry.edits:
                if edit.keys != BASE_URL or edit.op != "set":
                    continue
                before = _decoded(edit.was)
                if routed_port(before, NAME):
                    continue  # an address of ours over an older one
                if before:
                    return Edit(keys=BASE_URL, op="set", value=before)
                return Edit(keys=BASE_URL, op="remove", marker=_ROUTE_MARK)
    inherited = system.environ.get("ANTHROPIC_BASE_URL", "").rstrip("/")
    if wanted.upstream.rstrip("/") in ("", DEFAULT_UPSTREAM, inherited):
        return Edit(keys=BASE_URL, op="remove", marker=_ROUTE_MARK)
    return Edit(keys=BASE_URL, op="set", value=wanted.upstream)


def _decoded(source: str | None) -> str:
    try:
        value = json.loads(source or "null")
    except ValueError:
        return ""  # a damaged receipt: as if nothing had stood there
    return value if isinstance(value, str) else ""


def _disallowed(settings: Json, permissions: Collection[str]) -> list[Edit]:
    """Return the removal of these entries and of those that allow all of our tools."""
    allowed = list_at(settings, _ALLOWED)
    return [
        Edit(keys=(*_ALLOWED, number), op="remove")
        for number in reversed(range(len(allowed)))
        if allowed[number] in permissions or is_wide(allowed[number])
    ]


def _state_change(paths: Paths, state: Json, wanted: Wanted) -> Change:
    change = Change()
    if wanted.mcp is None:
        return change
    change.remove(state, servers_to_remove(state, with_predecessors=wanted.mcp))
    there = value_at(state, _SERVER)
    if wanted.mcp:
        entry = _server_entry(paths, there)
        change.edits.append(Edit(keys=_SERVER, op="set", value=entry, marker=MCP))
        change.parts.append(f'the MCP server "{SERVER}"')
    elif is_our_server(there):
        change.edits.append(Edit(keys=_SERVER, op="remove", marker=MCP))
        change.parts.append("no MCP server of ours")
    return change


def _server_entry(paths: Paths, there: Json) -> Json:
    """Return our MCP entry; what a person added to the one that is there is kept."""
    program = launcher_path(paths, MCP)
    entry: dict[str, Json] = {"type": "stdio", "command": program, "args": [], "env": {}}
    entry["alwaysLoad"] = True  # else the tools are only named, and a model does not load them
    if isinstance(there, dict) and there.get("command") == program and there.get("args") == []:
        entry |= there
    return entry


def _foreign_server(state: Json, paths: Paths, found: Places) -> list[str]:
    server = value_at(state, _SERVER)
    if server is None or is_our_server(server):
        return []
    whose = "of OpenMem 0.8" if is_predecessors(server) else "of another program"
    where = display(found.state, paths.home)
    return [f'An MCP server "{SERVER}" {whose} stands in {where}; ours takes its place.']
