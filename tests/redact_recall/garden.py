"""All plants of one seed, ten a kind and more, and what is left of one after masking."""

from __future__ import annotations

from random import Random

from tests.redact_recall.passwords import HELD_IN_PLACE, PASSWORDS
from tests.redact_recall.pem import private_key
from tests.redact_recall.places import BARE_PLACES, NAMED_PLACES, put
from tests.redact_recall.plant import Planted
from tests.redact_recall.vendors import KEYS

SEED = 20301130
PER_KIND = 10
_FRAGMENT = 8
"""Characters in a row of a secret that count as left over: less gives no key away."""


def garden(seed: int = SEED, per_kind: int = PER_KIND) -> list[Planted]:
    """Every kind `per_kind` times, each time in another place, so far as there are places."""
    plants: list[Planted] = []
    for kind in (*KEYS, *PASSWORDS):
        rng = Random(f"{seed}:{kind.name}")
        places: list[str] = []
        for _ in range(per_kind):
            plant = kind.make(rng)
            if not places:
                places = list(NAMED_PLACES) + (list(BARE_PLACES) if plant.bare else [])
                rng.shuffle(places)
            plants.append(put(rng, kind.name, plant, places.pop()))
    for number, make in enumerate((*HELD_IN_PLACE, private_key)):
        rng = Random(f"{seed}:{number}")
        # These hold one of several texts at random; four times as many visit most of them.
        plants += [make(rng) for _ in range(4 * per_kind)]
    return plants


def is_gone(secret: str, masked: str) -> bool:
    """Tell whether no eight characters in a row of a secret are left (all of it, if shorter)."""
    pieces = [piece for piece in secret.splitlines() if len(piece) >= _FRAGMENT] or [secret]
    for piece in pieces:
        size = min(_FRAGMENT, len(piece))
        if any(piece[at : at + size] in masked for at in range(len(piece) - size + 1)):
            return False
    return True
