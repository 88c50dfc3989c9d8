"""Entries that earlier installations left: ours in another form, and those of OpenMem 0.8.

Invariant: only what carries a mark is named, and only that is taken out; a hook that stands in one
group with somebody's own loses nothing but itself. Trap: OpenMem 0.8 copied a runtime to
`personal-memory/agent-runtime` and called it by path, so its name alone does not find it.
Source: seeds of OpenMem 0.8 (npm @bcmyguest/openmem); users' reports 7 and 10.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from openmem.agents.claude_code.places import SERVER
from openmem.agents.entries import Entry, hooks_in, is_our_server, mentions
from openmem.agents.launchers import HOOK
from openmem.agents.reading import table_at
from openmem.plan.action import Json, Keys

_PREDECESSOR = re.compile(
    r"@bcmyguest/openmem"
    r"|personal-memory/agent-runtime"
    r"|(?:^|[/\\\s'\"])hook-runner\.mjs"
    r"|(?:^|[/\\\s'\"])openmem(?:-mcp|-hook)?\.mjs"
)


def is_predecessors(value: Json) -> bool:
    """Return whether an entry runs OpenMem 0.8."""
    return mentions(value, _PREDECESSOR)


def hooks_to_remove(
    settings: Json, *, keeps: Collection[str], with_predecessors: bool
) -> list[Entry]:
    """Return hooks that go: ours on events that are not in `keeps`, and OpenMem 0.8's.

    Another form of ours on an event that is kept is replaced where it stands, so it is not named.
    """
    found: list[Entry] = []
    for event, keys, hook in hooks_in(settings):
        if with_predecessors and is_predecessors(hook):
            says = f"a hook of OpenMem 0.8 on {event}"
            found.append(Entry(keys=keys, says=says, is_predecessor=True))
        elif mentions(hook, HOOK) and event not in keeps:
            says = f"a hook of ours on {event}"
            found.append(Entry(keys=keys, says=says, is_predecessor=False))
    return found


def servers_in(document: Json) -> Iterator[tuple[Keys, Json]]:
    """Yield each MCP server of a `.claude.json` or `.mcp.json`, a project's own included."""
    for name, server in table_at(document, ("mcpServers",)).items():
        yield ("mcpServers", name), server
    for folder in table_at(document, ("projects",)):
        keys: Keys = ("projects", folder, "mcpServers")
        for name, server in table_at(document, keys).items():
            yield (*keys, name), server


def servers_to_remove(document: Json, *, with_predecessors: bool) -> list[Entry]:
    """Return MCP servers that go: OpenMem 0.8's, and ours anywhere but in its one place.

    The entry in that place is wiring's own business, whatever it holds.
    """
    found: list[Entry] = []
    for keys, server in servers_in(document):
        if keys == ("mcpServers", SERVER):
            continue
        where = f' "{keys[-1]}"' + (f" of {keys[1]}" if keys[0] == "projects" else "")
        if with_predecessors and is_predecessors(server):
            says = f"the MCP server{where}, of OpenMem 0.8"
            found.append(Entry(keys=keys, says=says, is_predecessor=True))
        elif is_our_server(server):
            says = f"the MCP server{where}, ours a second time"
            found.append(Entry(keys=keys, says=says, is_predecessor=False))
    return found
