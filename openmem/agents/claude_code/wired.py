"""What of ours stands in Claude Code's files now, as a parser finds it: never what we meant to do.

Source: users' report 10 (a summary that claimed three hooks where the file had lost two).
"""

from __future__ import annotations

from openmem.agents import slash_command
from openmem.agents.agent import Detected, Wired
from openmem.agents.claude_code.detect import hooks_off
from openmem.agents.claude_code.grants import wide_grants
from openmem.agents.claude_code.older import (
    hooks_to_remove,
    is_predecessors,
    servers_in,
    servers_to_remove,
)
from openmem.agents.claude_code.places import (
    BASE_URL,
    EVENTS,
    NAME,
    PERMISSIONS,
    SERVER,
    WIDE_PERMISSION,
    places_of,
)
from openmem.agents.entries import hooks_in, is_our_server, mentions
from openmem.agents.launchers import HOOK, MCP, hook_command, launcher_path
from openmem.agents.reading import list_at, read_json, text_at
from openmem.agents.skill import has_skill
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.base.route import routed_port
from openmem.plan.system import System


def read_wired(system: System, paths: Paths, detected: Detected) -> Wired:
    """Return what of ours is there; `problem` is set when a file cannot be read."""
    found = places_of(detected)
    try:
        settings, state = read_json(system, found.settings), read_json(system, found.state)
    except OpenmemError as error:
        return Wired(problem=error.message)
    commands = {event: hook_command(paths, ours, NAME) for event, (ours, _) in EVENTS.items()}
    hooks: list[str] = []
    older: list[str] = []
    for event, _keys, hook in hooks_in(settings):
        stated = text_at(hook, ("command",))
        if stated == commands.get(event):
            if event in hooks:
                older.append(f"a second hook of ours on {event}")
            hooks.append(event)
        elif mentions(hook, HOOK) and event in EVENTS:
            older.append(f"an older hook of ours on {event}")
    older += [
        entry.says for entry in hooks_to_remove(settings, keeps=EVENTS, with_predecessors=True)
    ]
    older += [entry.says for entry in servers_to_remove(state, with_predecessors=True)]
    servers = dict(servers_in(state))
    server = servers.get(("mcpServers", SERVER))
    has_server = text_at(server, ("command",)) == launcher_path(paths, MCP)
    if server is not None and not has_server:
        if is_predecessors(server):
            older.append(f'the MCP server "{SERVER}", of OpenMem 0.8')
        elif is_our_server(server):
            older.append(f'an older form of the MCP server "{SERVER}"')
    url = text_at(settings, BASE_URL)
    allowed = list_at(settings, ("permissions", "allow"))
    return Wired(
        hooks=tuple(event for event in EVENTS if event in hooks),
        hooks_off=hooks_off(system, settings, found),
        mcp=has_server,
        base_url=url,
        port=routed_port(url, NAME),
        allow_tools=any(one in allowed for one in (WIDE_PERMISSION, *PERMISSIONS)),
        command=slash_command.is_ours(system, found.command),
        skill=has_skill(system, found.skills),
        older=tuple(older),
        wide=wide_grants(system, found, settings, state) if server is not None else (),
    )
