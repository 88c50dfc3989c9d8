"""`openmem bench store`: all of the store's figures, one after the other, in a HOME of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass

from openmem.base.paths import Paths
from openmem.base.redact.rules import engine_name
from openmem.bench.figures import Report
from openmem.bench.stage import Stage
from openmem.bench.store import ingest, many, memory, scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is made and measured; the defaults are what the limits are for."""

    ingest_lines: int = 33_851
    resent_bytes: int = 3_000_000
    scan_lines: int = 1_000_000
    sessions: int = 200
    session_rows: int = 5_000
    large_bytes: int = 3_000_000
    requests: int = 10_000


def run(*, repeats: int = 9, sizes: Sizes | None = None) -> Report:
    """Return the figures. It takes some minutes and about 2 GB of the temporary folder."""
    wanted = sizes or Sizes()
    with Stage() as stage:
        paths = Paths(stage.environ())
        os.makedirs(paths.state_dir, mode=0o700)
        figures = [
            *ingest.figures(
                paths,
                lines=wanted.ingest_lines,
                resent_bytes=wanted.resent_bytes,
                repeats=repeats,
            ),
            *scan.figures(paths, lines=wanted.scan_lines, repeats=repeats),
        ]
    with Stage() as stage:
        paths = Paths(stage.environ())
        os.makedirs(paths.state_dir, mode=0o700)
        of_many, many_note = many.figures(
            paths, sessions=wanted.sessions, rows=wanted.session_rows, repeats=repeats
        )
    of_memory, memory_note = memory.figures(
        large_bytes=wanted.large_bytes, requests=wanted.requests
    )
    notes = (f"masking by the engine {engine_name()}", many_note, memory_note)
    return Report(bench="store", figures=(*figures, *of_many, *of_memory), notes=notes)
