"""The view: a request as the stored cut shows it, a pure function of cut and items."""

from __future__ import annotations

from collections.abc import Sequence

from openmem.context.trim.items import Envelope, Item, WireFormat
from openmem.context.trim.raw import with_list
from openmem.context.trim.spent.reduce import text_of_told
from openmem.context.trim.spent.wire import replaced
from openmem.context.trim.state import Cut


def kept_order(cut: Cut, items: Sequence[Item]) -> list[int]:
    """Return the numbers of the items that a view shows, in its order.

    What stands before the first turn, the first turn and what stands with it, the reply before the
    cut, what must be said again, the cut turn and what stands with it, then everything behind the
    gap. Pinned items keep their place among these.
    """
    head = list(range(cut.first, cut.first + 1 + cut.lead))
    if cut.turn != cut.first:
        if cut.reply >= 0:
            head.append(cut.reply)
        head.extend(cut.survivors)
        head.extend(range(cut.turn, cut.gap_start))
    else:
        head.extend(cut.survivors)
    behind = range(cut.first + 1, min(cut.gap_end, len(items)))
    between = [n for n in behind if items[n].kind == "pinned" and n not in head]
    if cut.turn != cut.first:
        at = head.index(cut.turn)
        head[at:at] = between
    else:
        head.extend(between)
    return list(range(cut.first)) + head + list(range(cut.gap_end, len(items)))


def render_view(form: WireFormat, envelope: Envelope, items: Sequence[Item], cut: Cut) -> bytes:
    """Return the body of the view. NotTrimmable when no legal order exists."""
    kept: list[tuple[Item, list[bytes]]] = []
    later: list[bytes] = []
    marks = cut.reduced.marks()
    for number in kept_order(cut, items):
        item = items[number]
        raw: bytes | None = item.raw
        if number < cut.strip and item.has_thinking:
            raw = form.without_thinking(item.raw)
        if raw is None:
            continue
        if number in marks:
            raw = replaced(form.name, raw, marks[number])
        is_cut_turn = number == cut.turn and bool(cut.pointer)
        raws = form.with_pointer(raw, _pointer(form, items, cut)) if is_cut_turn else [raw]
        if number < cut.anchor:
            kept.append((item, raws))
        else:
            later.extend(raws)
    return with_list(envelope.parts, envelope.list_key, form.arranged(kept) + later)


def _pointer(form: WireFormat, items: Sequence[Item], cut: Cut) -> str:
    told = text_of_told(form.name, items, cut.reduced.told)
    return f"{cut.pointer}\n{told}" if told else cut.pointer


def dropped_items(cut: Cut, items: Sequence[Item]) -> list[int]:
    """Return the numbers of the items that a view leaves out."""
    shown = set(kept_order(cut, items))
    return [number for number in range(len(items)) if number not in shown]
