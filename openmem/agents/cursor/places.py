"""Where Cursor keeps what we read and write; paths only. Source: its documentation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.agents.agent import Detected

NAME = "cursor"
TITLE = "Cursor"
SERVER = "openmem"
HOOKS_VERSION = 1  # a number; a text is refused
TIMEOUT_SECONDS = 5
# Cursor's name of an event → ours. A reply's text comes with no other event than its own.
EVENTS: Mapping[str, str] = {
    "sessionStart": "session-start",
    "beforeSubmitPrompt": "prompt",
    "afterAgentResponse": "stop",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Files of one person's Cursor; each may be missing."""

    config_dir: str

    @property
    def hooks(self) -> str:
        return f"{self.config_dir}/hooks.json"

    @property
    def servers(self) -> str:
        return f"{self.config_dir}/mcp.json"

    @property
    def skills(self) -> str:
        return f"{self.config_dir}/skills"


def places(home: str) -> Places:
    """Return where a person's Cursor keeps its files."""
    return Places(config_dir=f"{home}/.cursor")


def places_of(detected: Detected) -> Places:
    """Return the places that detection found."""
    return Places(config_dir=detected.config_dir)


def signs(home: str) -> tuple[str, ...]:
    """Return files and folders, one of which is there where Cursor has been started."""
    data = "Library/Application Support/Cursor" if sys.platform == "darwin" else ".config/Cursor"
    own = places(home)
    return own.hooks, own.servers, f"{home}/{data}"


def binaries(environ: Mapping[str, str], home: str) -> tuple[str, ...]:
    """Return the paths at which its programs may stand."""
    folders = [f for f in environ.get("PATH", "").split(":") if f.startswith("/")]
    found = [f"{folder}/{name}" for folder in folders for name in ("cursor", "cursor-agent")]
    return (*found, f"{home}/.local/bin/cursor-agent", "/Applications/Cursor.app")
