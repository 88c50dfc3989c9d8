"""The agents that openmem knows, by name; one more is a package beside this and an entry here."""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents.agent import Agent, Detected, Wanted, Wired
from openmem.agents.claude_code.agent import ClaudeCode
from openmem.agents.codex.agent import Codex

AGENTS: Mapping[str, Agent] = {agent.name: agent for agent in (ClaudeCode(), Codex())}

__all__ = ["AGENTS", "Agent", "Detected", "Wanted", "Wired"]
