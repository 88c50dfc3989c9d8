"""Cursor's way of telling an event and of being told something, beside the others'.

Idea: its payload names the conversation and the folders of the window; its answers are flat. What
it does not document is not used: nothing is told at a prompt. Invariant: an answer never stops a
prompt. Source: Cursor's documentation of hooks; not tried with the program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

NAME = "cursor"


def common(payload: Mapping[str, object]) -> dict[str, object]:
    """Return the payload with the names that every agent's has.

    The folder is the window's first; of a reply the text is the turn's last message.
    """
    roots = payload.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else ""
    told = {
        "session_id": payload.get("conversation_id") or payload.get("session_id"),
        "cwd": payload.get("cwd") or first,
        "last_assistant_message": payload.get("text"),
    }
    return {**payload, **told}


def output(event: str, text: str) -> str:
    """Return stdout for an event; a prompt is always let through."""
    if event == "prompt":
        return json.dumps({"continue": True})
    return json.dumps({"additional_context": text}) if text else ""


def has_tools(environ: Mapping[str, str]) -> bool:
    """Return whether Cursor is told of our MCP server."""
    path = os.path.join(environ.get("HOME", ""), ".cursor", "mcp.json")
    try:
        with open(path, "rb") as file:
            return b"/openmem-mcp" in file.read(4 << 20)
    except OSError:
        return False  # no such file: no MCP server of ours
