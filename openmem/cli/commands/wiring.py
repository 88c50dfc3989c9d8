"""`install-coding-agent`, `uninstall-coding-agent`, `install-mcp`: agents, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from openmem.base.counts import listed
from openmem.base.errors import Usage
from openmem.cli import options as opt
from openmem.cli.command import Run, command, run_of
from openmem.cli.envelope import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openmem.plan.action import Plan
    from openmem.plan.system import System
    from openmem.setup.facts import Facts, KnownAgent


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "install-coding-agent",
        short="Wire agents.",
        effect="changes files",
        example="openmem install-coding-agent --agent claude-code",
    )(install)
    command(
        app,
        "uninstall-coding-agent",
        short="Take openmem out of agents.",
        effect="changes files",
        example="openmem uninstall-coding-agent --agent claude-code",
    )(uninstall)
    command(
        app,
        "install-mcp",
        short="Give agents the search tools only.",
        effect="changes files",
        example="openmem install-mcp",
    )(install_mcp)


def install(
    context: typer.Context,
    agent: opt.Agents = None,
    provider_plugin: opt.ProviderPlugin = None,
    hooks: opt.Hooks = None,
    trust_hooks: opt.TrustHooks = None,
    mcp: opt.Mcp = None,
    skill: opt.Skill = None,
    proxy: opt.Proxy = None,
    allow_tools: opt.AllowTools = None,
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    diff: opt.Diff = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> Result:
    """Wire agents: hooks, search tools, skill and the proxy's address, unless switched off."""
    import os

    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.cli.render.setup import setup_notes
    from openmem.plan.apply import apply_replanning, settled
    from openmem.setup.plugin import check_exclusive, check_plugin
    from openmem.setup.resolve import Choice
    from openmem.setup.running import bring_up_to_date
    from openmem.setup.wire import plan_wiring

    run, system, facts = _begin(context, quiet)
    known = _named(facts, agent)
    is_plugin = facts.integration == "provider" if provider_plugin is None else provider_plugin
    if is_plugin:
        check_plugin(facts.provider)
    check_exclusive(is_plugin=is_plugin, hooks=hooks)
    has_proxy = proxy is not False
    choice = Choice(
        agents=tuple(one.name for one in known),
        missing=(),
        hooks=hooks is not False and not is_plugin,
        is_plugin=is_plugin,
        mcp=facts.mcp_of == "openmem" if mcp is None else mcp,
        allow_tools=allow_tools,
        trust_hooks=trust_hooks,
        has_proxy=has_proxy,
        port=facts.port,
        wanted_port=facts.wanted_port,
        skill=skill is not False,
        upstreams=facts.routes_of(one.name for one in known),
        has_service=bool(facts.service_manager),
        provider=facts.provider,
        store_git=None,
        store_other=None,
    )
    warnings: tuple[str, ...] = ()
    if not os.path.lexists(run.paths.policy_file):
        warnings = ("There is no policy yet, so nothing is stored: openmem setup",)
    wish = Wish(label="install-coding-agent", is_dry=dry_run, is_agreed=yes, shows_diff=diff)

    def planned() -> Plan:
        return plan_wiring(system, run.paths, facts, choice)

    result = carry_out(
        run,
        system,
        settled(planned).with_warnings(*warnings),
        wish,
        Telling(
            notes=setup_notes(facts, choice, run.paths.home),
            done=_restart(known),
            question="Write this?",
        ),
        carry=lambda _: apply_replanning(planned, system, run.paths, label=wish.label),
    )
    if has_proxy and not dry_run:
        bring_up_to_date(run.paths)
    return result


def uninstall(
    context: typer.Context,
    agent: opt.Agents = None,
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    diff: opt.Diff = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> Result:
    """Take everything of openmem out of agents' settings; what was stored is kept."""
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.plan.apply import apply_replanning, settled
    from openmem.setup.wire import plan_unwiring

    run, system, facts = _begin(context, quiet)
    known = _named(facts, agent)
    wish = Wish(label="uninstall-coding-agent", is_dry=dry_run, is_agreed=yes, shows_diff=diff)

    def planned() -> Plan:
        return plan_unwiring(system, run.paths, known, facts)

    return carry_out(
        run,
        system,
        settled(planned),
        wish,
        Telling(done=(*_restart(known), *_proxy_left(run))),
        carry=lambda _: apply_replanning(planned, system, run.paths, label=wish.label),
    )


def install_mcp(
    context: typer.Context,
    agent: opt.Agents = None,
    allow_tools: opt.AllowTools = None,
    provider_only: Annotated[
        bool,
        typer.Option(
            "--provider-only", help="Give them the provider's own MCP server in the place of ours."
        ),
    ] = False,
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    diff: opt.Diff = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> Result:
    """Give agents the search tools only: the MCP server, no hooks, no proxy."""
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.plan.apply import apply_replanning, settled
    from openmem.setup.plugin import provider_server
    from openmem.setup.wire import plan_tools

    run, system, facts = _begin(context, quiet)
    known = _named(facts, agent)
    if provider_only and allow_tools is not None:
        raise Usage("--allow-tools is about openmem's own tools, which --provider-only takes out.")
    server = provider_server(run.paths, facts.provider) if provider_only else None
    notes: tuple[str, ...] = ()
    if server is not None:
        notes = (
            "What the agents do through that server passes by openmem's policy, redaction and "
            "ledger. openmem's own again:  openmem install-mcp",
        )
    wish = Wish(label="install-mcp", is_dry=dry_run, is_agreed=yes, shows_diff=diff)

    def planned() -> Plan:
        return plan_tools(system, run.paths, known, facts, allow_tools=allow_tools, server=server)

    return carry_out(
        run,
        system,
        settled(planned),
        wish,
        Telling(notes=notes, done=_restart(known), question="Write this?"),
        carry=lambda _: apply_replanning(planned, system, run.paths, label=wish.label),
    )


def _begin(context: typer.Context, quiet: bool) -> tuple[Run, System, Facts]:
    import os

    from openmem.plan.system import RealSystem
    from openmem.setup.look import look

    run = run_of(context)
    run.console.is_quiet = quiet
    system = RealSystem(run.paths.environ)
    return run, system, look(system, run.paths, folder=os.getcwd())


def _named(facts: Facts, names: Sequence[str] | None) -> tuple[KnownAgent, ...]:
    from openmem.setup.wire import found_or_missing

    for name in names or ():
        if name not in facts.agent_names:
            raise Usage(
                f"there is no agent {name!r}.", hint=f"Known: {', '.join(facts.agent_names)}."
            )
    return found_or_missing(facts, names)


def _proxy_left(run: Run) -> tuple[str, ...]:
    from openmem.host import lifecycle

    if not lifecycle.status(run.paths).running:
        return ()
    return ("The proxy still runs:  openmem proxy stop",)


def _restart(known: Sequence[KnownAgent]) -> tuple[str, ...]:
    titles = listed(one.title for one in known)
    return (f"Restart {titles}; sessions that are open keep the settings they began with.",)
