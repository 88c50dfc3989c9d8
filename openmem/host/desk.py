"""What the control socket of a worker answers.

Idea: each operation is a few lines that read the worker's state or pass a word to the supervisor.
Invariant: nothing here waits for a request in flight; what takes time happens after the answer.
Trap: `drain` writes the mark of a wanted stop before it passes the word on, so that a worker
which dies in between comes back draining, not recording.
Source: docs/reference/supervision.md, "Control socket".
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping

from openmem import __version__
from openmem.hook.handle import handle
from openmem.host.channel import Channel, channel_pair
from openmem.host.control_server import Handler, Reply
from openmem.host.hook_desk import HookDesk
from openmem.host.record import HOST, clear_stopped, mark_stopped
from openmem.host.serving import WorkerProcess
from openmem.host.usage import Agents

ALONE_STOP_SECONDS = 1.0


class Desk:
    """The operations of one worker, by name."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker

    def handlers(self) -> dict[str, Handler]:
        return {
            "adopt": self._adopt,
            "drain": self._drain,
            "hook": HookDesk(self._answer_hook),
            "ping": self._ping,
            "reload": self._reload,
            "resume": self._resume,
            "retire": self._retire,
            "status": self._status,
            "stop": self._stop,
        }

    def _answer_hook(
        self, event: str, agent: str, payload: dict[str, object], environ: Mapping[str, str]
    ) -> str:
        return handle(event, agent, payload, self._worker.paths, environ).stdout

    async def _ping(self, request: dict[str, object]) -> Reply:
        if request.get("version") not in (None, __version__):
            self._worker.check_version()  # the caller's files may be newer than this process
        return Reply(body={"ok": True, "version": __version__, "pid": os.getpid()})

    async def _status(self, _request: dict[str, object]) -> Reply:
        worker = self._worker
        return Reply(
            body={
                "ok": True,
                "running": True,
                "address": f"http://{HOST}:{worker.port}",
                "port": worker.port,
                "version": __version__,
                "stale": worker.is_stale,
                "mode": worker.mode,
                "manager": worker.manager,
                "supervisor_pid": worker.supervisor_pid if worker.line.is_open else 0,
                "worker_pid": os.getpid(),
                "upstream": dict(worker.hosted.upstream),
                "up_seconds": round(time.monotonic() - worker.born, 1),
                "active_requests": worker.front.active,
                "served_requests": worker.front.served,
                "connections": worker.server.connections,
                "state": dict(worker.hosted.state()),
            }
        )

    async def _drain(self, _request: dict[str, object]) -> Reply:
        worker = self._worker
        mark_stopped(worker.paths)
        if worker.mode != "draining":
            worker.line.send("replace")
        use = worker.use(await asyncio.to_thread(Agents(worker.paths).running))
        return Reply(
            body={
                "ok": True,
                "agents": list(use.agents),
                "connections": use.connections,
                "active_requests": use.active,
            }
        )

    async def _resume(self, _request: dict[str, object]) -> Reply:
        clear_stopped(self._worker.paths)
        self._worker.line.send("replace")  # even if it records: a draining one may be on its way
        return Reply(body={"ok": True})

    async def _reload(self, _request: dict[str, object]) -> Reply:
        self._worker.line.send("replace")
        return Reply(body={"ok": True, "worker_pid": os.getpid()})

    async def _retire(self, _request: dict[str, object]) -> Reply:
        self._worker.wants_upgrade.set()
        return Reply(body={"ok": True, "active_requests": self._worker.front.active})

    async def _stop(self, _request: dict[str, object]) -> Reply:
        mark_stopped(self._worker.paths)
        if self._worker.line.is_open:
            self._worker.line.send("stop-now")
        else:
            self._worker.finish(ALONE_STOP_SECONDS)  # no supervisor to pass the word on to
        return Reply(body={"ok": True})

    async def _adopt(self, _request: dict[str, object]) -> Reply:
        worker = self._worker
        if worker.line.is_open:
            worker.hear()  # its end may stand in the queue behind this very request
        if worker.line.is_open or worker.leaving is not None:
            return Reply(body={"ok": False, "error": "supervised"})
        ours, theirs = channel_pair()
        worker.follow(Channel(ours))
        body = {"ok": True, "pid": os.getpid(), "version": __version__, "mode": worker.mode}
        return Reply(body=body, descriptors=(os.dup(worker.listen_fd), theirs))
