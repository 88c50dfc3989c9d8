"""Search by pattern: the same page, filters and scope; always an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmem.base.errors import Usage
from openmem.base.paths import Paths
from openmem.context.search.engine import search
from openmem.context.search.query import Page, Query, Scope
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import incoming, reply, result, user


def look(paths: Paths, pattern: str, **options: object) -> Page:
    return search(paths, Query(pattern=pattern, **options), Scope(all_workspaces=True))  # type: ignore[arg-type]


def test_lines_are_counted_as_grep_does(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Search: `^` and `$` per line; exact `line_matches`."""
    recorder.record_request(
        "s", incoming([user("KEY-0042 red\nkey-0042\n KEY-0042"), reply("KEY-0042"),
                       result("KEY-0007 blue\nKEY-0042 green")]),
    )  # fmt: skip
    page = look(paths, r"^KEY-0042 \w+$", context=1)
    assert (page.total_matches, page.line_matches, page.mode) == (2, 2, "lexical")
    assert [(hit.seq, hit.excerpt) for hit in page.hits] == [
        (3, "KEY-0042 green"), (1, "KEY-0042 red"),
    ]  # fmt: skip
    assert [n.excerpt for n in page.hits[0].before] == ["KEY-0042"]
    assert look(paths, "KEY-0042", roles=("assistant",)).line_matches == 1


def test_captures_are_counted(recorder: Recorder, paths: Paths) -> None:
    """Issue 3, part 1: lines that match, grouped by a capture."""
    recorder.record_request("s", incoming([user("a=1\nb=2\na=3")]))
    page = look(paths, r"^(\w)=", group=True)
    assert page.groups == ((("a",), 2), (("b",), 1))


def test_a_hard_pattern_ends_with_a_flag(recorder: Recorder, paths: Paths) -> None:
    """Issue 3: a hard regex ends within 1.5 s with a flag. No clock here: it ends at all."""
    recorder.record_request("s", incoming([user("a" * 5_000 + "!")]))
    assert look(paths, r"(a+)+$").timed_out


def test_a_pattern_that_does_not_compile_is_refused_with_its_place(
    recorder: Recorder, paths: Paths
) -> None:
    """Issue 3, bad input: the place in it."""
    recorder.record_request("s", incoming([user("x")]))
    with pytest.raises(Usage) as caught:
        look(paths, "a(b")
    assert "character 2" in caught.value.message


def test_a_resting_session_keeps_its_one_file(recorder: Recorder, paths: Paths) -> None:
    """Ours: a search changes nothing on disk."""
    recorder.record_request("s", incoming([user("needle")]))
    recorder.close()
    assert look(paths, "ne+dle").total_matches == 1
    assert [path.name for path in Path(paths.sessions_dir).iterdir()] == ["s.v4.db"]
