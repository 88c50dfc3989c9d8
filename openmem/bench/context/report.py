"""What the runs came to: a table for each task, and what is wanted of openmem's.

The limits are those of issue 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openmem.bench.context.measures import Outcome
from openmem.bench.context.session import SUPERSEDED

_MOST_DEGRADED, _LEAST_HEAD, _MOST_WRITTEN_BEYOND = 3.0, 0.99, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """All runs."""

    outcomes: tuple[Outcome, ...]

    @property
    def holds(self) -> bool:
        return not any(faults_of(one) for one in self.outcomes)

    def cost_share(self, one: Outcome) -> float | None:
        """Return a run's cost against keeping everything in the same task and variant."""
        kept = [o for o in self.outcomes if o.arm == "keep" and o.task == one.task and o.cost]
        alike = [other for other in kept if other.variant == one.variant]
        return one.cost / alike[0].cost if alike else None

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "bench": "context",
            "holds": self.holds,
            "runs": [
                {
                    **one.as_json(),
                    "cost_against_keep": self.cost_share(one),
                    "faults": faults_of(one),
                }
                for one in self.outcomes
            ],
            "notes": list(NOTES),
        }

    def lines(self) -> list[str]:
        """Return a table for each task, at most 80 columns wide."""
        lines: list[str] = []
        for task in dict.fromkeys(one.task for one in self.outcomes):
            of_task = [one for one in self.outcomes if one.task == task]
            lines += [*self._table(task, of_task), ""]
        for one in self.outcomes:
            lines += [f"{one.task} {one.arm} {one.variant}: {fault}" for fault in faults_of(one)]
        return [*lines, *NOTES]

    def _table(self, task: str, outcomes: Sequence[Outcome]) -> list[str]:
        first = outcomes[0]
        head = [
            f"{task}, a window of {first.window:,} tokens",
            f"trimmed from {first.soft:,} at a new turn, from {first.hard:,} inside one",
        ]
        rows = [
            ("ARM", "LOOKUP", "COUNT", "UNKN", "PEAK", "TRIMS", "COST", "BEYOND", "DEGR", "HEAD")
        ]
        for one in outcomes:
            share = self.cost_share(one)
            rows.append(
                (
                    one.arm if one.variant == "plain" else f"{one.arm} {one.variant}",
                    f"{one.lookups.share:.3f}" if one.lookups.asked else "–",
                    f"{one.counts.share:.3f}" if one.counts.asked else "–",
                    str(one.unknown),
                    f"{one.peak / 1000:.1f}k",
                    str(one.trims),
                    f"{share:.3f}" if share is not None else "–",
                    f"{100 * one.written_beyond_share:.1f} %",
                    f"{one.degraded_per_200:.1f}",
                    f"{100 * one.head_unchanged:.1f} %",
                )
            )
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        table = [
            " ".join(
                cell.ljust(width) if n == 0 else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        ours = next((one for one in outcomes if one.arm == "openmem"), None)
        return [*head, *table, *(_told(ours) if ours else ())]


def _told(one: Outcome) -> list[str]:
    """Return what one run through the proxy took and left."""
    assert one.added_ms is not None
    middle, high, most = one.added_ms
    return [
        f"openmem {one.variant}: {middle:.0f} ms added to a whole answer (p95 {high:.0f}, "
        f"most {most:.0f}),",
        f"{one.searches} searches, {one.queries} SQL; {one.stored_per_byte:.1f} bytes stored for "
        "each byte streamed",
    ]


NOTES = (
    "COST is against keep in the same task; BEYOND: written to the cache without",
    "need; DEGR: requests per 200, trims aside, that kept less than 95 % of the",
    "prefix; HEAD: requests whose tools, system and first message stayed. The model",
    "is scripted and the cache simulated: this shows that what was trimmed can be",
    "reached and counted, not that a real model would look for it.",
)


def faults_of(one: Outcome) -> list[str]:
    """Return which limits a run of openmem does not hold; none for the other arms.

    Source: issue 4, "Show it".
    """
    if one.arm not in ("openmem", SUPERSEDED):
        return []
    checks = (
        (one.lookups.share < 1, f"lookups {one.lookups.share:.3f}, wanted 1.000"),
        (one.counts.share < 1, f"counts {one.counts.share:.3f}, wanted 1.000"),
        (one.unknown > 0, f"{one.unknown} answers UNKNOWN, wanted none"),
        (one.above_soft > 0, f"{one.above_soft} new turns above the soft threshold, wanted none"),
        (one.above_hard > 0, f"{one.above_hard} requests stayed above the hard threshold"),
        (
            one.written_beyond_share > _MOST_WRITTEN_BEYOND,
            f"{100 * one.written_beyond_share:.2f} % written beyond need, wanted at most 1 %",
        ),
        (
            one.degraded_per_200 > _MOST_DEGRADED,
            f"{one.degraded_per_200:.1f} degraded requests per 200, wanted at most 3",
        ),
        (
            one.head_unchanged < _LEAST_HEAD,
            f"head unchanged in {100 * one.head_unchanged:.1f} %, wanted at least 99 %",
        ),
        (one.refused > 0, f"{one.refused} requests refused, wanted none"),
        (bool(one.stopped), f"stopped: {one.stopped}"),
    )
    return [text for fails, text in checks if fails]
