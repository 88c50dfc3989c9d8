"""How the proxy is: what answers, what holds the lock, and what was written down.

Invariant: looking creates nothing. Trap: "running" is what answers or holds the lock, never what a
file says.
Source: docs/reference/supervision.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from openmem import __version__
from openmem.base.config import Config
from openmem.base.paths import Paths
from openmem.host.control import ControlError, call
from openmem.host.record import HOST, Record, is_stopped, read_record, supervisor_pid

ASK_SECONDS = 2.0


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
        port=whole(answer.get("port")),
        version=version,
        stale=answer.get("stale") is True or version != __version__,
        supervisor_pid=holder or 0,
        worker_pid=whole(answer.get("worker_pid")),
        upstream=_texts(answer.get("upstream")),
        mode=str(answer.get("mode", "")),
        manager=str(answer.get("manager", "")),
        started_at=record.started_at if record else "",
        restarts=record.restarts if record else 0,
        stopped=is_stopped(paths),
        active_requests=whole(answer.get("active_requests")),
        connections=whole(answer.get("connections")),
        problems=tuple(str(text) for text in listed(state.get("problems"))),
        counters=_counts(state),
    )


def _counts(state: Mapping[str, object]) -> dict[str, int]:
    """Return the whole numbers of a worker's state; a table of counts becomes its sum."""
    counts = {}
    for name, value in state.items():
        if isinstance(value, dict):
            counts[name] = sum(whole(number) for number in value.values())
        elif isinstance(value, int) and not isinstance(value, bool) and name != "recorder_pid":
            counts[name] = value
    return counts


def whole(value: object) -> int:
    """Return a whole number out of an answer, 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(text) for key, text in _table(value).items()}


def listed(value: object) -> list[object]:
    """Return a list out of an answer, empty for anything else."""
    return value if isinstance(value, list) else []
