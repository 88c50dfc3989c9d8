"""What memory providers' own plug-ins left in an agent's settings, told by their marks.

Idea: reading only. Two sets of hooks on one agent recall twice and retain twice, so who wires one
has to know of the other. Invariant: nothing of theirs is ever changed here; their own programs take
it out. Source: the upstream projects' integrations as of 2026-08 (Hindsight, mem0, Cognee).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from openmem.agents.agent import Detected
from openmem.agents.claude_code import places as claude
from openmem.agents.codex import places as codex
from openmem.agents.codex.settings import read_toml_or_none
from openmem.agents.cursor import places as cursor
from openmem.agents.entries import hooks_in, mentions
from openmem.agents.launchers import HOOK
from openmem.agents.opencode import places as opencode
from openmem.agents.opencode.settings import read_settings
from openmem.agents.provider_mcp import MARK
from openmem.agents.reading import list_at, read_or_none, table_at
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.plan.action import Json
from openmem.plan.system import System

_HOOKS = {
    "hindsight": re.compile(r"\.hindsight/|hindsight[-_](?:coding-agents|memory)", re.I),
    "mem0": re.compile(r"mem0[-_/](?:plugin|ai|hooks)|install_codex_hooks|/mem0/", re.I),
    "cognee": re.compile(r"\.cognee(?:-plugin)?/|cognee[-_](?:memory|integrations|plugin)", re.I),
}
# The name before the @ of `plug-in@marketplace`, as each agent keeps it.
_PLUGINS = {
    "hindsight-memory": "hindsight",
    "hindsight": "hindsight",
    "mem0": "mem0",
    "cognee-memory": "cognee",
    "cognee": "cognee",
}
_OPENCODE = {
    "@vectorize-io/opencode-hindsight": "hindsight",
    "@cognee/cognee-opencode": "cognee",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """One thing of a provider's own plug-in. `kind`: "hooks" (they recall and retain), or "mcp"."""

    provider: str
    kind: str
    place: str
    says: str


def found_upstream(system: System, detected: Detected) -> list[Upstream]:
    """Return what stands in an agent's files; a file that cannot be read says nothing."""
    if detected.name == claude.NAME:
        places = claude.places_of(detected)
        settings, state = read_or_none(system, places.settings), read_or_none(system, places.state)
        return [
            *_hooks(settings, places.settings),
            *_enabled(table_at(settings, ("enabledPlugins",)), places.settings),
            *_servers(table_at(state, ("mcpServers",)), places.state),
        ]
    if detected.name == codex.NAME:
        found = codex.places_of(detected)
        config = read_toml_or_none(system, found.config)
        plugins = table_at(config, ("plugins",))
        is_on: dict[str, Json] = {
            name: not (isinstance(one, dict) and one.get("enabled") is False)
            for name, one in plugins.items()
        }
        return [
            *_hooks(read_or_none(system, found.hooks), found.hooks),
            *_hooks(config, found.config),
            *_enabled(is_on, found.config),
            *_servers(table_at(config, ("mcp_servers",)), found.config),
        ]
    if detected.name == opencode.NAME:
        home = Paths(system.environ).home
        try:
            whole = read_settings(system, opencode.places_of(detected, system.environ, home)).whole
        except OpenmemError:
            return []  # as for the others: a file that cannot be read says nothing here
        return list(_listed(whole, detected.settings_file))
    if detected.name == cursor.NAME:
        path = detected.settings_file
        hooks = table_at(read_or_none(system, path), ("hooks",))
        flat: dict[str, Json] = {event: [{"hooks": hooks[event]}] for event in hooks}
        return list(_hooks({"hooks": flat}, path))
    return []


def _hooks(settings: Json, path: str) -> Iterator[Upstream]:
    seen: set[str] = set()
    for _event, _keys, hook in hooks_in(settings):
        if mentions(hook, HOOK):
            continue  # ours, wherever its state folder lies
        for provider, mark in _HOOKS.items():
            if provider not in seen and mentions(hook, mark):
                seen.add(provider)
                yield Upstream(provider=provider, kind="hooks", place=path, says="hooks")


def _enabled(plugins: dict[str, Json], path: str) -> Iterator[Upstream]:
    for name, is_on in plugins.items():
        provider = _PLUGINS.get(name.partition("@")[0])
        if provider and is_on is True:
            yield Upstream(provider=provider, kind="hooks", place=path, says=f"the plug-in {name}")


def _servers(servers: dict[str, Json], path: str) -> Iterator[Upstream]:
    for name, entry in servers.items():
        provider = next((one for one in _HOOKS if name.lower().startswith(one)), "")
        if provider and not mentions(entry, MARK):
            says = f'the MCP server "{name}"'
            yield Upstream(provider=provider, kind="mcp", place=path, says=says)


def _listed(settings: Json, path: str) -> Iterator[Upstream]:
    for entry in list_at(settings, ("plugin",)):
        name = entry if isinstance(entry, str) else ""
        for known, provider in _OPENCODE.items():
            if name == known or name.startswith(f"{known}@"):
                says = f"the plug-in {known}"
                yield Upstream(provider=provider, kind="hooks", place=path, says=says)
