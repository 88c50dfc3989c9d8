"""Approvals of Codex that let our tools that erase run without being asked.

Idea: the mode of the server's table counts for every tool that has none of its own. Invariant: a
mode that a tool has of its own is a person's word and is not told. Source: trials with 0.171.0
(docs/reference/codex.md); its configuration reference for projects' files.
"""

from __future__ import annotations

from openmem.agents.agent import WideGrant
from openmem.agents.codex.places import NAME, SERVER, Places, project_config
from openmem.agents.codex.settings import read_toml_or_none
from openmem.agents.reading import list_at, table_at, text_at, value_at
from openmem.base.own_tools import ASKING
from openmem.plan.action import Json, Keys
from openmem.plan.system import System

APPROVAL = "default_tools_approval_mode"
APPROVE = "approve"
_SERVER: Keys = ("mcp_servers", SERVER)
_NARROW = f"openmem install-mcp --agent {NAME} --allow-tools   has what erases ask again"


def wide_grants(system: System, found: Places, config: Json) -> tuple[WideGrant, ...]:
    """Return what is too wide in a person's `config.toml` and in those of the projects it lists."""
    own = table_at(config, _SERVER)
    grants = _grants(found.config, own, own, _NARROW)
    for folder in table_at(config, ("projects",)):
        path = project_config(folder)
        if not folder.startswith("/") or path == found.config:
            continue
        stated = table_at(read_toml_or_none(system, path), _SERVER)
        tools = table_at(own, ("tools",)) | table_at(stated, ("tools",))
        narrow = f"take it out of that file, then: {_NARROW}"
        grants += _grants(path, stated, own | stated | {"tools": tools}, narrow)
    return tuple(grants)


def _grants(path: str, stated: Json, whole: Json, narrow: str) -> list[WideGrant]:
    """Return the grant of one file. `whole`: the server's table as it counts there."""
    if text_at(stated, (APPROVAL,)) != APPROVE or all(_is_held(whole, tool) for tool in ASKING):
        return []
    entry = f'{".".join(map(str, _SERVER))}.{APPROVAL} = "{APPROVE}"'
    return [WideGrant(file=path, entry=entry, narrow=narrow)]


def _is_held(server: Json, tool: str) -> bool:
    """Return whether a tool has a mode of its own, or is not offered at all."""
    enabled = value_at(server, ("enabled_tools",))
    return (
        bool(text_at(server, ("tools", tool, "approval_mode")))
        or tool in list_at(server, ("disabled_tools",))
        or (isinstance(enabled, list) and tool not in enabled)
    )
