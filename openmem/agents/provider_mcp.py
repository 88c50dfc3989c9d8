"""The provider's own MCP server in an agent's settings, in the place of ours.

Idea: an entry of its own, known by a header that nobody else sends. Claude Code asks a program for
the key whenever it connects, so no key is in its file; Codex knows no such program, so there the
key stands in its file, which is said. Invariant: an entry of that name that is not ours is refused.
Trap: what goes through that server passes by policy, redaction and ledger.
Source: trials with Claude Code 2.1.332, Codex 0.171.0 and Hindsight 1.1.0 on 2026-11-30.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from openmem.agents.agent import Detected
from openmem.agents.claude_code import places as claude
from openmem.agents.codex import places as codex
from openmem.agents.codex.settings import read_toml
from openmem.agents.entries import mentions
from openmem.agents.launchers import PROVIDER_KEY, launcher_path
from openmem.agents.reading import read_json, table_at, value_at
from openmem.base.assets import read_asset
from openmem.base.errors import OpenmemError, Refused
from openmem.base.paths import Paths, display
from openmem.plan.action import Action, Edit, Json, Keys, Plan, Secret
from openmem.plan.edit.planner import plan_json_edit, plan_toml_edit, plan_write
from openmem.plan.system import System

MARK = "openmem-provider-mcp"
_HEADER = "x-openmem"
_TABLES: dict[str, Keys] = {claude.NAME: ("mcpServers",), codex.NAME: ("mcp_servers",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderServer:
    """The provider's own MCP server. `key_file`: "" when it needs no key."""

    name: str
    url: str
    key_file: str = ""


def can_take(agent: str) -> bool:
    """Return whether an agent's settings can hold such an entry."""
    return agent in _TABLES


def provider_servers(system: System, detected: Detected) -> list[str]:
    """Return the names of the entries that we made; empty when the file cannot be read."""
    try:
        servers = table_at(_document(system, detected), _TABLES.get(detected.name, ("",)))
    except OpenmemError:
        return []  # a finding of its own, for whoever reads the file to change it
    return [name for name, entry in servers.items() if mentions(entry, MARK)]


def plan_provider_server(
    system: System, paths: Paths, detected: Detected, server: ProviderServer | None
) -> Plan:
    """Return the plan that makes `server` the one entry of this kind; None: takes ours out.

    Refused when another's entry has its name. Unparseable for a file that must not be edited.
    """
    if not can_take(detected.name):
        return Plan()
    table = _TABLES[detected.name]
    there = table_at(_document(system, detected), table)
    wanted = server.name if server else ""
    edits = [
        Edit(keys=(*table, name), op="remove", marker=MARK)
        for name, entry in there.items()
        if mentions(entry, MARK) and name != wanted
    ]
    if server is None:
        return Plan(actions=tuple(_written(system, detected, edits, "no MCP server of a provider")))
    if server.name in there and not mentions(there[server.name], MARK):
        raise Refused(
            f'{_file(detected)}: an MCP server "{server.name}" that openmem did not make stands '
            "there. Nothing was written.",
            hint="Remove that entry, then run this again.",
            code="foreign",
        )
    actions: list[Action] = []
    warnings: list[str] = []
    secrets: tuple[Secret, ...] = ()
    headers: dict[str, Json] = {_HEADER: MARK}
    if detected.name == claude.NAME:
        entry: dict[str, Json] = {"type": "http", "url": server.url, "headers": headers}
        if server.key_file:
            actions += _plan_helper(system, paths, server.key_file)
            helper = shlex.quote(os.path.abspath(launcher_path(paths, PROVIDER_KEY)))
            entry["headersHelper"] = helper
    else:
        key = _key(system, server.key_file)
        if key:
            secrets = (Secret(key, f"file:{server.key_file}"),)
            headers["Authorization"] = f"Bearer {key}"
            where = display(_file(detected), paths.home)
            warnings.append(f"{detected.title} keeps the provider's key in {where}.")
        entry = {"url": server.url, "http_headers": headers}
    if value_at(there, (server.name,)) != entry:
        edits.append(Edit(keys=(*table, server.name), op="set", value=entry, marker=MARK))
    why = f'the MCP server "{server.name}" of the provider itself'
    actions += _written(system, detected, edits, why, secrets)
    return Plan(actions=tuple(actions), warnings=tuple(warnings) if actions else ())


def _plan_helper(system: System, paths: Paths, key_file: str) -> list[Action]:
    text = read_asset("hooks", PROVIDER_KEY).replace("file=''", f"file={shlex.quote(key_file)}", 1)
    path = launcher_path(paths, PROVIDER_KEY)
    return plan_write(system, path, text.encode(), "gives Claude Code the provider's key", 0o700)


def _key(system: System, path: str) -> str:
    data = system.read(path) if path else None
    lines = (data or b"").decode("utf-8", "replace").splitlines()
    return lines[0].strip() if lines else ""


def _document(system: System, detected: Detected) -> Json:
    if detected.name == codex.NAME:
        return read_toml(system, _file(detected))
    return read_json(system, _file(detected)) if detected.name == claude.NAME else {}


def _file(detected: Detected) -> str:
    if detected.name == codex.NAME:
        return codex.places_of(detected).config
    return claude.places_of(detected).state


def _written(
    system: System,
    detected: Detected,
    edits: list[Edit],
    why: str,
    secrets: tuple[Secret, ...] = (),
) -> list[Action]:
    if not edits:
        return []
    if detected.name == codex.NAME:
        return plan_toml_edit(system, _file(detected), edits, why=why, secrets=secrets)
    return plan_json_edit(system, _file(detected), edits, strict=True, why=why, secrets=secrets)
