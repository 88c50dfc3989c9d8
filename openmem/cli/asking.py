"""From flags, file and person to a choice: the first half of `setup` and of `plan`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openmem.base.errors import INTERRUPTED, OpenmemError, Usage
from openmem.cli.command import Run
from openmem.plan.action import Plan
from openmem.plan.system import System
from openmem.setup.answers import Answered, Ask, checked, gather, read_answers
from openmem.setup.facts import Facts
from openmem.setup.look import look, next_free
from openmem.setup.provider import faults_of
from openmem.setup.questions import BY_NAME, Answer
from openmem.setup.resolve import Choice, decide, resolve
from openmem.stack.preflight import Fault


class LeftTheWizard(OpenmemError):
    """The person pressed Ctrl-C at a question."""

    code = "interrupted"
    exit_status = INTERRUPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the command line says. `flags`: by question, None where it says nothing."""

    flags: Mapping[str, Answer | None]
    agents: Sequence[str] | None = None
    without: Sequence[str] | None = None
    answers_file: str | None = None
    takes_defaults: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Facts, answers, the choice they come to, and what stands in the provider's way."""

    facts: Facts
    answered: Answered
    choice: Choice
    faults: tuple[Fault, ...] = ()

    def plan(self, system: System, run: Run) -> Plan:
        """Return the plan from what is there at this moment, with what stands in its way."""
        made = resolve(system, run.paths, self.facts, self.choice)
        return made.with_warnings(*(fault.words for fault in self.faults))


def choose(run: Run, system: System, given: Given) -> Chosen:
    """Return what is to be set up, asking where somebody can be asked."""
    facts = look(system, run.paths, folder=os.getcwd())
    file = read_answers(given.answers_file, facts) if given.answers_file else {}
    flags: dict[str, Answer] = {}
    for name, value in given.flags.items():
        if value is not None:
            flags[name] = checked(BY_NAME[name], value, facts, "the command line")
    agents = wanted_agents(facts, given.agents, given.without)
    if agents is not None:
        flags["agents"] = agents
    ask: Ask | None = None
    if run.console.is_interactive and not run.is_json and not given.takes_defaults:
        from openmem.setup import ask as terminal

        ask = terminal.ask
    try:
        answered = gather(
            facts, flags=flags, file=file, ask=ask, takes_defaults=given.takes_defaults
        )
    except KeyboardInterrupt:
        raise LeftTheWizard("interrupted. Nothing was written.") from None
    wanted = answered.number("port") or facts.port
    free = wanted if wanted == facts.running_port else next_free(wanted)
    choice = decide(
        facts, answered, free=free, environ=run.paths.environ, read_key=lambda: _typed_key(run)
    )
    found = faults_of(run.paths, choice.server) if choice.server is not None else []
    return Chosen(facts=facts, answered=answered, choice=choice, faults=tuple(found))


def _typed_key(run: Run) -> str:
    """Return a key that a person types unseen, or that a pipe holds in its first line. Usage."""
    import sys

    if run.console.is_interactive and not run.is_json:
        from openmem.setup.ask import unseen

        try:
            key = unseen("The model's key (it is not shown):")
        except KeyboardInterrupt:
            raise LeftTheWizard("interrupted. Nothing was written.") from None
    else:
        key = sys.stdin.readline()
    if not key.strip():
        raise Usage("no key was given.", hint="Name a variable or a file: --model-key-env NAME")
    return key.strip()


def wanted_agents(
    facts: Facts, agents: Sequence[str] | None, without: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Return the agents that the flags name, None when they name none. Usage for unknown ones."""
    for name in (*(agents or ()), *(without or ())):
        if name not in facts.agent_names:
            raise Usage(
                f"there is no agent {name!r}.", hint=f"Known: {', '.join(facts.agent_names)}."
            )
    if not agents and not without:
        return None
    named = agents or facts.found_names
    return tuple(dict.fromkeys(name for name in named if name not in (without or ())))
