"""Starting and stopping the proxy, for the command line and for setup.

Idea: a few verbs over the same few files and the control socket; each may be repeated. Invariant:
`start` returns a proxy that answers or an error that says what to do; `stop` leaves nothing that a
hook could revive. Trap: "running" is what answers or holds the lock, never what a file says.
Source: design section 7; docs/reference/supervision.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from openmem.base.config import Config
from openmem.base.errors import Failed, Missing
from openmem.base.paths import Paths
from openmem.host.control import ControlError, call
from openmem.host.ending import end_now
from openmem.host.hold import free_port, hold, is_listening
from openmem.host.launch import clean_environment, command_of, spawn
from openmem.host.neighbour import foreign_at
from openmem.host.record import (
    HOST,
    clear_stopped,
    is_stopped,
    read_record,
)
from openmem.host.service import installed_unit, run_quietly
from openmem.host.status import ASK_SECONDS, ProxyStatus, listed, status, whole
from openmem.host.supervisor import Supervisor
from openmem.host.temporary import temporary_proxy

__all__ = [
    "ProxyStatus",
    "Stopped",
    "revive",
    "run_foreground",
    "start",
    "status",
    "stop",
    "temporary_proxy",
]

START_SECONDS = 20.0
REPLACE_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What `stop` came to. `state`: "ended", "draining" or "not-running".

    While it drains, `agents` are the process ids of sessions that still use it.
    """

    state: str
    agents: tuple[int, ...] = ()
    connections: int = 0


def start(paths: Paths, environ: Mapping[str, str], config: Config) -> ProxyStatus:
    """Return the running proxy, started when there is none; twice is the same as once.

    One that drains goes back to recording, an older version is replaced when idle, changed
    upstreams are taken over. Missing when the port is somebody else's; Failed when it does not
    come up.
    """
    was_stopped = is_stopped(paths)
    clear_stopped(paths)
    now = status(paths, config)
    port = config.number("proxy.port")
    if now.running:
        found = _brought_up_to_date(paths, config, now, was_stopped=was_stopped)
        return found if found.port == port else _elsewhere(found, port)
    if is_listening(port):
        raise _taken(paths, port)
    _launch(paths, {**environ, "OPENMEM_PROXY_PORT": str(port)}, port)
    if not _wait(lambda: status(paths).worker_pid > 0, START_SECONDS):
        raise Failed(
            f"the proxy holds {HOST}:{port} but does not serve.",
            hint=f"Its log: {paths.logs_dir}/proxy.log",
            code="proxy-not-serving",
        )
    return status(paths, config)


def _brought_up_to_date(
    paths: Paths, config: Config, now: ProxyStatus, *, was_stopped: bool
) -> ProxyStatus:
    if now.mode == "starting" and not _wait(lambda: status(paths).worker_pid > 0, START_SECONDS):
        raise Failed("the proxy does not serve.", hint=f"Its log: {paths.logs_dir}/proxy.log")
    now = status(paths, config)
    has_old_routes = any(now.upstream.get(agent) != url for agent, url in config.routes.items())
    try:
        if now.mode == "draining" or was_stopped:
            call(paths, {"op": "resume"}, ASK_SECONDS)
            _take_back(paths)
        elif now.stale:
            call(paths, {"op": "retire"}, ASK_SECONDS)
            return status(paths, config)
        elif has_old_routes or now.mode == "plain":
            call(paths, {"op": "reload"}, ASK_SECONDS)
        else:
            return now
    except ControlError:
        pass  # it is being replaced at this moment; what follows waits for the one that comes

    def is_new() -> bool:
        found = status(paths)
        return found.worker_pid not in (0, now.worker_pid) and found.mode != "draining"

    _wait(is_new, REPLACE_SECONDS)
    return status(paths, config)


def _elsewhere(found: ProxyStatus, port: int) -> ProxyStatus:
    """Return a status that says that the settings name another port than the running proxy has.

    It is not moved: agents that run have its address.
    """
    told = (
        f"the settings name port {port}; it is used after"
        " `openmem proxy stop --now` and `openmem proxy start`."
    )
    return replace(found, problems=(*found.problems, told))


def _take_back(paths: Paths) -> None:
    """Have the service manager keep the proxy again after `stop` told it to let go."""
    unit = installed_unit(paths)
    if unit is not None:
        # systemd refuses to open an address that its running service holds already; what counts
        # is that it opens it at the next login
        run_quietly(unit.start, clean_environment(paths.environ))


def _launch(paths: Paths, environ: Mapping[str, str], port: int) -> None:
    pid = spawn(command_of("openmem.host.supervisor", "--start"), clean_environment(environ))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == Missing.exit_status:
        raise _taken(paths, port)
    if code:
        raise Failed(
            f"the proxy did not start ({code}).", hint=f"Its log: {paths.logs_dir}/proxy.log"
        )


def _taken(paths: Paths, port: int) -> Missing:
    """Return the error for a port that is not free, naming who has it when that is openmem."""
    other = foreign_at(port, paths.state_dir)
    who = (
        f"an openmem proxy of another state folder (version {other})"
        if other
        else "another program"
    )
    free = free_port(port + 1)
    hint = f"Use another: openmem config set proxy.port {free}" if free else ""
    return Missing(f"port {port} on {HOST} is taken by {who}.", hint=hint, code="port-taken")


def stop(paths: Paths, *, now: bool = False) -> Stopped:
    """End the proxy, or let it pass through until nobody uses it any more.

    Either way a hook brings it back no more; only `start` does. With `now` open sessions lose it
    at once. The agents' addresses are taken out by the caller, before.
    """
    unit = installed_unit(paths)
    is_managed = unit is not None and status(paths).manager == unit.manager
    if unit is not None and is_managed:
        run_quietly(unit.let_go, clean_environment(paths.environ))
    if now:
        return Stopped(state="ended" if end_now(paths) else "not-running")
    try:
        answer = call(paths, {"op": "drain"}, ASK_SECONDS)
    except ControlError:
        return Stopped(state="ended" if end_now(paths) else "not-running")
    agents = tuple(whole(pid) for pid in listed(answer.get("agents")))
    connections = whole(answer.get("connections"))
    if not agents and not connections and not whole(answer.get("active_requests")):
        end_now(paths)
        return Stopped(state="ended")
    return Stopped(state="draining", agents=agents, connections=connections)


def revive(paths: Paths, environ: Mapping[str, str], budget_seconds: float) -> bool:
    """Return whether the proxy's port listens, having started a dead proxy if it was dead.

    Nothing is started after `stop`, nor where no proxy ran before.
    """
    record = read_record(paths)
    if record is None or is_stopped(paths):
        return False
    if is_listening(record.port):
        return True
    spawn_seconds = time.monotonic() + budget_seconds
    pid = spawn(command_of("openmem.host.supervisor", "--detach"), clean_environment(environ))
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() >= spawn_seconds:
            break  # it goes on without us; who waits has no more time
        time.sleep(0.01)
    return is_listening(record.port)


def run_foreground(
    paths: Paths,
    environ: Mapping[str, str],
    config: Config,
    *,
    port: int | None = None,
    upstream: str = "",
    on_ready: Callable[[str], None] | None = None,
) -> int:
    """Run supervisor and worker until a signal ends them; returns the exit status.

    `port`: None for the settings', 0 for any free one. `upstream`: base URL for the bare path.
    `on_ready` is called once, with the address, when requests are served. Nothing of it outlives
    this process, however it ends.
    """
    wanted = config.number("proxy.port") if port is None else port
    held = hold(paths, wanted, wait_seconds=0.3)
    if held is None:
        raise Failed(
            f"a proxy of this state folder runs already at {status(paths).address}.",
            hint="End it first: openmem proxy stop",
            code="already-running",
        )
    clear_stopped(paths)
    orders: dict[str, object] = {
        "listen": held.listen_fd,
        "lock": held.lock_fd,
        "port": held.port,
        "manager": "foreground",
        "workers": held.workers,
        "upstream": upstream,
    }
    ready = None if on_ready is None else lambda p: on_ready(f"http://{HOST}:{p}")
    return Supervisor(paths, orders, clean_environment(environ), ready).run()


def _wait(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True
