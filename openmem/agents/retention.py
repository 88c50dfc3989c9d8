"""How long each agent keeps its own session files, as its settings say.

Idea: what an agent deletes cannot be imported any more, so setup says when that is.
Invariant: reading only. Trap: the number is the person's own setting: it is changed only by a
stated wish, never by a default of ours.
Source: users' report 48; the vendors' settings references, read 2026-11-30 (Gemini CLI: not
verified live).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.agents.claude_code.places import KEEP_DAYS
from openmem.agents.claude_code.places import places as claude_places
from openmem.agents.reading import read_or_none, value_at
from openmem.plan.system import System

DEFAULT_DAYS = 30
_GEMINI = ("general", "sessionRetention")
_AGE = re.compile(r"(\d{1,5})([hdwm])")
_HOURS = {"h": 1, "d": 24, "w": 168, "m": 720}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long an agent keeps its sessions. `days`: after the last use, None: until a person
    deletes them. `is_default`: no setting says so. `setting`: its name; `file`: where it stands.
    """

    agent: str
    title: str
    days: int | None
    is_default: bool
    setting: str
    file: str


def claude_code(system: System, environ: Mapping[str, str], home: str) -> Retention:
    """Return Claude Code's."""
    file = claude_places(environ, home).settings
    stated = value_at(read_or_none(system, file), KEEP_DAYS)
    is_stated = isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0
    return Retention(
        agent="claude-code",
        title="Claude Code",
        days=stated if is_stated and isinstance(stated, int) else DEFAULT_DAYS,
        is_default=not is_stated,
        setting=KEEP_DAYS[0],
        file=file,
    )


def gemini_cli(system: System, environ: Mapping[str, str], home: str) -> Retention | None:
    """Return Gemini CLI's; None when it is not on this machine."""
    folder = f"{environ.get('GEMINI_CLI_HOME', '') or home}/.gemini"
    if system.stat(folder) is None:
        return None
    file = f"{folder}/settings.json"
    settings = read_or_none(system, file)
    age = value_at(settings, (*_GEMINI, "maxAge"))
    match = _AGE.fullmatch(age) if isinstance(age, str) else None
    days = max(1, int(match[1]) * _HOURS[match[2]] // 24) if match else DEFAULT_DAYS
    is_off = value_at(settings, (*_GEMINI, "enabled")) is False
    return Retention(
        agent="gemini-cli",
        title="Gemini CLI",
        days=None if is_off else days,
        is_default=match is None and not is_off,
        setting=".".join((*_GEMINI, "maxAge")),
        file=file,
    )
