"""The mark of a process that one of our own commands started: nothing of it is kept or told.

Idea: an agent that we run ourselves (to answer from memory) is no session of the person's. One
variable in its environment tells our hooks and tools so. Invariant: who carries the mark starts no
agent in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

MARK = "OPENMEM_ASIDE"


def is_aside(environ: Mapping[str, str]) -> bool:
    """Return whether one of our own commands started this process."""
    return bool(environ.get(MARK))
