"""Entries of settings files that are ours, found by their marks and taken out whole.

Idea: agents that took over Claude Code's form of hooks share this: an event holds groups, a group
its hooks beside a matcher. Invariant: only what carries a mark is named; a hook that stands in one
group with somebody's own loses nothing but itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from openmem.agents.launchers import MCP
from openmem.agents.reading import list_at, table_at
from openmem.plan.action import Json, Keys


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


def hooks_in(settings: Json) -> Iterator[tuple[str, Keys, Json]]:
    """Yield each hook of a settings file: the event, its place, the hook itself."""
    for event in table_at(settings, ("hooks",)):
        for number, group in enumerate(list_at(settings, ("hooks", event))):
            for place, hook in enumerate(list_at(group, ("hooks",))):
                yield event, ("hooks", event, number, "hooks", place), hook


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


def is_our_server(server: Json) -> bool:
    """Return whether an MCP entry runs our server, in this form or an earlier one."""
    return mentions(server, MCP) or mentions(server, "openmem.mcp")
