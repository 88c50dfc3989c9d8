"""`openmem completion`: words for a shell's Tab key."""

from __future__ import annotations

from typing import Annotated

import typer

from openmem.base.errors import Usage
from openmem.cli.command import command, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Diff, DryRun, Json, Quiet, Yes


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "completion",
        short="Complete commands in a shell.",
        effect="changes files",
        example="openmem completion bash",
    )(completion)


def completion(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")],
    show: Annotated[bool, typer.Option("--show", help="Print the script; write nothing.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Write a shell's completion script to the folder from which the shell reads it."""
    from openmem.cli.completion import SHELLS, place, script, words_of
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.plan.action import Action, ManualStep, Plan
    from openmem.plan.edit.planner import plan_write
    from openmem.plan.system import RealSystem

    run = run_of(context)
    run.console.is_quiet = quiet
    if shell not in SHELLS:
        raise Usage(f"there is no completion for {shell!r}.", hint=f"Known: {', '.join(SHELLS)}.")
    text = script(shell, words_of(context.find_root().command))
    path = place(shell, run.paths)
    if show:
        return Result(data={"path": path, "script": text}, lines=tuple(text.splitlines()))
    system = RealSystem(run.paths.environ)
    actions: list[Action] = plan_write(
        system, path, text.encode(), f"completion for {shell}", 0o644
    )
    if actions and shell == "zsh":
        folder = path.rpartition("/")[0]
        line = f"fpath=({folder} $fpath)"
        actions.append(
            ManualStep(
                text=f"put this line into ~/.zshrc, before compinit: {line}",
                why="zsh reads no folder of the user's by itself",
            )
        )
    wish = Wish(label="completion", is_dry=dry_run, is_agreed=True, shows_diff=diff)
    done = ("Open a new shell to use it.",)
    return carry_out(run, system, Plan(actions=tuple(actions)), wish, Telling(done=done))
