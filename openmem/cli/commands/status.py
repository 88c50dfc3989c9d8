"""`openmem status`: everything at a glance."""

from __future__ import annotations

import time
from typing import Any

import typer

from openmem.base.errors import FAILED
from openmem.cli.command import command, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Json


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "status",
        short="Show everything at a glance.",
        effect="read-only",
        example="openmem status",
    )(status)


def status(context: typer.Context, json: Json = False) -> Result:
    """Show proxy, policy, provider, store, and each agent with what of it is wired.

    Exit 1 when nothing can be recorded.
    """
    from openmem.agents.base import AGENTS
    from openmem.agents.launchers import HOOK, MCP, fault_of, launcher_path
    from openmem.base.config import load_config
    from openmem.base.policy import load_policy
    from openmem.cli.render.status import at_a_glance
    from openmem.context.store.health import ailments
    from openmem.hook.delivery import last_delivery
    from openmem.host import lifecycle
    from openmem.plan.system import RealSystem
    from openmem.setup.uninstall import kept

    run = run_of(context)
    paths, system = run.paths, RealSystem(run.paths.environ)
    config = load_config(paths.config_file, paths.environ)
    proxy = lifecycle.status(paths, config)
    policy = load_policy(paths.policy_file, paths.home)
    stored = kept(paths)
    sick = ailments(paths, budget_seconds=1.0)
    faults = {name: fault_of(paths, name) for name in (HOOK, MCP)}
    broken = {
        name: f"{launcher_path(paths, name)} {why}" if why else "" for name, why in faults.items()
    }
    agents: list[dict[str, Any]] = []
    for agent in AGENTS.values():
        detected = agent.detect(system, system.environ)
        entry: dict[str, Any] = {"name": agent.name, "is_found": detected is not None}
        if detected is not None:
            wired = agent.wired(system, paths, detected)
            last = last_delivery(paths, agent.name)
            entry |= {
                "version": detected.version,
                "hooks": len(wired.hooks) == len(agent.events),
                "untrusted_hooks": list(wired.untrusted),
                "hooks_off": (wired.hooks_off or broken[HOOK]) if wired.hooks else "",
                "mcp": wired.mcp,
                "mcp_off": broken[MCP] if wired.mcp else "",
                "proxy": bool(wired.port),
                "is_routable": detected.is_routable,
                "unrouted": list(wired.unrouted),
                "skill": wired.skill,
                "problem": wired.problem or "; ".join(detected.problems),
                "last_event": last.event if last else "",
                "last_at": last.at if last else "",
                "last_session": last.session_id if last else "",
            }
        agents.append(entry)
    data = {
        "proxy": proxy.to_json(),
        "policy": {
            "problem": policy.problem,
            "defaults": {kind: dict(uses) for kind, uses in policy.defaults.items()},
            "rules": len(policy.rules),
        },
        "provider": config.text("provider"),
        "store": {
            "sessions": stored.sessions,
            "bytes": stored.bytes,
            "problems": [{"name": one.name, "detail": one.detail} for one in sick],
        },
        "agents": agents,
    }
    lines = at_a_glance(
        proxy=proxy,
        policy=policy,
        provider=config.text("provider"),
        stored=stored,
        sick=sick,
        agents=agents,
        home=paths.home,
        now_seconds=time.time(),
        width=run.console.width,
    )
    is_stopped = any(one.stops for one in sick)
    return Result(data=data, lines=tuple(lines), exit_status=FAILED if is_stopped else 0)
