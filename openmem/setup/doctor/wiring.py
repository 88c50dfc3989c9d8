"""Checks of what openmem wrote: runs, drift, the agents' files, delivery."""

from __future__ import annotations

import time

from openmem.agents.base import AGENTS, Wired
from openmem.base.clock import seconds_of
from openmem.base.config import load_config
from openmem.base.counts import counted
from openmem.base.errors import InvalidConfig
from openmem.base.own_tools import ASKING
from openmem.base.paths import Paths
from openmem.hook.notes import log_file
from openmem.plan.receipt import drift, receipts
from openmem.plan.system import System
from openmem.setup.doctor.delivery import check_delivery
from openmem.setup.doctor.finding import Finding

_RECENT_SECONDS = 86_400


def check_runs(system: System, paths: Paths) -> list[Finding]:
    """Runs that were cut off, and files that are no longer as a run left them."""
    try:
        known = receipts(paths, system)
        changed = drift(system, paths)
    except InvalidConfig as error:
        return [Finding(name="runs", outcome="error", detail=error.message, advice=error.hint)]
    found = []
    if any(receipt.state == "started" for receipt in known):
        found.append(
            Finding(
                name="interrupted-run",
                outcome="error",
                detail="a run that changed files was cut off half way",
                advice="openmem undo   puts back what it had changed",
            )
        )
    for item in changed:
        if item.is_harmless:
            continue
        places = ", ".join(".".join(str(key) for key in keys) for keys in item.missing)
        what = f"{item.kind} since openmem wrote it" + (f" (gone: {places})" if places else "")
        found.append(
            Finding(
                name="drift",
                outcome="warning",
                subject=item.path,
                detail=item.why or what,
                advice="openmem setup   writes ours again;  openmem undo   lets it go",
            )
        )
    if not found:
        count = sum(receipt.is_active for receipt in known)
        told = f"what {counted(count, 'run')} wrote is in place" if count else "no file is changed"
        found.append(Finding(name="runs", outcome="ok", detail=told))
    return found


def check_agents(system: System, paths: Paths) -> list[Finding]:
    """Every agent openmem knows: found, wired whole, delivering."""
    found: list[Finding] = []
    for agent in AGENTS.values():
        detected = agent.detect(system, system.environ)
        if detected is None:
            found.append(
                Finding(name="agent", outcome="info", subject=agent.name, detail="not found here")
            )
            continue
        for problem in detected.problems:
            found.append(
                Finding(
                    name="agent",
                    outcome="error",
                    subject=agent.name,
                    detail=problem,
                    advice="mend it, then: openmem install-coding-agent",
                )
            )
        for warning in detected.warnings:
            found.append(
                Finding(name="agent", outcome="warning", subject=agent.name, detail=warning)
            )
        if not detected.problems:
            wired = agent.wired(system, paths, detected)
            found += _wired(agent.name, agent.events, detected.version, wired)
            if wired.hooks:
                found.append(check_delivery(paths, agent.name))
    return found


def _wired(name: str, events: tuple[str, ...], version: str, wired: Wired) -> list[Finding]:
    install = f"openmem install-coding-agent --agent {name}"
    if wired.problem:
        return [Finding(name="agent", outcome="error", subject=name, detail=wired.problem)]
    found = [
        Finding(
            name="older",
            outcome="warning",
            subject=name,
            detail=f"{text} is still there",
            advice=f"{install}   takes it out",
        )
        for text in wired.older
    ]
    found += [
        Finding(
            name="permission",
            outcome="warning",
            subject=name,
            detail=f"{grant.entry} in {grant.file} lets the agent call "
            f"{' and '.join(ASKING)} without asking you",
            advice=grant.narrow,
        )
        for grant in wired.wide
    ]
    if wired.is_empty:
        return [
            *found,
            Finding(
                name="agent",
                outcome="info",
                subject=name,
                detail=f"{version or 'found'}, not wired",
                advice=install,
            ),
        ]
    parts = {
        "hooks": bool(wired.hooks),
        "MCP": wired.mcp,
        "proxy": bool(wired.port),
        "skill": wired.skill,
    }
    missing = [event for event in events if event not in wired.hooks]
    if wired.hooks and missing:
        found.append(
            Finding(
                name="agent",
                outcome="error",
                subject=name,
                detail=f"hooks are missing: {', '.join(missing)}",
                advice=install,
            )
        )
    if wired.untrusted:
        found.append(
            Finding(
                name="agent",
                outcome="warning",
                subject=name,
                detail=f"hooks that it passes over until trusted: {', '.join(wired.untrusted)}",
                advice=f"in the agent: /hooks;  or: {install} --trust-hooks",
            )
        )
    if wired.port and wired.unrouted:
        found.append(
            Finding(
                name="agent",
                outcome="warning",
                subject=name,
                detail=f"in use and not sent to the proxy: {', '.join(wired.unrouted)}",
                advice=install,
            )
        )
    has = [word for word, there in parts.items() if there]
    lacks = [word for word, there in parts.items() if not there]
    detail = f"{version} wired: {', '.join(has)}".strip()
    if lacks:
        detail += f"; not: {', '.join(lacks)}"
    return [*found, Finding(name="agent", outcome="ok", subject=name, detail=detail)]


def check_hook_log(paths: Paths) -> Finding | None:
    """Hooks that could not do their work within the last day; None when there were none."""
    try:
        with open(log_file(paths), encoding="ascii", errors="replace") as file:
            lines = file.readlines()[-200:]
    except OSError:
        return None  # no log: no hook has failed
    recent = [line.strip() for line in lines if _is_recent(line)]
    if not recent:
        return None
    return Finding(
        name="hook-log",
        outcome="warning",
        subject="hooks",
        detail=f"{len(recent)} could not do their work within a day; last: {recent[-1]}",
        advice=f"see {log_file(paths)}; the agent went on each time",
    )


def _is_recent(line: str) -> bool:
    try:
        return time.time() - seconds_of(line.split(" ", 1)[0]) < _RECENT_SECONDS
    except ValueError:
        return False


def addressed_ports(system: System, paths: Paths) -> dict[str, int]:
    """Return route → port of ours that agents' settings name; what goes elsewhere is left out."""
    ports = {}
    for agent in AGENTS.values():
        detected = agent.detect(system, system.environ)
        if detected is not None and not detected.problems:
            wired = agent.wired(system, paths, detected)
            for route in wired.routes or (agent.name,) if wired.port else ():
                ports[route] = wired.port
    return ports


def port_in_settings(paths: Paths) -> int:
    """Return the port the settings name, 0 when they cannot be read."""
    try:
        return load_config(paths.config_file, paths.environ).number("proxy.port")
    except InvalidConfig:
        return 0  # a finding of its own
