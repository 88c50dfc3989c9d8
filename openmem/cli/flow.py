"""From a plan to what happened: shown, asked for, applied, told. Every change goes through here.

A dry run stops after the showing, and its plan is the data, on stdout. Without a terminal nothing
is asked: `--yes` or exit 2 with the flag's name. What is told afterwards is read from the receipt.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openmem.base.errors import INTERRUPTED, OpenmemError, Usage
from openmem.cli.command import Run
from openmem.cli.envelope import Result
from openmem.cli.render.plan import Entry, left_lines, plan_lines
from openmem.plan.action import Plan
from openmem.plan.apply import apply
from openmem.plan.diff import described, masked
from openmem.plan.journal import Receipt

if TYPE_CHECKING:
    from openmem.plan.system import System


class Declined(OpenmemError):
    """The person said no; nothing was written."""

    code = "declined"
    exit_status = INTERRUPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a change was asked for. `label`: in the receipt."""

    label: str
    is_dry: bool = False
    is_agreed: bool = False
    shows_diff: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What stands around a plan. `notes`: below the files; `done`: last lines when it is applied.

    `more`: what happens besides the plan. `data`: more keys for the envelope. `question`: asked
    before applying.
    """

    notes: Sequence[str] = ()
    more: Sequence[Entry] = ()
    done: Sequence[str] = ()
    data: dict[str, Any] = field(default_factory=dict)
    question: str = "Go on?"


Carry = Callable[[Plan], Receipt]


def carry_out(
    run: Run,
    system: System,
    plan: Plan,
    wish: Wish,
    telling: Telling | None = None,
    *,
    carry: Carry | None = None,
) -> Result:
    """Show a plan, ask if it has to be asked, apply it, and return what happened.

    `carry`: applies in another way than by one `apply`. Usage without a terminal and `--yes`.
    """
    telling = telling or Telling()
    data: dict[str, Any] = {**described_data(plan, system), **telling.data}
    actions = data["actions"]
    if plan.is_empty or wish.is_dry:
        return Result(data=data, lines=tuple(screen(run, plan, wish, telling, actions)))
    agree(run, plan, wish, telling, actions)
    receipt = carry(plan) if carry else apply(plan, system, run.paths, label=wish.label)
    data["receipt"] = receipt.number
    stayed = [left for left in receipt.left if left not in plan.left]  # the others were shown
    notes = left_lines(stayed, run.paths.home, run.console.width)
    if telling.done:
        notes += ["", *telling.done]
    return Result(data=data, notes=tuple(notes))


def described_data(plan: Plan, system: System) -> dict[str, Any]:
    """Return a plan as the envelope's data: actions, warnings, what is left and why."""
    return {
        "actions": described(plan, system),
        "warnings": list(plan.warnings),
        "left": [{"path": x.path, "keys": list(x.keys), "why": x.why} for x in plan.left],
    }


def screen(
    run: Run, plan: Plan, wish: Wish, telling: Telling, actions: Sequence[dict[str, Any]]
) -> list[str]:
    """Return the plan as lines, with diffs if they were asked for."""
    diffs: list[str] = []
    if wish.shows_diff:
        for action in actions:
            diffs += [line for line in str(action["diff"]).splitlines()]
    steps: list[str] = []
    if wish.is_dry:
        command = typed(run)
        steps = [f"Go:  {command}"]
        if not wish.shows_diff:
            steps.insert(0, f"See every byte:  {command} --dry-run --diff")
    return plan_lines(
        plan,
        home=run.paths.home,
        state_dir=run.paths.state_dir,
        width=run.console.width,
        notes=telling.notes,
        more=telling.more,
        diffs=diffs,
        next_steps=steps,
        is_dry=wish.is_dry or not wish.is_agreed,
    )


def agree(
    run: Run, plan: Plan, wish: Wish, telling: Telling, actions: Sequence[dict[str, Any]]
) -> None:
    """Show the plan and ask whether to go on, unless `--yes` said so. Declined, Usage."""
    lines = screen(run, plan, wish, telling, actions)
    if wish.is_agreed:
        if not run.is_json:
            run.console.say(*lines)
        return
    if not run.console.is_interactive or run.is_json:
        raise Usage(
            f"{typed(run)} changes files and nobody can be asked here.",
            hint="--yes goes on without asking; --dry-run shows what would change.",
        )
    from openmem.setup.ask import confirm

    run.console.say(*lines, "")
    if not confirm(telling.question):
        raise Declined("nothing was changed.")


def agree_for_good(run: Run, lines: Sequence[str], *, yes: bool, question: str) -> None:
    """Show what goes for good and ask, with no as the default. Declined, Usage as `agree`."""
    if yes:
        return
    if not run.console.is_interactive or run.is_json:
        raise Usage(
            f"{typed(run)} removes what is stored and nobody can be asked here.",
            hint="--yes goes on without asking; --dry-run shows what would go.",
        )
    from openmem.setup.ask import confirm

    run.console.say(*lines, "")
    if not confirm(question, is_final=True):
        raise Declined("nothing was changed.")


def typed(run: Run) -> str:
    """Return the command that does it, without its dry run, to be pasted; secrets are masked.

    `plan` does nothing by itself: with its flags `setup --yes` is what it planned.
    """
    words = [w for w in run.argv if w not in ("-n", "--dry-run", "--diff", "--json")]
    if words[:1] == ["plan"]:
        words = ["setup", "--yes", *_without_output(words[1:])]
    return masked(shlex.join(["openmem", *words]))


def _without_output(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    given = iter(words)
    for word in given:
        if word == "--out":
            next(given, None)
        elif word != "--exit-code" and not word.startswith("--out="):
            kept.append(word)
    return kept
