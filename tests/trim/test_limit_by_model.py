"""Windows belong to models: what one proved says nothing of another, and a switch fits at once."""

from __future__ import annotations

import os
from pathlib import Path

from openmem.base.paths import Paths
from openmem.context.trim.limits import TrimSettings
from openmem.context.trim.trimmer import Ask, Trimmer
from tests.fakes.superseding import FORMS, KEY, SID, step
from tests.fakes.three_wires import Move, Said, Step, body_in

WINDOWS = {"large": 40_000, "small": 12_800}


def trimmer() -> Trimmer:
    return Trimmer(
        Paths(os.environ), KEY, TrimSettings(), WINDOWS, count_masked=lambda sid, numbers: 0
    )


def turns(count: int) -> list[Move]:
    moves: list[Move] = []
    for number in range(count):
        moves += [
            Said(pieces=[f"task {number}"]),
            step("Bash", {"command": f"make {number}"}, "a line of output\n" * 250),
            Step(say=["done"]),
        ]
    return [*moves, Said(pieces=["and now?"])]


def test_the_first_request_after_a_switch_to_a_smaller_window_fits(home: Path) -> None:
    """Issue 4, part 3; facts of another system, scenario S12."""
    trim, form = trimmer(), FORMS["messages"]
    on_large = body_in("messages", turns(8), model="large")
    before = trim.view(form, Ask(sid=SID, body=on_large, now=1.0))
    assert before.body is None and before.tokens_before > WINDOWS["small"]
    trim.report(SID, before.thread, before.weight, before.tokens_before)
    moves = [*turns(8), Step(say=["yes"]), Said(pieces=["go on"])]
    on_small = body_in("messages", moves, model="small")
    after = trim.view(form, Ask(sid=SID, body=on_small, now=2.0))
    assert after.made_cut and after.tokens_after < WINDOWS["small"] * 0.8


def test_a_limit_that_one_model_proved_is_not_anothers(home: Path) -> None:
    """Issue 4, part 3: limit per model, corrected by a 400's own words."""
    trim, form = trimmer(), FORMS["messages"]
    body = body_in("messages", turns(1), model="small")
    view = trim.view(form, Ask(sid=SID, body=body, now=1.0))
    trim.learn_limit(SID, view.thread, 8_000, "small")
    state = trimmer().state_of(SID, view.thread)  # as another process reads it
    assert trim.thresholds("small", 0, state).window == 8_000
    assert trim.thresholds("small", 0, state).proven
    other = trim.thresholds("large", 0, state)
    assert (other.window, other.proven) == (40_000, False)
    trim.report(SID, view.thread, view.weight, 9_000)  # a success above it disproves it
    assert trim.thresholds("small", 0, trim.state_of(SID, view.thread)).window == 12_800


def test_a_proven_limit_lowers_from_where_the_proxy_has_to_ask(home: Path) -> None:
    """Ours: a hint of the assumed window would let every later request pass unasked."""
    trim, form = trimmer(), FORMS["messages"]
    view = trim.view(form, Ask(sid=SID, body=body_in("messages", turns(1), model="large"), now=1.0))
    assert trim.soft_tokens(SID, "large") == 20_000
    trim.learn_limit(SID, view.thread, 8_000, "large")
    assert trim.soft_tokens(SID, "large") == 4_000
    assert trim.soft_tokens(SID, "small") == 6_400 and trim.soft_tokens("other", "large") == 20_000


def test_an_overflow_without_a_number_only_ever_lowers_the_window(home: Path) -> None:
    """Ours: what was sent bounds the window where the provider counted before, and only then."""
    trim, form = trimmer(), FORMS["messages"]
    view = trim.view(form, Ask(sid=SID, body=body_in("messages", turns(1), model="large"), now=1.0))

    def window() -> int:
        return trim.thresholds("large", 0, trim.state_of(SID, view.thread)).window

    trim.learn_overflow(SID, view.thread, 30_000, "large")
    assert window() == 40_000  # nothing was counted yet
    trim.learn_overflow(SID, view.thread, 30_000, "large", otherwise=36_000)
    assert window() == 36_000
    trim.report(SID, view.thread, view.weight, view.tokens_before)
    for tokens, expected in ((50_000, 36_000), (0, 36_000), (30_000, 30_000), (35_000, 30_000)):
        trim.learn_overflow(SID, view.thread, tokens, "large")
        assert window() == expected
    trim.report(SID, view.thread, view.weight, 31_000)  # a success above it disproves it
    assert window() == 40_000
