"""`openmem doctor`: named checks, and what can be mended safely."""

from __future__ import annotations

from typing import Annotated

import typer

from openmem.base.errors import DONE, FAILED
from openmem.cli.command import command, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Diff, DryRun, Json, Quiet, Yes


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "doctor",
        short="Check everything openmem needs.",
        effect="read-only",
        effect_words="read-only; with --fix it changes files through a plan.",
        example="openmem doctor --no-network",
    )(doctor)


def doctor(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what is proven safe; the plan is shown first.")
    ] = False,
    network: Annotated[
        bool, typer.Option("--network/--no-network", help="Ask whether the model's API answers.")
    ] = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Check everything openmem needs; exit 1 when something is broken."""
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.cli.render.doctor import doctor_lines
    from openmem.plan.action import Plan
    from openmem.plan.system import RealSystem
    from openmem.setup.doctor.finding import worst
    from openmem.setup.doctor.round import findings

    run = run_of(context)
    run.console.is_quiet = quiet
    system = RealSystem(run.paths.environ)
    found = findings(system, run.paths, has_network=network and not dry_run)
    data = {
        "checks": [
            {
                "name": f.name,
                "result": f.outcome,
                "subject": f.subject,
                "detail": f.detail,
                "advice": f.advice,
                "fixable": f.fix is not None,
            }
            for f in found
        ]
    }
    lines = doctor_lines(found, run.paths.home, run.console.width)
    plans = [f.fix for f in found if f.fix is not None and not f.fix.is_empty]
    if fix and plans:
        if not run.is_json:
            run.console.out([*lines, ""])
        mended = sum(plans, Plan())
        wish = Wish(label="doctor --fix", is_dry=dry_run, is_agreed=yes, shows_diff=diff)
        result = carry_out(
            run,
            system,
            mended,
            wish,
            Telling(
                data=data, question="Mend this?", done=("Mended. Look again:  openmem doctor",)
            ),
        )
        return result
    if fix:
        lines = [*lines, "Nothing here can be mended by itself."]
    return Result(
        data=data,
        lines=tuple(lines),
        exit_status=FAILED if worst(found) == "error" else DONE,
    )
