"""What was sent since a moment, against what would have been sent without any trim.

Invariant: both sides are of the same requests, those that were recorded; the searches that a trim
led to are in both. Untrimmed sizes are the trims' own estimates put back.
"""

from __future__ import annotations

from dataclasses import dataclass

from openmem.base.clock import seconds_of
from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.overview import SessionSummary
from openmem.context.prices import Prices
from openmem.context.report.course import Course, courses_of
from openmem.context.report.replay import Rule, actual_units, play
from openmem.context.store.reader import open_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Sums of model calls. Dollars: None where a model has no price, or there was no call.

    `units`, `untrimmed_units`: cost in uncached input tokens.
    """

    requests: int = 0
    input_tokens: int = 0
    untrimmed_tokens: int = 0
    units: float = 0.0
    untrimmed_units: float = 0.0
    dollars: float | None = None
    untrimmed_dollars: float | None = None
    fail_opens: int = 0


def baseline(
    paths: Paths, sessions: list[SessionSummary], prices: Prices, since: float
) -> Baseline:
    """Return the sums of all calls since `since` (POSIX seconds).

    `sessions`: of the overview; those that were not used since are not opened, nor those that
    cannot be read, which the overview has told of.
    """
    requests = tokens = whole = faults = 0
    units = untrimmed = paid = saved = 0.0
    has_price = True
    for session in sessions:
        for course in _courses(paths, session, since):
            faults += sum(m.kind == "fail_open" and m.at >= since for m in course.marks)
            played = play(course, Rule(kind="keep"), prices)
            for (call, cost), other in zip(actual_units(course, prices), played, strict=True):
                if call.at < since:
                    continue
                requests += 1
                tokens += call.prompt
                whole += call.whole
                units += cost
                untrimmed += other.units
                price = prices.of(call.model)
                mine, theirs = price.money(cost), price.money(other.units)
                has_price = has_price and mine is not None
                paid += mine or 0.0
                saved += theirs or 0.0
    is_known = has_price and requests > 0
    return Baseline(
        requests=requests,
        input_tokens=tokens,
        untrimmed_tokens=whole,
        units=round(units, 1),
        untrimmed_units=round(untrimmed, 1),
        dollars=paid if is_known else None,
        untrimmed_dollars=saved if is_known else None,
        fail_opens=faults,
    )


def _courses(paths: Paths, session: SessionSummary, since: float) -> list[Course]:
    try:
        if seconds_of(session.last_at) < since:
            return []
    except ValueError:
        return []  # no time of ours: no call of today
    try:
        with open_session(paths, session.session_id) as reader:
            return courses_of(reader, with_turns=False)
    except StoreUnavailable:
        return []  # broke since the overview read it; the next status will name it
