"""What of ours stands in Codex's files now, as a parser finds it: never what we meant to do.

Source: users' report 10 (a summary that claimed three hooks where the file had lost two).
"""

from __future__ import annotations

from openmem.agents.agent import Detected, Wired
from openmem.agents.codex import trust
from openmem.agents.codex.grants import APPROVAL, APPROVE, wide_grants
from openmem.agents.codex.places import EVENTS, NAME, SERVER, places_of
from openmem.agents.codex.settings import provider_in_force, read_toml
from openmem.agents.entries import hooks_in, is_our_server, mentions
from openmem.agents.launchers import HOOK, MCP, launcher_path
from openmem.agents.reading import read_json, text_at, value_at
from openmem.agents.skill import has_skill
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.base.route import routed_port
from openmem.plan.system import System


def read_wired(system: System, paths: Paths, detected: Detected) -> Wired:
    """Return what of ours is there; `problem` is set when a file cannot be read."""
    found = places_of(detected)
    try:
        config, document = read_toml(system, found.config), read_json(system, found.hooks)
    except OpenmemError as error:
        return Wired(problem=error.message)
    hooks: list[str] = []
    older: list[str] = []
    for event, _keys, hook in hooks_in(document):
        if not mentions(hook, HOOK):
            continue
        if event not in EVENTS:
            older.append(f"a hook of ours on {event}")
        elif text_at(hook, ("command",)) != trust.hook_value(paths, event)["command"]:
            older.append(f"an older hook of ours on {event}")
        elif event in hooks:
            older.append(f"a second hook of ours on {event}")
        else:
            hooks.append(event)
    ours = trust.our_hooks(found, document, paths)
    passed_over = {hook.event for hook in trust.untrusted(ours, config)}
    passed_over |= set(hooks) - {hook.event for hook in ours}
    server = value_at(config, ("mcp_servers", SERVER))
    has_server = text_at(server, ("command",)) == launcher_path(paths, MCP)
    if server is not None and not has_server and is_our_server(server):
        older.append(f'an older form of the MCP server "{SERVER}"')
    url = provider_in_force(config).url
    return Wired(
        hooks=tuple(event for event in EVENTS if event in hooks),
        untrusted=tuple(event for event in EVENTS if event in hooks and event in passed_over),
        mcp=has_server and value_at(server, ("enabled",)) is not False,
        base_url=url,
        port=routed_port(url, NAME),
        skill=has_skill(system, found.skills),
        allow_tools=text_at(server, (APPROVAL,)) == APPROVE,
        older=tuple(older),
        wide=wide_grants(system, found, config) if server is not None else (),
    )
