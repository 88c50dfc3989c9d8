"""`openmem uninstall`: everything back; with `--purge` what was stored goes too."""

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
        "uninstall",
        short="Take openmem out of this machine.",
        effect="changes files",
        effect_words="changes files through a plan; --purge destroys what was stored.",
        example="openmem uninstall --dry-run",
    )(uninstall)


def uninstall(
    context: typer.Context,
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Remove settings, policy and every stored session too."),
    ] = False,
    volume: Annotated[
        list[str] | None,
        typer.Option(
            "--volume",
            help="With --purge: remove this volume of a provider too, for good; may be repeated.",
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Take openmem out of this machine's settings; files get the bytes of before."""
    from openmem.cli.flow import Telling, Wish, agree, described_data, screen
    from openmem.cli.render.plan import Entry, left_lines
    from openmem.cli.render.uninstall import end_lines, purged
    from openmem.host import lifecycle
    from openmem.plan.action import Left
    from openmem.plan.apply import apply_replanning, recover
    from openmem.plan.receipt import receipts
    from openmem.plan.system import RealSystem
    from openmem.setup.facts import Facts
    from openmem.setup.look import look_at_agents
    from openmem.setup.uninstall import finish, kept, plan_removal, remove_volumes, volumes_of

    run = run_of(context)
    run.console.is_quiet = quiet
    paths, system = run.paths, RealSystem(run.paths.environ)
    if not dry_run and any(r.state == "started" for r in receipts(paths, system)):
        recover(system, paths)
    facts = Facts(agents=look_at_agents(system, paths))
    plan = plan_removal(system, paths, facts, is_purge=purge)
    more = purged(kept(paths), paths) if purge else []
    volumes = volumes_of(paths) if purge else ()
    for name in volume or ():
        if name not in volumes:
            raise Usage(
                f"{name!r} is no volume of openmem that is here.",
                hint=f"There are: {', '.join(volumes) or 'none'}. They go with --purge only.",
            )
    more += [Entry(mark="-", name=name, why="for good: a provider's data") for name in volume or ()]
    spared = [name for name in volumes if name not in (volume or ())]
    words = [f"A provider's data stay: docker volume rm {name}" for name in spared]
    telling = Telling(
        more=more, notes=words, question="Remove all of this for good?" if purge else "Take it out?"
    )
    wish = Wish(label="uninstall", is_dry=dry_run, is_agreed=yes, shows_diff=diff)
    data = described_data(plan, system)
    data["purged"] = [paths.config_dir, paths.state_dir] if purge else []
    data["volumes"] = {"removed": list(volume or ()), "left": spared}
    is_done = plan.is_empty and not more and not lifecycle.status(paths).running
    if dry_run or is_done:
        return Result(data=data, lines=tuple(screen(run, plan, wish, telling, data["actions"])))
    agree(run, plan, wish, telling, data["actions"])
    left: list[Left] = []
    if not plan.is_empty:
        receipt = apply_replanning(
            lambda: plan_removal(system, paths, facts, is_purge=purge),
            system,
            paths,
            label="uninstall",
        )
        left += receipt.left
    remove_volumes(paths, volume or ())
    stopped, stay = finish(paths, is_purge=purge)
    left += stay
    new = [x for x in left if x not in plan.left]  # the others have been shown with the plan
    data["left"] = [
        {"path": x.path, "keys": list(x.keys), "why": x.why} for x in (*plan.left, *new)
    ]
    data["proxy"] = stopped.state
    told = left_lines(new, paths.home, run.console.width)
    return Result(data=data, notes=(*told, "", *end_lines(stopped, is_purge=purge)))
