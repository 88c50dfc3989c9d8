"""Which sessions belong to a workspace.

A session belongs to the workspace that it was noted under, and to the one its folder is part of
now: a remote that was added or a repository that was moved does not lose its sessions.
"""

from __future__ import annotations

import time

from openmem.base.policy import Policy, bank_of
from openmem.base.workspace import Workspace, workspace_of
from openmem.context.search.query import Scope
from openmem.context.store.catalog import Entry

_REMEMBERED_SECONDS = 60.0


class ScopeFilter:
    """Decides, and remembers for a minute which workspace a folder is part of."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Workspace]] = {}

    def holds(self, entry: Entry, scope: Scope) -> bool:
        """Return whether a session may be read under a scope."""
        if scope.all_workspaces:
            return True
        key = scope.workspace_key
        if key is None:
            return not (entry.workspace or entry.bank or entry.cwd)
        return key in (entry.workspace, entry.bank) or (
            bool(entry.cwd) and key_of(scope.policy, self._workspace_of(entry.cwd)) == key
        )

    def _workspace_of(self, folder: str) -> Workspace:
        now = time.monotonic()
        known = self._known.get(folder)
        if known and now - known[0] < _REMEMBERED_SECONDS:
            return known[1]
        if len(self._known) > 10_000:
            self._known.clear()
        workspace = workspace_of(folder)
        self._known[folder] = (now, workspace)
        return workspace


def key_of(policy: Policy | None, workspace: Workspace) -> str:
    """Return what the sessions of one workspace share: its bank, links included."""
    return bank_of(policy, workspace) if policy else workspace.key
