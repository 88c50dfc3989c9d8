"""The course of one thread: its model calls in order, with what trims had taken out by then."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from openmem.base.clock import seconds_of
from openmem.context.store.reader import SessionReader, StoredEvent, damaged
from openmem.context.store.schema import VERSION

_SHORT_SECONDS, _LONG_SECONDS = 300.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One model call. Tokens as the provider reported them; `at`: POSIX seconds of its end.

    `removed`: what trims (an estimate) and the provider's clearing had taken out of this prompt.
    `trim`: 0 untrimmed, 1 behind an earlier cut, 2 with a new one. `bust`: why the provider could
    not reuse the prefix, "" when it could. `kept`: share of the previous prompt that this one kept,
    None when not known. `opens_turn`: a person said something new.
    """

    at: float
    model: str = ""
    uncached: int = 0
    read: int = 0
    written: int = 0
    output: int = 0
    removed: int = 0
    trim: int = 0
    bust: str = ""
    kept: float | None = None
    opens_turn: bool = True

    @property
    def prompt(self) -> int:
        return self.uncached + self.read + self.written

    @property
    def whole(self) -> int:
        """The prompt as it would have been without any trim."""
        return self.prompt + self.removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened between calls. `call`: number of the call it belongs to.

    `kind`: trim, clearing, fail_open, compaction. `words`: a trim's cause, or a fault's kind and
    place.
    """

    call: int
    at: float
    kind: str
    words: str = ""
    before: int = 0
    after: int = 0
    dropped: int = 0


@dataclass(slots=True, kw_only=True)
class Course:
    """One thread. `kind`: main, sub-agent, side; "" where a file does not say."""

    session_id: str
    thread: str
    kind: str = ""
    agent_id: str = ""
    calls: list[Call] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def model(self) -> str:
        """The model of the last call."""
        return self.calls[-1].model if self.calls else ""

    @property
    def peak(self) -> int:
        return max((call.prompt for call in self.calls), default=0)

    @property
    def removed(self) -> int:
        """Tokens that trims took out, all together."""
        return sum(mark.before - mark.after for mark in self.marks if mark.kind == "trim")

    @property
    def cleared(self) -> int:
        """Tokens that the provider left out of one request by itself, at most."""
        return max((m.before - m.after for m in self.marks if m.kind == "clearing"), default=0)

    @property
    def hit_rate(self) -> float | None:
        """Share of all prompt tokens that came from the cache, None without any."""
        total = sum(call.prompt for call in self.calls)
        return sum(call.read for call in self.calls) / total if total else None

    @property
    def busts(self) -> dict[str, int]:
        """Cause → how often."""
        found: dict[str, int] = {}
        for call in self.calls:
            if call.bust:
                found[call.bust] = found.get(call.bust, 0) + 1
        return found

    @property
    def ttl_seconds(self) -> float:
        """How long the provider kept this thread's prefix, told by what it still read.

        An hour when a call after more than five minutes still read most of what was there.
        """
        for last, call in zip(self.calls, self.calls[1:], strict=False):
            idle = call.at - last.at
            if _SHORT_SECONDS < idle <= _LONG_SECONDS and call.read * 2 > last.prompt > 0:
                return _LONG_SECONDS
        return _SHORT_SECONDS


def courses_of(reader: SessionReader, *, with_turns: bool = True) -> list[Course]:
    """Return a session's threads that made calls, in the order of their first one.

    `with_turns`: look up when a person spoke, which reads the rows too; else every call is taken
    for a new turn. StoreUnavailable when the file turns out to be damaged.
    """
    known = _threads(reader)
    turns = _turn_times(reader) if with_turns else {}
    courses: dict[str, Course] = {}
    gone: dict[str, _Gone] = {}
    loose: list[StoredEvent] = []
    for event in reader.events():
        root = str(event.values.get("thread_root", ""))
        if not root and event.kind != "usage":
            loose.append(event)  # a fault of ours that knew its session only
            continue
        kind, agent_id = known.get(root, ("", ""))
        course = courses.setdefault(
            root,
            Course(session_id=reader.session_id, thread=root, kind=kind, agent_id=agent_id),
        )
        if event.kind == "usage":
            _add_call(course, event, gone, turns.get(root))
        else:
            mark = _mark(event, len(course.calls))
            course.marks.append(mark)
            out = gone.setdefault(root, _Gone())
            if mark.kind == "trim":
                # What the provider cleared went with the rest, or is told of anew.
                out.by_trims += max(0, mark.before - mark.after) + out.by_provider
                out.by_provider = 0
            elif mark.kind == "clearing":
                out.by_provider = max(0, mark.before - mark.after)
    found = list(courses.values())
    if loose:
        _attach(found, loose, reader.session_id)
    return found


def _attach(courses: list[Course], loose: list[StoredEvent], session_id: str) -> None:
    """Give events of no thread to the main one, each at its time."""
    main = next((course for course in courses if course.kind == "main"), None)
    if main is None:
        main = Course(session_id=session_id, thread="", kind="main")
        courses.insert(0, main)
    times = [call.at for call in main.calls]
    for event in loose:
        main.marks.append(_mark(event, bisect_right(times, _seconds(event.at))))
    main.marks.sort(key=lambda mark: mark.call)


@dataclass(slots=True)
class _Gone:
    """Tokens that the prompts of a thread lack by now."""

    by_trims: int = 0
    by_provider: int = 0


def _add_call(
    course: Course, event: StoredEvent, gone: dict[str, _Gone], turns: list[float] | None
) -> None:
    values = event.values
    last = course.calls[-1] if course.calls else None
    call = Call(
        at=_seconds(event.at),
        model=str(values.get("model", "")),
        uncached=_number(values, "input_tokens"),
        read=_number(values, "cache_read_tokens"),
        written=_number(values, "cache_creation_tokens"),
        output=_number(values, "output_tokens"),
        trim=_number(values, "trimmed"),
        bust=str(values.get("bust", "")),
        kept=_kept(values),
        opens_turn=_opens_turn(turns, last.at if last else 0.0, _seconds(event.at)),
    )
    if not call.prompt:
        return  # nothing was reported: an answer that broke off
    out = gone.get(course.thread, _Gone())
    removed = out.by_provider + (out.by_trims if call.trim else 0)
    is_shorter = last is not None and (call.prompt + removed) * 5 < last.whole * 4
    if is_shorter and not call.trim:
        # The client itself begins anew: what was trimmed is not in this history any more.
        gone[course.thread] = _Gone()
        removed = 0
    course.calls.append(replace(call, removed=removed) if removed else call)


def _mark(event: StoredEvent, call: int) -> Mark:
    values = event.values
    words = str(values.get("error", ""))
    if event.kind == "fail_open":
        words = f"{words} at {values.get('location', 'an unknown place')}".strip()
    return Mark(
        call=call,
        at=_seconds(event.at),
        kind=event.kind,
        words=words,
        before=_number(values, "tokens_before"),
        after=_number(values, "tokens_after"),
        dropped=_number(values, "dropped"),
    )


def _threads(reader: SessionReader) -> dict[str, tuple[str, str]]:
    if reader.version < VERSION:
        return {}
    try:
        found = reader.connection.execute("SELECT thread, kind, agent_id FROM threads").fetchall()
    except sqlite3.Error as error:
        raise damaged(reader.entry, error) from error
    return {str(thread): (str(kind), str(agent_id)) for thread, kind, agent_id in found}


def _turn_times(reader: SessionReader) -> dict[str, list[float]]:
    """Return for each thread when a person said something, in order."""
    if reader.version < VERSION:
        return {}
    try:
        found = reader.connection.execute(
            "SELECT thread, created_at FROM messages WHERE role = 'user' AND kind = 'text'"
            " ORDER BY seq"
        ).fetchall()
    except sqlite3.Error as error:
        raise damaged(reader.entry, error) from error
    times: dict[str, list[float]] = {}
    for thread, at in found:
        times.setdefault(str(thread), []).append(_seconds(str(at)))
    return times


def _opens_turn(turns: list[float] | None, since: float, until: float) -> bool:
    """Return whether something was said between two calls; True where nothing is known of it."""
    if turns is None:
        return True
    first = bisect_right(turns, since) if since else 0
    return first < len(turns) and turns[first] <= until


def _kept(values: Mapping[str, object]) -> float | None:
    kept, before = values.get("prefix_kept"), values.get("prefix_bytes")
    if not isinstance(kept, int) or not isinstance(before, int) or before <= 0:
        return None
    return min(1.0, kept / before)


def _number(values: Mapping[str, object], name: str) -> int:
    found = values.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def _seconds(at: str) -> float:
    try:
        return seconds_of(at)
    except ValueError:
        return 0.0  # a file of another writer may hold no time of ours
