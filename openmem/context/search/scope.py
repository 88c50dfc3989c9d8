"""Which sessions belong to a workspace.

A session belongs to the workspace that it was noted under, and to the one its folder is part of
now: a remote that was added or a repository that was moved does not lose its sessions.
"""

from __future__ import annotations

import time

from openmem.base.workspace import workspace_of
from openmem.context.search.query import Scope
from openmem.context.store.catalog import Entry

_REMEMBERED_SECONDS = 60.0


class ScopeFilter:
    """Decides, and remembers for a minute which workspace a folder is part of."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[float, str]] = {}

    def holds(self, entry: Entry, scope: Scope) -> bool:
        """Return whether a session may be read under a scope."""
        if scope.all_workspaces:
            return True
        key = scope.workspace_key
        if key is None:
            return not (entry.workspace or entry.bank or entry.cwd)
        return key in (entry.workspace, entry.bank) or (
            bool(entry.cwd) and self._key_of(entry.cwd) == key
        )

    def _key_of(self, folder: str) -> str:
        now = time.monotonic()
        known = self._keys.get(folder)
        if known and now - known[0] < _REMEMBERED_SECONDS:
            return known[1]
        if len(self._keys) > 10_000:
            self._keys.clear()
        key = workspace_of(folder).key
        self._keys[folder] = (now, key)
        return key
