"""What was found on this machine before anything is asked; reading only.

The wizard's defaults, the plan and the screens are functions of these facts, so each can be shown
and tested without a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_UPSTREAM = "https://api.anthropic.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAgent:
    """One agent openmem knows. `version`: "" when the agent is not on this machine.

    `upstream`: the address its requests went to before us. `problems`: what keeps us from wiring
    it, each one sentence.
    """

    name: str
    title: str
    is_found: bool = False
    version: str = ""
    upstream: str = DEFAULT_UPSTREAM
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found. `port`: proposed, free or already ours; `wanted_port`: the one preferred.

    `service_manager`: "systemd", "launchd" or "". `has_policy`: a policy file exists and is kept.
    """

    agents: tuple[FoundAgent, ...] = ()
    provider: str = "local"
    providers: tuple[str, ...] = ("local",)
    proxy_enabled: bool = True
    wanted_port: int = 8913
    port: int = 8913
    service_manager: str = ""
    has_policy: bool = False

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Every agent that can be wired, found or not."""
        return tuple(agent.name for agent in self.agents)

    @property
    def found_names(self) -> tuple[str, ...]:
        """The agents that are on this machine."""
        return tuple(agent.name for agent in self.agents if agent.is_found)

    def agent(self, name: str) -> FoundAgent | None:
        """Return an agent by name."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def title_of(self, name: str) -> str:
        """Return how people call an agent."""
        agent = self.agent(name)
        return agent.title if agent else name

    def upstream_of(self, name: str) -> str:
        """Return where an agent's requests went before us."""
        agent = self.agent(name)
        return agent.upstream if agent else DEFAULT_UPSTREAM
