"""A bank full of made-up statements, for benches that ask what memory costs.

Invariant: the words are spread as in any language: a few in most statements, most in a few.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from openmem.base.paths import Paths
from openmem.memory.model import Actor, Draft
from openmem.memory.opening import open_memories
from openmem.memory.scope import scope_of

_SEED = 20261130
_AT_ONCE = 2_000


def seed(environ: Mapping[str, str], folder: str, count: int) -> list[str]:
    """Fill the bank of a folder with accepted statements; return prompts, some of which fit."""
    paths = Paths(environ)
    chance = random.Random(_SEED)
    words = vocabulary(chance)
    actor = Actor(kind="person", name="bench")
    scope = scope_of(folder, paths, actor)
    memories = open_memories(paths)
    try:
        for start in range(0, count, _AT_ONCE):
            memories.ledger.add_all(
                [
                    Draft(
                        bank=scope.bank,
                        text=f"{sentence(words, chance)} {number}",
                        kind="statement",
                        actor=actor,
                        trust="accepted",
                    )
                    for number in range(start, min(count, start + _AT_ONCE))
                ]
            )
        memories.deliver()
    finally:
        memories.close()
    return [
        "ok",
        "continue",
        "Where is the parser's error raised?",
        *(sentence(words, chance) for _ in range(3)),
        " ".join(words[:6]),  # words that nearly every statement holds
        "please look at the log:\n" + "\n".join(sentence(words, chance) for _ in range(60)),
    ]


def vocabulary(chance: random.Random) -> list[str]:
    """Return 20,000 words."""
    letters, vowels = "bdfgklmnprstvz", "aeiou"
    words: dict[str, None] = {}
    while len(words) < 20_000:
        syllables = chance.randint(2, 4)
        parts = (chance.choice(letters) + chance.choice(vowels) for _ in range(syllables))
        words["".join(parts)] = None
    return list(words)


def sentence(words: Sequence[str], chance: random.Random) -> str:
    """Return twelve words; the n-th of the vocabulary is about n times rarer than the first."""
    return " ".join(words[int(len(words) ** chance.random()) - 1] for _ in range(12))
