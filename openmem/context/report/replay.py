"""What a recorded thread would have cost under another setting: a replay of sizes, not of words.

Idea: each call grows the prompt by as much as the untrimmed one grew. A setting decides when the
view is cut and to what; the provider's cache is read, written or dead by the rules that also hold
for real ones, with the pauses that really happened.
Invariant: every setting is played over the same calls, and busts that were the client's own (tools,
system, model, history) hit all of them alike.
Trap: it knows nothing of quality, of the searches an agent makes for what is gone, nor of what it
would have said otherwise. Sizes of a trimmed session are put back from the trims' own estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from openmem.context.prices import Price, Prices
from openmem.context.report.course import Call, Course
from openmem.context.trim.limits import LEAST_GAIN_TOKENS

POINTER_TOKENS = 150
SUMMARY_TOKENS = 3_000
KEEP_STEPS = 3
_THEIRS = frozenset({"tools", "system", "settings", "messages", "model"})

Kind = Literal["keep", "trim", "compact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One way to treat a thread.

    `keep`: everything; `trim`: from `soft` at a new turn and from `hard` anywhere down to
    `target`; `compact`: from `hard` on the client has the model write a summary.
    """

    kind: Kind
    soft: int = 0
    hard: int = 0
    target: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One call as a rule would have had it. `units`: its cost in uncached input tokens.

    A summary call before it is in its cost. `lost`: tokens taken out by now.
    """

    at: float
    prompt: int
    units: float
    is_cut: bool = False
    lost: int = 0


@dataclass(slots=True)
class _View:
    """What a rule still shows of a thread: the first prompt, then the steps since.

    `steps`: (tokens, opens a turn), oldest first. `stand_in`: tokens of the pointer or summary.
    """

    head: int = 0
    steps: list[tuple[int, bool]] = field(default_factory=list)
    stand_in: int = 0
    tokens: int = 0

    def grow(self, size: int, opens_turn: bool) -> None:
        """Add a step; a negative size takes from the newest ones, as a client's small edits do."""
        self.steps.append((max(0, size), opens_turn))
        self.tokens += max(0, size)
        missing = max(0, -size)
        for number in range(len(self.steps) - 1, -1, -1):
            if not missing:
                return
            held, opens = self.steps[number]
            taken = min(held, missing)
            self.steps[number] = (held - taken, opens)
            self.tokens -= taken
            missing -= taken
        taken = min(self.head, missing)
        self.head -= taken
        self.tokens -= taken

    def cut(self, target: int) -> int:
        """Drop the oldest turns, then steps of the last one, and return the tokens freed."""
        kept = self._suffix_sums()
        room = target - self.head - POINTER_TOKENS
        turns = [number for number, (_, opens) in enumerate(self.steps) if opens]
        first = next((turn for turn in turns if kept[turn] <= room), turns[-1] if turns else 0)
        if kept[first] > room:
            newest = max(first, len(self.steps) - KEEP_STEPS)
            fits = (number for number in range(first, newest) if kept[number] <= room)
            first = next(fits, newest)
        return self._drop(first, POINTER_TOKENS)

    def summarise(self) -> int:
        """Put a summary in place of all steps but the newest; return the tokens freed."""
        return self._drop(len(self.steps) - 1, SUMMARY_TOKENS)

    def _drop(self, first: int, instead: int) -> int:
        freed = sum(size for size, _ in self.steps[:first]) + self.stand_in - instead
        if freed < LEAST_GAIN_TOKENS:
            return 0
        del self.steps[:first]
        self.tokens -= freed
        self.stand_in = instead
        return freed

    def _suffix_sums(self) -> list[int]:
        sums = list(accumulate((size for size, _ in reversed(self.steps)), initial=0))
        return sums[::-1]


def play(course: Course, rule: Rule, prices: Prices) -> Iterator[Played]:
    """Yield each call of a thread as a rule would have had it."""
    ttl = course.ttl_seconds
    view = _View()
    last: Call | None = None
    lost = 0
    for call in course.calls:
        price = prices.of(call.model)
        growth = call.whole - last.whole if last else call.whole
        if last is None or _begins_anew(last, call):
            view = _View(head=call.whole, tokens=call.whole)
            lost = 0
            yield Played(at=call.at, prompt=call.whole, units=_whole(price, view, call, ttl))
            last = call
            continue
        before = view.tokens
        view.grow(growth, call.opens_turn)
        is_dead = call.at - last.at > ttl or call.model != last.model or call.bust in _THEIRS
        summary = 0.0
        freed = 0
        if _is_due(rule, view.tokens, call.opens_turn, is_dead):
            freed = view.cut(rule.target) if rule.kind == "trim" else view.summarise()
        if freed and rule.kind == "compact":
            summary = price.units(
                read=0 if is_dead else before,
                written=before if is_dead else 0,
                uncached=0,
                output=SUMMARY_TOKENS,
                ttl_seconds=ttl,
            )
        lost += freed
        read = 0 if is_dead else view.head if freed else min(before, view.tokens)
        units = price.units(
            read=read,
            written=view.tokens - read,
            uncached=0,
            output=call.output,
            ttl_seconds=ttl,
        )
        yield Played(
            at=call.at, prompt=view.tokens, units=units + summary, is_cut=bool(freed), lost=lost
        )
        last = call


def _is_due(rule: Rule, tokens: int, opens_turn: bool, is_dead: bool) -> bool:
    if rule.kind == "trim":
        return tokens >= rule.hard or (tokens >= rule.soft and (opens_turn or is_dead))
    return rule.kind == "compact" and tokens >= rule.hard


def _begins_anew(last: Call, call: Call) -> bool:
    """Return whether the client rewrote its history: a summary of its own, or a rewind far back."""
    return call.whole * 5 < last.whole * 4


def _whole(price: Price, view: _View, call: Call, ttl: float) -> float:
    return price.units(read=0, written=view.tokens, uncached=0, output=call.output, ttl_seconds=ttl)


def actual_units(course: Course, prices: Prices) -> Iterator[tuple[Call, float]]:
    """Yield each call with what it really cost, as the provider reported it."""
    ttl = course.ttl_seconds
    for call in course.calls:
        units = prices.of(call.model).units(
            read=call.read,
            written=call.written,
            uncached=call.uncached,
            output=call.output,
            ttl_seconds=ttl,
        )
        yield call, units


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """All calls under one rule. `dollars`: None where a model's price is not known."""

    units: float
    dollars: float | None
    peak: int
    cuts: int
    tokens: int


def total(courses: Sequence[Course], rule: Rule, prices: Prices) -> Total:
    """Return the sums over several threads, each played by itself."""
    units = 0.0
    dollars: float | None = 0.0
    peak = cuts = tokens = 0
    for course in courses:
        for call, played in zip(course.calls, play(course, rule, prices), strict=True):
            units += played.units
            money = prices.of(call.model).money(played.units)
            dollars = None if money is None or dollars is None else dollars + money
            peak = max(peak, played.prompt)
            cuts += played.is_cut
            tokens += played.prompt
    return Total(
        units=units, dollars=dollars if courses else None, peak=peak, cuts=cuts, tokens=tokens
    )
