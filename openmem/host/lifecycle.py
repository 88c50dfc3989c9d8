"""Starting, stopping and looking at the proxy, for the command line and for setup.

Idea: five verbs over the same few files and the control socket; each may be repeated. Invariant:
`start` returns a proxy that answers or an error that says what to do; `stop` leaves nothing that a
hook could revive. Trap: "running" is what answers or holds the lock, never what a file says.
Source: design section 7; docs/reference/supervision.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace

from openmem import __version__
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
    Record,
    clear_stopped,
    is_stopped,
    read_record,
    supervisor_pid,
)
from openmem.host.service import installed_unit, run_quietly
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

ASK_SECONDS = 2.0
START_SECONDS = 20.0
REPLACE_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyStatus:
    """What `proxy status --json` says. `stale`: an older version runs than is installed.

    `mode`: recording, plain (our fault: passing through), draining, starting, or "" when it does
    not run. `stopped`: a person ended it. `upstream`: agent → base URL, "" for the bare path.
    """

    running: bool
    address: str
    port: int
    version: str = ""
    stale: bool = False
    supervisor_pid: int = 0
    worker_pid: int = 0
    upstream: Mapping[str, str] = field(default_factory=dict)
    mode: str = ""
    manager: str = ""
    started_at: str = ""
    restarts: int = 0
    stopped: bool = False
    active_requests: int = 0
    connections: int = 0
    problems: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What `stop` came to. `state`: "ended", "draining" or "not-running".

    While it drains, `agents` are the process ids of sessions that still use it.
    """

    state: str
    agents: tuple[int, ...] = ()
    connections: int = 0


def status(paths: Paths, config: Config | None = None) -> ProxyStatus:
    """Return how the proxy is; creates nothing. `config`: for the address of one that is down."""
    record = read_record(paths)
    holder = supervisor_pid(paths)
    try:
        answer = call(paths, {"op": "status", "version": __version__}, ASK_SECONDS)
    except ControlError:
        answer = {}
    if answer.get("ok") is True:
        return _from_answer(paths, answer, record, holder)
    if record is None:
        port = config.number("proxy.port") if config else 0
        address = f"http://{HOST}:{port}" if port else ""
        return ProxyStatus(running=False, address=address, port=port, stopped=is_stopped(paths))
    is_running = holder is not None
    return ProxyStatus(
        running=is_running,
        address=record.address,
        port=record.port,
        version=record.version if is_running else "",
        stale=is_running and record.version != __version__,
        supervisor_pid=holder or 0,
        upstream=record.upstream,
        mode="starting" if is_running else "",
        manager=record.manager,
        started_at=record.started_at if is_running else "",
        restarts=record.restarts if is_running else 0,
        stopped=is_stopped(paths),
    )


def _from_answer(
    paths: Paths, answer: Mapping[str, object], record: Record | None, holder: int | None
) -> ProxyStatus:
    version = str(answer.get("version", ""))
    state = _table(answer.get("state"))
    return ProxyStatus(
        running=True,
        address=str(answer.get("address", "")),
        port=_whole(answer.get("port")),
        version=version,
        stale=answer.get("stale") is True or version != __version__,
        supervisor_pid=holder or 0,
        worker_pid=_whole(answer.get("worker_pid")),
        upstream=_texts(answer.get("upstream")),
        mode=str(answer.get("mode", "")),
        manager=str(answer.get("manager", "")),
        started_at=record.started_at if record else "",
        restarts=record.restarts if record else 0,
        stopped=is_stopped(paths),
        active_requests=_whole(answer.get("active_requests")),
        connections=_whole(answer.get("connections")),
        problems=tuple(str(text) for text in _list(state.get("problems"))),
        counters=_counts(state),
    )


def _counts(state: Mapping[str, object]) -> dict[str, int]:
    """Return the whole numbers of a worker's state; a table of counts becomes its sum."""
    counts = {}
    for name, value in state.items():
        if isinstance(value, dict):
            counts[name] = sum(_whole(number) for number in value.values())
        elif isinstance(value, int) and not isinstance(value, bool) and name != "recorder_pid":
            counts[name] = value
    return counts


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
    agents = tuple(_whole(pid) for pid in _list(answer.get("agents")))
    connections = _whole(answer.get("connections"))
    if not agents and not connections and not _whole(answer.get("active_requests")):
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


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(text) for key, text in _table(value).items()}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
