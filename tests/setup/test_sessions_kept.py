"""Agents delete their sessions: setup says when, and changes it on a word."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from openmem.agents.retention import Retention, claude_code, gemini_cli
from openmem.base.paths import Paths
from openmem.plan.action import WriteFile
from openmem.plan.system import MemorySystem
from openmem.setup.answers import gather
from openmem.setup.questions import Answer
from openmem.setup.resolve import Choice, decide, resolve
from openmem.setup.sessions_kept import kept_notes
from tests.setup.test_resolve import FACTS, HOME

SETTINGS = f"{HOME}/.claude/settings.json"


def system_of(text: str, **files: str) -> MemorySystem:
    return MemorySystem({SETTINGS: text, **files}, environ={"HOME": HOME})


@pytest.mark.parametrize(
    ("text", "days", "is_default"),
    [
        ("{}", 30, True),
        ('{"cleanupPeriodDays": 400}', 400, False),
        ('{"cleanupPeriodDays": "long"}', 30, True),
        ("{ broken", 30, True),
    ],
)
def test_claude_codes_retention_is_read(text: str, days: int, is_default: bool) -> None:
    """Users' report 48: settings without the key, with it, and such as nobody can read."""
    found = claude_code(system_of(text), {}, HOME)
    assert (found.days, found.is_default, found.setting) == (days, is_default, "cleanupPeriodDays")


@pytest.mark.parametrize(
    ("settings", "days"),
    [
        ({}, 30),
        ({"general": {"sessionRetention": {"maxAge": "7d"}}}, 7),
        ({"general": {"sessionRetention": {"maxAge": "12h"}}}, 1),
        ({"general": {"sessionRetention": {"enabled": False}}}, None),
    ],
)
def test_gemini_clis_retention_is_read(settings: dict[str, object], days: int | None) -> None:
    """The vendor's settings reference, read 2026-11-30; not verified live."""
    system = MemorySystem(
        {f"{HOME}/.gemini/settings.json": json.dumps(settings)}, environ={"HOME": HOME}
    )
    found = gemini_cli(system, {}, HOME)
    assert found is not None and found.days == days
    assert gemini_cli(MemorySystem({}, environ={"HOME": HOME}), {}, HOME) is None


def retention(days: int | None, agent: str = "claude-code") -> Retention:
    return Retention(agent=agent, title=agent, days=days, is_default=True, setting="general.age",
                     file=f"{HOME}/.gemini/settings.json")  # fmt: skip


def test_setup_says_what_is_deleted_when() -> None:
    """Users' report 48: the retention in force, and how to change it."""
    both = (retention(30), retention(7, "gemini-cli"))
    said = kept_notes(both, ("claude-code",), None, HOME)
    assert said == [
        "claude-code deletes its session files after 30 days, its default; "
        "openmem setup --keep-sessions 365 keeps them longer.",
        "gemini-cli deletes its session files after 7 days, its default; general.age in "
        "~/.gemini/settings.json says how long.",
        "Sessions of before come in with:  openmem context import",
    ]
    assert len(kept_notes(both, ("claude-code",), 365, HOME)) == 2
    assert kept_notes((retention(400), retention(None, "gemini-cli")), (), None, HOME) == []


def choice_of(**flags: Answer) -> tuple[Choice, MemorySystem]:
    system = system_of('{"cleanupPeriodDays": 30}')
    facts = replace(FACTS, retentions=(claude_code(system, {}, HOME),))
    answered = gather(facts, flags=flags, file={}, ask=None, takes_defaults=True)
    return decide(facts, answered, free=8913), system


def test_the_number_is_changed_on_a_word_and_else_never() -> None:
    """Ours: it is the person's own setting."""
    assert choice_of()[0].keep_days is None
    assert choice_of(keep_sessions=30)[0].keep_days is None
    choice, system = choice_of(keep_sessions=365)
    plan = resolve(system, Paths({"HOME": HOME}), FACTS, choice)
    (action,) = [a for a in plan.actions if isinstance(a, WriteFile) and a.path == SETTINGS]
    assert json.loads(action.data)["cleanupPeriodDays"] == 365
    assert "its session files kept 365 days" in action.why
