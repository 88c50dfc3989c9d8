"""Calls and results as this package sees them, and what is stored of those that are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from openmem.context.trim.pointer import shortened_text
from openmem.context.trim.spent.marker import MARKER_CHARACTERS, marker

Part = Literal["input", "output", "long"]
"""input: a call's arguments · output: its result · long: the middle of a result that is huge"""
ROW_KIND: Mapping[Part, str] = {
    "input": "tool_use", "output": "tool_result", "long": "tool_result",
}  # fmt: skip
Mark = str | Callable[[str], str]
"""what stands in place of a body, or makes it of the body"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call. `item`: the number of its item; `place`: which call of that item it is.

    `arguments`: decoded JSON, or the text of a tool that takes plain text. `raw`: as it stands in
    the request, for telling it again word for word; `size`: its characters.
    """

    item: int
    place: int
    id: str
    name: str
    arguments: object
    raw: str

    @property
    def size(self) -> int:
        return len(self.raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One result. `text`: all of its texts; `has_media`: it holds something else, too."""

    item: int
    place: int
    id: str
    text: str
    failed: bool = False
    has_media: bool = False

    @property
    def size(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call and its result."""

    call: Call
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A body that may go. `size`: its characters; `left`: of what stands in its place."""

    item: int
    place: int
    call: str
    part: Part
    size: int
    left: int = MARKER_CHARACTERS

    @property
    def saved(self) -> int:
        """Characters that its leaving saves."""
        return max(0, self.size - self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A body that a cut leaves out. `call`: the call's id; `seq`: the row that holds the body."""

    item: int
    call: str
    part: Part
    seq: int
    saved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A call whose arguments are told again behind the pointer, because it left with the cut.

    `result`: the item of its result when that belongs to it, -1 when it does not.
    """

    item: int
    call: str
    result: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """What a cut does beside dropping items. `told_weight`: characters of what is told again;
    `end_characters`: of a huge result's head and tail, each."""

    sid: str = ""
    spent: tuple[Spent, ...] = ()
    told: tuple[Told, ...] = ()
    told_weight: int = 0
    end_characters: int = 0

    def saved(self) -> dict[int, int]:
        """Return the characters saved by item."""
        found: dict[int, int] = {}
        for body in self.spent:
            found[body.item] = found.get(body.item, 0) + body.saved
        return found

    def marks(self) -> dict[int, dict[tuple[Part, str], Mark]]:
        """Return by item what stands in place of its bodies, by part and call."""
        found: dict[int, dict[tuple[Part, str], Mark]] = {}
        for body in self.spent:
            mark: Mark = marker(self.sid, body.seq)
            if body.part == "long":
                mark = partial(
                    shortened_text,
                    address=f"{self.sid}:{body.seq}",
                    end_characters=self.end_characters,
                )
            found.setdefault(body.item, {})[body.part, body.call] = mark
        return found


NOTHING = Reduced()


def reduced_from(value: object) -> Reduced:
    """Return what a state file holds of it; nothing for a file of before. ValueError, KeyError."""
    if value is None:
        return NOTHING
    if not isinstance(value, dict):
        raise ValueError("reduced")
    return Reduced(
        sid=str(value["sid"]),
        spent=tuple(
            Spent(
                item=int(body["item"]),
                call=str(body["call"]),
                part=_part(body["part"]),
                seq=int(body["seq"]),
                saved=int(body["saved"]),
            )
            for body in value["spent"]
        ),
        told=tuple(
            Told(item=int(one["item"]), call=str(one["call"]), result=int(one["result"]))
            for one in value["told"]
        ),
        told_weight=int(value["told_weight"]),
        end_characters=int(value["end_characters"]),
    )


def _part(value: object) -> Part:
    for part in ROW_KIND:
        if part == value:
            return part
    raise ValueError("part")
