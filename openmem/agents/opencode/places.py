"""Where OpenCode keeps what we read and write; paths only, nothing is looked at.

Source: trials with 1.18.33 (docs/reference/opencode.md): XDG variables move the three trees.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.agents.agent import COMMAND, Detected

NAME = "opencode"
TITLE = "OpenCode"
SERVER = "openmem"  # of the MCP entry; tools are called `openmem_…`
PLUGIN = "openmem.js"
SCHEMA = "https://opencode.ai/config.json"
# What the plug-in takes part in; it is one file, so they are there together or not at all.
EVENTS = ("chat.message", "session.idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Files of one person's OpenCode; each may be missing."""

    config_dir: str
    data_dir: str
    cache_dir: str

    @property
    def configs(self) -> tuple[str, ...]:
        """The settings files, all of which are read; what an earlier one says wins."""
        names = ("opencode.jsonc", "opencode.json", "config.json")
        return tuple(f"{self.config_dir}/{name}" for name in names)

    @property
    def plugin(self) -> str:
        return f"{self.config_dir}/plugins/{PLUGIN}"

    @property
    def older_plugins(self) -> tuple[str, ...]:
        """Other places from which the plug-in would be loaded a second time."""
        return (f"{self.config_dir}/plugin/{PLUGIN}",)

    @property
    def command(self) -> str:
        """The command `/smart-compact`: a prompt that begins with its own name.

        The plug-in sees the prompt and asks for the trim; the model is told so and says it on.
        """
        return f"{self.config_dir}/command/{COMMAND}.md"

    @property
    def skills(self) -> str:
        return f"{self.config_dir}/skills"

    @property
    def logins(self) -> str:
        return f"{self.data_dir}/auth.json"

    @property
    def models(self) -> str:
        """What OpenCode last heard of providers: their packages and addresses."""
        return f"{self.cache_dir}/models.json"


def places(environ: Mapping[str, str], home: str) -> Places:
    """Return where an environment's OpenCode keeps its files."""

    def below(variable: str, default: str) -> str:
        moved = environ.get(variable, "")
        return f"{moved if posixpath.isabs(moved) else home + default}/opencode"

    return Places(
        config_dir=below("XDG_CONFIG_HOME", "/.config"),
        data_dir=below("XDG_DATA_HOME", "/.local/share"),
        cache_dir=below("XDG_CACHE_HOME", "/.cache"),
    )


def places_of(detected: Detected, environ: Mapping[str, str], home: str) -> Places:
    """Return the places that detection found."""
    found = places(environ, home)
    return Places(
        config_dir=detected.config_dir, data_dir=found.data_dir, cache_dir=found.cache_dir
    )


def project_configs(folder: str) -> tuple[str, ...]:
    """Return a project's own settings files."""
    return tuple(
        f"{folder}/{name}"
        for name in (
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        )
    )
