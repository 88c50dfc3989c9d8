"""What the recorder does for the stores in a quiet moment: retention, forgetting that waits, and
filters that spare searches the opening of files.

Invariant: at most once a day a sweep, at most every few minutes a look; a fault here is said and
never touches a request.
"""

from __future__ import annotations

import threading
import time

from openmem.base.paths import Paths
from openmem.context.care.pending import finish_pending
from openmem.context.care.sweep import sweep_daily
from openmem.context.store import word_filter

_LOOK_SECONDS = 300.0


class Tidying:
    """Called by any idle lane; one at a time does it. `ttl_days`: 0 keeps every session."""

    def __init__(self, paths: Paths, ttl_days: int) -> None:
        self._paths, self._ttl_days = paths, ttl_days
        self._lock = threading.Lock()
        self._looked_at = -_LOOK_SECONDS

    def look(self) -> None:
        """Do what is due. OSError, sqlite3.Error, OpenmemError: it is tried again later."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self._looked_at < _LOOK_SECONDS:
                return
            self._looked_at = time.monotonic()
            finish_pending(self._paths)
            sweep_daily(self._paths, self._ttl_days, now=time.time())
            word_filter.refresh(self._paths)
        finally:
            self._lock.release()
