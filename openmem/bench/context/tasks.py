"""The tasks by their level. Same level and seed, same bytes."""

from __future__ import annotations

import random
import re

from openmem.base.errors import Usage
from openmem.bench.context.edits import edit_task
from openmem.bench.context.kv_store import kv_pieces
from openmem.bench.context.log_triage import log_pieces
from openmem.bench.context.task import Task, operations_of

_LEVEL = re.compile(r"([RLE])(\d{2,5})")


def task_of(level: str, seed: int) -> Task:
    """Return a task: `R<n>` is kv-store with n records, `L<n>` log-triage with n lines, `E<n>`
    n edits of files.

    Usage for another level.
    """
    match = _LEVEL.fullmatch(level)
    if not match or not 48 <= int(match.group(2)) <= 20_000:
        raise Usage(
            f"there is no size {level!r}.",
            hint="R and a number of records, L and a number of log lines, or E and a number of "
            "edits: R1000, L6400, E160.",
        )
    records = int(match.group(2))
    if match.group(1) == "E":
        return edit_task(level, records, seed)
    if match.group(1) == "R":
        family = "kv-store"
        pieces = kv_pieces(records, random.Random(f"kv-store {level} {seed}"))
    else:
        family = "log-triage"
        pieces = log_pieces(records, random.Random(f"log-triage {level} {seed}"))
    return Task(
        name=f"{family}-{level}-seed{seed}",
        level=level,
        records=records,
        operations=operations_of(pieces),
    )
