"""The agents that openmem knows, by name; one more is a package beside this and an entry here."""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents.agent import Agent, Detected, Wanted, WideGrant, Wired
from openmem.agents.claude_code.agent import ClaudeCode
from openmem.agents.codex.agent import Codex
from openmem.agents.cursor.agent import Cursor
from openmem.agents.opencode.agent import OpenCode

AGENTS: Mapping[str, Agent] = {
    agent.name: agent for agent in (ClaudeCode(), Codex(), OpenCode(), Cursor())
}

__all__ = ["AGENTS", "Agent", "Detected", "Wanted", "WideGrant", "Wired"]
