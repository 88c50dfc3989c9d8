"""What a request will cost, from what the provider counted before."""

from __future__ import annotations

from openmem.context.trim.estimate import Weight, estimate, image_tokens
from openmem.context.trim.state import Sample


def test_before_the_first_report_two_and_a_half_characters_are_a_token() -> None:
    """Context store contract, token estimate."""
    assert estimate(Weight(characters=250_000), ()) == 100_000


def test_only_what_is_new_since_the_last_report_is_guessed() -> None:
    """Context store contract: calibrated by reported usage."""
    samples = (Sample(weight=300_000, tokens=100_000),)
    assert estimate(Weight(characters=300_000), samples) == 100_000
    assert estimate(Weight(characters=330_000), samples) == 110_000
    assert estimate(Weight(characters=150_000), samples) == 50_000  # after a trim


def test_new_content_is_priced_like_the_newest_if_that_is_denser() -> None:
    """Measured: a prose prompt made log lines look cheap, and a turn began above the threshold."""
    samples = (Sample(weight=200_000, tokens=50_000), Sample(weight=240_000, tokens=70_000))
    assert estimate(Weight(characters=260_000), samples) == 80_000
    looser = (Sample(weight=200_000, tokens=100_000), Sample(weight=240_000, tokens=105_000))
    assert estimate(Weight(characters=240_000), looser) == 105_000


def test_a_report_about_something_else_is_not_believed() -> None:
    """Ours: fakes and cut replies report odd counts."""
    assert estimate(Weight(characters=250_000), (Sample(weight=250_000, tokens=10),)) == 100_000
    assert estimate(Weight(characters=250_000), (Sample(weight=10, tokens=90_000),)) == 100_000


def test_images_cost_by_their_size() -> None:
    """Users' report 25: by the provider's rule, not by characters."""
    assert image_tokens(0, 0) == 1600
    assert image_tokens(200, 200) == 53
    assert image_tokens(4000, 3000) <= 1600
