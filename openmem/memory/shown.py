"""What a session was told, so that it is not told again: ids only, one small file a session.

Invariant: no content; a file exists only where something was told. Trap: two hooks of one session
may write at once; the later one wins, and the worst is that something is told twice.
"""

from __future__ import annotations

import json
import os
import time

from openmem.base.io import ensure_private_dir, read_bytes_or_none
from openmem.base.light import dataclass
from openmem.base.paths import Paths

_DAYS = 30
_MOST = 400
_SWEEP_AT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a session was told. `start`: (id, mark) at its start, in order; `ids`: at prompts."""

    start: tuple[tuple[str, str], ...] = ()
    ids: tuple[str, ...] = ()

    @property
    def all_ids(self) -> frozenset[str]:
        return frozenset(self.ids) | frozenset(memory_id for memory_id, _ in self.start)


def folder_of(paths: Paths) -> str:
    return f"{paths.state_dir}/memory/shown"


def read_shown(paths: Paths, sid: str) -> Shown:
    """Return what a session was told; nothing when its file cannot be read."""
    try:
        value = json.loads(read_bytes_or_none(f"{folder_of(paths)}/{sid}.json") or b"null")
    except (OSError, ValueError):
        return Shown()  # the worst is that something is told again
    if not isinstance(value, dict):
        return Shown()
    start, ids = value.get("start"), value.get("ids")
    return Shown(
        start=tuple(
            (pair[0], pair[1])
            for pair in (start if isinstance(start, list) else ())
            if isinstance(pair, list) and len(pair) == 2 and all(isinstance(x, str) for x in pair)
        ),
        ids=tuple(one for one in (ids if isinstance(ids, list) else ()) if isinstance(one, str)),
    )


def write_shown(paths: Paths, sid: str, shown: Shown) -> None:
    """Write down what a session was told. OSError when it cannot be."""
    folder = folder_of(paths)
    is_new = not os.path.isdir(folder)
    ensure_private_dir(folder)
    value = {"start": [list(pair) for pair in shown.start], "ids": list(shown.ids[-_MOST:])}
    temporary = f"{folder}/.{sid}.{os.getpid()}"
    # Not made durable: losing it costs a line told twice, a sync would cost on every prompt.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, json.dumps(value, separators=(",", ":")).encode())
    finally:
        os.close(descriptor)
    os.replace(temporary, f"{folder}/{sid}.json")
    if not is_new:
        sweep_shown(paths)


def sweep_shown(paths: Paths, *, at_least: int = _SWEEP_AT) -> int:
    """Remove files of sessions that are long over, once there are many; return how many."""
    folder = folder_of(paths)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 0
    if len(names) < at_least:
        return 0
    before = time.time() - _DAYS * 86_400
    removed = 0
    for name in names:
        path = f"{folder}/{name}"
        try:
            if os.stat(path).st_mtime < before:
                os.unlink(path)
                removed += 1
        except FileNotFoundError:
            pass  # another hook was first
    return removed
