"""Plans for the agents alone: wire some, wire only the tools, take all of ours out.

What setup does besides (policy, provider) stays as it is. Whoever sends an agent to the proxy also
makes sure that there is one, so that no command leaves an agent at a closed door.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openmem.agents.back import plan_without_launchers
from openmem.agents.base import AGENTS, Wanted
from openmem.agents.provider_mcp import (
    ProviderServer,
    can_take,
    plan_provider_server,
    provider_servers,
)
from openmem.base.config import load_config
from openmem.base.counts import listed
from openmem.base.errors import Missing, Unsupported
from openmem.base.paths import Paths
from openmem.base.settings import Value
from openmem.plan.action import Plan
from openmem.plan.apply import preview
from openmem.plan.receipt import receipts
from openmem.plan.system import SteadySystem, System
from openmem.plan.undo import plan_back
from openmem.setup.facts import Facts, KnownAgent
from openmem.setup.own_files import plan_config
from openmem.setup.provider import stated
from openmem.setup.resolve import Choice, integration_values, plan_agent, plan_proxy

STOP_LABEL = "proxy stop"


def found_or_missing(facts: Facts, names: Sequence[str] | None) -> tuple[KnownAgent, ...]:
    """Return the named agents, or all that are found. Missing when one is not on this machine."""
    wanted = tuple(names or facts.found_names)
    absent = [name for name in wanted if name not in facts.found_names]
    if absent or not wanted:
        named = absent or facts.agent_names
        titles = listed(facts.title_of(name) for name in named)
        raise Missing(
            f"{titles} {'is' if len(named) == 1 else 'are'} not on this machine.",
            hint="Install it, start it once, then run this again.",
            code="agent-missing",
        )
    return tuple(known for name in wanted if (known := facts.agent(name)) is not None)


def plan_wiring(system: System, paths: Paths, facts: Facts, choice: Choice) -> Plan:
    """Return the plan that wires the chosen agents, and runs the proxy when they go through it."""
    system = SteadySystem(system)
    values: dict[str, Value] = dict(stated(integration_values(facts, choice), facts.settings))
    why = ", ".join(f"{name} {value}" for name, value in values.items())
    if choice.has_proxy:
        why = f"proxy on port {choice.port}"
        values |= {"proxy.enabled": True, "proxy.port": choice.port}
    routes = choice.upstreams if choice.has_proxy else {}
    plan = Plan()
    if values:
        edits = plan_config(system, paths, values=values, routes=routes, why=why)
        plan = Plan(actions=tuple(edits))
    if choice.has_proxy:
        plan += plan_proxy(system, paths, choice)
    for name in choice.agents:
        plan += plan_agent(system, paths, facts, choice, name)
    return plan


def plan_tools(
    system: System,
    paths: Paths,
    agents: Sequence[KnownAgent],
    facts: Facts,
    *,
    allow_tools: bool | None,
    server: ProviderServer | None = None,
) -> Plan:
    """Return the plan that gives agents the MCP server and leaves everything else as it is.

    `server`: the provider's own in the place of ours. Unsupported for an agent that cannot take it.
    """
    system = SteadySystem(system)
    mcp_of = "provider" if server else "openmem"
    plan = Plan()
    if facts.mcp_of != mcp_of:
        values: dict[str, Value] = {"agents.mcp": mcp_of}
        why = f"the agents' tools are {mcp_of}'s"
        plan = Plan(actions=tuple(plan_config(system, paths, values=values, routes={}, why=why)))
    wanted = Wanted(hooks=None, mcp=server is None, proxy=None, skill=None, allow_tools=allow_tools)
    for known in agents:
        assert known.detected is not None  # taken from `found_or_missing`
        if server is not None and not can_take(known.name):
            raise Unsupported(
                f"openmem cannot give {known.title} a provider's own MCP server.",
                hint="Name the agents that take one: --agent",
                code="no-provider-mcp",
            )
        plan += AGENTS[known.name].wiring(system, paths, known.detected, wanted)
        plan += plan_provider_server(preview(plan, system), paths, known.detected, server)
    return plan


def plan_unwiring(system: System, paths: Paths, agents: Sequence[KnownAgent], facts: Facts) -> Plan:
    """Return the plan that takes all of ours out of the agents' files, whoever wrote it.

    What agents share goes with the last agent that runs it; `facts` names them all.
    """
    system = SteadySystem(system)
    plan = Plan()
    for known in agents:
        if known.detected is not None:
            plan += AGENTS[known.name].unwiring(
                system,
                paths,
                known.detected,
                upstream=before_us(known),
                upstreams=known.upstreams,
            )
            plan += plan_provider_server(preview(plan, system), paths, known.detected, None)
    ahead = preview(plan, system)
    if any(_runs_launchers(ahead, paths, known) for known in facts.agents):
        return plan
    return plan + plan_without_launchers(ahead, paths)


def _runs_launchers(system: System, paths: Paths, known: KnownAgent) -> bool:
    if known.detected is None:
        return False
    wired = AGENTS[known.name].wired(system, paths, known.detected)
    if provider_servers(system, known.detected):
        return True
    return bool(wired.hooks or wired.mcp or wired.problem)  # who cannot be read may run them


def plan_addresses(
    system: System, paths: Paths, agents: Sequence[KnownAgent], *, port: int | None
) -> Plan:
    """Return the plan that sends wired agents to the proxy at `port`, or, for None, past it."""
    plan = Plan()
    for known in agents:
        if known.detected is None:
            continue
        agent = AGENTS[known.name]
        wired = agent.wired(system, paths, known.detected)
        if port is None and not wired.port:
            continue  # it does not come to us, or its files cannot be read: nothing to take out
        wanted = Wanted(
            hooks=None,
            mcp=None,
            skill=None,
            proxy=port is not None,
            port=port or 0,
            upstream=before_us(known),
            upstreams=known.upstreams,
        )
        plan += agent.wiring(system, paths, known.detected, wanted)
    return plan


def plan_readdress(system: System, paths: Paths, facts: Facts, port: int) -> Plan:
    """Return the plan that gives back the addresses that `proxy stop` took out.

    Only those: an address that a person removed by hand stays removed.
    """
    stops = [r for r in receipts(paths, system) if r.is_active and r.label == STOP_LABEL]
    if not stops:
        return Plan()
    back = plan_back(system, paths, stops)
    touched = {path for receipt in stops for path in receipt.paths_written}
    agents = [
        known
        for known in facts.agents
        if known.detected is not None and known.detected.settings_file in touched
    ]
    # Where the file was rewritten meanwhile, what the receipts cannot give back is written anew;
    # so it is not left as it is, though the receipts' own plan must say so.
    files = {known.detected.settings_file for known in agents if known.detected is not None}
    back = replace(back, left=tuple(left for left in back.left if left.path not in files))
    ahead = preview(replace(back, undoes=()), system)
    return back + plan_addresses(ahead, paths, agents, port=port)


def before_us(known: KnownAgent) -> str:
    """Return an agent's own upstream for taking our address out; "" for its default."""
    own = known.detected.defaults if known.detected is not None else ()
    return "" if known.upstream in own else known.upstream


def configured_port(paths: Paths) -> int:
    """Return the port that the settings name."""
    return load_config(paths.config_file, paths.environ).number("proxy.port")
