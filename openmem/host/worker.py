"""`python -m openmem.host.worker`: the process that serves, put together from its parts.

Run by the supervisor with orders in the environment; what it does then is in `serving.py`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import resource
import signal
import sys
from collections.abc import Mapping
from typing import BinaryIO

from openmem.base.paths import Paths
from openmem.host.control_server import ControlServer
from openmem.host.desk import Desk
from openmem.host.launch import number_in, take_orders
from openmem.host.logbook import Logbook
from openmem.host.orphan import find_supervisor
from openmem.host.record import remove_socket_folder
from openmem.host.serving import WorkerProcess

DESCRIPTORS_WANTED = 8192


def _raise_descriptor_limit() -> None:
    """Allow more open connections than the 256 or 1,024 that a shell hands down."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(DESCRIPTORS_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _crash_file(log: Logbook) -> BinaryIO | None:
    """Have a crash of the interpreter write its places (no values) to the log, if there is one."""
    try:
        crashes = open(log.path, "ab")  # noqa: SIM115 - open for as long as the process lives
    except OSError:
        return None  # no folder or no room for a log: serving does not depend on it
    faulthandler.enable(crashes)
    return crashes


async def _run(
    paths: Paths, orders: Mapping[str, object], environ: dict[str, str], log: Logbook
) -> None:
    worker = WorkerProcess(paths, orders, environ, log)
    control = ControlServer(paths.control_socket, Desk(worker).handlers(), log)
    try:
        await worker.run(control, lambda: find_supervisor(worker))
    finally:
        remove_socket_folder(paths)


def main(_arguments: list[str] | None = None) -> int:
    """Run one worker with the orders in the environment; returns the exit status."""
    orders = take_orders()
    environ = dict(os.environ)
    paths = Paths(environ)
    log = Logbook(paths, "worker")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the supervisor's to read
    _raise_descriptor_limit()
    for name in ("listen", "line"):
        os.set_inheritable(number_in(orders, name), False)
    crashes = _crash_file(log)
    try:
        asyncio.run(_run(paths, orders, environ, log))
    except Exception as error:  # noqa: BLE001 - the last word before the end, for whoever looks
        log.fault("the worker fails", error)
        return 1
    finally:
        if crashes is not None:
            faulthandler.disable()
            crashes.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
