"""What was found on this machine before anything is asked; reading only.

The wizard's defaults, the plan and the screens are functions of these facts, so each can be shown
and tested without a machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from openmem.agents.agent import Detected
from openmem.agents.retention import Retention
from openmem.base.settings import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAgent:
    """One agent openmem can wire. `detected`: None when it is not on this machine.

    `upstream`: the address its requests went to before us. `upstreams`: the same by route, for an
    agent with several.
    """

    name: str
    title: str
    detected: Detected | None = None
    upstream: str = ""
    upstreams: Mapping[str, str] = field(default_factory=dict)

    @property
    def routes(self) -> Mapping[str, str]:
        """Every route of the proxy that is this agent's → its upstream."""
        if self.detected is None or not self.detected.is_routable:
            return {}
        return self.upstreams if self.detected.addresses else {self.name: self.upstream}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found. `port`: proposed, free or already ours; `wanted_port`: the one preferred.

    `running_port`: of our proxy, 0 when none runs. `service_manager`: "systemd", "launchd" or "".
    `has_policy`: a policy file exists and is kept. `project`: the folder setup was started in, or
    its repository. `settings`: those of the provider's server and model, in force.
    `provider_ports`: a port for each provider's stack, free or already its own. `integration`,
    `mcp_of`: whose hooks and whose MCP server the agents are to have, "openmem" or "provider".
    `retentions`: how long agents that delete their own session files keep them.
    """

    agents: tuple[KnownAgent, ...] = ()
    provider: str = "local"
    providers: tuple[str, ...] = ("local",)
    proxy_enabled: bool = True
    wanted_port: int = 8913
    port: int = 8913
    running_port: int = 0
    service_manager: str = ""
    has_policy: bool = False
    project: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    provider_ports: Mapping[str, int] = field(default_factory=dict)
    retentions: tuple[Retention, ...] = ()
    integration: str = "openmem"
    mcp_of: str = "openmem"

    def setting(self, name: str) -> Value:
        """Return a setting of the provider as it is in force, "" when it is not known."""
        return self.settings.get(name, "")

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Every agent that can be wired, found or not."""
        return tuple(agent.name for agent in self.agents)

    @property
    def found_names(self) -> tuple[str, ...]:
        """The agents that are on this machine."""
        return tuple(agent.name for agent in self.agents if agent.detected is not None)

    def agent(self, name: str) -> KnownAgent | None:
        """Return an agent by name."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def title_of(self, name: str) -> str:
        """Return how people call an agent."""
        agent = self.agent(name)
        return agent.title if agent else name

    def routes_of(self, names: Iterable[str]) -> dict[str, str]:
        """Return the proxy's routes for these agents → their upstreams."""
        return {
            route: upstream
            for name in names
            if (agent := self.agent(name)) is not None
            for route, upstream in agent.routes.items()
        }

    def upstream_of(self, name: str) -> str:
        """Return where an agent's requests went before us."""
        agent = self.agent(name)
        return agent.upstream if agent else ""
