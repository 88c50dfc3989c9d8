"""The scripts that agents run: there, runnable, of this installation.

Trap: an agent says nothing of a hook that it cannot run, so whatever settings name is looked for.
"""

from __future__ import annotations

from openmem.agents.base import AGENTS
from openmem.agents.launchers import HOOK, MCP, fault_of, launcher_path, plan_launchers
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths, display
from openmem.plan.action import Plan
from openmem.plan.system import System
from openmem.setup.doctor.finding import Finding

_WITHOUT = {HOOK: "no hook of ours runs", MCP: "no agent has the tools"}


def check_launchers(system: System, paths: Paths) -> Finding | None:
    """The scripts that agents run, and what they start; None when no agent runs one."""
    names = _launchers_in_use(system, paths)
    if not names:
        return None
    stale = _launchers(system, paths, names)
    for name in names:
        why = fault_of(paths, name)
        if why:
            return Finding(
                name="launcher",
                outcome="error",
                subject=display(launcher_path(paths, name), paths.home),
                detail=f"{why}; {_WITHOUT[name]}",
                advice="openmem doctor --fix   writes it for this installation",
                fix=stale,
            )
    if stale.actions:
        return Finding(
            name="launcher",
            outcome="warning",
            detail="the agents' launchers belong to another installation of openmem",
            advice="openmem doctor --fix   names this one",
            fix=stale,
        )
    return Finding(name="launcher", outcome="ok", detail="launchers run this installation")


def _launchers_in_use(system: System, paths: Paths) -> tuple[str, ...]:
    """Return the launchers that are there or that an agent's settings name."""
    used = {name for name in (HOOK, MCP) if system.stat(launcher_path(paths, name)) is not None}
    for agent in AGENTS.values():
        detected = agent.detect(system, system.environ)
        if detected is not None and not detected.problems:
            wired = agent.wired(system, paths, detected)
            used |= {name for name, runs in ((HOOK, wired.hooks), (MCP, wired.mcp)) if runs}
    return tuple(name for name in (HOOK, MCP) if name in used)


def _launchers(system: System, paths: Paths, names: tuple[str, ...]) -> Plan:
    try:
        return Plan(actions=tuple(plan_launchers(system, paths, names)))
    except OpenmemError:
        return Plan()  # it cannot be written; the finding itself says that it is off
