"""Getting hold of the address: the lock, then the listening socket, by whichever way is open.

Idea: there is one supervisor per state folder (the lock) and one listening socket, which is given
by the service manager, taken over from a worker that lost its supervisor, or bound anew.
Invariant: who holds the lock is the only one that binds, so two starts at once cannot race.
Trap: take over before binding; a worker that still lives holds the port, and binding would fail
although everything is well.
"""

from __future__ import annotations

import errno
import os
import socket
import time

from openmem.base.errors import Failed, Missing
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.host.control import adopt
from openmem.host.record import HOST, take_lock

BACKLOG = 1024
_ADOPT_SECONDS = 2.0
_PORTS_TRIED = 50


class Held:
    """Lock and listening socket in hand. `workers`: orders' form of a worker taken over."""

    __slots__ = ("listen_fd", "lock_fd", "port", "workers")

    def __init__(
        self, listen_fd: int, lock_fd: int, port: int, workers: list[dict[str, object]]
    ) -> None:
        self.listen_fd = listen_fd
        self.lock_fd = lock_fd
        self.port = port
        self.workers = workers


def hold(
    paths: Paths, port: int, *, given_fd: int | None = None, wait_seconds: float = 0.0
) -> Held | None:
    """Return lock and socket, None when another supervisor keeps the lock for `wait_seconds`.

    `given_fd`: a listening socket from the service manager. `port` 0: any free one.
    Missing when the port is taken by somebody else, with the next free one in the hint.
    """
    ensure_private_dir(paths.run_dir)
    ensure_private_dir(paths.logs_dir)
    os.chmod(paths.run_dir, 0o700)
    deadline = time.monotonic() + wait_seconds
    lock_fd = take_lock(paths)
    while lock_fd is None:
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.02)
        lock_fd = take_lock(paths)
    workers: list[dict[str, object]] = []
    listen_fd = given_fd
    taken = adopt(paths, _ADOPT_SECONDS)
    if taken is not None:
        answer, (worker_listen_fd, line_fd) = taken
        workers = [
            {
                "pid": answer.get("pid"),
                "fd": line_fd,
                "version": answer.get("version"),
                "mode": answer.get("mode"),
            }
        ]
        if listen_fd is None:
            listen_fd = worker_listen_fd
        else:
            os.close(worker_listen_fd)  # the service manager's is the one that outlives us
    if listen_fd is None:
        try:
            listen_fd = bind(port)
        except OSError as error:
            os.close(lock_fd)
            raise port_taken(port, error) from None
    return Held(listen_fd, lock_fd, port_of(listen_fd), workers)


def bind(port: int) -> int:
    """Return a listening socket on the loopback address. OSError when it cannot be had."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # connections of the proxy before us may still be closing; the address is free all the same
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener.detach()


def port_of(listen_fd: int) -> int:
    """Return the port of a listening socket."""
    listener = socket.socket(fileno=os.dup(listen_fd))
    try:
        return int(listener.getsockname()[1])
    finally:
        listener.close()


def port_taken(port: int, error: OSError) -> Missing | Failed:
    """Return the error for a port that cannot be bound, with what to do instead."""
    if error.errno == errno.EADDRINUSE:
        free = free_port(port + 1)
        hint = f"Use another: openmem config set proxy.port {free}" if free else ""
        return Missing(
            f"port {port} on {HOST} is taken by another program.", hint=hint, code="port-taken"
        )
    if error.errno == errno.EACCES:
        return Missing(
            f"port {port} may only be used by the system administrator.",
            hint="Choose one from 1024 up: openmem config set proxy.port 8913",
            code="port-taken",
        )
    return Failed(f"{HOST}:{port} cannot be opened: {error.strerror}.")


def free_port(first: int) -> int | None:
    """Return the first free port from `first` on, None when fifty in a row are taken."""
    for port in range(first, min(first + _PORTS_TRIED, 65536)):
        try:
            descriptor = bind(port)
        except OSError:
            continue  # taken: that is what is being found out
        os.close(descriptor)
        return port
    return None


def is_listening(port: int, timeout: float = 0.2) -> bool:
    """Return whether something accepts connections on the loopback port."""
    try:
        socket.create_connection((HOST, port), timeout).close()
    except OSError:
        return False
    return True
