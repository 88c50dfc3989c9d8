"""Looking at this machine: agents, settings in force, the port, the service manager.

Nothing is written and nothing but loopback is spoken to, so a dry run may call it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from openmem.agents.agent import Address, Detected
from openmem.agents.base import AGENTS
from openmem.agents.retention import Retention, claude_code, gemini_cli
from openmem.base.config import Config, load_config
from openmem.base.errors import InvalidConfig, Missing
from openmem.base.paths import Paths
from openmem.base.settings import SETTINGS
from openmem.base.workspace import workspace_of
from openmem.host import lifecycle
from openmem.host.hold import free_port
from openmem.host.service import manager_of
from openmem.plan.system import System
from openmem.setup.facts import Facts, KnownAgent
from openmem.setup.provider import provider_ports, provider_settings


def look(system: System, paths: Paths, *, folder: str) -> Facts:
    """Return the facts. `folder`: where setup was started. InvalidConfig, Missing (no free port).

    The settings file must be readable: what is in force is what is proposed.
    """
    config = load_config(paths.config_file, paths.environ)
    running = lifecycle.status(paths, config)
    wanted = config.number("proxy.port")
    manager = manager_of(system)
    workspace = workspace_of(folder)
    return Facts(
        agents=_agents(system, config),
        provider=config.text("provider"),
        providers=next(setting.choices for setting in SETTINGS if setting.name == "provider"),
        proxy_enabled=config.flag("proxy.enabled"),
        wanted_port=wanted,
        port=running.port if running.running else next_free(wanted),
        running_port=running.port if running.running else 0,
        service_manager="" if manager == "detached" else manager,
        has_policy=os.path.lexists(paths.policy_file),
        project=workspace.git_root or workspace.folder,
        settings=provider_settings(config),
        provider_ports=provider_ports(system, paths),
        integration=config.text("agents.integration"),
        mcp_of=config.text("agents.mcp"),
        retentions=look_at_retentions(system, paths),
    )


def look_at_retentions(system: System, paths: Paths) -> tuple[Retention, ...]:
    """Return how long agents that delete their own session files keep them."""
    found = [claude_code(system, system.environ, paths.home)]
    gemini = gemini_cli(system, system.environ, paths.home)
    return (*found, gemini) if gemini else tuple(found)


def next_free(port: int) -> int:
    """Return `port`, or the next one that is free. Missing when fifty in a row are taken."""
    found = free_port(port)
    if found is None:
        raise Missing(
            f"no port from {port} on is free on 127.0.0.1.",
            hint="Name another: --port",
            code="port-taken",
        )
    return found


def look_at_agents(system: System, paths: Paths) -> tuple[KnownAgent, ...]:
    """Return the agents alone, also where the settings cannot be read: for taking things out."""
    try:
        config = load_config(paths.config_file, paths.environ)
    except InvalidConfig:
        config = None  # the routes are unknown then, and each agent gets its own default back
    return _agents(system, config)


def _agents(system: System, config: Config | None) -> tuple[KnownAgent, ...]:
    known = []
    for agent in AGENTS.values():
        detected = agent.detect(system, system.environ)
        routes = config.routes if config else {}
        known.append(
            KnownAgent(
                name=agent.name,
                title=agent.title,
                detected=detected,
                upstream=_upstream(detected, routes.get(agent.name, "")),
                upstreams=_upstreams(detected.addresses if detected else (), routes),
            )
        )
    return tuple(known)


def _upstreams(addresses: Sequence[Address], routes: Mapping[str, str]) -> dict[str, str]:
    """Return the same for each of several addresses; one of which nothing is known is left out."""
    found = {}
    for one in addresses:
        route = routes.get(one.route, "")
        stated = one.upstream if one.is_stated else ""
        upstream = stated or route or one.upstream or one.default
        if upstream:
            found[one.route] = upstream
    return found


def _upstream(detected: Detected | None, route: str) -> str:
    """Return where an agent's requests are to go on to.

    An address that stands in the agent's own settings is newer than our route: somebody wrote it
    there after us. The shell's is not, because it was in force already when the route was made.
    Of the agent's own defaults the one of now counts: its login may have changed.
    """
    if detected is None:
        return route
    if detected.upstream and detected.upstream_source == "settings":
        return detected.upstream
    default = detected.defaults[0] if detected.defaults else ""
    if route in detected.defaults:
        return default
    return route or detected.upstream or default
