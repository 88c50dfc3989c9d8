"""What a supervisor tells of itself on disk: its record, its lock, the mark of a wanted stop.

Idea: three small files in the run folder. `proxy.json` says where the proxy is and who runs it;
the lock says whether a supervisor lives, and the kernel lets go of it at any death; `stopped` says
that a person ended the proxy, so that no hook brings it back. Invariant: a reader trusts the lock
and the port, never a process id that it only read. Trap: the record outlives its writer on
purpose (a reboot, a SIGKILL); its presence without `stopped` is what tells a hook to revive.
Source: design section 7; docs/reference/supervision.md.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping

from openmem.base.io import ensure_private_dir, is_private_folder, write_atomic
from openmem.base.paths import Paths

HOST = "127.0.0.1"


class Record:
    """The content of `proxy.json`.

    `upstream`: agent → base URL without credentials, "" for the bare path. `manager`: who holds
    the socket: detached, foreground, systemd or launchd. A `worker_pid` of 0: none is up yet.
    A plain class: the supervisor stays at half the memory without `dataclasses`.
    """

    __slots__ = (
        "manager",
        "mode",
        "port",
        "restarts",
        "started_at",
        "supervisor_pid",
        "upstream",
        "version",
        "worker_pid",
    )

    def __init__(
        self,
        *,
        port: int,
        supervisor_pid: int,
        version: str,
        started_at: str,
        manager: str,
        worker_pid: int = 0,
        mode: str = "starting",
        restarts: int = 0,
        upstream: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self.supervisor_pid = supervisor_pid
        self.worker_pid = worker_pid
        self.version = version
        self.started_at = started_at
        self.manager = manager
        self.mode = mode
        self.restarts = restarts
        self.upstream = dict(upstream or {})

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    def to_json(self) -> dict[str, object]:
        return {
            "schema": 1,
            "address": self.address,
            "port": self.port,
            "supervisor_pid": self.supervisor_pid,
            "worker_pid": self.worker_pid,
            "version": self.version,
            "started_at": self.started_at,
            "manager": self.manager,
            "mode": self.mode,
            "restarts": self.restarts,
            "upstream": self.upstream,
        }


def record_of(value: object) -> Record | None:
    """Return the record that a parsed JSON value holds, None when it is not one."""
    if not isinstance(value, dict):
        return None
    numbers = [value.get(name) for name in ("port", "supervisor_pid", "worker_pid", "restarts")]
    texts = [value.get(name) for name in ("version", "started_at", "manager", "mode")]
    upstream = value.get("upstream", {})
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
        return None
    if not all(isinstance(text, str) for text in texts) or not isinstance(upstream, dict):
        return None
    if not 0 < value["port"] < 65536:
        return None
    return Record(
        port=value["port"],
        supervisor_pid=value["supervisor_pid"],
        worker_pid=value["worker_pid"],
        restarts=value["restarts"],
        version=value["version"],
        started_at=value["started_at"],
        manager=value["manager"],
        mode=value["mode"],
        upstream={str(key): str(url) for key, url in upstream.items()},
    )


def read_record(paths: Paths) -> Record | None:
    """Return the record of the last supervisor, None when there is none that can be read."""
    try:
        with open(paths.proxy_record, "rb") as file:
            return record_of(json.loads(file.read(1 << 20)))
    except (OSError, ValueError):
        return None  # absent, or not ours: the same as no record, the next start writes one


def write_record(paths: Paths, record: Record) -> None:
    """Replace the record. OSError when the run folder is gone or the disk is full."""
    data = json.dumps(record.to_json(), indent=1).encode() + b"\n"
    write_atomic(paths.proxy_record, data)


def remove_record(paths: Paths) -> None:
    """Remove the record; no record is fine."""
    _unlink(paths.proxy_record)


def _stopped_file(paths: Paths) -> str:
    return f"{paths.run_dir}/stopped"


def is_stopped(paths: Paths) -> bool:
    """Return whether a person ended the proxy; then nothing but `proxy start` brings it back."""
    return os.path.exists(_stopped_file(paths))


def mark_stopped(paths: Paths) -> None:
    """Write down that a person ended the proxy."""
    ensure_private_dir(paths.run_dir)
    write_atomic(_stopped_file(paths), b"")


def clear_stopped(paths: Paths) -> None:
    """Take back `mark_stopped`."""
    _unlink(_stopped_file(paths))


def remove_socket(paths: Paths) -> None:
    """Remove the control socket that a killed worker left. Only for who knows that none serves."""
    if is_private_folder(os.path.dirname(paths.control_socket)):
        _unlink(paths.control_socket)
        remove_socket_folder(paths)


def remove_socket_folder(paths: Paths) -> None:
    """Remove the folder of the control socket where it was made for that alone, if it is empty."""
    folder = os.path.dirname(paths.control_socket)
    if folder == paths.run_dir:
        return
    try:
        os.rmdir(folder)
    except OSError:
        pass  # gone already, another's, or the next worker's socket stands in it


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass  # what should be gone is gone


def lock_file(paths: Paths) -> str:
    """Return the path of the lock that a living supervisor holds."""
    return f"{paths.run_dir}/supervisor.lock"


def take_lock(paths: Paths) -> int | None:
    """Return an open descriptor that holds the lock, None when another supervisor has it.

    The run folder must exist. The lock lasts as long as any copy of the descriptor.
    """
    while True:
        descriptor = os.open(lock_file(paths), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if holds_lock(paths, descriptor):
            os.ftruncate(descriptor, 0)  # until the supervisor signs, nobody's number stands there
            return descriptor
        os.close(descriptor)  # the folder was replaced between open and lock


def holds_lock(paths: Paths, descriptor: int) -> bool:
    """Return whether the lock behind `descriptor` is still the one at the lock's path."""
    try:
        at_path = os.stat(lock_file(paths))
    except OSError:
        return False  # the state folder was removed or moved away
    held = os.fstat(descriptor)
    return (at_path.st_dev, at_path.st_ino) == (held.st_dev, held.st_ino)


def sign_lock(descriptor: int) -> None:
    """Write the number of this process into the lock that it holds."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)


def supervisor_pid(paths: Paths) -> int | None:
    """Return the process id of the living supervisor, 0 while it starts, None without one.

    Creates nothing. The number is only read under a held lock, so it is never a stranger's.
    """
    try:
        descriptor = os.open(lock_file(paths), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None  # no lock file: no supervisor has ever run here
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 20, 0)
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def is_supervised(paths: Paths) -> bool:
    """Return whether a supervisor of this state folder lives. Creates nothing."""
    return supervisor_pid(paths) is not None
