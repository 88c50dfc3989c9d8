"""From answers to one plan: policy, settings, proxy, agents, in the order in which they are safe.

The proxy runs before any agent is sent to it, so that no request ever meets a closed door. Every
part plans from what is there now: resolving again after applying gives nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openmem.agents.base import AGENTS, Wanted
from openmem.agents.provider_mcp import plan_provider_server
from openmem.base.errors import NotFound, OpenmemError, Refused
from openmem.base.paths import Paths
from openmem.base.settings import Value
from openmem.host import lifecycle
from openmem.host.launch import command_of
from openmem.host.service import MODULE, service_actions
from openmem.plan.action import Action, Plan, RunCommand
from openmem.plan.apply import preview
from openmem.plan.system import SteadySystem, System
from openmem.setup.answers import Answered
from openmem.setup.facts import Facts
from openmem.setup.own_files import plan_config, plan_policy
from openmem.setup.plugin import (
    check_exclusive,
    check_plugin,
    place_of,
    plan_plugin,
    twice,
    upstream_hooks,
)
from openmem.setup.provider import (
    ReadKey,
    Server,
    decide_server,
    plan_server,
    stated,
    values_of,
)
from openmem.setup.sessions_kept import claude_days


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The answers, decided. `agents`: to be wired, all of them found; `port`: free or ours.

    `wanted_port`: the one that was asked for, which may be taken. `upstreams`: by route. `missing`:
    agents that were named and are not on this machine. `is_plugin`: the provider's own plug-in is
    wanted for our hooks.
    """

    agents: tuple[str, ...]
    missing: tuple[str, ...]
    hooks: bool
    mcp: bool
    allow_tools: bool | None
    has_proxy: bool
    port: int
    wanted_port: int
    upstreams: Mapping[str, str]
    has_service: bool
    provider: str
    store_git: bool | None
    store_other: bool | None
    server: Server | None = None
    trust_hooks: bool | None = None
    is_plugin: bool = False
    skill: bool = True
    keep_days: int | None = None


def decide(
    facts: Facts,
    answered: Answered,
    *,
    free: int,
    environ: Mapping[str, str] | None = None,
    read_key: ReadKey = str,
) -> Choice:
    """Return what the answers come to on this machine. `free`: the port that was found free.

    `environ`, `read_key`: where a model's key may be found.
    """
    provider = answered.text("provider") or facts.provider
    is_plugin = answered.flag("provider_plugin")
    if is_plugin:
        check_plugin(provider)
    stated_hooks = answered.flag("hooks") if "hooks" in answered.stated else None
    check_exclusive(is_plugin=is_plugin, hooks=stated_hooks)
    named = answered.names("agents")
    agents = tuple(name for name in named if name in facts.found_names)
    upstreams = facts.routes_of(agents)
    if "claude-code" in agents and answered.text("upstream"):
        upstreams["claude-code"] = answered.text("upstream").rstrip("/")
    return Choice(
        agents=agents,
        missing=tuple(name for name in named if name not in agents),
        hooks=answered.flag("hooks") and not is_plugin,
        is_plugin=is_plugin,
        mcp=answered.flag("mcp"),
        skill=answered.flag("skill"),
        # Only a yes or a stated no touches permissions and trust: they are the person's own.
        allow_tools=answered.flag("allow_tools") if "allow_tools" in answered.stated else None,
        trust_hooks=answered.flag("trust_hooks") if "trust_hooks" in answered.stated else None,
        keep_days=_keep_days(answered, facts),
        has_proxy=answered.flag("proxy"),
        port=free,
        wanted_port=answered.number("port") or facts.wanted_port,
        upstreams=upstreams,
        has_service=answered.flag("service"),
        provider=provider,
        store_git=_stated(answered, "store_git", facts),
        store_other=_stated(answered, "store_other", facts),
        server=decide_server(answered, environ or {}, provider, facts.provider_ports, read_key),
    )


def _stated(answered: Answered, name: str, facts: Facts) -> bool | None:
    if facts.has_policy and name not in answered.stated:
        return None  # the policy that exists is kept
    return answered.flag(name)


def _keep_days(answered: Answered, facts: Facts) -> int | None:
    """Return a stated number that is another one than the one in force."""
    days = answered.number("keep_sessions") if "keep_sessions" in answered.stated else 0
    return days if days and days != claude_days(facts.retentions) else None


def resolve(system: System, paths: Paths, facts: Facts, choice: Choice) -> Plan:
    """Return the whole plan. Refused, Unparseable: nothing may be written, with the place."""
    system = SteadySystem(system)
    values: dict[str, Value] = {"provider": choice.provider, "proxy.enabled": choice.has_proxy}
    if choice.has_proxy:
        values["proxy.port"] = choice.port
    if choice.server is not None:
        values |= stated(values_of(choice.server), facts.settings)
    routes = choice.upstreams if choice.has_proxy else {}
    values |= stated(integration_values(facts, choice), facts.settings)
    why = f"provider {choice.provider}"
    why += f", proxy on port {choice.port}" if choice.has_proxy else ", no proxy"
    own: list[Action] = [
        *plan_policy(system, paths, store_git=choice.store_git, store_other=choice.store_other),
        *plan_config(system, paths, values=values, routes=routes, why=why),
    ]
    if choice.server is not None:
        own += plan_server(system, paths, choice.server, facts.provider)
    plan = Plan(actions=tuple(own)) + plan_proxy(system, paths, choice)
    for name in choice.agents:
        plan += plan_agent(system, paths, facts, choice, name)
    return plan


def integration_values(facts: Facts, choice: Choice) -> dict[str, Value]:
    """Return the settings of whose hooks and tools the agents have; none where none is wired."""
    if not choice.agents:
        return {}
    mcp_of = "openmem" if choice.mcp else facts.mcp_of
    return {
        "agents.integration": "provider" if choice.is_plugin else "openmem",
        "agents.mcp": mcp_of,
    }


def plan_agent(system: System, paths: Paths, facts: Facts, choice: Choice, name: str) -> Plan:
    """Return the wiring of one agent. A refusal says how to leave the agent out."""
    known = facts.agent(name)
    if known is None or known.detected is None:
        raise NotFound(f"{facts.title_of(name)} is not on this machine.")
    wanted = wanted_of(choice, facts, name)
    try:
        plan = AGENTS[name].wiring(system, paths, known.detected, wanted)
        if choice.mcp:  # in the place of the provider's own
            ahead = preview(plan, system)
            plan += plan_provider_server(ahead, paths, known.detected, None)
    except Refused as error:
        raise _with_way_out(error, known.title, name) from None
    if choice.is_plugin:
        return plan + _plugin_of(system, paths, facts, choice, name)
    return plan.with_warnings(*twice(system, facts, name)) if choice.hooks else plan


def _plugin_of(system: System, paths: Paths, facts: Facts, choice: Choice, name: str) -> Plan:
    """Return the step by hand of the provider's plug-in, until it is seen there."""
    seen = {one.provider for one in upstream_hooks(system, facts, name)}
    if choice.provider in seen or facts.integration == "provider":
        return Plan()  # chosen before: doctor says so while it is not there
    place = place_of(paths, choice.server, choice.provider)
    return plan_plugin(facts, name, choice.provider, place)


def _with_way_out(error: Refused, title: str, name: str) -> OpenmemError:
    """Return the refusal with the words that leave the agent out, after what mends it."""
    first = error.hint or "Mend the file and run it again."
    error.hint = f"{first} Or leave {title} out: openmem setup --without {name}"
    return error


def wanted_of(choice: Choice, facts: Facts, name: str) -> Wanted:
    """Return what should stand in an agent's settings."""
    return Wanted(
        hooks=choice.hooks,
        mcp=choice.mcp,
        proxy=choice.has_proxy,
        allow_tools=choice.allow_tools,
        trust_hooks=choice.trust_hooks,
        port=choice.port,
        skill=choice.skill,
        keep_days=choice.keep_days,
        upstream=choice.upstreams.get(name, ""),
        upstreams=choice.upstreams,
        projects=(facts.project,) if facts.project else (),
    )


def start_command(why: str) -> RunCommand:
    """Return the command that starts the proxy."""
    return RunCommand(
        argv=tuple(command_of(MODULE, "--start")),
        probe=tuple(command_of(MODULE, "--probe")),
        undo=tuple(command_of(MODULE, "--stop")),
        why=why,
    )


def stop_command(why: str) -> RunCommand:
    """Return the command that ends the proxy; with none running there is nothing to do."""
    return RunCommand(
        argv=tuple(command_of(MODULE, "--stop")),
        probe=tuple(command_of(MODULE, "--probe")),
        only_if_done=True,
        undo=tuple(command_of(MODULE, "--start")),
        why=why,
    )


def plan_proxy(system: System, paths: Paths, choice: Choice) -> Plan:
    """Return what makes the proxy run as chosen, or not run.

    One that runs takes over changed routes by itself once they are written (`lifecycle.start`).
    """
    running = lifecycle.status(paths)
    if not choice.has_proxy:
        if not running.running:
            return Plan()
        return Plan(actions=(stop_command("the proxy is not wanted"),))
    kept = Plan()
    if choice.has_service:
        kept = service_actions(system, paths, paths.environ, choice.port)
    if running.running and running.port != choice.port:
        return _moved(kept, choice, running.port)
    is_up = running.running and running.mode != "draining"
    if is_up or any(_starts(action) for action in kept.actions):
        return kept
    return kept + Plan(actions=(start_command("starts the proxy"),))


def _moved(kept: Plan, choice: Choice, old_port: int) -> Plan:
    steps: Sequence[Action] = (
        stop_command(f"leaves port {old_port}"),
        *(action for action in kept.actions if not _starts(action)),
        start_command(f"starts the proxy on port {choice.port}"),
    )
    words = f"Sessions that are open still use port {old_port}; restart them afterwards."
    return Plan(actions=tuple(steps), warnings=(words,))


def _starts(action: Action) -> bool:
    return isinstance(action, RunCommand) and action.argv[-1:] == ("--start",)
