"""The plan that makes Codex's settings as wanted, worked out from what stands there.

Idea: each part (hooks, trust, MCP table, base URL, approval) is true, false or left as it is, so
one function wires, re-wires after an upgrade, takes the address out for `proxy stop` and puts it
back. Invariant: only entries that carry our mark are replaced or removed; a provider of the
person's keeps its name and keys. Trap: what stood at a base URL before us is found in the receipts;
another provider that came into force since must not leave the first one pointing at us.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from openmem.agents.agent import Detected, Wanted
from openmem.agents.change import Change, written
from openmem.agents.codex import trust
from openmem.agents.codex.detect import other_addresses
from openmem.agents.codex.grants import APPROVAL, APPROVE
from openmem.agents.codex.places import BUILT_IN, EVENTS, NAME, SERVER, Places, places_of
from openmem.agents.codex.settings import (
    BASE_URL,
    addresses_in,
    provider_in_force,
    read_toml,
)
from openmem.agents.entries import Entry, hooks_in, is_our_server, mentions
from openmem.agents.launchers import HOOK, MCP, launcher_path, plan_launchers
from openmem.agents.reading import read_json, table_at, value_at
from openmem.agents.skill import plan_skill, skill_warnings
from openmem.base.errors import Refused
from openmem.base.own_tools import ASKING
from openmem.base.paths import Paths, display
from openmem.base.route import base_url, routed_port
from openmem.plan.action import Action, Edit, Json, Keys, Plan
from openmem.plan.apply import preview
from openmem.plan.edit.planner import plan_toml_edit
from openmem.plan.receipt import receipts
from openmem.plan.system import System

_ROUTE_MARK = f"/a/{NAME}"
_SERVER: Keys = ("mcp_servers", SERVER)
_STARTUP_SECONDS = 20
# Codex does not start at all when a required server does not; this one always answers.
_ARGUMENTS: list[Json] = ["--stay"]


def plan_wiring(system: System, paths: Paths, detected: Detected, wanted: Wanted) -> Plan:
    """Return the plan that makes the settings as wanted; empty when they are.

    Unparseable or Refused, naming the place, for a file that must not be edited.
    """
    found = places_of(detected)
    config, hooks = read_toml(system, found.config), read_json(system, found.hooks)
    names = ((HOOK,) if wanted.hooks else ()) + ((MCP,) if wanted.mcp else ())
    actions: list[Action] = plan_launchers(system, paths, names)
    actions += plan_skill(system, found.skills, is_wanted=wanted.skill)
    hook_actions = _hook_actions(system, paths, found, hooks, wanted)
    actions += hook_actions
    change, warnings = Change(), []
    ahead = read_json(preview(Plan(actions=tuple(hook_actions)), system), found.hooks)
    if wanted.hooks is False:
        change.edits += trust.distrust_edits(trust.our_hooks(found, hooks, paths), config)
    elif wanted.trust_hooks:
        warnings += _trust(system, paths, found, detected, ahead, config, change)
    _put_server(paths, config, wanted, change)
    _put_address(system, paths, found, config, detected, wanted, change)
    if change.edits:
        # Last: from here on the agent's requests come to us.
        why = ", ".join(dict.fromkeys(change.parts)) or "older entries"
        actions += plan_toml_edit(system, found.config, change.edits, why=why)
    if wanted.skill:
        warnings += skill_warnings(system, found.skills, paths.home)
    if wanted.mcp:
        warnings += _foreign_server(config, paths, found)
    if wanted.proxy:
        warnings += other_addresses(system, wanted.projects)
    return Plan(actions=tuple(actions), warnings=tuple(dict.fromkeys(warnings)))


def _hook_actions(
    system: System, paths: Paths, found: Places, hooks: Json, wanted: Wanted
) -> list[Action]:
    if wanted.hooks is None:
        return []
    change = Change()
    keeps = EVENTS if wanted.hooks else {}
    gone = [
        Entry(keys=keys, says=f"a hook of ours on {event}", is_predecessor=False)
        for event, keys, hook in hooks_in(hooks)
        if mentions(hook, HOOK) and event not in keeps
    ]
    change.remove(hooks, gone)
    for event in keeps:
        group: Json = {"hooks": [trust.hook_value(paths, event)]}
        # Appended: Codex trusts a hook by its place, and somebody's may stand before ours.
        change.edits.append(Edit(keys=("hooks", event), op="append", value=group, marker=HOOK))
    change.parts.append(f"{len(EVENTS)} hooks" if wanted.hooks else "no hooks of ours")
    return written(system, found.hooks, change)


def _trust(
    system: System,
    paths: Paths,
    found: Places,
    detected: Detected,
    hooks: Json,
    config: Json,
    change: Change,
) -> list[str]:
    """Trust our hooks as they will stand; return what the person should know of it."""
    ours = trust.our_hooks(found, hooks, paths)
    edits = trust.trust_edits(ours, config)
    if not edits:
        return []
    version = f"Codex {detected.version}".rstrip()
    if not detected.binary:
        return ["Codex itself was not found, so its hooks stay untrusted: /hooks in Codex"]
    if not trust.agrees(system, detected.binary, ours):
        return [
            f"{version} does not confirm what trusting these hooks would cover, so they stay "
            "untrusted. Review them in Codex: /hooks"
        ]
    change.edits += edits
    change.parts.append("its hooks trusted")
    commands = "; ".join(str(hook.value["command"]) for hook in ours)
    return [f"Codex will run, without asking again: {commands}"]


def _put_server(paths: Paths, config: Json, wanted: Wanted, change: Change) -> None:
    there = value_at(config, _SERVER)
    if wanted.mcp is False:
        if is_our_server(there):
            change.edits.append(Edit(keys=_SERVER, op="remove", marker=MCP))
            change.parts.append("no MCP server of ours")
        return
    if wanted.mcp is None and not (is_our_server(there) and wanted.allow_tools is not None):
        return
    entry = _server_entry(paths, there)
    if wanted.allow_tools is True:
        entry[APPROVAL] = APPROVE
        entry["tools"] = _asking(entry)
        change.parts.append("its tools allowed, but for memory_forget")
    elif wanted.allow_tools is False:
        entry.pop(APPROVAL, None)
    change.edits.append(Edit(keys=_SERVER, op="set", value=entry, marker=MCP))
    change.parts.append(f'the MCP server "{SERVER}"')


def _asking(entry: Mapping[str, Json]) -> Json:
    """Return the table of single tools, in which those that erase ask; a person's own stay."""
    tools = entry.get("tools")
    kept: dict[str, Json] = dict(tools) if isinstance(tools, dict) else {}
    for name in ASKING:
        asks: dict[str, Json] = {"approval_mode": "prompt"}
        own = kept.get(name)
        kept[name] = asks | (own if isinstance(own, dict) else {})
    return kept


def _server_entry(paths: Paths, there: Json) -> dict[str, Json]:
    """Return our MCP table; what a person added to the one that is there is kept."""
    entry: dict[str, Json] = {
        "command": launcher_path(paths, MCP),
        "args": list(_ARGUMENTS),
        "required": True,  # else the first request may go out without the tools
        "startup_timeout_sec": _STARTUP_SECONDS,
    }
    if isinstance(there, dict) and is_our_server(there):
        kept = {key: value for key, value in there.items() if key not in ("command", "args")}
        entry |= kept
    return entry


def _foreign_server(config: Json, paths: Paths, found: Places) -> list[str]:
    server = value_at(config, _SERVER)
    if server is None or is_our_server(server):
        return []
    where = display(found.config, paths.home)
    return [f'An MCP server "{SERVER}" of another program stands in {where}; ours replaces it.']


def _put_address(
    system: System,
    paths: Paths,
    found: Places,
    config: Json,
    detected: Detected,
    wanted: Wanted,
    change: Change,
) -> None:
    if wanted.proxy is None:
        return
    provider = provider_in_force(config)
    for place, url in addresses_in(config):
        if routed_port(url, NAME) and not (wanted.proxy and place == provider.place):
            change.edits.append(_way_back(system, paths, found, place, detected, wanted))
            change.parts.append("the address of before")
    if not wanted.proxy or not provider.place:
        return
    if provider.name != BUILT_IN and not table_at(config, provider.place[:-1]):
        raise Refused(
            f'{found.config}: the provider "{provider.name}" is not a table.',
            code="unroutable-provider",
        )
    url = base_url(wanted.port, NAME)
    change.edits.append(Edit(keys=provider.place, op="set", value=url, marker=_ROUTE_MARK))
    named = "" if provider.is_built_in else f' of the provider "{provider.name}"'
    change.parts.append(f"the proxy's address{named}")


def _way_back(
    system: System, paths: Paths, found: Places, place: Keys, detected: Detected, wanted: Wanted
) -> Edit:
    """Return the edit that gives an address the value of before us.

    The receipts know what we replaced. Without them: the upstream that is asked for, unless it is
    where the agent goes by itself.
    """
    for receipt in receipts(paths, system):
        if not receipt.is_active:
            continue
        for entry in receipt.entries:
            if entry.path != found.config:
                continue
            for edit in entry.edits:
                if edit.keys != place or edit.op != "set":
                    continue
                before = _decoded(edit.was)
                if routed_port(before, NAME):
                    continue  # an address of ours over an older one
                if before:
                    return Edit(keys=place, op="set", value=before)
                return Edit(keys=place, op="remove", marker=_ROUTE_MARK)
    upstream = wanted.upstream.rstrip("/")
    if not upstream or (place == BASE_URL and upstream in detected.defaults):
        return Edit(keys=place, op="remove", marker=_ROUTE_MARK)
    return Edit(keys=place, op="set", value=upstream)


def _decoded(source: str | None) -> str:
    try:
        value = tomllib.loads(f"v = {source}")["v"] if source else ""
    except tomllib.TOMLDecodeError:
        return ""  # a damaged receipt: as if nothing had stood there
    return value if isinstance(value, str) else ""
