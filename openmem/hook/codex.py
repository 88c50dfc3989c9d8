"""What a hook must know of Codex's own settings: do its requests come to us, has it our tools.

Idea: Codex gives its hooks no address and no session in the environment, so its settings file is
looked at, as text: a parser would cost more than all else a hook does on a prompt.
Invariant: reading only; a file that is missing or odd means no. Trap: a line that is commented out
says nothing.
Source: Codex 0.171.0, observed (docs/reference/codex.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from openmem.base.route import routed_port

NAME = "codex"
_LIMIT_BYTES = 4 << 20


def port_in_settings(environ: Mapping[str, str]) -> int:
    """Return the port of ours that an address in Codex's settings names, 0 when none does."""
    mark = f"/a/{NAME}"
    for line in _lines(environ):
        if mark in line:
            value = line.partition("=")[2].partition("#")[0].strip()
            port = routed_port(value.strip("\"'"), NAME)
            if port:
                return port
    return 0


def has_tools(environ: Mapping[str, str]) -> bool:
    """Return whether Codex is told of our MCP server."""
    return any(line.replace('"', "") == "[mcp_servers.openmem]" for line in _lines(environ))


def _lines(environ: Mapping[str, str]) -> list[str]:
    folder = environ.get("CODEX_HOME", "") or os.path.join(environ.get("HOME", ""), ".codex")
    try:
        with open(os.path.join(folder, "config.toml"), "rb") as file:
            text = file.read(_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return []  # no such file: nothing of ours in it
    stripped = (line.strip() for line in text.split("\n"))
    return [line for line in stripped if line and not line.startswith("#")]
