"""Who still uses the proxy, asked while it drains after `proxy stop`.

Idea: an agent keeps the address it was started with, so the proxy must stay until that process
has ended; hooks told us its process id. Invariant: what cannot be known counts as use: an open
connection, or a request a short while ago. Trap: a process id is given to other programs later;
where the system tells when a process started, a younger one is not the agent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from openmem.base.paths import Paths
from openmem.context.session import decode_registration

LINGER_SECONDS = 60.0
_START_SLACK_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What keeps a draining proxy alive. `agents`: process ids; `idle_seconds`: since a request."""

    agents: tuple[int, ...] = ()
    connections: int = 0
    active: int = 0
    idle_seconds: float = 0.0

    def is_over(self, linger_seconds: float) -> bool:
        return not (
            self.agents or self.connections or self.active or self.idle_seconds < linger_seconds
        )


class Agents:
    """The agents that hooks registered and that still run. Looks only at files that changed."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.sessions_dir
        self._seen: dict[str, tuple[float, int]] = {}

    def running(self) -> tuple[int, ...]:
        """Return the process ids of registered agents that are alive, each once."""
        try:
            entries = list(os.scandir(self._folder))
        except FileNotFoundError:
            return ()
        for entry in entries:
            if not entry.name.endswith(".json"):
                continue
            try:
                changed = entry.stat(follow_symlinks=False).st_mtime
                if entry.name not in self._seen or self._seen[entry.name][0] != changed:
                    self._seen[entry.name] = (changed, _agent_pid(entry.path))
            except OSError:
                continue  # removed while we looked: that session is gone
        alive = {pid for changed, pid in self._seen.values() if pid and is_running(pid, changed)}
        return tuple(sorted(alive))


def _agent_pid(path: str) -> int:
    with open(path, "rb") as file:
        registration = decode_registration(file.read(1 << 20))
    return registration.agent_pid if registration else 0


def is_running(pid: int, known_since: float) -> bool:
    """Return whether process `pid`, known at POSIX time `known_since`, is still that process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # another user's: not an agent of ours
    started = _started_at(pid)
    return started is None or started <= known_since + _START_SLACK_SECONDS


def _started_at(pid: int) -> float | None:
    """Return the POSIX time at which a process started; None where the system does not say.

    Source: proc(5), field 22 of `stat` in clock ticks since boot, `btime` of `/proc/stat`.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/stat", "rb") as file:
            boot = next(line for line in file if line.startswith(b"btime"))
    except (OSError, StopIteration):
        return None
    if fields[0] in (b"Z", b"X"):
        return float("inf")  # ended, only not yet collected by its parent
    return int(boot.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
