"""Huge tool results are shortened to their ends when a trim happens, and name the row of all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.context.trim.pointer import shortened_text
from openmem.context.trim.trimmer import Ask
from tests.fakes.superseding import FORMS, SID, Rows, calls_in, step, trimmer, view_of, work
from tests.fakes.three_wires import WIRES, body_in


@pytest.mark.parametrize("wire", WIRES)
def test_a_huge_result_is_shortened_to_its_ends_and_names_its_row(home: Path, wire: str) -> None:
    """Issue 4, part 2: head, pointer, tail; a pure function of content and settings."""
    text = "".join(f"line {number} of the log\n" for number in range(600))
    moves = work(step("Bash", {"command": "make"}, text), step("Bash", {"command": "ls"}, "short"))
    rows = Rows()
    trim = trimmer(home, rows, superseded=False, compress_tokens=400)
    view = view_of(trim, wire, moves)
    long, short = (result for _, _, result in calls_in(wire, view.body)[:2])
    assert long.startswith("[openmem: ") and long.count("[openmem: …]") == 1
    assert "line 0 of the log" in long and "line 599 of the log" in long
    assert "line 300 of the log" not in long and len(long) < 900
    assert f'smart_compact_get(id="{SID}:{view.rows[0]}")' in long and short == "short"
    again = trimmer(home, Rows(holds=False), compress_tokens=9, superseded=False)
    ask = Ask(sid=SID, body=body_in(wire, moves), may_cut=False)
    assert again.view(FORMS[wire], ask).body == view.body  # as it was decided, whatever is set now
    unstored = trimmer(home / "other", Rows(holds=False), compress_tokens=400)
    assert view_of(unstored, wire, moves).body is not None


_CHARACTERS = st.sampled_from(
    ["a", "\n", "\r\n", "e\u0301",
     "👩\u200d👩\u200d👧", "👍🏽", "🇩🇪", "🏴\U000e0067\U000e0062\U000e007f",
     "\U0001f600", "1\ufe0f\u20e3", "中"]
)  # fmt: skip


@given(st.lists(_CHARACTERS, min_size=40, max_size=120), st.integers(1, 30))
def test_no_character_as_seen_is_cut(pieces: list[str], end: int) -> None:
    """Issue 4, part 2: never inside a surrogate pair, a ZWJ sequence or a flag."""
    text = "".join(pieces)
    short = shortened_text(text, address="s:1", end_characters=end)
    head, _, tail = short.partition("\n")[2].partition("\n[openmem: …]\n")
    assert text.startswith(head) and text.endswith(tail)
    places = {0}
    for piece in pieces:
        places.add(max(places) + len(piece))
    assert len(head) in places or _joins(text, len(head))
    assert len(text) - len(tail) in places or _joins(text, len(text) - len(tail))


def _joins(text: str, at: int) -> bool:
    """Whether a place lies between two flags that stand side by side, which are two characters."""
    run = 0
    while at - 1 - run >= 0 and "\U0001f1e6" <= text[at - 1 - run] <= "\U0001f1ff":
        run += 1
    return run > 0 and run % 2 == 0
