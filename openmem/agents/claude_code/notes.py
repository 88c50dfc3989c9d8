"""What setup says of Claude Code behind an address of its own, in one screen.

Source: trials with 2.1.332, on the wire and in the program (docs/reference/claude-code.md).
"""

from __future__ import annotations

from openmem.agents.agent import Detected, Wanted


def notes(detected: Detected, wanted: Wanted) -> tuple[str, ...]:
    """Return what the person should know of this wiring, each one sentence."""
    said: list[str] = []
    if wanted.proxy:
        said += [
            "Behind an address of its own, Claude Code turns off remote control, fetches no "
            "settings of an organisation and reports no errors to its maker; tool loading on "
            "demand is set back on.",
            "A session begun before this and resumed after it has another system prompt once; "
            "its prompt cache starts anew.",
        ]
        if detected.upstream_source != "default" and detected.upstream:
            whose = {"settings": "its settings", "environment": "your shell"}
            said.append(
                f"Requests went to {detected.upstream} (from {whose[detected.upstream_source]}); "
                "the proxy sends them on there."
            )
    if wanted.mcp and wanted.allow_tools is not True:
        said.append("Claude Code will ask before it uses the search tools; --allow-tools agrees.")
    return tuple(said)
