"""What a picture of a session shows, as plain values: a point for each call, a mark for each event.

Signs are letters first, so that the same picture can be read in text, in black and white, and
aloud; shape and colour are added where they can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from openmem.base.clock import utc_text
from openmem.context.prices import Prices
from openmem.context.report.course import Call, Course, Mark
from openmem.context.report.replay import Rule, actual_units, play
from openmem.context.trim.limits import window_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """How a cause is shown. `is_ours`: openmem did it; else the client, its user or time."""

    letter: str
    word: str
    shape: str
    colour: str
    is_ours: bool = False


# Colours of Okabe and Ito, which people with any colour vision tell apart.
SIGNS: Mapping[str, Sign] = {
    "trim": Sign(letter="T", word="trim", shape="down", colour="#0072b2", is_ours=True),
    "clearing": Sign(
        letter="C",
        word="old tool results cleared by the provider",
        shape="pentagon",
        colour="#f0e442",
        is_ours=True,
    ),
    "fail_open": Sign(letter="F", word="fault of ours", shape="cross", colour="#000", is_ours=True),
    "tools": Sign(letter="L", word="tools changed", shape="square", colour="#d55e00"),
    "system": Sign(letter="S", word="system prompt changed", shape="diamond", colour="#cc79a7"),
    "messages": Sign(letter="H", word="history rewritten", shape="up", colour="#e69f00"),
    "model": Sign(letter="M", word="another model", shape="circle", colour="#009e73"),
    "settings": Sign(letter="E", word="effort or thinking changed", shape="ring", colour="#56b4e9"),
    "idle": Sign(letter="I", word="idle past the cache's life", shape="bar", colour="#999"),
}
_OURS = frozenset({"trim", "clearing"})  # these are marks of their own
_OTHER = Sign(letter="?", word="another cause", shape="circle", colour="#666")


def sign_of(cause: str) -> Sign:
    """Return how a cause is shown."""
    return SIGNS.get(cause, _OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One line of the table: a trim, a bust or a fault. `call`: from 1; 0 before the first."""

    call: int
    at: str
    cause: str
    words: str
    prompt: int
    read: int
    written: int
    kept: float | None
    removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Strand:
    """One thread's picture. `units`, `whole_units`: its cost, and untrimmed; `dollars`: of both,
    None without a price."""

    thread: str
    kind: str
    agent_id: str
    model: str
    window: int
    calls: tuple[Call, ...]
    happenings: tuple[Happening, ...]
    hit_rate: float | None
    removed: int
    cleared: int
    units: float
    whole_units: float
    dollars: tuple[float, float] | None
    trims: int

    @property
    def busts(self) -> dict[str, int]:
        """Cause → how often, trims and clearings aside."""
        found: dict[str, int] = {}
        for call in self.calls:
            if call.bust and call.bust not in _OURS:
                found[call.bust] = found.get(call.bust, 0) + 1
        return found

    @property
    def name(self) -> str:
        """How the thread is called: main, sub-agent and its id, side."""
        return f"{self.kind or 'thread'} {self.agent_id}".strip()

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "thread": self.thread,
            "kind": self.kind,
            "agent_id": self.agent_id,
            "model": self.model,
            "window": self.window,
            "trims": self.trims,
            "removed_tokens": self.removed,
            "cleared_tokens": self.cleared,
            "hit_rate": self.hit_rate,
            "busts": self.busts,
            "cost_units": round(self.units, 1),
            "untrimmed_cost_units": round(self.whole_units, 1),
            "dollars": self.dollars[0] if self.dollars else None,
            "untrimmed_dollars": self.dollars[1] if self.dollars else None,
            "requests": [
                {
                    "at": utc_text(call.at),
                    "prompt_tokens": call.prompt,
                    "cache_read_tokens": call.read,
                    "cache_creation_tokens": call.written,
                    "input_tokens": call.uncached,
                    "output_tokens": call.output,
                    "untrimmed_tokens": call.whole,
                    "trimmed": call.trim,
                    "bust": call.bust,
                    "prefix_kept": call.kept,
                }
                for call in self.calls
            ],
            "happenings": [asdict(one) for one in self.happenings],
        }


def strand_of(course: Course, prices: Prices, windows: Mapping[str, int]) -> Strand:
    """Return a thread's picture. `windows`: model name prefix → window in tokens."""
    units = sum(cost for _, cost in actual_units(course, prices))
    whole = sum(played.units for played in play(course, Rule(kind="keep"), prices))
    return Strand(
        thread=course.thread,
        kind=course.kind,
        agent_id=course.agent_id,
        model=course.model,
        window=window_of(course.model, windows, 0),
        calls=tuple(course.calls),
        happenings=tuple(_happenings(course)),
        hit_rate=course.hit_rate,
        removed=course.removed,
        cleared=course.cleared,
        units=units,
        whole_units=whole,
        dollars=_dollars(course, prices),
        trims=sum(mark.kind == "trim" for mark in course.marks),
    )


def _dollars(course: Course, prices: Prices) -> tuple[float, float] | None:
    paid = whole = 0.0
    played = play(course, Rule(kind="keep"), prices)
    for (call, units), one in zip(actual_units(course, prices), played, strict=True):
        price = prices.of(call.model)
        mine, untrimmed = price.money(units), price.money(one.units)
        if mine is None or untrimmed is None:
            return None
        paid += mine
        whole += untrimmed
    return paid, whole


def _happenings(course: Course) -> list[Happening]:
    found: list[Happening] = []
    marks: dict[int, list[Mark]] = {}
    for mark in course.marks:
        marks.setdefault(mark.call, []).append(mark)
    for number in range(len(course.calls) + 1):
        call = course.calls[number] if number < len(course.calls) else None
        for mark in marks.get(number, ()):
            found.append(_of_mark(mark, call))
        if call is not None and call.bust and call.bust not in _OURS:
            found.append(
                Happening(
                    call=number + 1,
                    at=utc_text(call.at),
                    cause=call.bust,
                    words=sign_of(call.bust).word,
                    prompt=call.prompt,
                    read=call.read,
                    written=call.written,
                    kept=call.kept,
                )
            )
    return found


def _of_mark(mark: Mark, call: Call | None) -> Happening:
    is_trim, is_clearing = mark.kind == "trim", mark.kind == "clearing"
    words = sign_of(mark.kind).word if mark.kind in SIGNS else mark.kind
    if is_trim:
        words = f"{words} ({mark.words})" if mark.words else words
        words += f", {mark.dropped} messages"
    elif is_clearing:
        words += f", {mark.dropped} by now"
    elif mark.words:
        words = f"{words}: {mark.words}"
    return Happening(
        call=mark.call + 1,
        at=utc_text(mark.at),
        cause=mark.kind,
        words=words,
        prompt=call.prompt if call else 0,
        read=call.read if call else 0,
        written=call.written if call else 0,
        kept=call.kept if call else None,
        removed=max(0, mark.before - mark.after) if is_trim or is_clearing else 0,
    )


def totals(strands: Sequence[Strand]) -> dict[str, object]:
    """Return the sums over a session's threads, as the page and JSON show them."""
    prompt = sum(call.prompt for strand in strands for call in strand.calls)
    read = sum(call.read for strand in strands for call in strand.calls)
    whole = sum(call.whole for strand in strands for call in strand.calls)
    money = [strand.dollars for strand in strands]
    known = [one for one in money if one is not None]
    is_known = len(known) == len(money) and bool(known)
    return {
        "requests": sum(len(strand.calls) for strand in strands),
        "prompt_tokens": prompt,
        "untrimmed_tokens": whole,
        "hit_rate": read / prompt if prompt else None,
        "trims": sum(strand.trims for strand in strands),
        "removed_tokens": sum(strand.removed for strand in strands),
        "cleared_tokens": sum(strand.cleared for strand in strands),
        "cost_units": round(sum(strand.units for strand in strands), 1),
        "untrimmed_cost_units": round(sum(strand.whole_units for strand in strands), 1),
        "dollars": sum(paid for paid, _ in known) if is_known else None,
        "untrimmed_dollars": sum(whole for _, whole in known) if is_known else None,
    }
