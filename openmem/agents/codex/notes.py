"""What setup says of Codex behind an address of its own, in one screen.

Source: trials with 0.171.0, on the wire (docs/reference/codex.md).
"""

from __future__ import annotations

from openmem.agents.agent import Detected, Wanted


def notes(detected: Detected, wanted: Wanted) -> tuple[str, ...]:
    """Return what the person should know of this wiring, each one sentence."""
    said: list[str] = []
    if wanted.hooks and not wanted.trust_hooks:
        said.append(
            "Codex runs no hook that is not trusted, and says nothing of it: review ours in Codex "
            "with /hooks, or give --trust-hooks."
        )
    if wanted.proxy and detected.upstream_source == "settings" and detected.upstream:
        said.append(
            f"Codex's requests went to {detected.upstream} (from its settings); the proxy sends "
            "them on there."
        )
    elif wanted.proxy and detected.defaults:
        said.append(
            f"Codex's requests go on to {detected.defaults[0]}, for the login it has now; after "
            "another login run this again."
        )
    if wanted.mcp and wanted.allow_tools is not True:
        said.append(
            "Codex asks before it uses the search tools, and `codex exec`, where nobody can be "
            "asked, refuses them; --allow-tools agrees."
        )
    return tuple(said)
