"""A pattern over sessions: exact line counts, captures grouped, and an end whatever the pattern."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.errors import Usage
from openmem.context.sandbox.literal import needed_literal
from openmem.context.sandbox.pattern import Filters, Source, find_lines
from tests.fakes.session_v3 import OldRow, write_old_session

EVERYTHING = Filters(roles=(), include_echo=True)


def source(folder: Path, rows: list[OldRow], name: str = "s1", version: int = 3) -> Source:
    path = write_old_session(folder / f"{name}.db", rows, version=version)
    return Source(path=str(path), session_id=name)


LOG = [
    OldRow(role="user", text="svc=api ERROR 1\nsvc=web ERROR 2\nsvc=api ok"),
    OldRow(role="assistant", text="svc=api ERROR 1"),
    OldRow(role="tool", kind="tool_result", name="Bash", text="svc=api ERROR 3\r\nERROR", ),
    OldRow(role="tool", kind="tool_result", name="mcp__openmem__smart_compact_search",
           text="svc=api ERROR 1"),
    OldRow(role="user", text="[openmem: continuing session x]\nsvc=api ERROR 1"),
    OldRow(role="user", text="svc=db ERROR 9", in_context=False),
]  # fmt: skip


def test_lines_are_counted_as_grep_does_and_rows_come_newest_first(tmp_path: Path) -> None:
    """Context store contract, Search: `^` and `$` per line, as `grep -c`."""
    found = find_lines([source(tmp_path, LOG)], r"^svc=\w+ ERROR \d$", Filters(), limit=8)
    assert found.line_matches == 4 and found.row_matches == 3
    assert [(row.seq, row.lines) for row in found.rows] == [
        (6, ((1, "svc=db ERROR 9"),)),
        (3, ((1, "svc=api ERROR 3\r"),)),
        (1, ((1, "svc=api ERROR 1"), (2, "svc=web ERROR 2"))),
    ]
    assert not found.timed_out and found.skipped == ()


def test_assistant_rows_and_our_own_results_count_only_when_asked_for(tmp_path: Path) -> None:
    """Issue 3, part 1: the echo rule; the earlier system's counts were wrong by it."""
    session = source(tmp_path, LOG)
    assert find_lines([session], "ERROR 1", Filters(), limit=8).line_matches == 1
    with_echo = find_lines([session], "ERROR 1", Filters(include_echo=True), limit=8)
    assert with_echo.line_matches == 3
    assistant = find_lines([session], "ERROR 1", Filters(roles=("assistant",)), limit=8)
    assert [row.seq for row in assistant.rows] == [2]
    assert find_lines([session], "ERROR 1", EVERYTHING, limit=8).line_matches == 4


def test_the_filter_on_context_separates_removed_rows(tmp_path: Path) -> None:
    """Context store contract, Search."""
    session = source(tmp_path, LOG)
    removed = find_lines([session], "ERROR", Filters(in_context=False), limit=8)
    assert [row.seq for row in removed.rows] == [6] and removed.line_matches == 1
    kept = find_lines([session], "ERROR", Filters(in_context=True), limit=8)
    assert kept.line_matches == 4


def test_lines_are_grouped_by_what_the_pattern_captured(tmp_path: Path) -> None:
    """Issue 3, part 1: the `count` form, so that a model needs no SQL for the common question."""
    found = find_lines(
        [source(tmp_path, LOG)], r"svc=(\w+) (?:ERROR|ok)( \d)?", Filters(), limit=0, group=True
    )
    assert found.groups == (
        (("api", ""), 1),
        (("api", " 1"), 1),
        (("api", " 3"), 1),
        (("db", " 9"), 1),
        (("web", " 2"), 1),
    )
    assert found.rows == () and found.line_matches == 5
    by_service = find_lines(
        [source(tmp_path, LOG, "s2")], r"svc=(\w+)", Filters(), limit=0, group=True
    )
    assert by_service.groups == ((("api",), 3), (("db",), 1), (("web",), 1))


def test_a_pattern_that_crosses_a_line_end_is_tried_on_whole_rows(tmp_path: Path) -> None:
    """Ours: per line it could never match, and would say 0 for what is there."""
    session = source(tmp_path, LOG)
    assert find_lines([session], r"ERROR 1\nsvc=web", Filters(), limit=8).line_matches == 1
    assert find_lines([session], r"(?s)ERROR 1.*api ok$", Filters(), limit=8).row_matches == 1
    found = find_lines([session], r"^svc[\s\S]", Filters(), limit=8)
    assert found.line_matches == 5  # each line that begins a match, not each row


def test_several_sessions_are_searched_in_the_order_given(tmp_path: Path) -> None:
    """Ours: the caller puts the newest first."""
    sources = [source(tmp_path, LOG[:1], "new"), source(tmp_path, LOG[:1], "old", version=1)]
    found = find_lines(sources, "ok$", Filters(), limit=1)
    assert [row.session_id for row in found.rows] == ["new"] and found.row_matches == 2


def test_a_file_that_cannot_be_read_is_named_and_hides_nothing(tmp_path: Path) -> None:
    """Facts, oddities: one bad session must never hide the rest."""
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database" * 500)
    sources = [
        Source(path=str(broken), session_id="broken"),
        Source(path=str(tmp_path / "absent.db"), session_id="absent"),
        source(tmp_path, LOG),
    ]
    found = find_lines(sources, "ERROR", Filters(), limit=8)
    assert found.line_matches == 5
    assert [text.split()[1] for text in found.skipped] == ["broken", "absent"]
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a(b", "character 2: missing )"),
        ("[a", "character 1: unterminated character set"),
        ("a**", "character 3: multiple repeat"),
        ("a{9999999999999}", "does not compile"),
        ("", "empty"),
        ("a" * 201, "201 characters long"),
    ],
)
def test_a_pattern_that_does_not_compile_is_told_with_its_place(
    tmp_path: Path, pattern: str, said: str
) -> None:
    """Issue 3, bad input."""
    with pytest.raises(Usage, match=re.escape(said)):
        find_lines([source(tmp_path, LOG)], pattern, Filters(), limit=8)


HARD = {
    "nested repeats": (r"(a+)+$", "a" * 40 + "b"),
    "alternatives": (r"(a|aa)+$", "a" * 60 + "b"),
    "quadratic scan": (r"[a-y]*[a-y]*[a-y]*[z0]", "a" * 20_000),
    "back reference": (r"(a*)*\1[b0]$", "a" * 60),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", HARD)
def test_a_hard_pattern_ends_with_the_count_so_far_and_a_flag(tmp_path: Path, name: str) -> None:
    """Issue 3, show it."""
    pattern, text = HARD[name]
    easy = OldRow(role="user", text="b\n" * 3 + ("z" if "z" in pattern else "ab"))
    rows = [OldRow(role="user", text=text), easy]
    found = find_lines([source(tmp_path, rows)], pattern, Filters(), limit=8)
    assert found.timed_out


def test_what_was_found_before_the_time_was_up_is_kept(tmp_path: Path) -> None:
    """Context store contract, Search: the response carries the partial count and the flag."""
    rows = [
        OldRow(role="user", text="a" * 50 + "b"),
        OldRow(role="user", text="a1\na2"),
    ]
    found = find_lines([source(tmp_path, rows)], r"^a\d$|(a+)+c", Filters(), limit=8)
    assert found.timed_out and found.line_matches == 2
    assert [row.seq for row in found.rows] == [2]


def test_a_long_line_is_searched_in_its_head_and_that_is_said(tmp_path: Path) -> None:
    """Context store contract, Search: the first 20,000 characters of a line."""
    rows = [OldRow(role="user", text="x" * 19_999 + "y" + "z")]
    session = source(tmp_path, rows)
    assert find_lines([session], "y", Filters(), limit=8).line_matches == 1
    found = find_lines([session], "z", Filters(), limit=8)
    assert (found.line_matches, found.long_lines) == (0, 1)


def test_of_a_long_line_the_part_with_the_match_is_shown(tmp_path: Path) -> None:
    """Ours: an excerpt without what was looked for tells nothing."""
    line = "x" * 9_000 + "KEY-7" + "y" * 9_000
    session = source(tmp_path, [OldRow(role="user", text=f"{line}\nKEY-7 short")])
    for pattern in ("KEY-7", r"(?s)KEY-7"):
        ((first, second),) = [
            row.lines for row in find_lines([session], pattern, Filters(), limit=1).rows
        ]
        assert second == (2, "KEY-7 short")
        assert len(first[1]) <= 2_000 and "xKEY-7y" in first[1]
        assert first[1].startswith("…x") and first[1].endswith("y…")


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("KEY-7", "KEY-7"),
        (r"svc=(\w+) ERROR", " ERROR"),
        (r"^(2026)-01", "2026-01"),
        ("(?i)error", ""),
        ("(?i:error) at", " at"),
        ("error|warning", ""),
        ("(error|warning) at", " at"),
        ("ab*cd", "cd"),
        ("(abc)?de", "de"),
        ("(?!abc)d", "d"),
        ("a{3}bc", "bc"),
        (r"\d+", ""),
    ],
)
def test_what_every_match_must_hold_is_read_from_the_pattern(pattern: str, literal: str) -> None:
    """Ours: too much here would lose lines; the count against a plain loop holds it as well."""
    assert needed_literal(re.compile(pattern)) == literal


_TEXTS = st.lists(st.text(alphabet="ab1 \r\n悬🎉é", max_size=12), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow,
          HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    _TEXTS,
    st.sampled_from(["^a", "b$", "[ab]1", "悬|🎉", r"\d", "^$", "é ", "a(b)1", "b +", "1(?:ab)"]),
)
def test_the_count_is_that_of_a_plain_loop(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], pattern: str
) -> None:
    """Ours: counts are what the agent answers with."""
    folder = tmp_path_factory.mktemp("count")
    rows = [OldRow(role="user", text=text) for text in texts]
    lines = [line for text in texts for line in text.split("\n")]
    plain = sum(bool(re.search(pattern, line.removesuffix("\r"))) for line in lines)
    assert find_lines([source(folder, rows)], pattern, EVERYTHING, limit=0).line_matches == plain
