"""`openmem up`, `down`, `restart`, `logs`, `switch`: the provider's stack, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.errors import FAILED, Failed, Missing, NotFound
from openmem.cli import options as opt
from openmem.cli.command import Run, command, run_of
from openmem.cli.envelope import Result

if TYPE_CHECKING:
    from openmem.cli.asking import Chosen
    from openmem.plan.action import Plan
    from openmem.plan.system import System

Service = Annotated[str, typer.Argument(help="One service of the stack; left out: all.")]


def add_to(app: typer.Typer) -> None:
    for name, body, short in (
        ("up", up, "Start the provider's containers."),
        ("down", down, "End the provider's containers; their data stay."),
        ("restart", restart, "End and start the provider's containers."),
    ):
        command(app, name, short=short, effect="runs until stopped", example=f"openmem {name}")(
            body
        )
    command(
        app,
        "logs",
        short="Show what the provider's containers say.",
        effect="read-only",
        example="openmem logs --tail 50",
    )(logs)
    command(
        app,
        "switch",
        short="Let memories live with another provider.",
        effect="changes files",
        example="openmem switch hindsight --migrate --dry-run",
    )(switch)


def up(
    context: typer.Context,
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> Result:
    """Start the provider's containers and wait until they are well."""
    from openmem.cli.render.stack import container_lines, stack_data
    from openmem.stack.engine import connect
    from openmem.stack.running import start

    run = run_of(context)
    run.console.is_quiet = quiet
    name = _own(run)
    if dry_run:
        return Result(data={"provider": name, "would": "up"}, lines=(f"{name} would be started.",))
    start(run.paths, name, run.console.say)
    engine = connect(run.paths.environ)
    try:
        found = engine.containers(_project(name))
    finally:
        engine.close()
    return Result(data=stack_data(name, found), lines=tuple(container_lines(found)))


def down(
    context: typer.Context,
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    json: opt.Json = False,
) -> Result:
    """End the provider's containers; what they stored stays in its volumes."""
    run = run_of(context)
    return _carried(run, "down", "ended; its data stay", dry_run)


def restart(
    context: typer.Context,
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    json: opt.Json = False,
) -> Result:
    """End and start the provider's containers, and wait until they are well."""
    run = run_of(context)
    return _carried(run, "restart", "restarted", dry_run)


def _carried(run: Run, verb: str, done: str, is_dry: bool) -> Result:
    from openmem.stack.compose import Stack
    from openmem.stack.engine import connect
    from openmem.stack.running import port_of, wait_until_well

    name = _own(run)
    if is_dry:
        return Result(data={"provider": name, "would": verb}, lines=(f"{name} would be {done}.",))
    engine = connect(run.paths.environ)
    try:
        stack = Stack(run.paths, name, engine.address)
        if verb == "down":
            stack.down()
        else:
            stack.restart()
            wait_until_well(engine, name, run.console.say, port=port_of(run.paths, name))
    finally:
        engine.close()
    return Result(data={"provider": name, "done": verb}, lines=(f"{name} {done}.",))


def logs(
    context: typer.Context,
    service: Service = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    tail: Annotated[int, typer.Option("--tail", help="Show so many last lines of each.")] = 100,
    json: opt.Json = False,
) -> Result:
    """Show what the provider's containers say."""
    from openmem.stack.engine import connect

    run = run_of(context)
    name = _own(run)
    engine = connect(run.paths.environ)
    try:
        found = engine.containers(_project(name))
        chosen = [one for one in found if service in ("", one.service)]
        if not chosen:
            known = ", ".join(one.service for one in found) or "none runs"
            raise NotFound(f"no container of {name} is called {service!r} ({known}).")
        if follow and len(chosen) > 1:
            chosen = [one for one in chosen if one.service == name]
        said: dict[str, list[str]] = {}
        for one in chosen:
            said[one.service] = []
            for line in engine.logs(one.id, tail=tail, follow=follow):
                if follow and not run.is_json:
                    run.console.out([line])
                else:
                    said[one.service].append(line)
    finally:
        engine.close()
    lines = [f"{s} | {line}" if len(said) > 1 else line for s, x in said.items() for line in x]
    return Result(data={"provider": name, "logs": said}, lines=tuple(lines))


def switch(
    context: typer.Context,
    provider: Annotated[
        str, typer.Argument(help="local, hindsight, mem0 or cognee; planned: graphiti, letta, zep.")
    ],
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Tell the new provider all that was remembered.")
    ] = False,
    provider_url: opt.ProviderUrl = None,
    provider_key_file: opt.ProviderKeyFile = None,
    provider_user: opt.ProviderUser = None,
    provider_ca_file: opt.ProviderCaFile = None,
    provider_port: opt.ProviderPort = None,
    model_api: opt.ModelApi = None,
    model_url: opt.ModelUrl = None,
    model: opt.Model = None,
    model_key_env: opt.ModelKeyEnv = None,
    model_key_file: opt.ModelKeyFile = None,
    embeddings_url: opt.EmbeddingsUrl = None,
    embeddings: opt.Embeddings = None,
    embeddings_dimensions: opt.EmbeddingsDimensions = None,
    litellm: opt.Litellm = None,
    infer: opt.Infer = None,
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    diff: opt.Diff = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> Result:
    """Let memories live with another provider; with --migrate, those of before too."""
    from openmem.cli.asking import Given, choose
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.plan.system import RealSystem
    from openmem.setup.provider_questions import PROVIDER_QUESTIONS
    from openmem.stack.preflight import stop_at

    run = run_of(context)
    run.console.is_quiet = quiet
    words = locals()
    flags = {question.name: words[question.name] for question in PROVIDER_QUESTIONS}
    if provider_url is None and provider != _active(run):
        flags["provider_url"] = ""  # what is meant is a stack here, also after one elsewhere
    given = Given(flags={"provider": provider, **flags}, agents=(), takes_defaults=True)
    system = RealSystem(run.paths.environ)
    chosen = choose(run, system, given)
    made = _plan(run, system, chosen)
    if not dry_run and not made.is_empty:
        stop_at(list(chosen.faults))
    old = chosen.facts.provider
    notes = [f"What {old} holds stays there until you remove it."] if old != provider else []
    if not migrate:
        notes.append("Memories of before are found again once they are told: add --migrate.")
    telling = Telling(notes=notes, question="Switch?", data={"from": old, "to": provider})
    wish = Wish(label=f"switch {provider}", is_dry=dry_run, is_agreed=yes, shows_diff=diff)
    result = carry_out(run, system, made, wish, telling)
    if dry_run:
        return result
    return _settled(run, chosen, result, migrates=migrate)


def _plan(run: Run, system: System, chosen: Chosen) -> Plan:
    from openmem.plan.action import plan_of
    from openmem.setup.own_files import plan_config
    from openmem.setup.provider import plan_server, stated, values_of

    server = chosen.choice.server
    assert server is not None  # a choice of `choose` has one
    values = {"provider": server.provider, **stated(values_of(server), chosen.facts.settings)}
    why = f"provider {server.provider}"
    actions = plan_config(system, run.paths, values=values, routes={}, why=why)
    actions += plan_server(system, run.paths, server, chosen.facts.provider)
    return plan_of(actions, *(fault.words for fault in chosen.faults))


def _settled(run: Run, chosen: Chosen, result: Result, *, migrates: bool) -> Result:
    from openmem.cli.render.setup import proof_lines
    from openmem.setup.provider_smoke import prove_provider

    data: dict[str, Any] = dict(result.data or {})
    notes = list(result.notes)
    server = chosen.choice.server
    assert server is not None
    if server.provider != "local":
        proof = prove_provider(run.paths, server, run.console.say, is_tried=True)
        data["proof"] = {"name": proof.name, "result": proof.outcome, "detail": proof.detail}
        notes += ["", *proof_lines([proof], run.paths.home, run.console.width)]
        if proof.outcome == "error":
            notes.append("Nothing was migrated. Back:  openmem undo")
            return Result(data=data, lines=result.lines, notes=tuple(notes), exit_status=FAILED)
    if migrates:
        moved = _migrated(run, server.provider)
        data["migrated"] = moved
        short = [one for one in moved if not one["is_whole"]]
        for one in moved:
            there = "cannot say" if one["there"] < 0 else one["there"]
            notes.append(f"{one['bank']}: {one['wanted']} in the ledger, {there} there")
        if short:
            raise Failed(
                "not everything arrived: " + ", ".join(one["bank"] for one in short) + ".",
                hint=f"Run it again, it goes on: openmem switch {server.provider} --migrate",
                code="migration-short",
            )
    return Result(data=data, lines=result.lines, notes=tuple(notes))


def _migrated(run: Run, name: str) -> list[dict[str, Any]]:
    """Tell the provider everything that the ledger holds; bank, counts of both sides."""
    from openmem.base.installation import ensure_key
    from openmem.memory.ledger import Ledger
    from openmem.memory.migrate import migrate
    from openmem.memory.providers.registry import provider_of
    from openmem.memory.providers.server import SERVED, made

    if name in SERVED:
        from openmem.memory.providers.http import PooledTransport

        provider = made(name, run.paths, PooledTransport())
    else:
        provider = provider_of(name, run.paths)
    ledger = Ledger(run.paths, ensure_key(run.paths), provider=name)
    try:
        found = migrate(ledger, provider, run.console.say) if ledger.exists() else []
    finally:
        ledger.close()
        provider.close()
    return [
        {
            "bank": one.bank,
            "wanted": one.wanted,
            "told": one.told,
            "there": one.there,
            "waiting": one.waiting,
            "is_whole": one.is_whole,
        }
        for one in found
    ]


def _active(run: Run) -> str:
    from openmem.base.config import load_config

    return load_config(run.paths.config_file, run.paths.environ).text("provider")


def _own(run: Run) -> str:
    """Return the provider whose stack is meant. Failed when there is none here, Missing."""
    from openmem.base.config import load_config
    from openmem.stack.compose import Stack
    from openmem.stack.plan import SERVICES

    config = load_config(run.paths.config_file, run.paths.environ)
    name = config.text("provider")
    if name not in SERVICES:
        raise Failed(
            f"provider {name} runs inside openmem: there is nothing to start or stop.",
            hint="Another one: openmem switch hindsight --dry-run",
            code="no-stack",
        )
    if config.text("server.url"):
        raise Failed(
            f"provider {name} runs at {config.text('server.url')}, not in containers of openmem.",
            code="no-stack",
        )
    if not Stack(run.paths, name).exists():
        raise Missing(
            f"the stack of {name} is not here.",
            hint=f"Make it: openmem setup --provider {name}",
            code="no-stack",
        )
    return name


def _project(name: str) -> str:
    from openmem.stack.compose import project_of

    return project_of(name)
