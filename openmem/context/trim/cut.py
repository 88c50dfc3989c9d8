"""Where to cut: the decision a trim makes, over items only.

The cut is the earliest real user turn from which on the view fits the target, else the last one;
a last turn that alone is too large loses the oldest steps of its own loop (the gap). Nothing that
is kept shares a tool call with anything that is dropped.
Source: context-store contract, Trim; decision table in docs/explanation/trim.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from openmem.context.trim.items import Envelope, Item
from openmem.context.trim.state import Cut
from openmem.context.trim.view import kept_order

Pairs = Sequence[tuple[int, int]]
"""(item of a call, item of its result)"""

Price = Callable[[Sequence[int], int, int], int]
"""(kept item numbers, strip, squeeze) → estimated tokens of the whole view"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a trim is to reach. `keep_turns`: turns that the person wants kept, 0 for no wish."""

    target: int
    keep_steps: int
    keep_turns: int = 0


def plan_cut(
    envelope: Envelope, items: Sequence[Item], previous: Cut | None, wish: Wish, price: Price
) -> Cut | None:
    """Return the next cut, without pointer and anchor digest; None when nothing can go."""
    turns = [n for n, item in enumerate(items) if item.kind == "turn"]
    if not turns:
        return None
    first = turns[0]
    strip, squeeze = _strip_at(envelope, items, turns), _squeeze_at(items, wish.keep_steps)
    pairs = pairs_of(items)
    floor = previous.turn if previous else -1
    later = [turn for turn in turns if turn > max(floor, first)]
    if wish.keep_turns:
        later = [turn for turn in later if turn <= turns[-min(wish.keep_turns, len(turns))]][-1:]
    best: Cut | None = None
    for turn in later:
        cut = _cut_at(items, pairs, first, turn, strip, squeeze)
        if cut is None or cut.dropped == 0:
            continue
        best = cut
        if price(kept_order(cut, items), strip, squeeze) <= wish.target:
            return cut
    last = best.turn if best else (previous.turn if previous else turns[-1])
    if last != turns[-1] or wish.keep_turns:
        return best
    base = best or _cut_at(items, pairs, first, last, strip, squeeze)
    if base is None:
        return None
    usable = steps_of(items, base.gap_start)
    if _is_budget_loop(envelope, items):
        usable = [start for start in usable if items[start].opens_with_thinking]
    gapped = _with_gap(items, pairs, base, previous, wish, price, usable)
    return gapped if gapped.dropped else best


def pairs_of(items: Sequence[Item]) -> Pairs:
    """Return which items hold a call and its result. An id that is used again in a later turn
    belongs to the call before it; some clients count anew in each turn."""
    opened: dict[str, int] = {}
    pairs: set[tuple[int, int]] = set()
    for number, item in enumerate(items):
        pairs.update((opened.pop(name), number) for name in item.results if name in opened)
        opened.update(dict.fromkeys(item.calls, number))
    return sorted(pairs)


def _cut_at(
    items: Sequence[Item], pairs: Pairs, first: int, turn: int, strip: int, squeeze: int
) -> Cut | None:
    """Return the cut at a turn without a gap; None when it would split a tool pair."""
    lead = _followers(items, first, ("system",))
    body = turn + 1 + _followers(items, turn, ("system",))
    reply = -1
    if turn != first:
        before = next((n for n in range(turn - 1, first, -1) if items[n].kind != "system"), -1)
        if before > first and items[before].is_reply:
            reply = before
    cut = Cut(
        first=first,
        lead=lead,
        reply=reply,
        turn=turn,
        gap_start=body,
        gap_end=body,
        strip=strip,
        squeeze=squeeze,
        survivors=(),
        anchor=len(items),
        anchor_digest="",
        dropped=0,
        masked=0,
        pointer="",
    )
    return _counted(cut, items, pairs)


def _followers(items: Sequence[Item], at: int, kinds: tuple[str, ...]) -> int:
    count = 0
    while at + 1 + count < len(items) and items[at + 1 + count].kind in kinds:
        count += 1
    return count


def _counted(cut: Cut, items: Sequence[Item], pairs: Pairs) -> Cut | None:
    """Return the cut with its survivors and the number it drops; None for a split pair."""
    cut = replace(cut, survivors=_survivors(cut, items))
    kept = set(kept_order(cut, items))
    if any((call in kept) != (result in kept) for call, result in pairs):
        return None
    gone = sum(1 for n in range(len(items)) if n not in kept and items[n].kind != "system")
    return replace(cut, dropped=gone)


def _survivors(cut: Cut, items: Sequence[Item]) -> tuple[int, ...]:
    """Return the removed system items that hold the newest state of something still in force."""
    shown = set(kept_order(cut, items))
    settled: set[str] = set()
    for number in range(cut.gap_end, len(items)):
        settled.update(items[number].keeps)
    wanted: list[int] = []
    for number in range(min(cut.gap_end, len(items)) - 1, -1, -1):
        fresh = set(items[number].keeps) - settled
        settled |= fresh
        if fresh and number not in shown and items[number].kind == "system":
            wanted.append(number)
    return tuple(sorted(wanted))


def _is_budget_loop(envelope: Envelope, items: Sequence[Item]) -> bool:
    """Return whether a fixed thinking budget holds the open tool loop to begin with thinking."""
    spoken = [item for item in items if item.kind not in ("system", "pinned")]
    return envelope.profile == "C" and bool(spoken) and spoken[-1].kind == "results"


def _strip_at(envelope: Envelope, items: Sequence[Item], turns: Sequence[int]) -> int:
    """Return before which item thinking goes.

    On a model that checks, all of it that exists now. In an open tool loop under a fixed budget,
    what was made before the loop: the loop must begin with thinking, and such models do not check.
    """
    return turns[-1] if _is_budget_loop(envelope, items) else len(items)


def _squeeze_at(items: Sequence[Item], keep_steps: int) -> int:
    """Return before which item tool results may be compressed: the newest steps stay whole."""
    steps = [n for n, item in enumerate(items) if item.calls]
    return steps[-keep_steps] if len(steps) >= keep_steps else 0


def steps_of(items: Sequence[Item], start: int) -> list[int]:
    """Return where the steps behind `start` begin; a step is a round of calls and its results.

    Reasoning items and calls in a row belong to one step.
    """
    starts: list[int] = []
    inside = False
    for number in range(start, len(items)):
        item = items[number]
        opens = item.kind in ("assistant", "reasoning")
        if opens and not inside:
            starts.append(number)
        if item.kind == "assistant" and not item.calls:
            inside = False  # a spoken reply ends its step
        elif item.kind != "system":
            inside = opens
    return starts


def _with_gap(
    items: Sequence[Item],
    pairs: Pairs,
    cut: Cut,
    previous: Cut | None,
    wish: Wish,
    price: Price,
    usable: Sequence[int],
) -> Cut:
    """Return the cut with the oldest steps of its turn dropped until the target is met.

    `usable`: the steps with which what is kept may begin.
    """
    least = cut.gap_start
    if previous and previous.turn == cut.turn:
        least = max(least, previous.gap_end)
    steps = steps_of(items, cut.gap_start)
    if len(steps) <= wish.keep_steps:
        return (
            cut
            if least == cut.gap_start
            else (_counted(replace(cut, gap_end=least), items, pairs) or cut)
        )
    best = cut
    # From the smallest tail on: keep adding older steps while the view still fits.
    for start in reversed(steps[1 : len(steps) - wish.keep_steps + 1]):
        if start < least:
            break
        if start not in usable:
            continue
        candidate = _counted(replace(cut, gap_end=start), items, pairs)
        if candidate is None:
            continue
        if (
            best is not cut
            and price(kept_order(candidate, items), cut.strip, cut.squeeze) > wish.target
        ):
            break
        best = candidate
    return best
