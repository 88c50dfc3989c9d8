"""Checks of the proxy: running, of this version, where the agents look for it, reaching the API."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from openmem.base.counts import counted
from openmem.base.paths import Paths
from openmem.base.route import HOST
from openmem.host import lifecycle
from openmem.host.hold import is_listening
from openmem.host.lifecycle import ProxyStatus
from openmem.plan.action import Plan
from openmem.setup.doctor.finding import Finding
from openmem.setup.proof import reach_upstream
from openmem.setup.resolve import start_command


def check_proxy(
    paths: Paths, status: ProxyStatus, addressed: Mapping[str, int], wanted_port: int
) -> list[Finding]:
    """The proxy against what the agents and the settings say. `addressed`: agent → port."""
    if not status.running:
        return [_not_running(status, addressed, wanted_port)]
    found = []
    place = f"{HOST}:{status.port}"
    for agent, port in addressed.items():
        if port != status.port:
            found.append(
                Finding(
                    name="port",
                    outcome="error",
                    subject=agent,
                    detail=f"it is sent to port {port}, and the proxy is at {status.port}",
                    advice=f"openmem install-coding-agent --agent {agent}",
                )
            )
    if wanted_port and wanted_port != status.port and not found:
        found.append(
            Finding(
                name="port",
                outcome="info",
                subject="proxy",
                detail=f"the settings name port {wanted_port}; {status.port} is in force until "
                "the proxy is started anew",
            )
        )
    if status.stale:
        found.append(
            Finding(
                name="stale",
                outcome="warning",
                subject="proxy",
                detail=f"version {status.version} runs, an older one; it is replaced when idle",
                advice="openmem proxy start   replaces it as soon as nothing is under way",
            )
        )
    if status.mode in ("plain", "draining"):
        why = "a fault of ours" if status.mode == "plain" else "it was stopped"
        found.append(
            Finding(
                name="mode",
                outcome="warning",
                subject="proxy",
                detail=f"it passes requests through without recording ({why})",
                advice=f"openmem proxy start; log: {paths.logs_dir}/proxy.log",
            )
        )
    found += [
        Finding(
            name="problem",
            outcome="error",
            subject="proxy",
            detail=text.rstrip("."),
            advice=f"log: {paths.logs_dir}/proxy.log; a broken installation: install openmem again",
        )
        for text in status.problems
    ]
    unrecorded = status.counters.get("fail_opens_today", 0)
    if unrecorded:
        found.append(
            Finding(
                name="fail_opens",
                outcome="warning",
                subject="proxy",
                detail=f"{counted(unrecorded, 'request')} of today went on without being kept "
                "whole, for a fault of ours",
                advice=f"see {paths.logs_dir}/proxy.log",
            )
        )
    if status.restarts > 3:
        found.append(
            Finding(
                name="restarts",
                outcome="warning",
                subject="proxy",
                detail=f"its worker was restarted {status.restarts} times",
                advice=f"see {paths.logs_dir}/proxy.log",
            )
        )
    if not any(f.outcome in ("error", "warning") for f in found):
        held = f", held by {status.manager}" if status.manager else ""
        found.append(
            Finding(name="proxy", outcome="ok", subject="proxy", detail=f"serves {place}{held}")
        )
    return found


def _not_running(status: ProxyStatus, addressed: Mapping[str, int], wanted_port: int) -> Finding:
    port = next(iter(addressed.values()), 0) or wanted_port
    is_taken = bool(port) and is_listening(port)
    if addressed:
        names = ", ".join(addressed)
        if is_taken:
            return Finding(
                name="proxy",
                outcome="error",
                subject="proxy",
                detail=f"not running, and another program holds port {port}; sent there: {names}",
                advice="end that program, or: openmem setup   takes the next free port",
            )
        return Finding(
            name="proxy",
            outcome="error",
            subject="proxy",
            detail=f"not running, though sent to port {port}: {names}",
            advice="openmem doctor --fix   starts it; without it: openmem uninstall-coding-agent",
            fix=Plan(actions=(start_command("starts the proxy"),)),
        )
    if status.stopped:
        detail = "stopped by you; no agent is sent to it"
    else:
        detail = "not running; no agent is sent to it"
    return Finding(name="proxy", outcome="info", subject="proxy", detail=detail)


def check_network(status: ProxyStatus, addressed: Mapping[str, int]) -> list[Finding]:
    """Whether the model's API answers through the proxy, without any key."""
    found = []
    for agent in addressed:
        where = urlsplit(status.upstream.get(agent, "")).netloc.rpartition("@")[2] or "upstream"
        reach = reach_upstream(status.port, agent)
        if reach.is_reached:
            text = f"{where} answers through the proxy, {1000 * reach.seconds:.0f} ms"
            found.append(Finding(name="network", outcome="ok", subject=agent, detail=text))
        else:
            found.append(
                Finding(
                    name="network",
                    outcome="warning",
                    subject=agent,
                    detail=f"{where} does not answer through the proxy: {reach.why}",
                    advice="check the network, HTTPS_PROXY and the CA settings of the shell that "
                    "started the proxy, then: openmem proxy start",
                )
            )
    return found


def look_at_proxy(paths: Paths) -> ProxyStatus:
    """Return how the proxy is."""
    return lifecycle.status(paths)
