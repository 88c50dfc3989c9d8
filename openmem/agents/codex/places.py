"""Where Codex keeps what we read and write; paths only, nothing is looked at.

Source: trials with 0.171.0 (docs/reference/codex.md): CODEX_HOME moves the whole tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openmem.agents.agent import Detected

NAME = "codex"
TITLE = "Codex"
SERVER = "openmem"  # of the MCP table; tools are called `recall` of namespace `mcp__openmem`
API, CHATGPT = "https://api.openai.com/v1", "https://chatgpt.com/backend-api/codex"
BUILT_IN = "openai"
# Codex's name of an event → ours, its name where trust is kept, seconds after which it is ended.
EVENTS: Mapping[str, tuple[str, str, int]] = {
    "SessionStart": ("session-start", "session_start", 5),
    "UserPromptSubmit": ("prompt", "user_prompt_submit", 5),
    # Before every tool, because its shell is what writes files; the launcher looks first.
    "PreToolUse": ("tool", "pre_tool_use", 5),
    "Stop": ("stop", "stop", 5),
}
# Tokens of hook context that reach the model; by itself Codex cuts at 2,500, which is fewer
# characters than we send in scripts that take three bytes for one.
CONTEXT_LIMIT = 8_000
WITH_CONTEXT = ("SessionStart", "UserPromptSubmit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Files of one person's Codex; each may be missing."""

    config_dir: str

    @property
    def config(self) -> str:
        return f"{self.config_dir}/config.toml"

    @property
    def hooks(self) -> str:
        return f"{self.config_dir}/hooks.json"

    @property
    def skills(self) -> str:
        return f"{self.config_dir}/skills"

    @property
    def login(self) -> str:
        return f"{self.config_dir}/auth.json"


def places(environ: Mapping[str, str], home: str) -> Places:
    """Return where an environment's Codex keeps its files."""
    return Places(config_dir=environ.get("CODEX_HOME", "") or f"{home}/.codex")


def places_of(detected: Detected) -> Places:
    """Return the places that detection found."""
    return Places(config_dir=detected.config_dir)


def project_config(folder: str) -> str:
    """Return a project's own settings file."""
    return f"{folder}/.codex/config.toml"
