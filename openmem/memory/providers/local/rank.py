"""How well a text answers a question; numbers only, no database.

Idea: BM25 over the words that a text holds, where a word that a neighbour in the same session
holds counts in part (the answer stands beside the question), and words that stand next to each
other in both count a little more.
Invariant: nothing that shares no word with the question is ranked, unless a neighbour does.
Trap: the constants were chosen on LoCoMo's conversations 1 to 5 and held on 6 to 10; see
`docs/explanation/memory.md` for the figures before you change one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from openmem.base.light import dataclass, field
from openmem.memory.providers.local.bank_file import SESSION_SHIFT
from openmem.memory.providers.local.words import Unit

_K1 = 0.4  # a second occurrence says little in a short text
_B = 0.3  # a long turn is not much worse than a short one
# What a text gets of a word that stands one or two places before or after it in its session.
_BEFORE = (0.6, 0.3)
_AFTER = (0.4, 0.2)
_PAIR = 0.1
_PRIOR_DOCS = 30  # in a small bank every word looks rare or common by chance

Postings = Mapping[int, Sequence[int]]


def weight_of(docs: int, holding: int) -> float:
    """Return what a word is worth by how many of the texts hold it."""
    total = max(docs, holding) + _PRIOR_DOCS
    return max(math.log((total - holding + 0.5) / (holding + 0.5)), 0.05)


@dataclass(slots=True)
class Found:
    """A text that holds some of the words. `own`: indexes of the units it holds itself."""

    number: int
    score: float = 0.0
    own: list[int] = field(default_factory=list)


def saturated(count: int, tokens: float, average: float) -> float:
    """Return how much `count` occurrences in a text of `tokens` are worth, against one."""
    norm = 1 - _B + _B * tokens / average if average else 1.0
    return count * (_K1 + 1) / (count + _K1 * norm)


def rank(
    units: Sequence[Unit],
    weights: Sequence[float],
    postings: Sequence[Postings],
    tokens: Mapping[int, int],
    average: float,
) -> list[Found]:
    """Return the texts that any posting names and their neighbours, best first.

    `postings`: for each unit, the places of it in each text by number. `tokens`: lengths; a text
    that is not in it is taken as of average length.
    """
    found: dict[int, Found] = {}
    for index, posting in enumerate(postings):
        weight = weights[index]
        parts: dict[int, float] = {}
        for number, places in posting.items():
            part = saturated(len(places), tokens.get(number, average), average)
            parts[number] = max(parts.get(number, 0.0), part)
            _keep(found, number).own.append(index)
            if number >> SESSION_SHIFT:
                _spread(parts, number, part)
        for number, part in parts.items():
            _keep(found, number).score += weight * part
    _add_pairs(found, units, weights, postings)
    return sorted(found.values(), key=lambda one: (-one.score, -one.number))


def _keep(found: dict[int, Found], number: int) -> Found:
    one = found.get(number)
    if one is None:
        one = found[number] = Found(number)
    return one


def _spread(parts: dict[int, float], number: int, part: float) -> None:
    """Give the neighbours of a text their share of a word that it holds."""
    for shares, step in ((_BEFORE, 1), (_AFTER, -1)):
        for distance, share in enumerate(shares, 1):
            other = number + step * distance
            if part * share > parts.get(other, 0.0):
                parts[other] = part * share


def _add_pairs(
    found: dict[int, Found],
    units: Sequence[Unit],
    weights: Sequence[float],
    postings: Sequence[Postings],
) -> None:
    order = sorted(range(len(units)), key=lambda index: units[index].place)
    for first, second in pairwise(order):
        if units[first].place + 1 != units[second].place:
            continue
        one, other = postings[first], postings[second]
        small = one if len(one) <= len(other) else other
        for number in small:
            if number in one and number in other and _adjoin(one[number], other[number]):
                found[number].score += _PAIR * (weights[first] + weights[second])


def _adjoin(first: Iterable[int], second: Sequence[int]) -> bool:
    following = set(second)
    return any(place + 1 in following for place in first)
