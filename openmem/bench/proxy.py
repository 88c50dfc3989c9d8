"""Time to first byte of the recording proxy against the bare pass-through, at three sizes.

Each sample is a session's next request: the history again and one new exchange. The two targets
take turns on kept-alive connections with bodies of the same length, and the first requests, which
record the whole history, are warm-up and told apart. The last byte has no limit: it waits until the
rows are committed, which is the promise. With `trims` large sessions go up trimmed, and the floor
carries them whole.
"""

from __future__ import annotations

import json

from openmem.base.errors import Failed
from openmem.bench.figures import Figure, Report, median
from openmem.bench.stage import Stage
from openmem.bench.target import Target
from openmem.bench.traffic import Conversation

SIZES = (("10 KB", 10_000, 1.3), ("300 KB", 300_000, 1.3), ("3 MB", 3_000_000, 1.5))
TRIM_SIZES = (("300 KB", 300_000, 1.5), ("3 MB", 3_000_000, 2.0))


def run(
    *, repeats: int = 60, sizes: tuple[tuple[str, int, float], ...] = (), trims: bool = False
) -> Report:
    """Return the figures.

    `repeats`: samples of each target and size; `trims`: with trimming and compression on, as large
    requests then go up in another form than they came.
    """
    figures: list[Figure] = []
    notes: list[str] = []
    sizes = sizes or (TRIM_SIZES if trims else SIZES)
    with Stage() as stage:
        stage.allow_everything()
        stage.settings(f"[trim]\nenabled = {'true' if trims else 'false'}\n")
        upstream = stage.upstream()
        floor_target = Target(stage.passthrough(upstream))
        our_target = Target(stage.proxy(upstream))
        opening = Conversation("warm-up", size_bytes=1_000, folder=stage.project)
        our_target.ask(opening, opening.body())  # the port is held before the worker is up
        for number, (name, size, limit) in enumerate(sizes):
            conversation = Conversation(
                f"00000000-0000-4000-8000-{number:012d}", size_bytes=size, folder=stage.project
            )
            cold, _ = our_target.ask(conversation, conversation.body())
            for target in (floor_target, our_target):
                conversation.grow()
                target.ask(conversation, conversation.body())
            floors: list[tuple[float, float]] = []
            ours: list[tuple[float, float]] = []
            for turn in range(repeats):
                conversation.grow()
                body = conversation.body()
                pair = [(floor_target, floors), (our_target, ours)]
                for target, samples in pair if turn % 2 else reversed(pair):
                    samples.append(target.ask(conversation, body))
            for part, what, most in ((0, "first byte", limit), (1, "last byte", 0.0)):
                figures.append(
                    Figure(
                        name=f"{what}, {name}",
                        unit="ms",
                        value=median([sample[part] for sample in ours]),
                        floor=median([sample[part] for sample in floors]),
                        limit=most,
                        samples=repeats,
                    )
                )
            notes.append(f"{name}: the first request, all of it new, took {cold:.1f} ms")
        for target in (floor_target, our_target):
            target.close()
        notes.append(recorded(stage))
    return Report(
        bench="proxy-trimming" if trims else "proxy", figures=tuple(figures), notes=tuple(notes)
    )


def recorded(stage: Stage) -> str:
    """Return a line that says how much was stored. Failed when nothing was."""
    envelope = json.loads(stage.openmem("context", "status", "--json"))
    sessions = envelope["data"]["sessions"]
    rows = sum(int(session["rows"]) for session in sessions)
    if rows == 0:
        raise Failed("the proxy recorded nothing, so its times say nothing.")
    return f"recorded meanwhile: {rows} rows in {len(sessions)} sessions"
