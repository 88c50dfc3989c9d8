"""Retention: sessions nobody used for so many days, and blobs that no row names.

A plan first (`due`), then the act (`sweep`). Pinned sessions stay, sessions in use stay, and a
blob younger than an hour stays: its row may be about to be committed.
Source: context-store contract, Retention.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from openmem.base.clock import seconds_of
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.context.care.files import named_blobs, remove_files, session_files
from openmem.context.session import read_registration
from openmem.context.store.catalog import drop_sessions

DAY_SECONDS = 86_400
_BLOB_GRACE_SECONDS = 3_600
_REGISTRATION_GRACE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A session past its time. `age_days`: since its last write."""

    session_id: str
    age_days: int
    size_bytes: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a sweep would remove. `kept`: sessions past their time that stay, with the reason."""

    sessions: tuple[Due, ...]
    blobs: tuple[str, ...]
    blob_bytes: int
    kept: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def pin_file(paths: Paths, sid: str) -> str:
    """Return the file whose presence pins a session."""
    return f"{paths.sessions_dir}/{sid}.pin"


def due(
    paths: Paths, ttl_days: int, *, now: float, is_alive: Callable[[int], bool] | None = None
) -> Sweep:
    """Return what a sweep would remove. `ttl_days` 0: no session. `now`: POSIX seconds."""
    sessions: list[Due] = []
    kept: list[tuple[str, str]] = []
    for group in session_files(paths) if ttl_days > 0 else ():
        age = now - group.newest_at
        if age <= ttl_days * DAY_SECONDS:
            continue
        if group.is_pinned:
            kept.append((group.session_id, "pinned"))
        elif agent_is_running(paths, group.session_id, is_alive=is_alive):
            kept.append((group.session_id, "its agent is running"))
        else:
            sessions.append(
                Due(
                    session_id=group.session_id,
                    age_days=int(age // DAY_SECONDS),
                    size_bytes=group.size_bytes,
                    paths=group.paths,
                )
            )
    leaving = {entry.session_id for entry in sessions}
    blobs, size, notes = _loose_blobs(paths, now, leaving)
    return Sweep(
        sessions=tuple(sessions),
        blobs=blobs,
        blob_bytes=size,
        kept=tuple(kept),
        notes=notes,
    )


def sweep(paths: Paths, planned: Sweep, *, now: float) -> int:
    """Remove what was planned, as far as it is still due; return how many files went.

    A session that was written to since stays.
    """
    files = {group.session_id: group for group in session_files(paths)}
    removed = 0
    gone: list[str] = []
    for entry in planned.sessions:
        group = files.get(entry.session_id)
        if group and now - group.newest_at > entry.age_days * DAY_SECONDS - 1:
            removed += remove_files(group.paths)
            gone.append(entry.session_id)
    if gone:
        drop_sessions(paths, gone)
    blobs, _, _ = _loose_blobs(paths, now, set())
    return removed + remove_files(blobs)


def sweep_daily(paths: Paths, ttl_days: int, *, now: float) -> Sweep | None:
    """Sweep unless one ran within a day; None when it is not time.

    A stamp from the future was made by a clock that was wrong: it counts as made now.
    """
    stamp = f"{paths.context_dir}/.ttl-stamp"
    try:
        last = os.stat(stamp).st_mtime
    except FileNotFoundError:
        last = 0.0
    if last > now:
        os.utime(stamp, (now, now))
        return None
    if now - last < DAY_SECONDS:
        return None
    ensure_private_dir(paths.context_dir)
    descriptor = os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.close(descriptor)
    os.utime(stamp, (now, now))
    planned = due(paths, ttl_days, now=now)
    sweep(paths, planned, now=now)
    return planned


def agent_is_running(
    paths: Paths, sid: str, *, is_alive: Callable[[int], bool] | None = None
) -> bool:
    """Return whether the agent that registered a session is still there.

    A process that began after the registration only has its number: the system gives it out again.
    """
    registration = read_registration(paths, sid)
    if registration is None or registration.agent_pid <= 0:
        return False
    if not (is_alive or process_is_alive)(registration.agent_pid):
        return False
    began_at = _began_at(registration.agent_pid)
    try:
        registered_at = seconds_of(registration.registered_at)
    except ValueError:
        return True  # no time to compare with: in doubt it is in use
    return began_at is None or began_at < registered_at + _REGISTRATION_GRACE_SECONDS


def process_is_alive(pid: int) -> bool:
    """Return whether a process is there, somebody else's included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _began_at(pid: int) -> float | None:
    """Return when a process began (POSIX seconds), None where the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as file:
            booted = next(int(line.split()[1]) for line in file if line.startswith(b"btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None  # no Linux, or the process has just ended
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def _loose_blobs(
    paths: Paths, now: float, leaving: set[str]
) -> tuple[tuple[str, ...], int, tuple[str, ...]]:
    """Return the blobs that no session names but those that leave, and their bytes."""
    named, unread = named_blobs(paths, without=frozenset(leaving))
    if unread:
        notes = tuple(f"blobs kept: session {sid} cannot be read" for sid in unread)
        return (), 0, notes
    loose: list[str] = []
    size = 0
    try:
        listing = list(os.scandir(paths.blobs_dir))
    except FileNotFoundError:
        return (), 0, ()
    for item in listing:
        status = item.stat(follow_symlinks=False)
        is_old = now - status.st_mtime > _BLOB_GRACE_SECONDS
        if item.name.partition(".")[0] not in named and is_old:
            loose.append(item.path)
            size += status.st_size
    return tuple(sorted(loose)), size, ()
