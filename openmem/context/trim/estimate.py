"""How many tokens a request will cost, from what the provider counted for the last ones.

A ratio learnt from the provider's own reports costs nothing and is right for the text at hand;
two public tokenizers disagree by 18 % on code and take seconds for 3 MB. Between reports only the
difference is guessed, so an error does not grow with the session.
Source: context-store contract, token estimate; measured on 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openmem.context.trim.items import Envelope, Item
from openmem.context.trim.state import Sample

CHARACTERS_PER_TOKEN = 2.5  # before the first report: code and logs run at two to three
_ENOUGH_CHARACTERS = 2_000
_LEAST, _MOST = 1.2, 8.0  # a report outside is about something else: a cut reply, a test's fake


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """Characters that are priced by ratio, and tokens of images, which have a rule."""

    characters: int
    image_tokens: int = 0


def weight_of(envelope: Envelope, items: Sequence[Item]) -> Weight:
    """Return what a whole request weighs."""
    return Weight(
        characters=envelope.weight + sum(item.weight for item in items),
        image_tokens=sum(item.image_tokens for item in items),
    )


def characters_per_token(samples: Sequence[Sample]) -> float:
    """Return the thread's ratio, from its newest report that can be one."""
    for sample in reversed(samples):
        if sample.tokens > 0:
            ratio = sample.weight / sample.tokens
            if _LEAST <= ratio <= _MOST:
                return ratio
    return CHARACTERS_PER_TOKEN


def estimate(weight: Weight, samples: Sequence[Sample]) -> int:
    """Return the prompt tokens of a request; samples: oldest first, may be empty."""
    ratio = characters_per_token(samples)
    newest = samples[-1] if samples else None
    if newest and newest.tokens > 0 and _LEAST <= newest.weight / newest.tokens <= _MOST:
        difference = weight.characters - newest.weight
        ratio = _newest_ratio(samples, ratio)
        return max(0, round(newest.tokens + difference / ratio)) + weight.image_tokens
    return round(weight.characters / ratio) + weight.image_tokens


def _newest_ratio(samples: Sequence[Sample], otherwise: float) -> float:
    """Return the ratio of what came between the last two reports: new content is most like it.

    A whole request leans on its system prompt and tools, which are prose; what comes is often not.
    """
    if len(samples) < 2:
        return otherwise
    characters = samples[-1].weight - samples[-2].weight
    tokens = samples[-1].tokens - samples[-2].tokens
    if characters < _ENOUGH_CHARACTERS or tokens <= 0:
        return otherwise
    ratio = characters / tokens
    # Never looser than the whole: an estimate that is too low goes over the threshold.
    return min(ratio, otherwise) if _LEAST <= ratio <= _MOST else otherwise


def image_tokens(width: int, height: int) -> int:
    """Return what an image costs: pixels / 750 after it is fitted into 1568 by 1568.

    0 by 0 (size unknown) counts as the largest. Source: the vendor's vision page.
    """
    if width <= 0 or height <= 0:
        return 1600
    scale = min(1.0, 1568 / max(width, height))
    return min(1600, max(1, round(width * scale * height * scale / 750)))


def tiled_image_tokens(width: int, height: int) -> int:
    """Return what an image costs by tiles of 512: fitted into 2048, shorter side at most 768.

    0 by 0 counts as the largest. Source: OpenAI's vision page.
    """
    if width <= 0 or height <= 0:
        width = height = 2048
    scale = min(1.0, 2048 / max(width, height))
    width, height = int(width * scale), int(height * scale)
    scale = min(1.0, 768 / max(1, min(width, height)))
    across, down = -(-int(width * scale) // 512), -(-int(height * scale) // 512)
    return 85 + 170 * max(1, across) * max(1, down)
