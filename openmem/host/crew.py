"""Workers as the supervisor sees them, and the pace at which dead ones are replaced.

Idea: a worker is a process id and the line to it; it counts as serving once it said so.
Invariant: a replacement is always tried again, at a pace that a machine does not feel; workers
that keep dying young are started plain, passing through without recording, so that the agent goes
on while we are at fault. Trap: one death is no pattern; only deaths in youth count.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from openmem.host.channel import Channel, channel_pair
from openmem.host.launch import command_of, spawn

YOUNG_SECONDS = 10.0
DELAYS_SECONDS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
PLAIN_AFTER_DEATHS = 4
FULL_AGAIN_SECONDS = 600.0


class Worker:
    """One worker process. Times are monotonic seconds; `heard`: when it last said something."""

    __slots__ = ("born", "channel", "heard", "is_ready", "is_reaped", "mode", "pid", "version")

    def __init__(
        self, pid: int, channel: Channel, *, version: str = "", mode: str = "", is_ready: bool
    ) -> None:
        self.pid = pid
        self.channel = channel
        self.version = version
        self.mode = mode
        self.is_ready = is_ready
        self.is_reaped = False
        self.born = self.heard = time.monotonic()

    def orders_form(self) -> dict[str, object]:
        return {
            "pid": self.pid,
            "fd": self.channel.descriptor,
            "version": self.version,
            "mode": self.mode,
        }

    def kill(self) -> None:
        """End it at once; one that is gone already is fine."""
        if self.is_reaped:
            return
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def start_worker(
    environ: Mapping[str, str],
    orders: Mapping[str, object],
    *,
    listen_fd: int,
    is_plain: bool,
    keeps_stderr: bool,
) -> Worker:
    """Start a worker on the listening socket. OSError when no process can be had."""
    ours, theirs = channel_pair()
    try:
        pid = spawn(
            command_of("openmem.host.worker"),
            environ,
            orders={**orders, "listen": listen_fd, "line": theirs, "plain": is_plain},
            descriptors=(listen_fd, theirs),
            keeps_stderr=keeps_stderr,
        )
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Worker(pid, Channel(ours), is_ready=False)


class Pace:
    """When the next worker may start, and whether plain, after how many early deaths."""

    __slots__ = ("deaths", "full_at", "is_plain", "not_before")

    def __init__(self) -> None:
        self.deaths = 0
        self.is_plain = False
        self.not_before = 0.0
        self.full_at = 0.0

    def died(self, lived_seconds: float, now: float, *, is_replacement: bool) -> None:
        """Count a death. A replacement that fails beside a serving worker has time."""
        self.deaths = self.deaths + 1 if lived_seconds < YOUNG_SECONDS else 1
        delay = DELAYS_SECONDS[min(self.deaths - 1, len(DELAYS_SECONDS) - 1)]
        if is_replacement:
            delay = min(FULL_AGAIN_SECONDS, 10.0 * self.deaths)
        elif self.deaths >= PLAIN_AFTER_DEATHS and not self.is_plain:
            self.is_plain = True
            self.full_at = now + FULL_AGAIN_SECONDS
        self.not_before = now + delay

    def grew_up(self) -> None:
        """Forget early deaths: the worker has lived long enough to be trusted."""
        self.deaths = 0

    def wants_full(self, now: float) -> bool:
        """Return whether a plain worker has run long enough to try a recording one again."""
        return self.is_plain and now >= self.full_at

    def try_full(self, now: float) -> None:
        self.is_plain = False
        self.full_at = now + FULL_AGAIN_SECONDS
