"""From items to what a cut leaves out of them, and back from the stored decision to bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openmem.context.trim.items import Item, NotTrimmable
from openmem.context.trim.pointer import CHARACTERS_PER_TOKEN
from openmem.context.trim.spent.find import find_long, find_superseded, paired
from openmem.context.trim.spent.parts import (
    NOTHING,
    ROW_KIND,
    Body,
    Call,
    Reduced,
    Result,
    Spent,
    Step,
    Told,
)
from openmem.context.trim.spent.plan import newest_state, told_of, told_text
from openmem.context.trim.spent.wire import read_item

_ENDS = 4  # head and tail are each this part of what a result may have

BodyPlace = tuple[int, str, int]  # item, kind of row, which of that kind in the item
FindRows = Callable[[str, Sequence[BodyPlace]], Sequence[int]]
"""(sid, parts) → the row of each that holds it word for word, 0 where none does"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What could be left out of a request, and what must be told again when it goes.

    `bodies`: superseded ones, none where that is switched off, and the middle of huge results, of
    which `end_characters` stay at each end; `state`: the steps of the newest to-do state and plan.
    """

    bodies: tuple[Body, ...] = ()
    state: tuple[Step, ...] = ()
    end_characters: int = 0

    def usable(
        self, items: Sequence[Item], kept: Sequence[int], strip: int, squeeze: int
    ) -> list[Body]:
        """Return the bodies that may go with a cut: of kept items, before the newest steps, and in
        no message that keeps its thinking."""
        shown = set(kept)
        return [
            body
            for body in self.bodies
            if body.item in shown
            and body.item < squeeze
            and not (items[body.item].has_thinking and body.item >= strip)
        ]

    def told_weight(self, kept: Sequence[int]) -> int:
        """Return the characters of what must be told again behind the pointer."""
        return len(told_text(self.state, told_of(self.state, set(kept))))


def prospect(
    form: str, items: Sequence[Item], *, first: int, superseded: bool, long_tokens: int
) -> Prospect:
    """Return what a cut has to choose from. `first`: the first real user turn; what stands before
    it is nobody's to change. `long_tokens`: a result above it is shortened, 0 for none."""
    calls, results = _read(form, items, range(first, len(items)))
    steps = paired(calls, results)
    bodies = find_superseded(steps) if superseded else []
    gone = {(body.item, body.call) for body in bodies if body.part == "output"}
    most = int(long_tokens * CHARACTERS_PER_TOKEN)
    bodies += [
        body
        for body in find_long(results, most, most // _ENDS)
        if (body.item, body.call) not in gone
    ]
    return Prospect(
        bodies=tuple(bodies), state=tuple(newest_state(steps)), end_characters=most // _ENDS
    )


def reduce(
    found: Prospect,
    items: Sequence[Item],
    kept: Sequence[int],
    *,
    sid: str,
    strip: int,
    squeeze: int,
    find_rows: FindRows,
) -> Reduced:
    """Return what a cut with these kept items leaves out: only what is stored word for word."""
    bodies = found.usable(items, kept, strip, squeeze)
    parts = [(body.item, ROW_KIND[body.part], body.place) for body in bodies]
    rows = find_rows(sid, parts) if parts else ()
    spent = tuple(
        Spent(item=body.item, call=body.call, part=body.part, seq=seq, saved=body.saved)
        for body, seq in zip(bodies, rows, strict=True)
        if seq > 0
    )
    told = told_of(found.state, set(kept))
    if not spent and not told:
        return NOTHING
    return Reduced(
        sid=sid,
        spent=spent,
        told=told,
        told_weight=len(told_text(found.state, told)),
        end_characters=found.end_characters,
    )


def text_of_told(form: str, items: Sequence[Item], told: Sequence[Told]) -> str:
    """Return the text behind the pointer, out of the request's own items."""
    numbers = {one.item for one in told} | {one.result for one in told if one.result >= 0}
    if not numbers or max(numbers) >= len(items):
        return ""
    calls, results = _read(form, items, sorted(numbers))
    steps = paired(calls, results)
    complete = {(step.call.item, step.call.id) for step in steps}
    # A list or plan stands in its call alone; its result is not read.
    alone = [
        Step(call=call, result=Result(item=call.item, place=0, id=call.id, text=""))
        for call in calls
        if (call.item, call.id) not in complete
    ]
    return told_text([*steps, *alone], told)


def _read(
    form: str, items: Sequence[Item], numbers: Sequence[int]
) -> tuple[list[Call], list[Result]]:
    calls: list[Call] = []
    results: list[Result] = []
    for number in numbers:
        try:
            some, others = read_item(form, items[number], number)
        except NotTrimmable:
            continue  # it goes out as it came; nothing in it is known to be spent
        calls += some
        results += others
    return calls, results
