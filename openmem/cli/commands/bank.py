"""`openmem bank`: the scopes of memories, one per project."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.errors import NotFound, Refused, Usage
from openmem.cli.command import Run, command, group, run_of
from openmem.cli.envelope import Result
from openmem.cli.memories import moved_note, opened, scope_here
from openmem.cli.options import Diff, DryRun, Json, Quiet

if TYPE_CHECKING:
    from openmem.memory.scope import Scope

bank = group("bank", "The scopes of memories, one per project: list, link, drop.")

Folder = Annotated[
    str | None, typer.Argument(help="A folder, with all below it.", show_default=False)
]
Remote = Annotated[
    str | None, typer.Option("--remote", help="Remotes instead: host/path, * stands for any.")
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(bank)


@command(bank, "list", short="List the banks.", effect="read-only", example="openmem bank list")
def list_(context: typer.Context, json: Json = False) -> Result:
    """List the banks of this machine that hold something; this folder's is marked."""
    from openmem.cli.render.memory import bank_lines

    run = run_of(context)
    scope = scope_here(run)
    data = _banks(run, scope)
    lines = bank_lines(data, now_seconds=time.time(), width=run.console.width)
    notes = moved_note(run, scope, "") if not any(one["is_here"] for one in data) else ()
    return Result(data={"banks": data}, lines=tuple(lines), notes=notes)


def _banks(run: Run, scope: Scope) -> list[dict[str, Any]]:
    with opened(run, scope) as memories:
        return [
            {
                "bank": name,
                "memories": count,
                "pending": pending,
                "last_at": last,
                "is_here": name == scope.bank,
            }
            for name, count, pending, last in memories.ledger.banks()
            if scope.is_person or name == scope.bank
        ]


@command(bank, "show", short="Show one bank.", effect="read-only", example="openmem bank show")
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A bank; this folder's when left out.")] = "",
    json: Json = False,
) -> Result:
    """Show what a bank holds, which folders use it, and why this folder has the bank it has."""
    from openmem.base.counts import counted
    from openmem.base.paths import display
    from openmem.cli.console import visible
    from openmem.memory.places import read_places
    from openmem.memory.status import status_of

    run = run_of(context)
    scope = scope_here(run)
    target = scope.bank_to_read(name)
    with opened(run, scope) as memories:
        status = status_of(memories, target)
    folders = [one.folder for one in read_places(run.paths) if one.bank == target]
    links = [
        link.path or f"remote {link.remote}" for link in scope.policy.links if link.bank == target
    ]
    data = {
        "bank": target,
        "is_here": target == scope.bank,
        "statements": status.statements,
        "pending": status.pending,
        "passages": status.passages,
        "forgotten": status.forgotten,
        "provider": status.provider,
        "folders": folders,
        "links": links,
    }
    lines = [
        f"bank {visible(target)}{' (this folder)' if data['is_here'] else ''}",
        f"  {counted(status.statements, 'statement')}, {status.pending} of them pending; "
        f"{counted(status.passages, 'kept turn')}; {status.forgotten} forgotten",
    ]
    lines += [f"  used by {visible(display(one, run.paths.home))}" for one in folders]
    lines += [f"  linked from {visible(display(one, run.paths.home))}" for one in links]
    is_empty = not status.statements and not status.passages
    return Result(
        data=data, lines=tuple(lines), notes=moved_note(run, scope, name) if is_empty else ()
    )


@command(
    bank,
    "link",
    short="Let a folder use another bank.",
    effect="changes files",
    example="openmem bank link . github.com/acme/site",
)
def link(
    context: typer.Context,
    folder: Folder = None,
    name: Annotated[
        str | None, typer.Argument(help="The bank it uses.", show_default=False)
    ] = None,
    remote: Remote = None,
    dry_run: DryRun = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Let a folder, or remotes, read and write another bank than their own; undo takes it back.

    With --remote the one argument is the bank.
    """
    from openmem.base.policy import check_bank
    from openmem.setup.own_files import plan_link

    run = run_of(context)
    run.console.is_quiet = quiet
    if remote is not None and name is None:
        folder, name = None, folder
    if not name or (folder is None) == (remote is None):
        raise Usage("give a folder and a bank, or --remote and a bank.")
    try:
        check_bank(name, "bank")
    except ValueError as error:
        raise Usage(f"{error}.") from None
    path = _resolved(folder)
    return _planned(
        run,
        lambda system: plan_link(system, run.paths, path=path, remote=remote, bank=name),
        label="bank link",
        dry_run=dry_run,
        diff=diff,
    )


@command(
    bank,
    "unlink",
    short="Give a folder its own bank back.",
    effect="changes files",
    example="openmem bank unlink .",
)
def unlink(
    context: typer.Context,
    folder: Folder = None,
    remote: Remote = None,
    dry_run: DryRun = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Take a link out; the folder, or the remotes, use their own bank again."""
    from openmem.setup.own_files import plan_unlink

    run = run_of(context)
    run.console.is_quiet = quiet
    if (folder is None) == (remote is None):
        raise Usage("give a folder, or --remote and a pattern.")
    path = _resolved(folder)
    return _planned(
        run,
        lambda system: plan_unlink(system, run.paths, path=path, remote=remote),
        label="bank unlink",
        dry_run=dry_run,
        diff=diff,
    )


def _resolved(folder: str | None) -> str | None:
    return os.path.realpath(os.path.expanduser(folder)) if folder is not None else None


def _planned(run: Run, plan_it: Any, *, label: str, dry_run: bool, diff: bool) -> Result:
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.plan.action import Plan
    from openmem.plan.system import RealSystem

    system = RealSystem(run.paths.environ)
    plan = Plan(actions=tuple(plan_it(system)))
    # The command says what it does; there is nothing to ask.
    wish = Wish(label=label, is_dry=dry_run, is_agreed=True, shows_diff=diff)
    return carry_out(run, system, plan, wish, Telling(done=("Check:  openmem bank show",)))


@command(
    bank,
    "drop",
    short="Remove a whole bank.",
    effect="changes files",
    effect_words="erases everything a bank holds, for good; --dry-run counts it.",
    example="openmem bank drop github.com/acme/old --dry-run",
)
def drop(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The bank, whole.")],
    confirm: Annotated[
        str, typer.Option("--confirm", help="The bank's name again; asked for when left out.")
    ] = "",
    dry_run: DryRun = False,
    json: Json = False,
) -> Result:
    """Erase a bank with everything in it. Its name has to be typed again; --yes is not enough.

    Unlike forgetting, it leaves no marks: what was in it may be remembered again.
    """
    from openmem.base.errors import PolicyDenied

    run = run_of(context)
    scope = scope_here(run)
    if not scope.is_person:
        raise PolicyDenied("only a person drops a bank.")
    known = {one["bank"]: one for one in _banks(run, scope)}
    if name not in known:
        raise NotFound(f"there is no bank {name}.", hint="`openmem bank list` lists them.")
    held = known[name]["memories"]
    if dry_run:
        data = {"bank": name, "memories": held, "dry_run": True}
        return Result(data=data, lines=(f"Would erase {held} memories of {name}.",))
    if not confirm:
        confirm = _typed_again(run, name, held)
    if confirm != name:
        raise Refused(f"{confirm!r} is not {name!r}; nothing was erased.", code="not-confirmed")
    from openmem.memory.dropping import drop_bank

    with opened(run, scope, "write") as memories:
        dropped, is_erased = drop_bank(memories, name, scope.actor)
    lines = [f"Dropped {name}: {dropped} memories."]
    if not is_erased:
        lines.append("Pending: a reader holds old pages; the next change of memory finishes it.")
    return Result(
        data={"bank": name, "memories": dropped, "pending": not is_erased}, lines=tuple(lines)
    )


def _typed_again(run: Run, name: str, held: int) -> str:
    if not run.console.is_interactive or run.is_json:
        raise Usage(
            "dropping a bank needs its name typed again and nobody can be asked here.",
            hint=f"--confirm {name}",
        )
    run.console.say(f"This erases {held} memories of {name} for good.")
    run.console.stderr.write("Type the bank's name to go on: ")
    run.console.stderr.flush()
    return run.console.stdin.readline().strip()
