"""Which bodies are superseded; a decision over whole steps, in the order of the conversation.

Of each file the newest view (a whole read, or a write) and the newest edit stay whole. What is
older goes. When two edits or more came after the newest view, all but the newest edit go, and the
view with them: without the edits between, it would tell of a file that never was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from openmem.context.trim.spent.marker import MARKER_CHARACTERS
from openmem.context.trim.spent.parts import Body, Call, Part, Result, Step
from openmem.context.trim.spent.tools import Deed, deed_of

_SHORTENED_MORE = 220  # what a shortened result holds beside its two ends
LEAST_CHARACTERS = 2 * MARKER_CHARACTERS  # a shorter body stays: too little would be won
# What a client says instead of showing a file again, and when it did not show all of it.
_NO_VIEW = (
    "File unchanged since last read",
    "Wasted call",
    "<system-reminder>This file is already in your context",
    "[Truncated: PARTIAL view",
)
_LEAST_SHARE = 4  # a newer answer of less than a quarter of the older one is another answer


def paired(calls: Iterable[Call], results: Iterable[Result]) -> list[Step]:
    """Return the complete steps in order. An id that is used again belongs to its newest call."""
    opened: dict[str, Call] = {}
    steps: list[Step] = []
    rest = deque(sorted(calls, key=lambda call: call.item))
    for result in sorted(results, key=lambda result: result.item):
        while rest and rest[0].item < result.item:
            call = rest.popleft()
            opened[call.id] = call
        found = opened.pop(result.id, None)
        if found is not None:
            steps.append(Step(call=found, result=result))
    return sorted(steps, key=lambda step: (step.call.item, step.call.place))


def find_superseded(steps: Sequence[Step]) -> list[Body]:
    """Return the bodies that later steps made worthless."""
    done = [(step, deed_of(step.call)) for step in steps if not step.result.failed]
    outdated = _outdated_files(done)
    asked_again = _asked_again(done)
    last_todo = max((n for n, (_, deed) in enumerate(done) if deed.kind == "todo"), default=-1)
    gone: list[Body] = []
    for at, (step, deed) in enumerate(done):
        is_outdated = bool(deed.paths) and all((at, path) in outdated for path in deed.paths)
        is_old_state = deed.kind == "todo" and at < last_todo
        parts: tuple[Part, ...] = ()
        if is_old_state or (is_outdated and deed.kind in ("edit", "write")):
            parts = ("input", "output")
        elif is_outdated or at in asked_again:
            parts = ("output",)
        gone += [body for part in parts if (body := _body(step, part)) is not None]
    return gone


_Done = Sequence[tuple[Step, Deed]]


def _outdated_files(done: _Done) -> set[tuple[int, str]]:
    """Return what later steps made worthless: (number, file)."""
    by_path: dict[str, list[int]] = {}
    for at, (_, deed) in enumerate(done):
        for path in deed.paths if deed.kind != "look" else ():
            by_path.setdefault(path, []).append(at)
    found: set[tuple[int, str]] = set()
    for path, about in by_path.items():
        edits = [n for n in about if done[n][1].kind in ("edit", "write")]
        newest_edit = edits[-1] if edits else -1
        newest_view = max((n for n in about if _is_view(*done[n])), default=-1)
        after = [n for n in edits if n > newest_view]
        for n in about:
            if n == newest_edit:
                continue
            if n < newest_view:
                is_gone = _shows_as_much(done[n], done[newest_view])
            else:
                is_gone = len(after) >= 2 if n == newest_view else n in after
            if is_gone:
                found.add((n, path))
    return found


def _asked_again(done: _Done) -> set[int]:
    """Return the numbers of looks whose question was asked and answered again later."""
    by_question: dict[str, list[int]] = {}
    for at, (_, deed) in enumerate(done):
        if deed.same:
            by_question.setdefault(deed.same, []).append(at)
    found: set[int] = set()
    for asked in by_question.values():
        answered = [n for n in asked if not _is_no_view(done[n][0].result)]
        for n in answered[:-1]:
            newest = done[answered[-1]][0].result
            if newest.size * _LEAST_SHARE >= done[n][0].result.size:
                found.add(n)
    return found


def find_long(results: Iterable[Result], most_characters: int, end_characters: int) -> list[Body]:
    """Return the results that are longer than that; none for 0."""
    return [
        Body(
            item=result.item,
            place=result.place,
            call=result.id,
            part="long",
            size=result.size,
            left=2 * end_characters + _SHORTENED_MORE,
        )
        for result in results
        if most_characters and result.size > most_characters and not result.has_media
    ]


def _is_view(step: Step, deed: Deed) -> bool:
    return deed.kind == "write" or (deed.kind == "view" and not _is_no_view(step.result))


def _is_no_view(result: Result) -> bool:
    return result.has_media or result.text.lstrip().startswith(_NO_VIEW)


def _shows_as_much(older: tuple[Step, Deed], newer: tuple[Step, Deed]) -> bool:
    """Return whether the newer view can stand for the older one: a file may have been emptied, but
    an answer of a few words is more likely no view of it at all."""
    if older[1].kind != "view" or newer[1].kind != "view":
        return True
    return newer[0].result.size * _LEAST_SHARE >= older[0].result.size


def _body(step: Step, part: Part) -> Body | None:
    source: Call | Result = step.call if part == "input" else step.result
    if source.size < LEAST_CHARACTERS or (part == "output" and step.result.has_media):
        return None
    return Body(
        item=source.item, place=source.place, call=step.call.id, part=part, size=source.size
    )
