"""`openmem config`: settings and where each value comes from."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from openmem.cli.command import command, group, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Json

config = group("config", "Read and change settings.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(config)


@command(config, "show", effect="read-only", example="openmem config show --origin")
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


@command(config, "get", effect="read-only", example="openmem config get proxy.port")
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


@command(config, "path", effect="read-only", example="openmem config path")
def path(context: typer.Context, json: Json = False) -> Result:
    """Print where the settings file is; it may not exist yet."""
    run = run_of(context)
    return Result(data={"path": run.paths.config_file}, lines=(run.paths.config_file,))


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
