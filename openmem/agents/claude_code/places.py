"""Where Claude Code keeps what we read and write; paths only, nothing is looked at.

Source: trials with 2.1.332 (docs/reference/claude-code.md): CLAUDE_CONFIG_DIR moves the whole tree
and `.claude.json` into it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.agents.agent import COMMAND, Detected
from openmem.base.own_tools import ALLOWABLE

NAME = "claude-code"
TITLE = "Claude Code"
SERVER = "openmem"  # of the MCP entry; tools are called `mcp__openmem__…`
# One entry a tool: the server's name alone would also allow what erases.
PERMISSIONS = tuple(f"mcp__{SERVER}__{name}" for name in ALLOWABLE)
WIDE_PERMISSION = f"mcp__{SERVER}"
BASE_URL = ("env", "ANTHROPIC_BASE_URL")
KEEP_DAYS = ("cleanupPeriodDays",)
TOOL_SEARCH = ("env", "ENABLE_TOOL_SEARCH")
DEFAULT_UPSTREAM = "https://api.anthropic.com"
# Claude Code's name of an event → ours, with the seconds after which Claude Code ends the hook.
EVENTS: Mapping[str, tuple[str, int]] = {
    "SessionStart": ("session-start", 5),
    "UserPromptSubmit": ("prompt", 5),
    "PreToolUse": ("tool", 5),
    "Stop": ("stop", 5),
}
# Before which tools it runs: those whose arguments become a file or the to-do list.
MATCHERS: Mapping[str, str] = {"PreToolUse": "Edit|MultiEdit|Write|NotebookEdit|TodoWrite"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Files of one person's Claude Code; each may be missing."""

    config_dir: str
    settings: str
    state: str

    @property
    def command(self) -> str:
        """The slash command `/smart-compact`.

        In a terminal Claude Code answers a command that it does not know itself, and no hook sees
        it (trial with 2.1.332); with the file, the prompt hook gets the line as it was typed.
        `disable-model-invocation` in it keeps it out of what the model is told.
        """
        return f"{self.config_dir}/commands/{COMMAND}.md"

    @property
    def skills(self) -> str:
        """The folder of skills."""
        return f"{self.config_dir}/skills"


def places(environ: Mapping[str, str], home: str) -> Places:
    """Return where an environment's Claude Code keeps its files."""
    moved = environ.get("CLAUDE_CONFIG_DIR", "")
    config_dir = moved or f"{home}/.claude"
    return Places(
        config_dir=config_dir,
        settings=f"{config_dir}/settings.json",
        state=f"{moved or home}/.claude.json",
    )


def places_of(detected: Detected) -> Places:
    """Return the places that detection found."""
    return Places(
        config_dir=detected.config_dir,
        settings=detected.settings_file,
        state=detected.mcp_file,
    )


def cache_folder(environ: Mapping[str, str], home: str) -> str:
    """Return where Claude Code keeps, for each project, logs of the MCP servers that it started."""
    if sys.platform == "darwin":
        return f"{home}/Library/Caches/claude-cli-nodejs"
    return f"{environ.get('XDG_CACHE_HOME') or home + '/.cache'}/claude-cli-nodejs"


def project_settings(folder: str) -> tuple[str, str]:
    """Return a project's own settings files: the shared one and the person's."""
    return f"{folder}/.claude/settings.json", f"{folder}/.claude/settings.local.json"


def managed_settings() -> str:
    """Return the file by which an organisation overrules every other setting."""
    if sys.platform == "darwin":
        return "/Library/Application Support/ClaudeCode/managed-settings.json"
    return "/etc/claude-code/managed-settings.json"
