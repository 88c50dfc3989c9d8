"""Two things measured in turns, the order changing, so that what disturbs one disturbs both."""

from __future__ import annotations

import time
from collections.abc import Callable

from openmem.bench.figures import Figure, median

Act = Callable[[], object]


def processor_ms(act: Act) -> float:
    begun = time.process_time()
    act()
    return (time.process_time() - begun) * 1000


def elapsed_ms(act: Act) -> float:
    begun = time.perf_counter()
    act()
    return (time.perf_counter() - begun) * 1000


def beside(
    name: str,
    ours: Act,
    floor: Act,
    *,
    limit: float,
    repeats: int,
    measure: Callable[[Act], float] = processor_ms,
    calls: int = 1,
) -> Figure:
    """Return the figure of two acts. `calls`: of ours and of the floor for one sample each."""

    def many(act: Act) -> Act:
        return act if calls == 1 else lambda: [act() for _ in range(calls)]

    samples: tuple[list[float], list[float]] = ([], [])
    pairs = list(zip((many(ours), many(floor)), samples, strict=True))
    for act, _ in pairs:
        act()  # warm: pages, plans, imports
    for turn in range(repeats):
        for act, kept in pairs if turn % 2 else reversed(pairs):
            kept.append(measure(act) / calls)
    return Figure(
        name=name,
        unit="ms",
        value=median(samples[0]),
        floor=median(samples[1]),
        limit=limit,
        samples=repeats,
    )
