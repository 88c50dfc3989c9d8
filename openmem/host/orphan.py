"""A worker whose supervisor died: it serves on, and sees to it that somebody watches again.

Idea: the two watch each other, so that both have to die at once before an address is lost.
Invariant: the worker goes on serving meanwhile; the socket is handed over, never closed and bound
again. Trap: under a service manager the new supervisor is not ours to start, and a worker that
nobody takes over in time must end, or it would stay beside its successor for ever.
"""

from __future__ import annotations

import asyncio
import os

from openmem.host.launch import command_of, spawn
from openmem.host.serving import WorkerProcess

ADOPTION_SECONDS = 15.0
LONG_ANSWER_SECONDS = 900.0
GONE_FINISH_SECONDS = 5.0
DELAYS_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)


async def find_supervisor(worker: WorkerProcess) -> None:
    """Return once a supervisor has taken the worker over, or the worker was told to finish."""
    if worker.manager != "detached":
        await asyncio.sleep(ADOPTION_SECONDS)
        if not worker.line.is_open:
            worker.log.line("nobody took this worker over; it finishes")
            worker.finish(LONG_ANSWER_SECONDS)
        return
    attempt = 0
    while not worker.line.is_open and worker.leaving is None:
        if not os.path.isdir(worker.paths.run_dir):
            worker.finish(GONE_FINISH_SECONDS)  # uninstalled: there is nothing to come back to
            return
        await asyncio.sleep(DELAYS_SECONDS[min(attempt, len(DELAYS_SECONDS) - 1)])
        attempt += 1
        status = await _start_supervisor(worker)
        if status:
            worker.log.line(f"a new supervisor did not start ({status})")


async def _start_supervisor(worker: WorkerProcess) -> int:
    try:
        pid = spawn(command_of("openmem.host.supervisor", "--adopt"), worker.environ)
    except OSError as error:
        worker.log.fault("cannot start a supervisor", error)
        return 1
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    return os.waitstatus_to_exitcode(status)
