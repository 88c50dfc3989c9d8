"""Checks of what was left behind: locks that are held for long, processes that nobody leads.

Idea: our locks are the kernel's, so one that its holder left is free; what can be stale is a holder
that hangs, and it is named by its number. Invariant: reading only; a lock is tried and given back,
no process is ended here, because the doctor cannot tell a hanging one from a slow one for sure.
Trap: processes of another state folder are another person's business.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator

from openmem.base.counts import counted
from openmem.base.paths import Paths
from openmem.host.lifecycle import ProxyStatus
from openmem.setup.doctor.finding import Finding

_LONG_SECONDS = 1.0
_PROC = "/proc"
_DAEMONS = ("openmem.host.supervisor", "openmem.host.worker")
_SERVERS = ("openmem.mcp.__main__", "openmem-mcp")


def check_locks(
    paths: Paths, *, sleep: Callable[[float], None] = time.sleep, proc: str = _PROC
) -> list[Finding]:
    """Locks that are still held after a second look; the supervisor's own is not one of them."""
    held = [path for path in _lock_files(paths) if is_held(path)]
    if held:
        sleep(_LONG_SECONDS)
        held = [path for path in held if is_held(path)]
    return [
        Finding(
            name="lock",
            outcome="warning",
            subject=path,
            detail=f"held for more than {_LONG_SECONDS:g} s{_by(path, proc)}",
            advice="let that command end, or end it; what it was at is taken up again",
        )
        for path in held
    ]


def _lock_files(paths: Paths) -> list[str]:
    found = []
    for folder in (paths.state_dir, paths.context_dir, paths.sessions_dir, paths.run_dir):
        try:
            names = os.listdir(folder)
        except OSError:
            continue  # not there yet: nothing to hold
        found += [f"{folder}/{name}" for name in sorted(names) if name.endswith(".lock")]
    return [path for path in found if not path.endswith("/supervisor.lock")]


def is_held(path: str) -> bool:
    """Return whether somebody holds a lock file; the file is left as it is."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # gone meanwhile, or told by the check of permissions
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _by(path: str, proc: str) -> str:
    """Return who holds a lock, in words, "" where the system does not tell."""
    try:
        number = str(os.stat(path).st_ino)
        with open(f"{proc}/locks", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return ""  # macOS, or gone meanwhile
    for row in rows:
        if len(row) > 5 and row[5].rpartition(":")[2] == number and row[4] != "-1":
            return f" by process {row[4]}"
    return ""


def check_processes(
    paths: Paths, status: ProxyStatus, *, proc: str = _PROC, own: int = 0
) -> list[Finding]:
    """Processes of this state folder that nobody leads any more; Linux only."""
    led = {own or os.getpid(), status.supervisor_pid, status.worker_pid}
    found = []
    for pid, words, parent in _processes(proc):
        if pid in led or parent in led:
            continue
        is_daemon = any(mark in words for mark in _DAEMONS)
        is_orphan = parent == 1 and any(mark in words for mark in _SERVERS)
        if (is_daemon or is_orphan) and _is_of(paths, pid, proc):
            found.append((pid, "a proxy" if is_daemon else "an MCP server without its agent"))
    if not found:
        return []
    named = ", ".join(f"{pid} ({what})" for pid, what in found)
    return [
        Finding(
            name="process",
            outcome="info" if status.running else "warning",
            detail=f"{counted(len(found), 'process', 'processes')} of openmem that nobody leads: "
            f"{named}",
            advice="one that passes an open session through ends by itself; else: kill NUMBER",
        )
    ]


def _processes(proc: str) -> Iterator[tuple[int, str, int]]:
    """Yield number, command line and parent of every process of this user."""
    try:
        names = [name for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return  # no such folder outside Linux
    for name in names:
        try:
            if os.stat(f"{proc}/{name}").st_uid != os.getuid():
                continue
            with open(f"{proc}/{name}/cmdline", "rb") as file:
                words = file.read(65_536).replace(b"\0", b" ").decode("utf-8", "replace")
            with open(f"{proc}/{name}/stat", "rb") as file:
                parent = int(file.read(4_096).rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # ended while we looked
        yield int(name), words, parent


def _is_of(paths: Paths, pid: int, proc: str) -> bool:
    """Return whether a process works in our state folder."""
    try:
        with open(f"{proc}/{pid}/environ", "rb") as file:
            pairs = file.read(1 << 20).split(b"\0")
    except OSError:
        return False  # ended, or not ours to read
    environ = dict(os.fsdecode(pair).partition("=")[::2] for pair in pairs if b"=" in pair)
    return Paths(environ).state_dir == paths.state_dir if environ.get("HOME") else False
