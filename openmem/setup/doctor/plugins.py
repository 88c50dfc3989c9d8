"""Checks of whose hooks and whose tools an agent has: one set of each, the one that was chosen.

Source: users' reports and part 5 of the providers' issue: two plug-ins that recall on one agent
say everything twice and keep everything twice.
"""

from __future__ import annotations

from openmem.agents.base import AGENTS, Detected, Wired
from openmem.agents.provider_mcp import provider_servers
from openmem.agents.upstream import found_upstream
from openmem.base.config import load_config
from openmem.base.paths import Paths
from openmem.plan.system import System
from openmem.setup.doctor.finding import Finding
from openmem.setup.plugin import way_in, way_out


def check_plugins(system: System, paths: Paths) -> list[Finding]:
    """Every agent's hooks and tools against the choice in the settings."""
    config = load_config(paths.config_file, paths.environ)
    is_plugin = config.text("agents.integration") == "provider"
    is_other_mcp = config.text("agents.mcp") == "provider"
    provider = config.text("provider")
    found: list[Finding] = []
    for agent in AGENTS.values():
        detected = agent.detect(system, system.environ)
        if detected is None or detected.problems:
            continue
        wired = agent.wired(system, paths, detected)
        found += _hooks(system, detected, wired, provider, is_plugin=is_plugin)
        found += _tools(system, detected, wired, is_other=is_other_mcp)
    return found


def _hooks(
    system: System, detected: Detected, wired: Wired, provider: str, *, is_plugin: bool
) -> list[Finding]:
    name = detected.name
    theirs = [one for one in found_upstream(system, detected) if one.kind == "hooks"]
    if wired.hooks:
        return [
            Finding(
                name="plug-in",
                outcome="warning",
                subject=name,
                detail=f"it has openmem's hooks and {one.says} of {one.provider} ({one.place}): "
                "all is recalled and kept twice",
                advice=way_out(one, name),
            )
            for one in theirs
        ]
    if not is_plugin:
        return []
    if any(one.provider == provider for one in theirs):
        words = f"{provider}'s own plug-in recalls and keeps, as chosen"
        return [Finding(name="plug-in", outcome="ok", subject=name, detail=words)]
    return [
        Finding(
            name="plug-in",
            outcome="warning",
            subject=name,
            detail=f"{provider}'s own plug-in was chosen and is not there: nothing is recalled",
            advice=way_in(provider, name),
        )
    ]


def _tools(system: System, detected: Detected, wired: Wired, *, is_other: bool) -> list[Finding]:
    name, ours = detected.name, provider_servers(system, detected)
    if ours and wired.mcp:
        return [
            Finding(
                name="mcp",
                outcome="warning",
                subject=name,
                detail=f"it has openmem's MCP server and \"{ours[0]}\", the provider's own",
                advice="openmem install-mcp   leaves openmem's;  with --provider-only the other",
            )
        ]
    if is_other and not ours and not wired.is_empty:
        return [
            Finding(
                name="mcp",
                outcome="warning",
                subject=name,
                detail="the provider's own MCP server was chosen and is not there",
                advice=f"openmem install-mcp --provider-only --agent {name}",
            )
        ]
    if ours:
        words = f'the provider\'s own MCP server "{ours[0]}", as chosen'
        return [Finding(name="mcp", outcome="ok", subject=name, detail=words)]
    return []
