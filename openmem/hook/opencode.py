"""What a hook must know of OpenCode's own settings: does a provider come to us, has it our tools.

Idea: the plug-in says which provider the prompt goes to; whether that one has our address stands in
the settings files, which are looked at as text: a parser would cost more than all else a hook does.
Invariant: reading only; a file that is missing or odd means no.
Source: OpenCode 1.18.33, observed (docs/reference/opencode.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from openmem.base.route import provider_route, routed_port

NAME = "opencode"
PROVIDER = "OPENMEM_HOOK_PROVIDER"  # set by the plug-in
_FILES = ("opencode.jsonc", "opencode.json", "config.json")
_LIMIT_BYTES = 4 << 20


def port_in_settings(environ: Mapping[str, str], provider: str) -> int:
    """Return the port of ours to which a provider's requests go, 0 when they go elsewhere."""
    route = provider_route(NAME, provider)
    for text in _texts(environ):
        # The address itself, in its quotes: a route that begins alike is another provider's.
        for url in re.findall(rf'"(http://[^"\s]*/a/{re.escape(route)}/?)"', text):
            port = routed_port(url, route)
            if port:
                return port
    return 0


def has_tools(environ: Mapping[str, str]) -> bool:
    """Return whether OpenCode is told of our MCP server."""
    return any("/openmem-mcp" in text for text in _texts(environ))


def _texts(environ: Mapping[str, str]) -> list[str]:
    moved = environ.get("XDG_CONFIG_HOME", "")
    folder = moved if moved.startswith("/") else os.path.join(environ.get("HOME", ""), ".config")
    found = []
    for name in _FILES:
        try:
            with open(os.path.join(folder, NAME, name), "rb") as file:
                found.append(file.read(_LIMIT_BYTES).decode("utf-8", "replace"))
        except OSError:
            continue  # no such file: nothing of ours in it
    return found
