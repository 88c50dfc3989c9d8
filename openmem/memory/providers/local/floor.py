"""Whether a text that was found is worth telling unasked.

Idea: a text is relevant when it holds most of what the question is about, or when the question
holds most of what the text is about. Words count by how rare they are in the bank and by how much
they say at all.
Invariant: words that are in every conversation are no reason by themselves.
Trap: precision comes first; what is left out can still be searched for.
"""

from __future__ import annotations

from collections.abc import Sequence

from openmem.memory.providers.local.words import COMMON_WEIGHT, Unit

MOST = 0.5  # of what the question is about
MUCH = 0.33  # the same, when one of the words says something by itself, or two do
TEXT_MOST = 0.6  # of what the text is about
TEXT_MUCH = 0.4
PASSAGE_MARGIN = 1.1  # what was merely said stands a tenth above the shares that were chosen


def mass_of(units: Sequence[Unit], weights: Sequence[float]) -> float:
    """Return what words are worth together, those that say little less."""
    return sum(unit.weight * weight for unit, weight in zip(units, weights, strict=True))


def is_foreign(units: Sequence[Unit], holding: Sequence[int]) -> bool:
    """Return whether a question is about somebody or something that a bank has never heard of.

    `holding`: how many texts of the bank hold each unit.
    """
    named = [count for unit, count in zip(units, holding, strict=True) if unit.is_name]
    return bool(named) and not any(named)


def names_known(units: Sequence[Unit], holding: Sequence[int]) -> bool:
    """Return whether a question names somebody, and all it names are known in a bank."""
    named = [count for unit, count in zip(units, holding, strict=True) if unit.is_name]
    return bool(named) and all(named)


def is_relevant(
    own: Sequence[Unit],
    weights: Sequence[float],
    mass: float,
    *,
    content: int,
    is_passage: bool,
    names_known: bool = False,
) -> bool:
    """Return whether a text stands above the floor.

    `own`: the words of the question that it holds itself; `mass`: of the whole question;
    `content`: how many different words of the text say something. What somebody once said has to
    share more than one word with the question; a statement is about fewer things. `names_known`:
    the question names somebody or something that the bank has heard of.
    """
    telling = sum(1 for unit in own if unit.weight >= COMMON_WEIGHT)
    rare = sum(1 for unit in own if unit.weight > COMMON_WEIGHT)
    if not telling or not mass or (is_passage and (telling < 2 or not rare)):
        return False
    margin = PASSAGE_MARGIN if is_passage else 1.0
    share = mass_of(own, weights) / mass / margin
    if share >= MOST and (rare or telling > 1):
        return True
    # Of a question that names nobody one such word let in turns of strangers, two do not.
    if share >= MUCH and rare > (is_passage and not names_known):
        return True
    held = len(own) / content / margin if content else 0.0
    if telling > 1 and held >= TEXT_MOST:
        return True
    return telling > 2 and rare > 0 and held >= TEXT_MUCH
