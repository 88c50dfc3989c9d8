"""The first family: keys with values, set in batches and asked for later.

Ours where the rules say nothing: the word list.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from openmem.bench.context.task import QUESTIONS, Piece, Question, framed, tag

KV_BATCH = 100
VALUE_WORDS = 24
_MADE_WORDS = 8
_WORDS = (
    *("acorn", "alder", "amber", "anvil", "apricot", "arbor", "argent", "aspen", "azure"),
    *("banner", "basalt", "beacon", "birch", "bramble", "bronze", "canyon", "cedar", "chalk"),
    *("cinder", "clover", "cobalt", "copper", "coral", "crimson", "delta", "dune", "ebony"),
    *("ember", "falcon", "fern", "flint", "garnet", "ginger", "granite", "harbor", "hazel"),
    *("heron", "indigo", "ivory", "jasper", "juniper", "kelp", "lagoon", "lantern", "linen"),
    *("maple", "marble", "meadow", "mistral", "nectar", "nimbus", "ochre", "olive", "onyx"),
    *("opal", "orchid", "pebble", "pewter", "quartz", "raven", "russet", "saffron", "sienna"),
    *("slate", "sorrel", "spruce", "thistle", "timber", "umber", "velvet", "willow", "zephyr"),
)


def kv_value(name: str, seed: int) -> str:
    """Return a value that follows from its key alone, for models that make values themselves."""
    chance = random.Random(f"value {name} {seed}")
    return f"{' '.join(chance.choices(_WORDS, k=_MADE_WORDS))} {tag(chance)}"


def kv_pieces(records: int, chance: random.Random) -> Iterator[Piece]:
    values = [
        f"{' '.join(chance.choices(_WORDS, k=VALUE_WORDS))} {tag(chance)}" for _ in range(records)
    ]
    lines = [f"SET K{number:05d} = {value}" for number, value in enumerate(values)]
    for at, first in enumerate(range(0, records, KV_BATCH)):
        batch = lines[first : first + KV_BATCH]
        title = f"set batch (keys {first}-{first + len(batch) - 1})"
        yield title, framed("SET-BATCH", at, batch, chance), None
    for number, key in enumerate(chance.sample(range(records), QUESTIONS)):
        name = f"K{key:05d}"
        body = (
            f"GET {name}\n(Report the value you stored for {name} as an ANSWER block for that key.)"
        )
        yield (
            f"get {number}",
            body,
            Question(label=f"key={name}", kind="lookup", answer=values[key]),
        )
