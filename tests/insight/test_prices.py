"""Price files and factors."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmem.base.errors import InvalidConfig
from openmem.context.prices import OUTPUT_FACTOR, load_prices

WHOLE = """
[models."claude"]
input = 5
output = 25.0
cache_read = 0.5
cache_write = 6.25
cache_write_1h = 10
[models."claude-haiku"]
input = 1.0
"""


def test_without_a_file_there_are_factors_and_no_money() -> None:
    """Issue 4, part 7: the provider's cache prices; money only where the person gives it."""
    prices = load_prices()
    assert not prices.know_money
    fable = prices.of("anthropic/claude-fable-5-1")
    assert (fable.read, fable.write, fable.output) == (0.025, 1.25, OUTPUT_FACTOR)
    assert fable.money(1e6) is None


def test_a_file_gives_dollars_and_overrules_the_factors(tmp_path: Path) -> None:
    """Issue 4, part 7: `--price-file`; the longest known beginning of a name counts."""
    path = tmp_path / "prices.toml"
    path.write_text(WHOLE)
    prices = load_prices(str(path))
    assert prices.know_money
    opus = prices.of("claude-opus-4-6")
    assert (opus.read, opus.write, opus.write_1h, opus.output) == (0.1, 1.25, 2.0, 5.0)
    assert opus.money(1_000_000) == 5.0
    haiku = prices.of("claude-haiku-4-5")
    assert (haiku.dollars, haiku.read, haiku.output) == (1.0, 0.1, OUTPUT_FACTOR)
    assert prices.of("gpt-6.2-sol").dollars is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("models = 3", "expected tables"),
        ("", "expected tables"),
        ("[models]\n", "expected tables"),
        ('[models."m"]\noutput = 3', "input is missing"),
        ('[models."m"]\ninput = 0', "input is missing"),
        ('[models."m"]\ninput = "5"', "models.m.input"),
        ('[models."m"]\ninput = true', "models.m.input"),
        ('[models."m"]\ninput = nan', "models.m.input"),
        ('[models."m"]\ninput = inf', "models.m.input"),
        ('[models."m"]\ninput = -1', "models.m.input"),
        ('[models."m"]\ninput = 1\nread = 3', "'read'; known are input"),
        ("[models]\nm = 3", "models.m is not a table"),
        ('[models."m"]\ninput = 1\n[more]\na = 1', "nothing else"),
        ("[models", "does not parse"),
        ("\udcff", "does not parse"),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_key(tmp_path: Path, text: str, named: str) -> None:
    """Design, section 4: untrusted input is decoded by functions that name file and key."""
    path = tmp_path / "prices.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidConfig) as caught:
        load_prices(str(path))
    assert named in caught.value.message and "prices.toml" in caught.value.message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """House style, errors: what happened, to which thing."""
    with pytest.raises(InvalidConfig, match=r"nowhere\.toml cannot be read"):
        load_prices(str(tmp_path / "nowhere.toml"))
