"""`openmem config`: settings and where each value comes from."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from openmem.base.errors import Usage
from openmem.cli.command import command, group, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Diff, DryRun, Json, Quiet, Yes

config = group("config", "Read and change settings.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(config)


@command(
    config,
    "show",
    short="Show all of it.",
    effect="read-only",
    example="openmem config show --origin",
)
def show(
    context: typer.Context,
    origin: Annotated[
        bool, typer.Option("--origin", help="Say where each value comes from.")
    ] = False,
    json: Json = False,
) -> Result:
    """Show every setting in force in this folder."""
    from openmem.base.config import load_config
    from openmem.base.paths import display
    from openmem.cli.render.table import columns

    run = run_of(context)
    loaded = load_config(run.paths.config_file, run.paths.environ, project_dir=os.getcwd())
    data = {
        "settings": {
            name: {"value": held.value, "origin": held.source}
            for name, held in loaded.values.items()
        },
        "routes": dict(loaded.routes),
    }
    rows = [
        [name, "=", _shown(held.value), display(held.source, run.paths.home) if origin else ""]
        for name, held in loaded.values.items()
    ]
    user_file = display(run.paths.config_file, run.paths.home) if origin else ""
    rows += [
        [f"routes.{agent}.upstream", "=", _shown(url), user_file]
        for agent, url in loaded.routes.items()
    ]
    return Result(data=data, lines=tuple(columns(rows)))


@command(
    config,
    "get",
    short="Print one setting.",
    effect="read-only",
    example="openmem config get proxy.port",
)
def get(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A setting, such as proxy.port.")],
    json: Json = False,
) -> Result:
    """Print the value of one setting in force in this folder."""
    from openmem.base.config import load_config, setting_of

    run = run_of(context)
    loaded = load_config(run.paths.config_file, run.paths.environ, project_dir=os.getcwd())
    agent = _route(name)
    if agent is not None:
        value: object = loaded.routes.get(agent, "")
        source = run.paths.config_file if agent in loaded.routes else "default"
    else:
        setting_of(name)
        value, source = loaded.values[name].value, loaded.values[name].source
    line = value if isinstance(value, str) else _shown(value)
    return Result(data={"name": name, "value": value, "origin": source}, lines=(str(line),))


@command(
    config,
    "path",
    short="Print where the settings are.",
    effect="read-only",
    example="openmem config path",
)
def path(context: typer.Context, json: Json = False) -> Result:
    """Print where the settings file is; it may not exist yet."""
    run = run_of(context)
    return Result(data={"path": run.paths.config_file}, lines=(run.paths.config_file,))


@command(
    config,
    "set",
    short="Write one setting.",
    effect="changes files",
    example="openmem config set proxy.port 8914",
)
def set_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A setting, such as proxy.port.")],
    value: Annotated[
        str | None, typer.Argument(help="Its value; with --unset none.", show_default=False)
    ] = None,
    unset: Annotated[
        bool, typer.Option("--unset", help="Take it out, so that the default holds.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Write one setting into the settings file."""
    from openmem.base.config import decode_text, setting_of
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.plan.action import Plan
    from openmem.plan.system import RealSystem
    from openmem.setup.own_files import plan_route, plan_setting, plan_unset
    from openmem.setup.running import bring_up_to_date

    run = run_of(context)
    run.console.is_quiet = quiet
    if unset == (value is not None):
        raise Usage("give a value, or --unset and none.")
    system, agent = RealSystem(run.paths.environ), _route(name)
    if agent is None:
        setting_of(name)
    if unset:
        actions = plan_unset(system, run.paths, name)
    elif agent is not None:
        actions = plan_route(system, run.paths, agent, _address(str(value)))
    else:
        decoded = decode_text(setting_of(name), str(value), "value")
        actions = plan_setting(system, run.paths, name, decoded)
    wish = Wish(
        label="config set",
        is_dry=dry_run,
        is_agreed=True,  # the command says what it does; there is nothing to ask
        shows_diff=diff,
    )
    # The port and whether there is a proxy also stand in the agents' own settings.
    is_shared = name in ("proxy.port", "proxy.enabled")
    told = ("Carry it to agents and proxy:  openmem setup",) if is_shared else ()
    result = carry_out(run, system, Plan(actions=tuple(actions)), wish, Telling(done=told))
    if actions and not dry_run:
        bring_up_to_date(run.paths)
    return result


def _address(text: str) -> str:
    from openmem.setup.questions import BY_NAME

    complaint = BY_NAME["upstream"].check(text)
    if complaint:
        raise Usage(f"{text!r}: {complaint}.")
    return text


def _route(name: str) -> str | None:
    """Return the agent of a `routes.AGENT.upstream`, None for any other name."""
    head, _, rest = name.partition(".")
    agent, _, last = rest.rpartition(".")
    return agent if head == "routes" and last == "upstream" and agent else None


def _shown(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        import json

        return json.dumps(value, ensure_ascii=False)
    return str(value)
