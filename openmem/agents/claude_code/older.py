"""Entries that earlier installations left: ours in another form, and those of OpenMem 0.8.

Invariant: only what carries a mark is named, and only that is taken out; a hook that stands in one
group with somebody's own loses nothing but itself. Trap: OpenMem 0.8 copied a runtime to
`personal-memory/agent-runtime` and called it by path, so its name alone does not find it.
Source: seeds of OpenMem 0.8 (npm @bcmyguest/openmem); users' reports 7 and 10.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from openmem.agents.claude_code.places import SERVER
from openmem.agents.claude_code.reading import list_at, table_at
from openmem.agents.launchers import HOOK, MCP
from openmem.plan.action import Json, Keys

_PREDECESSOR = re.compile(
    r"@bcmyguest/openmem"
    r"|personal-memory/agent-runtime"
    r"|(?:^|[/\\\s'\"])hook-runner\.mjs"
    r"|(?:^|[/\\\s'\"])openmem(?:-mcp|-hook)?\.mjs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry found in a parsed file. `keys`: its place. `says`: what it is, in words."""

    keys: Keys
    says: str
    is_predecessor: bool


def mentions(value: Json, mark: re.Pattern[str] | str) -> bool:
    """Return whether a text anywhere in a value holds the mark."""
    if isinstance(value, str):
        return mark in value if isinstance(mark, str) else bool(mark.search(value))
    if isinstance(value, list):
        return any(mentions(item, mark) for item in value)
    if isinstance(value, dict):
        return any(mentions(item, mark) for item in value.values())
    return False


def is_predecessors(value: Json) -> bool:
    """Return whether an entry runs OpenMem 0.8."""
    return mentions(value, _PREDECESSOR)


def hooks_in(settings: Json) -> Iterator[tuple[str, Keys, Json]]:
    """Yield each hook of a settings file: the event, its place, the hook itself."""
    for event in table_at(settings, ("hooks",)):
        for number, group in enumerate(list_at(settings, ("hooks", event))):
            for place, hook in enumerate(list_at(group, ("hooks",))):
                yield event, ("hooks", event, number, "hooks", place), hook


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


def whole(settings: Json, entries: list[Entry]) -> list[Keys]:
    """Return what to remove so that no group, event or table is left empty by it; last first.

    A list is removed last entry first, because the places behind an entry move.
    """
    gone = {entry.keys for entry in entries}
    while True:
        wider = {_above(settings, keys, gone) for keys in gone}
        if wider == gone:
            return sorted(gone, key=_order, reverse=True)
        gone = wider


def _above(settings: Json, keys: Keys, gone: set[Keys]) -> Keys:
    """Return the place above `keys` when everything in it goes, else `keys`."""
    # A group holds its hooks beside a matcher; without hooks it is nothing.
    step = 2 if len(keys) == 5 else 1
    above = keys[:-step]
    if len(keys) <= 1 or not above:
        return keys
    box = _at(settings, keys[:-1])
    names: list[str | int] = list(box) if isinstance(box, dict) else []
    if isinstance(box, list):
        names = list(range(len(box)))
    return above if all((*keys[:-1], name) in gone for name in names) else keys


def _at(value: Json, keys: Keys) -> Json:
    for key in keys:
        value = value[key]  # type: ignore[index]  # the place was found in it
    return value


def _order(keys: Keys) -> tuple[tuple[str, int], ...]:
    return tuple((key, 0) if isinstance(key, str) else ("", key) for key in keys)


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


def is_our_server(server: Json) -> bool:
    """Return whether an MCP entry runs our server, in this form or an earlier one."""
    return mentions(server, MCP) or mentions(server, "openmem.mcp")
