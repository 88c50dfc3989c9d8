"""A system for planning: every file as it was when it was first read.

Idea: a plan reads a file several times, for one part after the other; a program that writes there
in between would make a plan whose parts contradict each other. What this one tells may be old by
the time of the writing, which is compared then. Nothing that is written here reaches the disk.
"""

from __future__ import annotations

from openmem.plan.system.contract import System
from openmem.plan.system.dry_run import DryRunSystem


class SteadySystem(DryRunSystem):
    """`inner` in one moment."""

    def __init__(self, inner: System) -> None:
        super().__init__(inner)
        self._seen: dict[str, bytes | None] = {}

    def read(self, path: str) -> bytes | None:
        if self._real(path) in self._over:
            return super().read(path)
        if path not in self._seen:
            self._seen[path] = self.inner.read(path)
        return self._seen[path]
