"""What a running stream feels while 3 MB of new content is recorded beside it.

An event is stamped when the upstream sends it and again when it arrives; the figure is the 95th
percentile of the difference, against the bare pass-through that carries the same 3 MB. Only the
recorder works harder on our side, so what is added is what reaches the event loop of it.
"""

from __future__ import annotations

import threading

from openmem.bench.figures import Figure, Report
from openmem.bench.proxy import recorded
from openmem.bench.stage import Stage
from openmem.bench.target import Target
from openmem.bench.traffic import Conversation

NEW_BYTES = 3_000_000


def run(*, repeats: int = 7, new_bytes: int = NEW_BYTES) -> Report:
    """Return the figures. `repeats`: streams for each side, each with new content beside it."""
    with Stage() as stage:
        stage.allow_everything()
        upstream = stage.upstream()
        floor_port, our_port = stage.passthrough(upstream), stage.proxy(upstream)
        floors: list[float] = []
        ours: list[float] = []
        for turn in range(2 * repeats + 2):
            port, samples = (our_port, ours) if turn % 2 else (floor_port, floors)
            late = _one(port, turn, stage.project, new_bytes)
            if turn > 1:  # the first of each warms up
                samples += late
        note = recorded(stage)
    size = f"{new_bytes // 1_000_000} MB" if new_bytes >= 1_000_000 else f"{new_bytes} bytes"
    names = ((f"lateness beside {size}, p95", 0.95), (f"lateness beside {size}, p99", 0.99))
    figures = tuple(
        Figure(
            name=name,
            unit="ms",
            value=percentile(ours, share),
            floor=percentile(floors, share),
            compare="difference",
            samples=len(ours),
        )
        for name, share in names
    )
    return Report(bench="stream", figures=figures, notes=(note,))


def percentile(values: list[float], share: float) -> float:
    """Return the value below which a share of all values lies; ValueError without values."""
    if not values:
        raise ValueError("no samples were taken")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _one(port: int, turn: int, folder: str, new_bytes: int) -> list[float]:
    """Stream once beside a request of all new content; return each event's lateness."""
    streaming, beside = Target(port), Target(port)
    quiet = Conversation(f"stream-{turn:04d}", size_bytes=2_000, folder=folder)
    heavy = Conversation(f"heavy-{turn:04d}", size_bytes=new_bytes, folder=folder, seed=turn)
    body = heavy.body()
    # The stream lasts a second; the new content comes while it runs.
    other = threading.Timer(0.2, beside.ask, (heavy, body))
    other.start()
    try:
        return streaming.lateness(quiet, quiet.body())
    finally:
        other.join()
        streaming.close()
        beside.close()
