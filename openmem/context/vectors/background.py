"""Vectors made in quiet moments: one thread at a time, the newest sessions first.

Invariant: it never holds a request up and never outlives its process; an endpoint that is down is
asked again after a minute, not before.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.base.policy import Policy, decide, load_policy
from openmem.base.vectors.settings import VectorSettings
from openmem.base.workspace import workspace_of
from openmem.context.store.catalog import Entry, entries

if TYPE_CHECKING:
    from openmem.base.vectors.filling import Pace

_DOWN_SECONDS = 60.0


class Background:
    """Fills what lacks vectors. `on_fault` is told of faults; it must not raise."""

    def __init__(
        self, paths: Paths, settings: VectorSettings, on_fault: Callable[[BaseException], None]
    ) -> None:
        self._paths, self._settings, self._on_fault = paths, settings, on_fault
        self._pace: Pace | None = None
        self._done: dict[str, tuple[int, ...]] = {}
        self._lock = threading.Lock()
        self._not_before = 0.0
        self._is_closing = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Start a run unless one is under way, or the endpoint was down a moment ago."""
        with self._lock:
            is_running = self._thread is not None and self._thread.is_alive()
            if not self._settings.is_on or is_running or time.monotonic() < self._not_before:
                return
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Let no further batch begin."""
        self._is_closing.set()

    def _run(self) -> None:
        # HTTP and TLS take 5 MB that a recorder without vectors does not need.
        from openmem.base.vectors.filling import Pace
        from openmem.context.vectors.fill import fill

        pace = self._pace = self._pace or Pace()
        policy = load_policy(self._paths.policy_file, self._paths.home)
        for entry in entries(self._paths):
            if self._is_closing.is_set():
                return
            stamp = (*entry.stamp, int(entry.modified_at * 1000))
            if self._done.get(entry.session_id) == stamp or not may_send(
                entry, policy, self._settings
            ):
                continue
            try:
                standing = fill(
                    self._paths,
                    entry,
                    self._settings,
                    self._paths.environ,
                    pace,
                    may_go_on=lambda: not self._is_closing.is_set(),
                )
            except (OpenmemError, OSError, sqlite3.Error) as error:
                self._on_fault(error)
                continue
            if standing.is_down:
                self._not_before = time.monotonic() + _DOWN_SECONDS
                return
            if not standing.pending:
                self._done[entry.session_id] = stamp


def may_send(entry: Entry, policy: Policy, settings: VectorSettings) -> bool:
    """Return whether a session's words may go to the endpoint: stored ones to this machine, to
    another one only what may be retained."""
    if entry.is_legacy:
        return False
    decision = decide(policy, workspace_of(entry.cwd) if entry.cwd else None)
    return decision.store and (settings.is_local or decision.retain)
