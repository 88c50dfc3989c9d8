"""uvicorn, run for a worker: no signals of its own, no ticking, no log with content.

Idea: the worker decides when to end, so the server waits for one event instead of looking ten
times a second, and the supervisor's signals are not its business. Invariant: what the logging of
any library says is reduced to who, where and which fault; a message may quote a request.
Trap: uvicorn closes idle connections when it ends; a client that is just writing on one sees a
reset. So clients are given long keep-alive, and the end comes only when nothing is in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import uvicorn

from openmem.base.fault import described
from openmem.context.proxy.app import server_options
from openmem.host.front import Front
from openmem.host.hold import BACKLOG
from openmem.host.logbook import Logbook


class QuietServer(uvicorn.Server):
    """Serves `front` until `leave` is set; `is_up` is set once it accepts."""

    def __init__(self, front: Front) -> None:
        config = uvicorn.Config(
            front,
            **server_options(),
            log_config=None,
            log_level=logging.WARNING,
            backlog=BACKLOG,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self.leave = asyncio.Event()
        self.is_up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        self.is_up.set()

    async def main_loop(self) -> None:
        await self.leave.wait()

    def stop_accepting(self) -> None:
        """Close the listening socket of this process; others that hold it go on accepting."""
        for server in self.servers if self.started else []:
            server.close()

    @property
    def has_newcomers(self) -> bool:
        """Whether a client has connected whose first request has not been read yet."""
        return any(getattr(c, "cycle", None) is None for c in self.server_state.connections)

    @property
    def connections(self) -> int:
        """How many clients are connected, idle or not."""
        return len(self.server_state.connections)


class ContentFree(logging.Handler):
    """Writes who logged, where, and the fault's type and place; never the message."""

    def __init__(self, log: Logbook) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[1] if record.exc_info else None
        what = f": {described(fault)}" if fault is not None else ""
        place = f"{os.path.basename(record.pathname)}:{record.lineno}"
        self._log.line(f"{record.levelname.lower()} from {record.name} at {place}{what}")


def quieten(log: Logbook) -> None:
    """Send every library's warnings to our log, and the loop's faults too, without content."""
    root = logging.getLogger()
    root.handlers[:] = [ContentFree(log)]
    root.setLevel(logging.WARNING)

    def on_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        what = described(fault) if isinstance(fault, BaseException) else "no exception"
        log.line(f"event loop: {what}")

    asyncio.get_running_loop().set_exception_handler(on_fault)
