"""Ending the proxy, so that nothing of it is left.

Idea: whoever serves is asked first and told by signal only when it does not answer. Invariant:
on return no supervisor holds the lock and no worker answers. Trap: the mark of a wanted stop is
written first, or a hook could bring back what is being ended; and a signal goes only to the
number that stands in a held lock, because any other may be a stranger's by now.
Source: design section 7, "A dead proxy must not strand the agent".
"""

from __future__ import annotations

import os
import signal
import time

from openmem.base.errors import Failed
from openmem.base.paths import Paths
from openmem.host.control import ControlError, call
from openmem.host.record import (
    lock_file,
    mark_stopped,
    read_record,
    remove_record,
    remove_socket,
    supervisor_pid,
)

ASK_SECONDS = 2.0
END_SECONDS = 8.0
KILL_SECONDS = 3.0
GIVE_WAY_SECONDS = 15.0


def end_now(paths: Paths) -> bool:
    """End supervisor and worker at once; False when none ran. Failed when they do not end."""
    if not os.path.exists(lock_file(paths)) and read_record(paths) is None:
        return False  # no proxy has ever run here: nothing is created by asking
    mark_stopped(paths)
    was_running = not _is_ended(paths)
    if was_running:
        try:
            call(paths, {"op": "stop"}, ASK_SECONDS)
        except ControlError:
            _signal(supervisor_pid(paths), signal.SIGTERM)
        if not wait_ended(paths, END_SECONDS):
            worker = worker_pid(paths)
            _signal(supervisor_pid(paths), signal.SIGKILL)
            _signal(worker, signal.SIGKILL)
        if not wait_ended(paths, KILL_SECONDS):
            raise Failed(f"the proxy (process {supervisor_pid(paths) or 'unknown'}) does not end.")
    remove_record(paths)
    remove_socket(paths)  # of a worker that was killed
    return was_running


def give_way(paths: Paths) -> None:
    """End the proxy as a shutdown of the machine does: what is in flight is carried through."""
    _signal(supervisor_pid(paths), signal.SIGTERM)
    if not wait_ended(paths, GIVE_WAY_SECONDS):
        raise Failed(f"the proxy (process {supervisor_pid(paths) or 'unknown'}) does not end.")


def worker_pid(paths: Paths) -> int | None:
    """Return the process id of the worker that answers, None when none does."""
    try:
        pid = call(paths, {"op": "ping"}, ASK_SECONDS).get("pid")
    except ControlError:
        return None
    return pid if isinstance(pid, int) else None


def _is_ended(paths: Paths) -> bool:
    return supervisor_pid(paths) is None and worker_pid(paths) is None


def wait_ended(paths: Paths, seconds: float) -> bool:
    """Return whether supervisor and worker are gone within `seconds`."""
    deadline = time.monotonic() + seconds
    while not _is_ended(paths):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is None or pid <= 1:
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # ended between asking and telling
