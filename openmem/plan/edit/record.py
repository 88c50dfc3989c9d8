"""An edit put in, with a record of how to take out exactly it, and taken out again.

Idea: the record says what was there before (`was`), which tables above were made for it (`made`)
and what stood in the brackets (`blank`); that is enough for the bytes of before, also after
somebody else changed other parts of the file. Invariant: a value that is no longer ours is left,
with a reason. Trap: an entry of ours that somebody changed is still ours if it holds our marker;
somebody's entry that holds ours inside (hooks in one group) loses only ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from openmem.base.errors import Refused, Unparseable
from openmem.base.io import digest_of
from openmem.plan.action import Edit, Form, Json, Keys, Left, canonical, same
from openmem.plan.edit.block import BlockText
from openmem.plan.edit.document import Document
from openmem.plan.edit.jsonc import JsonText
from openmem.plan.edit.values import named

D = TypeVar("D", bound=Document)


def parse(data: bytes, path: str, form: Form) -> Document:
    """Return the document of a file in one of the formats. Unparseable names the place."""
    if form == "toml":
        from openmem.plan.edit.toml import TomlText

        return TomlText.parse(data, path)
    if form == "block":
        return BlockText.parse(data, path)
    return JsonText.parse(data, path, strict=form == "json")


def put_in(document: D, edit: Edit) -> tuple[D, tuple[Edit, ...]]:
    """Return the document with the edit in it, and the records of what was done; none if nothing.

    An older form of ours, found by the marker, is replaced where it stands; further ones are
    removed, so that wiring twice is wiring once.
    """
    if edit.op == "append":
        return _append(document, edit)
    if edit.op == "remove":
        if not document.has(edit.keys):
            return document, ()
        return _removed(document, edit.keys, edit.marker)
    value = edit.value
    if document.has(edit.keys):
        if same(document.value(edit.keys), value):
            return document, ()
        record = replace(edit, was=document.text(edit.keys), digest=edit.value_digest)
        return document.set(edit.keys, value), (record,)
    record = _record(document, edit, edit.keys)
    return document.set(edit.keys, value), (record,)


def _append(document: D, edit: Edit) -> tuple[D, tuple[Edit, ...]]:
    entries = _entries(document, edit.keys)
    ours = [
        number
        for number, entry in enumerate(entries)
        if same(entry, edit.value) or _holds(entry, edit.marker)
    ]
    if not ours:
        record = replace(_record(document, edit, (*edit.keys, len(entries))), index=len(entries))
        return document.append(edit.keys, edit.value), (record,)
    records: list[Edit] = []
    for number in reversed(ours[1:]):
        for place in reversed(_places_of_ours(document, (*edit.keys, number), edit)):
            document, made = _removed(document, place, edit.marker)
            records += made
    first = (*edit.keys, ours[0])
    entry = document.value(first)
    places = _places_of_ours(document, first, edit)
    if same(entry, edit.value):
        return document, tuple(records)
    if places == [first]:
        was = document.text(first)
        records.append(replace(edit, was=was, index=ours[0], digest=edit.value_digest))
        return document.set(first, edit.value), tuple(records)
    # Ours stands inside an entry of somebody else: out of there, then in on its own.
    for place in reversed(places):
        document, made = _removed(document, place, edit.marker)
        records += made
    count = len(_entries(document, edit.keys))
    records.append(replace(_record(document, edit, (*edit.keys, count)), index=count))
    return document.append(edit.keys, edit.value), tuple(records)


def _record(document: Document, edit: Edit, place: Keys) -> Edit:
    """Return the record of an edit that puts something at a new place."""
    above = len(place) - 1
    while above and not document.has(place[:above]):
        above -= 1
    made = len(place) - 1 - above
    return replace(edit, made=made, blank=document.blank(place[:above]), digest=edit.value_digest)


def _removed(document: D, keys: Keys, marker: str) -> tuple[D, tuple[Edit, ...]]:
    """Remove what stands at `keys`; the record puts it back where it stood."""
    changed = document.remove(keys)
    above = len(keys) - 1
    while above and not changed.has(keys[:above]):
        above -= 1  # in TOML a table or list goes with the last thing in it
    record = Edit(
        keys=keys,
        op="remove",
        marker=marker,
        was=document.text(keys),
        index=_index(document, keys),
        made=len(keys) - 1 - above,
    )
    return changed, (record,)


def _index(document: Document, keys: Keys) -> int:
    last = keys[-1]
    if isinstance(last, int):
        return last
    above = document.value(keys[:-1])
    return list(above).index(last) if isinstance(above, dict) else -1


def _entries(document: Document, keys: Keys) -> list[Json]:
    value = document.value(keys) if document.has(keys) else []
    return value if isinstance(value, list) else []


def _holds(entry: Json, marker: str) -> bool:
    """Return whether an entry holds the marker in one of its texts."""
    if not marker:
        return False
    if isinstance(entry, str):
        return marker in entry
    if isinstance(entry, list):
        return any(_holds(item, marker) for item in entry)
    if isinstance(entry, dict):
        return any(marker in key or _holds(item, marker) for key, item in entry.items())
    return False


def _places_of_ours(document: Document, keys: Keys, edit: Edit) -> list[Keys]:
    """Return the smallest list entries at or below `keys` that are ours alone.

    A list inside the entry that holds entries with the marker beside entries without it belongs
    to somebody else; then only those with it are ours.
    """
    entry = document.value(keys)
    if same(entry, edit.value) or not edit.marker:
        return [keys]
    inner = _shared_lists(entry, edit.marker, keys)
    return inner or [keys]


def _shared_lists(entry: Json, marker: str, keys: Keys) -> list[Keys]:
    found: list[Keys] = []
    if isinstance(entry, dict):
        for key, item in entry.items():
            found += _shared_lists(item, marker, (*keys, key))
    elif isinstance(entry, list):
        ours = [number for number, item in enumerate(entry) if _holds(item, marker)]
        if ours and len(ours) < len(entry):
            found += [(*keys, number) for number in ours]
        else:
            for number in ours:
                found += _shared_lists(entry[number], marker, (*keys, number))
    return found


def take_out_all(
    data: bytes, path: str, form: Form, edits: Sequence[Edit]
) -> tuple[bytes, list[Left], bool]:
    """Return the bytes without these edits, what was left and why, and whether nothing remains.

    Unparseable when the file no longer parses.
    """
    document = parse(data, path, form)
    left: list[Left] = []
    for edit in reversed(edits):
        try:
            document, why = take_out(document, edit)
        except Refused as error:  # one place in the file, such as a doubled key
            why = error.reason if isinstance(error, Unparseable) else error.message
        if why:
            left.append(Left(path=path, keys=edit.keys, why=f"{named(edit.keys)}: {why}"))
    root = document.value()
    return document.data, left, not root


def take_out(document: D, edit: Edit) -> tuple[D, str]:
    """Return the document without one edit, and why something was left, "" when nothing was."""
    if edit.op == "remove":
        return _restored(document, edit)
    if edit.op == "append":
        return _take_from_list(document, edit)
    if not document.has(edit.keys):
        return document, ""
    value = document.value(edit.keys)
    if not (_is_ours(value, edit) or _holds(value, edit.marker)):
        return document, "changed since openmem set it; it stays"
    if edit.was is not None:
        return document.set_text(edit.keys, edit.was), ""
    return _without(document, edit.keys, edit), ""


def _is_ours(value: Json, edit: Edit) -> bool:
    return digest_of(canonical(value).encode()) == edit.value_digest


def _take_from_list(document: D, edit: Edit) -> tuple[D, str]:
    entries = _entries(document, edit.keys)
    exact = [number for number, entry in enumerate(entries) if _is_ours(entry, edit)]
    if exact:
        # Of equal entries the one nearest to where we put it.
        number = min(exact, key=lambda n: abs(n - edit.index))
        if edit.was is not None:
            return document.set_text((*edit.keys, number), edit.was), ""
        return _without(document, (*edit.keys, number), edit), ""
    marked = [number for number, entry in enumerate(entries) if _holds(entry, edit.marker)]
    for number in reversed(marked):
        for place in reversed(_places_of_ours(document, (*edit.keys, number), edit)):
            document = _without(document, place, edit)
    return document, ""


def _without(document: D, place: Keys, edit: Edit) -> D:
    """Remove what stands at `place` and the tables above that were made for it and are empty."""
    # What we made goes as one piece, so that its comments and line breaks go with it.
    made = edit.made
    while made and len(place) > 1 and _is_alone(document, place):
        place = place[:-1]
        made -= 1
    return document.remove(place, blank=edit.blank if made == 0 else "")


def _is_alone(document: Document, place: Keys) -> bool:
    above = document.value(place[:-1])
    return isinstance(above, dict | list) and len(above) == 1


def _restored(document: D, edit: Edit) -> tuple[D, str]:
    if edit.was is None:
        return document, ""
    keys, last = edit.keys, edit.keys[-1]
    if not document.has(keys[:-1]) and not edit.made:
        return document, "what it stood in was removed since; it is not put back"
    if isinstance(last, int):
        entries = _entries(document, keys[:-1])
        place = (*keys[:-1], len(entries))
        return document.set_text(place, edit.was, index=min(last, len(entries))), ""
    if document.has(keys):
        return document, "something else stands there by now; it stays"
    return document.set_text(keys, edit.was, index=edit.index), ""


def still_stands(document: Document, edit: Edit, edits: Sequence[Edit]) -> bool:
    """Return whether an edit is still in force in a document.

    `edits`: all edits of the file, oldest first; one that a later one replaced counts as standing.
    """
    later = edits[list(edits).index(edit) + 1 :]
    if any(other.keys == edit.keys and other.op == edit.op == "set" for other in later):
        return True
    if edit.op == "remove":
        return True  # something new at that place is not ours to judge
    if edit.op == "append":
        entries = _entries(document, edit.keys)
        if any(_is_ours(entry, edit) or _holds(entry, edit.marker) for entry in entries):
            return True
        return any(other.keys == edit.keys and other.op == "append" for other in later)
    return document.has(edit.keys) and _is_ours(document.value(edit.keys), edit)
