"""How numbers, sizes and lists are said."""

from __future__ import annotations

import pytest

from openmem.base.counts import counted, listed, size_text


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_a_list_reads_as_people_write_it(words: list[str], expected: str) -> None:
    """Ours: "Restart Claude Code and Codex and OpenCode"."""
    assert listed(iter(words)) == expected


def test_one_is_one_and_small_sizes_are_not_nothing() -> None:
    """Ours: `doctor` said 0.0 MB of three sessions."""
    assert (counted(1, "row"), counted(0, "row")) == ("1 row", "0 rows")
    assert [size_text(n) for n in (0, 812, 14_000, 1_200_000_000)] == [
        "0 B", "812 B", "14 kB", "1.2 GB",
    ]  # fmt: skip
