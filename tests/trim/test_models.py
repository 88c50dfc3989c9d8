"""What is known of models: the shipped table reads, and the longest name wins."""

from __future__ import annotations

from openmem.context.models import Model, load_models, model_of
from openmem.context.trim.limits import (
    TrimSettings,
    limit_in,
    thresholds_of,
    window_of,
)


def test_the_shipped_table_reads_and_the_longest_name_wins() -> None:
    """Decision table: the limit from the model named in the request."""
    models = load_models()
    assert model_of("claude-opus-5-5-20261101", models).read == 0.05
    assert model_of("anthropic/claude-sonnet-4-5", models).window == 200_000
    assert model_of("something-else", models) == Model()
    windows = {name: model.window for name, model in models.items()}
    assert window_of("claude-sonnet-4-5[1m]", windows, 0) == 1_000_000
    assert window_of("gpt-5.1-codex", windows, 0) == 272_000
    assert window_of("gpt-5.1-codex", windows, 128_000) == 128_000
    assert window_of("unheard-of", windows, 0) == 200_000


def test_thresholds_follow_the_window_and_the_output_reserve() -> None:
    """Design, section 7: defaults."""
    usual = thresholds_of(200_000, 32_000, TrimSettings(), False)
    assert (usual.soft, usual.hard, usual.target) == (100_000, 144_000, 30_000)
    small = thresholds_of(32_000, 128_000, TrimSettings(), False)
    assert small.soft == 16_000 and small.hard == int((32_000 - 3_200) * 0.8)
    large = thresholds_of(1_000_000, 64_000, TrimSettings(), False)
    assert (large.soft, large.hard) == (100_000, 160_000)
    asked = thresholds_of(200_000, 0, TrimSettings(soft_tokens=500_000), False)
    assert asked.soft == asked.hard == 160_000  # never beyond what fits


def test_a_refusal_names_the_window() -> None:
    """Decision table: corrected by a 400's own words."""
    assert limit_in("prompt is too long: 210000 tokens > 200000 maximum") == 200_000
    assert limit_in("This model's maximum context length is 128,000 tokens.") == 128_000
    assert limit_in("messages.3: tool_use ids were found without tool_result") == 0
