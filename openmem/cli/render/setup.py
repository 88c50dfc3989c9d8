"""What setup says around its plan: what was found, what will be stored, what stands afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openmem.agents.base import AGENTS
from openmem.cli.console import tilde, visible, wrapped
from openmem.cli.render.table import cells, padded
from openmem.setup.facts import Facts
from openmem.setup.plugin import plugin_notes
from openmem.setup.resolve import Choice, wanted_of
from openmem.setup.sessions_kept import kept_notes

if TYPE_CHECKING:
    from openmem.setup.proof import Proof

_MARKS = {"ok": "✓", "warning": "!", "error": "✗"}


def found_note(facts: Facts) -> str:
    """Return which agents were found."""
    found = []
    for agent in facts.agents:
        if agent.detected is not None:
            found.append(f"{agent.title} {agent.detected.version}".strip() + " found")
    missing = [agent.title for agent in facts.agents if agent.detected is None]
    told = [f"{', '.join(found)}."] if found else []
    if missing:
        told.append(f"{', '.join(missing)}: not found.")
    return " ".join(told)


def setup_notes(facts: Facts, choice: Choice, home: str) -> list[str]:
    """Return the sentences below the files, in the order in which they matter."""
    notes = [found_note(facts)]
    if choice.store_git is not None:
        stored = [
            words
            for words, allowed in (
                ("sessions in git repositories", choice.store_git),
                ("sessions in every other folder", choice.store_other),
            )
            if allowed
        ]
        kept = "Not stored: everything else." if stored else ""
        notes.append(f"Stored: {', '.join(stored) or 'nothing yet'}. {kept}".rstrip())
    elif facts.has_policy:
        notes.append("The policy that is there is kept: openmem policy show")
    if choice.is_plugin:
        notes += plugin_notes(choice.provider)
    for name in choice.agents:
        known = facts.agent(name)
        assert known is not None and known.detected is not None  # decided from what was found
        notes += AGENTS[name].notes(known.detected, wanted_of(choice, facts, name))
        notes += known.detected.warnings
    notes += kept_notes(facts.retentions, choice.agents, choice.keep_days, home)
    # The one proposed by default may have been passed over already, before anybody was asked.
    asked = facts.wanted_port if choice.wanted_port == facts.port else choice.wanted_port
    if choice.has_proxy and choice.port not in (asked, facts.running_port):
        notes.append(f"Port {asked} is taken; {choice.port} is the next free one.")
    if not choice.agents:
        names = choice.missing or facts.agent_names
        titles = " or ".join(facts.title_of(name) for name in names)
        notes.append(
            f"No agent is wired. Once {titles} is installed:  openmem install-coding-agent"
        )
    return notes


def proof_lines(proofs: Sequence[Proof], home: str, width: int) -> list[str]:
    """Return what was looked at afterwards, one line each, with what to do below."""
    column = max((cells(proof.name) for proof in proofs), default=0) + 2
    lines = []
    for proof in proofs:
        text = visible(tilde(proof.detail, home))
        first, *more = wrapped(text, width - 4 - column) or [""]
        lines.append(f"  {_MARKS[proof.outcome]} {padded(proof.name, column)}{first}")
        lines += [" " * (4 + column) + rest for rest in more]
        if proof.advice:
            advice = wrapped(f"→ {tilde(proof.advice, home)}", width - 4 - column)
            lines += [" " * (4 + column) + rest for rest in advice]
    return lines
