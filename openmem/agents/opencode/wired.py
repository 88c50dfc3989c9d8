"""What of ours stands in OpenCode's files now, as a parser finds it: never what we meant to do.

Source: users' report 10 (a summary that claimed three hooks where the file had lost two).
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents import slash_command
from openmem.agents.agent import Detected, Wired
from openmem.agents.entries import is_our_server
from openmem.agents.launchers import MCP, launcher_path
from openmem.agents.opencode import plugin
from openmem.agents.opencode.grants import wide_grants
from openmem.agents.opencode.places import EVENTS, SERVER, places_of
from openmem.agents.opencode.settings import providers_in_use, read_settings
from openmem.agents.reading import value_at
from openmem.agents.skill import has_skill
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.plan.system import System


def read_wired(
    system: System, paths: Paths, detected: Detected, environ: Mapping[str, str]
) -> Wired:
    """Return what of ours is there; `problem` is set when a file cannot be read."""
    found = places_of(detected, environ, paths.home)
    try:
        settings = read_settings(system, found)
    except OpenmemError as error:
        return Wired(problem=error.message)
    older: list[str] = []
    has_plugin = plugin.is_ours(system, found.plugin)
    if has_plugin and not plugin.is_current(system, paths, found, detected):
        has_plugin = False
        older.append("an older form of the plug-in")
    older += [f"a second plug-in in {p}" for p in found.older_plugins if plugin.is_ours(system, p)]
    server = value_at(settings.whole, ("mcp", SERVER))
    has_server = value_at(server, ("command",)) == [launcher_path(paths, MCP)]
    if server is not None and not has_server and is_our_server(server):
        older.append(f'an older form of the MCP server "{SERVER}"')
    providers = providers_in_use(system, found, settings.whole, environ)
    ours = [one for one in providers if one.port]
    return Wired(
        hooks=EVENTS if has_plugin else (),
        mcp=has_server and value_at(server, ("enabled",)) is not False,
        base_url=ours[0].stated if ours else "",
        port=ours[0].port if ours else 0,
        routes=tuple(one.route for one in ours),
        unrouted=tuple(one.name for one in providers if not one.port and not one.unrouted),
        command=slash_command.is_ours(system, found.command),
        skill=has_skill(system, found.skills),
        older=tuple(older),
        wide=wide_grants(system, found, settings) if server is not None else (),
    )
