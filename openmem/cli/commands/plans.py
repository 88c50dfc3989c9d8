"""`plan`, `apply`, `verify`, `undo`: the machinery behind every change, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from openmem.base.errors import CHANGES_PENDING, DONE, NotFound
from openmem.cli.command import Run, command, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Diff, DryRun, Json, Quiet, Yes

if TYPE_CHECKING:
    from openmem.plan.system import System


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "apply",
        short="Carry out a saved plan.",
        effect="changes files",
        example="openmem apply plan.json",
    )(apply_)
    command(
        app,
        "verify",
        short="Check that what openmem wrote is in place.",
        effect="read-only",
        example="openmem verify",
    )(verify)
    command(
        app,
        "undo",
        short="Take back the last run.",
        effect="changes files",
        example="openmem undo --list",
    )(undo)


def apply_(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A plan saved by `openmem plan --out FILE`.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Carry out a saved plan, exactly it; refused when a file changed since it was made."""
    import os

    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.plan.saved import plan_from_json
    from openmem.plan.system import RealSystem
    from openmem.setup.running import bring_up_to_date

    run = run_of(context)
    run.console.is_quiet = quiet
    system = RealSystem(run.paths.environ)
    path = os.path.abspath(os.path.expanduser(file))
    data = system.read(path)
    if data is None:
        raise NotFound(f"there is no plan at {path}.", hint="Make one:  openmem plan --out FILE")
    plan = plan_from_json(data.decode("utf-8", "replace"), system, path=path)
    wish = Wish(
        label="apply",
        is_dry=dry_run,
        is_agreed=True,  # the plan was looked at when it was made, and it is the same to the byte
        shows_diff=diff,
    )
    done = ("Done.  Check:  openmem doctor      Back:  openmem undo",)
    result = carry_out(run, system, plan, wish, Telling(done=done))
    if not dry_run and not plan.is_empty:
        bring_up_to_date(run.paths)
    return result


def verify(context: typer.Context, json: Json = False) -> Result:
    """Check that every file openmem wrote is as it left it; exit 3 when one is not."""
    from openmem.base.counts import counted
    from openmem.cli.render.runs import drift_lines
    from openmem.plan.receipt import drift, receipts
    from openmem.plan.system import RealSystem

    run = run_of(context)
    found = drift(RealSystem(run.paths.environ), run.paths)
    known = receipts(run.paths)
    is_cut_off = any(receipt.state == "started" for receipt in known)
    data = {
        "drift": [
            {
                "path": item.path,
                "kind": item.kind,
                "is_harmless": item.is_harmless,
                "missing": [list(keys) for keys in item.missing],
                "why": item.why,
            }
            for item in found
        ],
        "interrupted_run": is_cut_off,
    }
    pending = [item for item in found if not item.is_harmless]
    lines = drift_lines(found, run.paths.home, run.console.width)
    if is_cut_off:
        lines.append("A run was cut off half way:  openmem undo   puts back what it had changed.")
    if not pending and not is_cut_off:
        is_any = any(receipt.is_active for receipt in known)
        told = (
            "Everything openmem wrote is in place." if is_any else "Nothing of openmem is in force."
        )
        lines.append(told)
    elif pending:
        lines.append(
            f"{counted(len(pending), 'file')} drifted.  Put ours back:  openmem setup"
            "    Leave it:  openmem undo"
        )
    status = CHANGES_PENDING if pending or is_cut_off else DONE
    return Result(data=data, lines=tuple(lines), exit_status=status)


def undo(
    context: typer.Context,
    to: Annotated[
        int | None, typer.Option("--to", help="Take back every run after this one; 0 is all.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the runs and stop.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Take back the last run: its files get the bytes of before."""
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.cli.render.runs import run_lines
    from openmem.plan.apply import apply_replanning, recover
    from openmem.plan.receipt import plan_undo, receipts
    from openmem.plan.system import RealSystem
    from openmem.setup.running import bring_up_to_date

    run = run_of(context)
    run.console.is_quiet = quiet
    system = RealSystem(run.paths.environ)
    known = receipts(run.paths, system)
    if list_:
        data = {
            "runs": [
                {
                    "number": receipt.number,
                    "label": receipt.label,
                    "state": receipt.state,
                    "started_at": receipt.started_at,
                    "undone_by": receipt.undone_by,
                    "undoes": list(receipt.undoes),
                    "paths": list(receipt.paths_written),
                }
                for receipt in known
            ]
        }
        lines = run_lines(known, run.paths.home, run.console.width)
        return Result(data=data, lines=tuple(lines))
    if to is None and any(receipt.state == "started" for receipt in known):
        return _put_right(run, system, is_dry=dry_run)
    if not dry_run:
        recover(system, run.paths)
    plan = plan_undo(system, run.paths, to=to)
    words = "undo" if to is None else f"undo --to {to}"
    wish = Wish(
        label=words,
        is_dry=dry_run,
        is_agreed=yes,
        shows_diff=diff,
    )
    undone = [receipt.label for receipt in known if receipt.number in plan.undoes]
    notes = (f"Takes back: {', '.join(undone)}.",) if undone else ()
    result = carry_out(
        run,
        system,
        plan,
        wish,
        Telling(notes=notes, done=("Undone.",)),
        # An agent may rewrite its own file between the plan and the write.
        carry=lambda _: apply_replanning(
            lambda: plan_undo(system, run.paths, to=to), system, run.paths, label=words
        ),
    )
    if not dry_run and not plan.is_empty:
        bring_up_to_date(run.paths)
    return result


def _put_right(run: Run, system: System, *, is_dry: bool) -> Result:
    """Clean up after a run that was cut off; that alone is what an undo takes back then."""
    from openmem.cli.render.plan import left_lines
    from openmem.plan.apply import recover

    if is_dry:
        return Result(data={"interrupted_run": True}, lines=("A run was cut off; this mends it.",))
    receipt = recover(system, run.paths)
    left = receipt.left if receipt else ()
    done = receipt is not None and receipt.state == "finished"
    words = (
        "The run that was cut off had done everything; it is in force."
        if done
        else "The run that was cut off is put back."
    )
    data = {
        "interrupted_run": True,
        "receipt": receipt.number if receipt else 0,
        "state": receipt.state if receipt else "",
        "left": [{"path": x.path, "keys": list(x.keys), "why": x.why} for x in left],
    }
    return Result(data=data, notes=(words, *left_lines(left, run.paths.home, run.console.width)))
