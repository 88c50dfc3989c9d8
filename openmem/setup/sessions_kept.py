"""What setup says of the session files that agents keep, and delete.

Source: users' report 48: months of transcripts were gone before anybody knew.
"""

from __future__ import annotations

from collections.abc import Sequence

from openmem.agents.retention import DEFAULT_DAYS, Retention
from openmem.base.paths import display

LONGER = 365


def claude_days(retentions: Sequence[Retention]) -> int:
    """Return for how many days Claude Code keeps its session files."""
    found = next((one.days for one in retentions if one.agent == "claude-code"), None)
    return found if found is not None else DEFAULT_DAYS


def kept_notes(
    retentions: Sequence[Retention], agents: Sequence[str], keep_days: int | None, home: str
) -> list[str]:
    """Return sentences: what agents delete when, how to change it, how to bring it in.

    `agents`: to be wired; one that is not, and keeps sessions here, is named too.
    """
    said: list[str] = []
    for one in retentions:
        if one.agent == "claude-code" and (one.agent not in agents or keep_days is not None):
            continue
        if one.days is None or one.days >= LONGER:
            continue
        whose = ", its default" if one.is_default else ""
        words = f"{one.title} deletes its session files after {one.days} days{whose}"
        if one.agent == "claude-code":
            said.append(f"{words}; openmem setup --keep-sessions {LONGER} keeps them longer.")
        else:
            said.append(f"{words}; {one.setting} in {display(one.file, home)} says how long.")
    if agents:
        said.append("Sessions of before come in with:  openmem context import")
    return said
