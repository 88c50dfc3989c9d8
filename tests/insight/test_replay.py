"""The replay: by hand on small courses, and by rule on generated ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmem.context.advise import FRACTIONS, THRESHOLDS, advise
from openmem.context.prices import load_prices
from openmem.context.report.replay import (
    POINTER_TOKENS,
    SUMMARY_TOKENS,
    Rule,
    actual_units,
    play,
    total,
)
from tests.fakes.courses import Step, course, growing

PRICES = load_prices()
KEEP = Rule(kind="keep")
READ, WRITE, LONG_WRITE, OUTPUT = 0.1, 1.25, 2.0, 5.0


def test_keeping_everything_reads_the_last_prompt_and_writes_the_growth() -> None:
    """Newest-models facts 1.6: what was written is read, what is new is written."""
    steps = [
        Step(prompt=20_000, output=10),
        Step(prompt=24_000, read=20_000, output=20),
        Step(prompt=25_000, read=24_000, output=0),
    ]
    played = list(play(course(steps), KEEP, PRICES))
    assert [one.prompt for one in played] == [20_000, 24_000, 25_000]
    assert played[0].units == pytest.approx(20_000 * WRITE + 10 * OUTPUT)
    assert played[1].units == pytest.approx(20_000 * READ + 4_000 * WRITE + 20 * OUTPUT)
    assert played[2].units == pytest.approx(24_000 * READ + 1_000 * WRITE)
    real = [units for _, units in actual_units(course(steps), PRICES)]
    assert real == pytest.approx([one.units for one in played])


@pytest.mark.parametrize(
    ("step", "is_dead"),
    [
        (Step(prompt=22_000, read=20_000), False),
        (Step(prompt=22_000, after=301), True),
        (Step(prompt=22_000, model="claude-haiku-4-5"), True),
        (Step(prompt=22_000, bust="tools"), True),
        (Step(prompt=22_000, bust="system"), True),
        (Step(prompt=22_000, bust="trim"), False),
    ],
)
def test_a_dead_prefix_is_written_whole(step: Step, is_dead: bool) -> None:
    """Issue 4, part 7: idle past the life of the cache is a full rewrite, as is the client's."""
    steps = [Step(prompt=20_000), step]
    *_, last = play(course(steps), KEEP, PRICES)
    whole = 22_000 * WRITE + 100 * OUTPUT
    part = 20_000 * READ + 2_000 * WRITE + 100 * OUTPUT
    assert last.units == pytest.approx(whole if is_dead else part)


def test_a_trim_keeps_the_newest_turns_that_fit_and_writes_them_once() -> None:
    """Issue 4, parts 2 and 4: cut at a real user turn; bytes behind the head are written anew."""
    # first prompt 20k, then turns of 10k each; from 60k on down to 45k.
    steps = growing(6, 10_000)
    rule = Rule(kind="trim", soft=60_000, hard=90_000, target=45_000)
    played = list(play(course(steps), rule, PRICES))
    assert [one.is_cut for one in played] == [False, False, False, False, True, False]
    cut = played[4]
    assert cut.prompt == 20_000 + POINTER_TOKENS + 2 * 10_000 and cut.lost == 20_000 - 150
    written = cut.prompt - 20_000
    assert cut.units == pytest.approx(20_000 * READ + written * WRITE + 100 * OUTPUT)
    after = played[5]
    assert after.prompt == cut.prompt + 10_000
    assert after.units == pytest.approx(cut.prompt * READ + 10_000 * WRITE + 100 * OUTPUT)


def test_inside_a_turn_only_the_hard_threshold_cuts_and_three_steps_stay() -> None:
    """Issue 4, part 2: soft at a real user turn only; the in-turn gap goes by steps."""
    steps = growing(9, 10_000)
    rule = Rule(kind="trim", soft=50_000, hard=90_000, target=30_000)
    played = list(play(course(steps, turns=[0, 1]), rule, PRICES))
    assert [one.is_cut for one in played].index(True) == 7  # 20k + 7 × 10k
    assert played[7].prompt == 20_000 + POINTER_TOKENS + 3 * 10_000


def test_a_trim_that_would_free_little_does_not_happen() -> None:
    """Issue 4, part 4: nothing if it frees under 2,000 tokens."""
    steps = [Step(prompt=70_000), Step(prompt=71_000, read=70_000), Step(prompt=72_000)]
    rule = Rule(kind="trim", soft=60_000, hard=60_000, target=10_000)
    assert not any(one.is_cut for one in play(course(steps), rule, PRICES))


def test_a_waiting_trim_rides_a_dead_prefix() -> None:
    """Issue 4, part 4: deferred work rides a dead prefix."""
    steps = [*growing(5, 10_000), Step(prompt=61_000, after=900)]
    rule = Rule(kind="trim", soft=60_000, hard=90_000, target=30_000)
    *_, last = play(course(steps, turns=[0]), rule, PRICES)
    assert last.is_cut
    assert last.units == pytest.approx(last.prompt * WRITE + 100 * OUTPUT)


def test_a_summary_costs_its_own_call() -> None:
    """Issue 4, part 7: native compaction at 160,000, its summary call included."""
    steps = growing(4, 10_000)
    rule = Rule(kind="compact", hard=50_000)
    played = list(play(course(steps), rule, PRICES))
    assert [one.is_cut for one in played] == [False, False, False, True]
    last = played[3]
    assert last.prompt == 20_000 + SUMMARY_TOKENS + 10_000
    summary = 40_000 * READ + SUMMARY_TOKENS * OUTPUT
    kept = 20_000 * READ + 13_000 * WRITE + 100 * OUTPUT
    assert last.units == pytest.approx(summary + kept)


def test_a_prefix_that_lives_an_hour_is_dearer_to_write() -> None:
    """Prices: write_1h where the session bought an hour."""
    steps = [Step(prompt=20_000), Step(prompt=22_000, read=20_000, after=900)]
    played = list(play(course(steps), KEEP, PRICES))
    assert played[0].units == pytest.approx(20_000 * LONG_WRITE + 100 * OUTPUT)
    assert played[1].units == pytest.approx(20_000 * READ + 2_000 * LONG_WRITE + 100 * OUTPUT)


def test_a_history_that_begins_anew_is_a_first_prompt_under_every_rule() -> None:
    """Ours: the client's own summary or a rewind hits every setting alike."""
    steps = [*growing(4, 10_000), Step(prompt=15_000), Step(prompt=16_000, read=15_000)]
    for rule in (KEEP, Rule(kind="trim", soft=40_000, hard=60_000, target=30_000)):
        played = list(play(course(steps), rule, PRICES))
        assert played[4].prompt == 15_000 and played[4].lost == 0
        assert played[4].units == pytest.approx(15_000 * WRITE + 100 * OUTPUT)


_STEPS = st.lists(
    st.tuples(
        st.integers(-60_000, 30_000),
        st.sampled_from([5.0, 30.0, 400.0, 5_000.0]),
        st.sampled_from(["", "", "", "tools", "messages", "model"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(first=st.integers(1_000, 60_000), grown=_STEPS, soft=st.integers(5_000, 120_000))
def test_a_view_is_never_larger_than_the_whole(
    first: int, grown: list[tuple[int, float, str, bool]], soft: int
) -> None:
    """Ours: whatever a session did, no rule shows more than there is, but for a stand-in."""
    steps = [Step(prompt=first)]
    turns = [0]
    for by, after, bust, opens in grown:
        prompt = max(1_000, steps[-1].prompt + by)
        steps.append(Step(prompt=prompt, after=after, bust=bust))
        if opens:
            turns.append(len(steps) - 1)
    one = course(steps, turns=turns)
    for rule in (
        KEEP,
        Rule(kind="trim", soft=soft, hard=soft * 2, target=soft // 3),
        Rule(kind="compact", hard=soft),
    ):
        played = list(play(one, rule, PRICES))
        assert len(played) == len(steps)
        for call, view in zip(one.calls, played, strict=True):
            if rule.kind == "keep":
                assert view.prompt == call.whole
            assert 0 < view.prompt <= call.whole + SUMMARY_TOKENS and view.units > 0
        came_to = total([one], rule, PRICES)
        assert came_to.units == pytest.approx(sum(view.units for view in played))
        assert came_to.peak == max(view.prompt for view in played)


def test_the_advice_is_the_calmest_setting_near_the_cheapest() -> None:
    """Issue 4, part 7: which setting it recommends, and why."""
    long = course(growing(200, 2_000))
    advice = advise([long], PRICES, soft=100_000, hard=160_000, fraction=0.3)
    assert len(advice.grid) == len(THRESHOLDS) * len(FRACTIONS)
    assert advice.keep.peak == 418_000 and advice.keeps_within  # it was answered
    assert advice.best is not None and advice.best.share < advice.compact_share < 1
    most = advice.calls // 25
    calm = [setting.share for setting in advice.grid if setting.total.cuts <= most]
    assert advice.best.share <= min(calm) * 1.02 and advice.best.total.cuts <= most
    peaks = [advice.cell(soft, 0.3).total.peak for soft in THRESHOLDS]
    assert peaks == sorted(peaks) and peaks[0] < 62_001


def test_what_only_trims_kept_within_the_window_is_told() -> None:
    """Issue 4, part 7: peaks; keeping everything may not have been possible at all."""
    steps = [Step(prompt=90_000), *(Step(prompt=90_000, gone=60_000) for _ in range(3))]
    advice = advise([course(steps)], PRICES, soft=100_000, hard=160_000, fraction=0.3)
    assert advice.keep.peak == 270_000 > advice.window == 200_000 and not advice.keeps_within
    assert advice.estimated == 3


def test_short_sessions_get_no_advice() -> None:
    """Ours: advice without a ground would be noise."""
    advice = advise([course(growing(20, 1_000))], PRICES, soft=100_000, hard=160_000, fraction=0.3)
    assert advice.best is None and "60,000" in advice.why
    assert {setting.share for setting in advice.grid} == {1.0}


def test_a_setting_that_is_as_good_is_left_in_force() -> None:
    """Ours: no change for nothing."""
    long = [course(growing(200, 2_000))]
    first = advise(long, PRICES, soft=100_000, hard=160_000, fraction=0.3)
    assert first.best is not None
    again = advise(long, PRICES, soft=first.best.soft, hard=160_000, fraction=first.best.fraction)
    assert again.best is None and "in force" in again.why
