"""The course of a thread as it is read back from a session's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmem.context.report.course import courses_of
from openmem.context.store.database import legacy_file
from openmem.context.store.reader import open_session
from tests.fakes.courses import BEGAN, Sessions, Step, growing
from tests.fakes.session_v3 import OldRow, write_old_session

SID = "7f3a0c44-1111-4111-8111-000000000091"


@pytest.fixture
def sessions(home: Path) -> Sessions:
    return Sessions(home)


def test_what_a_trim_took_out_is_put_back_until_the_history_begins_anew(
    sessions: Sessions,
) -> None:
    """Issue 4, part 7: replays sessions that were trimmed as if they had not been."""
    steps = [
        Step(prompt=100_000),
        Step(prompt=40_000, read=20_000, gone=70_000),
        Step(prompt=50_000, read=40_000, trimmed=1),
        Step(prompt=45_000, read=20_000, gone=15_000),
        Step(prompt=46_000, read=45_000, trimmed=1),
        Step(prompt=22_000, bust="messages"),
        Step(prompt=23_000, read=22_000, trimmed=1),
    ]
    sessions.record(SID, steps)
    sessions.close()
    with open_session(sessions.paths, SID) as reader:
        (course,) = courses_of(reader)
    wholes = [call.whole for call in course.calls]
    assert wholes == [100_000, 110_000, 120_000, 130_000, 131_000, 22_000, 23_000]
    assert course.removed == 85_000 and course.kind == "main"
    assert course.busts == {"trim": 2, "messages": 1}
    assert [mark.kind for mark in course.marks] == ["trim", "trim"]


def test_a_request_that_went_whole_once_loses_nothing_of_the_sum(sessions: Sessions) -> None:
    """Issue 4, part 5: a trimmed thread may fail open to the full history."""
    sessions.record(
        SID,
        [
            Step(prompt=100_000),
            Step(prompt=40_000, gone=65_000),
            Step(prompt=106_000),
            Step(prompt=42_000, trimmed=1),
        ],
    )
    sessions.close()
    with open_session(sessions.paths, SID) as reader:
        (course,) = courses_of(reader)
    assert [call.whole for call in course.calls] == [100_000, 105_000, 106_000, 107_000]


def test_threads_are_apart_and_a_fault_goes_to_the_main_one(sessions: Sessions) -> None:
    """Screens, context status: sub-agents beside the session."""
    sessions.record(SID, growing(3, 1_000))
    sessions.record(SID, growing(2, 500, first=9_000), agent_id="a1")
    sessions.fault(SID, BEGAN + 25)
    sessions.close()
    with open_session(sessions.paths, SID) as reader:
        main, sub = courses_of(reader)
    assert (main.kind, len(main.calls), main.agent_id) == ("main", 3, "")
    assert (sub.kind, len(sub.calls), sub.agent_id) == ("sub-agent", 2, "a1")
    (mark,) = main.marks
    assert (mark.kind, mark.call, mark.words) == ("fail_open", 2, "TooLate at proxy/exchange.py:7")
    assert sub.marks == []


def test_a_session_with_faults_only_has_a_thread_without_calls(sessions: Sessions) -> None:
    """Ours: a fault must be seen although nothing came through."""
    sessions.record(SID, [])
    sessions.fault(SID, BEGAN)
    sessions.close()
    with open_session(sessions.paths, SID) as reader:
        (course,) = courses_of(reader)
    assert course.calls == [] and course.marks[0].kind == "fail_open"
    assert course.hit_rate is None and course.model == "" and course.peak == 0


@pytest.mark.parametrize(
    ("idle", "read", "ttl"), [(400, 19_000, 3_600), (400, 2_000, 300), (200, 19_000, 300)]
)
def test_how_long_the_cache_lived_is_told_by_what_was_still_read(
    sessions: Sessions, idle: float, read: int, ttl: float
) -> None:
    """Newest-models facts 1.6: five minutes, or an hour for who pays for it."""
    sessions.record(SID, [Step(prompt=20_000), Step(prompt=21_000, read=read, after=idle)])
    sessions.close()
    with open_session(sessions.paths, SID) as reader:
        (course,) = courses_of(reader)
    assert course.ttl_seconds == ttl


def test_a_file_of_an_earlier_version_is_read_too(sessions: Sessions) -> None:
    """Design, section 6: files of versions 1 to 3."""
    write_old_session(Path(legacy_file(sessions.paths, "old")), [OldRow(role="user", text="a")])
    sessions.close()
    with open_session(sessions.paths, "old") as reader:
        assert all(course.calls == [] for course in courses_of(reader))
