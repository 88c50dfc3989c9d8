"""What a view weighs, before it is rendered: for choosing a cut and for the provider's sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openmem.context.trim.estimate import Weight
from openmem.context.trim.items import Envelope, Item
from openmem.context.trim.spent.reduce import Prospect
from openmem.context.trim.state import Cut
from openmem.context.trim.view import kept_order

_POINTER_CHARACTERS = 600


def weight_of_cut(
    envelope: Envelope, items: Sequence[Item], cut: Cut, compress_tokens: int
) -> Weight:
    """Return what the view of a cut weighs; `cut.pointer` with the note that is shown with it."""
    note = max(0, len(cut.pointer) - _POINTER_CHARACTERS)
    return _weight(
        envelope,
        items,
        kept_order(cut, items),
        strip=cut.strip,
        squeeze=cut.squeeze,
        saved=cut.reduced.saved(),
        more=note + cut.reduced.told_weight,
        compress_tokens=compress_tokens,
    )


def weight_of_kept(
    envelope: Envelope,
    items: Sequence[Item],
    kept: Sequence[int],
    strip: int,
    squeeze: int,
    found: Prospect,
    compress_tokens: int,
) -> Weight:
    """Return what a view with these items would weigh. `found`: what it may leave out of them."""
    saved: dict[int, int] = {}
    for body in found.usable(items, kept, strip, squeeze):
        saved[body.item] = saved.get(body.item, 0) + body.saved
    return _weight(
        envelope,
        items,
        kept,
        strip=strip,
        squeeze=squeeze,
        saved=saved,
        more=found.told_weight(kept),
        compress_tokens=compress_tokens,
    )


def _weight(
    envelope: Envelope,
    items: Sequence[Item],
    kept: Sequence[int],
    *,
    strip: int,
    squeeze: int,
    saved: Mapping[int, int],
    more: int,
    compress_tokens: int,
) -> Weight:
    limit = compress_tokens * 3
    characters = envelope.weight + _POINTER_CHARACTERS + more
    pictures = 0
    for number in kept:
        item = items[number]
        pictures += item.image_tokens
        weight = item.weight
        if number < strip and item.has_thinking:
            weight = item.weight - item.thinking_weight
        weight -= saved.get(number, 0)
        if number < squeeze and item.kind == "results" and limit:
            weight = min(weight, limit + 600)
        characters += weight
    return Weight(characters=characters, image_tokens=pictures)
