"""A worker at work: the proxy's application on the socket that the supervisor holds.

Idea: everything that can fail lives here, where failing costs one restart. Invariant: accepting
stops before ending, and what is in flight is carried through within the time given; so being
replaced, upgraded or stopped loses no request. Trap: when the supervisor dies (its line closes),
this process holds the last copy of the address; `orphan.py` says what then.
Source: design section 7; docs/explanation/supervision.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from openmem import __version__
from openmem.base.paths import Paths
from openmem.host.channel import Channel
from openmem.host.control_server import ControlServer
from openmem.host.front import Front
from openmem.host.hold import port_of
from openmem.host.launch import installed_version, number_in
from openmem.host.logbook import Logbook
from openmem.host.neighbour import installation_mark
from openmem.host.quiet_server import QuietServer, quieten
from openmem.host.record import is_stopped
from openmem.host.usage import LINGER_SECONDS, Agents, Use

VERSION_CHECK_SECONDS = 60.0
USE_CHECK_SECONDS = 2.0
IDLE_SECONDS = 2.0
ORPHAN_FINISH_SECONDS = 5.0
SIGTERM_SECONDS = 5.0
GUARD_SECONDS = 10.0
NEWCOMER_SECONDS = 2.0

Work = Coroutine[Any, Any, None]


class WorkerProcess:
    """One worker from start to end. `orders`: what the supervisor passed on."""

    def __init__(
        self, paths: Paths, orders: Mapping[str, object], environ: dict[str, str], log: Logbook
    ) -> None:
        self.paths, self.environ, self.log = paths, environ, log
        self.listen_fd = number_in(orders, "listen")
        self.line = Channel(number_in(orders, "line"))
        self.supervisor_pid = number_in(orders, "supervisor")
        self.manager = str(orders.get("manager", "detached"))
        self.port = port_of(self.listen_fd)
        if self.manager != "temporary" and is_stopped(paths):
            self.mode = "draining"
        else:
            self.mode = "plain" if orders.get("plain") is True else "recording"
        from openmem.host.wiring import hosted  # a fault of its imports must reach our log

        self.hosted = hosted(
            paths,
            environ,
            is_recording=self.mode == "recording",
            bare_upstream=str(orders.get("upstream") or ""),
        )
        self.front = Front(self.hosted.application, installation_mark(paths.state_dir))
        self.server = QuietServer(self.front)
        self.born = time.monotonic()
        self.leaving: asyncio.Task[None] | None = None
        self.leaves_at = float("inf")
        self.wants_upgrade = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, control: ControlServer, on_orphaned: Callable[[], Work]) -> None:
        """Serve until told to finish.

        `control`: closed again at the end. `on_orphaned`: what is done once our
        supervisor is gone.
        """
        self._on_orphaned = on_orphaned
        quieten(self.log)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: self.finish(SIGTERM_SECONDS))
        listener = socket.socket(fileno=os.dup(self.listen_fd))
        serving = asyncio.create_task(self.server.serve(sockets=[listener]))
        up = asyncio.create_task(self.server.is_up.wait())
        await asyncio.wait({serving, up}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            up.cancel()
            return serving.result()
        if self.manager != "temporary":
            await self._open(control)
            self._start(self._watch_version())
            self._start(self._upgrade_when_idle())
        if self.mode == "draining":
            self._start(self._end_when_unused())
        self.follow(self.line)
        self.line.send(f"ready {__version__} {self.mode}")
        try:
            await serving
        finally:
            control.close()
            for task in self._tasks:
                task.cancel()

    async def _open(self, control: ControlServer) -> None:
        try:
            await control.open()
        except Exception as error:  # noqa: BLE001 - hooks then work alone; serving goes on
            self.log.fault("no control socket", error)

    def _start(self, work: Work) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def follow(self, line: Channel) -> None:
        """Take orders from the supervisor at the other end of `line` from now on."""
        self.line = line
        asyncio.get_running_loop().add_reader(line.descriptor, self.hear)
        line.send("routes " + json.dumps(dict(self.hosted.upstream), separators=(",", ":")))

    def hear(self) -> None:
        """Read what the supervisor says, or that it is gone."""
        lines = self.line.receive()
        if lines is None:
            self._orphaned()
            return
        for line in lines:
            words = line.split(" ")
            if words[0] == "ping":
                self.line.send("pong")
            elif words[0] == "pid" and len(words) == 2:
                self.supervisor_pid = int(words[1])
            elif words[0] == "finish" and len(words) == 2:
                self.finish(float(words[1]))

    def _orphaned(self) -> None:
        asyncio.get_running_loop().remove_reader(self.line.descriptor)
        self.line.close()
        if self.leaving is not None:
            return
        self.log.line("the supervisor is gone")
        if self.manager in ("foreground", "temporary"):
            self.finish(ORPHAN_FINISH_SECONDS)
        else:
            self._start(self._on_orphaned())

    def finish(self, seconds: float) -> None:
        """Stop accepting, carry through what is in flight for at most `seconds`, then end."""
        ends_at = time.monotonic() + seconds
        if ends_at >= self.leaves_at:
            return
        self.leaves_at = ends_at
        if self.leaving is not None:
            self.leaving.cancel()
        self.leaving = asyncio.create_task(self._leave(seconds))

    async def _leave(self, seconds: float) -> None:
        self.front.is_leaving = True
        self.server.stop_accepting()
        if self.listen_fd >= 0:
            os.close(self.listen_fd)
            self.listen_fd = -1
        await self._carry_through(seconds)
        # a thread of a library that hangs must not keep an ended worker on the process table
        guard = threading.Timer(GUARD_SECONDS, os._exit, (1,))
        guard.daemon = True
        guard.start()
        self.server.leave.set()

    async def _carry_through(self, seconds: float) -> None:
        """Wait for what is in flight, and for who was accepted but has not been heard yet."""
        deadline = time.monotonic() + seconds
        hears_until = min(deadline, time.monotonic() + NEWCOMER_SECONDS)
        self.front.touch()  # what was accepted a moment ago has its request still to come
        while await self.front.quiet(deadline - time.monotonic()):
            if not self.server.has_newcomers or time.monotonic() >= hears_until:
                return
            await asyncio.sleep(0.05)

    async def _end_when_unused(self) -> None:
        agents = Agents(self.paths)
        linger = float(self.environ.get("OPENMEM_DRAIN_LINGER_SECONDS") or LINGER_SECONDS)
        while True:
            await asyncio.sleep(min(USE_CHECK_SECONDS, linger))
            if not is_stopped(self.paths):
                self.line.send("replace")  # started again meanwhile: the next worker records
            elif self.use(await asyncio.to_thread(agents.running)).is_over(linger):
                self.line.send("stop")

    def use(self, agents: tuple[int, ...]) -> Use:
        """Return who uses the proxy now, besides the running `agents`."""
        return Use(
            agents=agents,
            connections=self.server.connections,
            active=self.front.active,
            idle_seconds=time.monotonic() - self.front.last_at,
        )

    async def _watch_version(self) -> None:
        while True:
            await asyncio.sleep(VERSION_CHECK_SECONDS)
            self.check_version()

    def check_version(self) -> None:
        """Wish for an upgrade when the installed files are another version than this process."""
        if self.is_stale:
            self.wants_upgrade.set()

    @property
    def is_stale(self) -> bool:
        return installed_version() not in ("", __version__)

    async def _upgrade_when_idle(self) -> None:
        while True:
            await self.wants_upgrade.wait()
            if await self.front.quiet(VERSION_CHECK_SECONDS, IDLE_SECONDS):
                self.wants_upgrade.clear()  # if nothing comes of it, the watch wishes again
                self.line.send("upgrade")
