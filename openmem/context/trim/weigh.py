"""What a view weighs, before it is rendered: for choosing a cut and for the provider's sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openmem.context.trim.estimate import Weight
from openmem.context.trim.items import Envelope, Item
from openmem.context.trim.spent.reduce import Prospect
from openmem.context.trim.state import Cut
from openmem.context.trim.view import kept_order

_POINTER_CHARACTERS = 600


def weight_of_cut(envelope: Envelope, items: Sequence[Item], cut: Cut) -> Weight:
    """Return what the view of a cut weighs; `cut.pointer` with the note that is shown with it."""
    note = max(0, len(cut.pointer) - _POINTER_CHARACTERS)
    return _weight(
        envelope,
        items,
        kept_order(cut, items),
        strip=cut.strip,
        saved=cut.reduced.saved(),
        more=note + cut.reduced.told_weight,
    )


def weight_of_kept(
    envelope: Envelope,
    items: Sequence[Item],
    kept: Sequence[int],
    strip: int,
    squeeze: int,
    found: Prospect,
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
        saved=saved,
        more=found.told_weight(kept),
    )


def _weight(
    envelope: Envelope,
    items: Sequence[Item],
    kept: Sequence[int],
    *,
    strip: int,
    saved: Mapping[int, int],
    more: int,
) -> Weight:
    characters = envelope.weight + _POINTER_CHARACTERS + more
    pictures = 0
    for number in kept:
        item = items[number]
        pictures += item.image_tokens
        weight = item.weight
        if number < strip and item.has_thinking:
            weight = item.weight - item.thinking_weight
        characters += weight - saved.get(number, 0)
    return Weight(characters=characters, image_tokens=pictures)
