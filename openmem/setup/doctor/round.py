"""All checks in their order, the ground first. One that breaks becomes a finding of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.plan.system import System
from openmem.setup.doctor import (
    launchers,
    leftovers,
    machine,
    plugins,
    provider,
    serving,
    settings,
    store,
    wiring,
)
from openmem.setup.doctor.finding import Finding

Check = Callable[[], Finding | list[Finding] | None]


def findings(system: System, paths: Paths, *, has_network: bool) -> list[Finding]:
    """Return what every check saw. `has_network`: whether the model's API may be asked."""
    found: list[Finding] = []
    status = serving.look_at_proxy(paths)
    addressed: dict[str, int] = {}

    def ports() -> None:
        addressed.update(wiring.addressed_ports(system, paths))

    checks: list[tuple[str, Check]] = [
        ("python", machine.check_python),
        ("disk", lambda: machine.check_disk(paths)),
        ("clock", lambda: machine.check_clock(paths, time.time())),
        ("mount", lambda: machine.check_mount(paths)),
        ("permissions", lambda: machine.check_permissions(paths)),
        ("config", lambda: settings.check_config(paths)),
        ("policy", lambda: settings.check_policy(paths)),
        ("runs", lambda: wiring.check_runs(system, paths)),
        ("agents", lambda: wiring.check_agents(system, paths)),
        ("plug-ins", lambda: plugins.check_plugins(system, paths)),
        ("launchers", lambda: launchers.check_launchers(system, paths)),
        ("hook-log", lambda: wiring.check_hook_log(paths)),
        ("addresses", ports),
        (
            "proxy",
            lambda: serving.check_proxy(paths, status, addressed, wiring.port_in_settings(paths)),
        ),
        ("locks", lambda: leftovers.check_locks(paths)),
        ("processes", lambda: leftovers.check_processes(paths, status)),
        ("store", lambda: store.check_store(paths)),
        ("blobs", lambda: store.check_blobs(paths, time.time())),
        ("provider", lambda: provider.check_provider(system, paths, has_network=has_network)),
    ]
    for name, check in checks:
        found += _outcome(name, check)
    if not has_network:
        found.append(Finding(name="network", outcome="skipped", detail="network (--no-network)"))
    elif status.running and addressed:
        found += _outcome("network", lambda: serving.check_network(status, addressed))
    return found


def _outcome(name: str, check: Check) -> list[Finding]:
    try:
        result = check()
    except (OpenmemError, OSError, ValueError) as error:
        detail = error.message if isinstance(error, OpenmemError) else type(error).__name__
        return [
            Finding(name=name, outcome="error", subject=name, detail=f"cannot be checked: {detail}")
        ]
    if result is None:
        return []
    return result if isinstance(result, list) else [result]
