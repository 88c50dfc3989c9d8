"""Which threshold would have been cheapest for the sessions that are stored.

The grid is small on purpose: what decides is how often a session grows past the threshold and how
far it then falls, and both are rough here. Of the settings within two percent of the cheapest, the
one that removes least is advised, and none that would have cut more often than every 25 calls:
each cut takes something from the model's sight, which a replay of sizes cannot price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openmem.context.models import load_models
from openmem.context.prices import Prices
from openmem.context.report.course import Course
from openmem.context.report.replay import Rule, Total, total
from openmem.context.trim.limits import HARD_CAP, HARD_SHARE, window_of

THRESHOLDS = (60_000, 80_000, 100_000, 120_000, 160_000)
FRACTIONS = (0.2, 0.3, 0.5)
COMPACT_AT = 160_000
_CALLS_PER_CUT = 25
_NEAR = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting and what the stored sessions would have come to. `share`: of keeping all."""

    soft: int
    fraction: float
    total: Total
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The outcome of a replay. `best`: None when nothing would have been gained; `why` says so.

    `window`: of the largest model that was used; `keeps_within`: keeping all would have fitted.
    """

    sessions: int
    threads: int
    calls: int
    window: int
    keep: Total
    compact: Total
    compact_share: float
    grid: tuple[Setting, ...]
    current: Setting
    best: Setting | None
    why: str
    estimated: int

    @property
    def keeps_within(self) -> bool:
        return self.keep.peak <= self.window

    def cell(self, soft: int, fraction: float) -> Setting:
        """Return one setting of the grid."""
        return next(s for s in self.grid if s.soft == soft and s.fraction == fraction)


def advise(
    courses: Sequence[Course], prices: Prices, *, soft: int, hard: int, fraction: float
) -> Advice:
    """Return the advice. `soft`, `hard`, `fraction`: what is in force now; `courses`: not empty."""
    windows = {name: model.window for name, model in load_models().items()}
    window = max(
        max(window_of(call.model, windows, 0), call.prompt)  # what was answered did fit
        for one in courses
        for call in one.calls
    )
    calls = sum(len(course.calls) for course in courses)
    keep = total(courses, Rule(kind="keep"), prices)

    def played(threshold: int, part: float, highest: int) -> Setting:
        rule = Rule(
            kind="trim",
            soft=threshold,
            hard=max(threshold, highest),
            target=int(threshold * part),
        )
        came_to = total(courses, rule, prices)
        return Setting(soft=threshold, fraction=part, total=came_to, share=_share(came_to, keep))

    ceiling = min(HARD_CAP, int(window * HARD_SHARE))
    grid = tuple(played(threshold, part, ceiling) for threshold in THRESHOLDS for part in FRACTIONS)
    compact = total(courses, Rule(kind="compact", hard=min(COMPACT_AT, ceiling)), prices)
    current = played(soft, fraction, hard)
    best, why = _best(grid, current, calls, keep)
    return Advice(
        sessions=len({course.session_id for course in courses}),
        threads=len(courses),
        calls=calls,
        window=window,
        keep=keep,
        compact=compact,
        compact_share=_share(compact, keep),
        grid=grid,
        current=current,
        best=best,
        why=why,
        estimated=sum(1 for one in courses for call in one.calls if call.removed),
    )


def _share(one: Total, keep: Total) -> float:
    return one.units / keep.units if keep.units else 1.0


def _best(
    grid: Sequence[Setting], current: Setting, calls: int, keep: Total
) -> tuple[Setting | None, str]:
    if keep.peak < min(THRESHOLDS):
        return None, f"no thread ever grew to {min(THRESHOLDS):,} tokens, so nothing would change."
    most = max(1, calls // _CALLS_PER_CUT)
    calm = [setting for setting in grid if setting.total.cuts <= most]
    if not calm:
        return None, f"every setting would have cut more often than each {_CALLS_PER_CUT} calls."
    cheapest = min(setting.share for setting in calm)
    if current.share <= cheapest * _NEAR and current.total.cuts <= most:
        return None, "what is in force is within 2 % of the cheapest."
    if cheapest >= 1:
        return None, "no setting would have been cheaper than keeping everything."
    near = [setting for setting in calm if setting.share <= cheapest * _NEAR]
    best = max(near, key=lambda setting: (setting.soft, setting.fraction))
    return best, (
        "within 2 % of the cheapest it removes least, and it cuts at most once in "
        f"{_CALLS_PER_CUT} calls."
    )
