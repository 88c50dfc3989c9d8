"""`openmem proxy`: the process that stands between the agents and the model."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from openmem.base.errors import Usage
from openmem.cli.command import command, group, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Diff, DryRun, Json, Quiet, Yes

proxy = group("proxy", "Run, start, stop and look at the recording proxy.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(proxy)


@command(
    proxy,
    "status",
    short="Show how the proxy is.",
    effect="read-only",
    example="openmem proxy status",
)
def status(context: typer.Context, json: Json = False) -> Result:
    """Show where the proxy listens, what it runs, and where requests go."""
    from openmem.base.config import load_config
    from openmem.cli.render.proxy import proxy_lines
    from openmem.host import lifecycle

    run = run_of(context)
    config = load_config(run.paths.config_file, run.paths.environ)
    found = lifecycle.status(run.paths, config)
    return Result(data=found.to_json(), lines=tuple(proxy_lines(found, time.time())))


@command(
    proxy,
    "run",
    short="Run it in the foreground.",
    effect="runs until stopped",
    example="openmem proxy run --port 8914 --upstream https://api.anthropic.com",
)
def run_(
    context: typer.Context,
    port: Annotated[
        int | None, typer.Option("--port", help="Port on 127.0.0.1; 0 is any free one.")
    ] = None,
    upstream: Annotated[
        str, typer.Option("--upstream", help="Where requests to the bare path go.")
    ] = "",
) -> Result:
    """Run the proxy in the foreground until Ctrl-C."""
    from openmem.base.config import load_config
    from openmem.host import lifecycle
    from openmem.setup.questions import BY_NAME

    run = run_of(context)
    if port is not None and not 0 <= port <= 65535:
        raise Usage(f"--port {port}: expected 0 to 65535.")
    complaint = BY_NAME["upstream"].check(upstream) if upstream else ""
    if complaint:
        raise Usage(f"--upstream {upstream}: {complaint}.")
    config = load_config(run.paths.config_file, run.paths.environ)
    code = lifecycle.run_foreground(
        run.paths,
        run.paths.environ,
        config,
        port=port,
        upstream=upstream,
        on_ready=lambda address: run.console.say(f"Listening on {address}. Ctrl-C ends it."),
    )
    return Result(exit_status=code)


@command(
    proxy,
    "start",
    short="Start it.",
    effect="changes files",
    effect_words="starts a process; gives back the addresses that `proxy stop` took out.",
    example="openmem proxy start",
)
def start(
    context: typer.Context,
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Start the proxy, or replace an older one that runs."""
    import os

    from openmem.base.config import load_config
    from openmem.cli.flow import Telling, Wish, described_data, screen
    from openmem.cli.render.proxy import proxy_lines
    from openmem.host import lifecycle
    from openmem.plan.apply import apply_replanning
    from openmem.plan.system import RealSystem
    from openmem.setup.look import look
    from openmem.setup.wire import plan_readdress

    run = run_of(context)
    run.console.is_quiet = quiet
    paths, system = run.paths, RealSystem(run.paths.environ)
    config = load_config(paths.config_file, paths.environ)
    found = lifecycle.status(paths, config)
    facts = look(system, paths, folder=os.getcwd())
    port = found.port if found.running else config.number("proxy.port")
    plan = plan_readdress(system, paths, facts, port)
    data = described_data(plan, system)
    wish = Wish(label="proxy start", is_dry=dry_run, is_agreed=True, shows_diff=diff)
    told = screen(run, plan, wish, Telling(), data["actions"]) if not plan.is_empty else []
    if dry_run:
        first = "The proxy runs already." if found.running else f"Starts the proxy on port {port}."
        return Result(data=data, lines=(first, *told))
    # The proxy first: an agent that is sent to it must find it.
    found = lifecycle.start(paths, paths.environ, config)
    if not plan.is_empty:
        receipt = apply_replanning(
            lambda: plan_readdress(system, paths, facts, port), system, paths, label=wish.label
        )
        data["receipt"] = receipt.number
    notes = (*told, "") if told else ()
    return Result(
        data={**data, "proxy": found.to_json()},
        lines=tuple(proxy_lines(found, time.time())),
        notes=notes,
    )


@command(
    proxy,
    "stop",
    short="End it.",
    effect="changes files",
    effect_words="ends a process; takes its address out of the agents' settings.",
    example="openmem proxy stop",
)
def stop(
    context: typer.Context,
    now: Annotated[
        bool, typer.Option("--now", help="End it at once, also for sessions that use it.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Send agents past the proxy and end it once no session uses it."""
    from openmem.cli.flow import Telling, Wish, described_data, screen
    from openmem.cli.render.proxy import stopped_line
    from openmem.host import lifecycle
    from openmem.plan.apply import apply_replanning
    from openmem.plan.system import RealSystem
    from openmem.setup.look import look_at_agents
    from openmem.setup.wire import STOP_LABEL, plan_addresses

    run = run_of(context)
    run.console.is_quiet = quiet
    paths, system = run.paths, RealSystem(run.paths.environ)
    agents = look_at_agents(system, paths)
    plan = plan_addresses(system, paths, agents, port=None)
    data = described_data(plan, system)
    wish = Wish(label=STOP_LABEL, is_dry=dry_run, is_agreed=True, shows_diff=diff)
    told = screen(run, plan, wish, Telling(), data["actions"]) if not plan.is_empty else []
    if dry_run:
        is_up = lifecycle.status(paths).running
        first = "Ends the proxy." if is_up else "The proxy does not run."
        return Result(data=data, lines=(first, *told))
    if not plan.is_empty:
        receipt = apply_replanning(
            lambda: plan_addresses(system, paths, agents, port=None),
            system,
            paths,
            label=wish.label,
        )
        data["receipt"] = receipt.number
    stopped = lifecycle.stop(paths, now=now)
    data["proxy"] = {
        "state": stopped.state,
        "agents": list(stopped.agents),
        "connections": stopped.connections,
    }
    notes = (*told, "") if told else ()
    return Result(data=data, notes=(*notes, stopped_line(stopped)))
