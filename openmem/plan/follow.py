"""A write carried over to what somebody else has just written there.

Idea: an agent may rewrite its settings many times a second, and planning anew takes longer than it
leaves in peace. So edits that were agreed to are put into the bytes that are there in the moment of
writing. Invariant: only edits that mean there what they meant when they were planned: what we set
was not there or is what it was, an entry of ours comes to the same place in its list; and taking
out, where nothing of ours has to stay. All else is a conflict, as it was.
Trap: an empty file is one that is being written, not one without settings.
"""

from __future__ import annotations

from dataclasses import replace

from openmem.base.errors import Refused
from openmem.base.io import digest_of
from openmem.plan.action import Edit, WriteFile
from openmem.plan.edit.document import Document
from openmem.plan.edit.record import parse, put_in, take_out_all
from openmem.plan.system import System, contract


def followed(action: WriteFile, system: System) -> tuple[WriteFile, bytes] | None:
    """Return the write over what is there now, and those bytes; None when it may not follow.

    Unparseable or PlanConflict when it is caught half written: look again.
    """
    if not action.out and not (action.edits and action.form):
        return None
    found = system.read(action.path)
    if found is None:
        return None
    if not found.strip():
        raise contract.changed(action.path, "is being written")
    if action.out:
        data = _without(action, found)
        if data is None:
            return None
        return replace(action, before=digest_of(found), data=data), found
    document = parse(found, action.path, action.form)
    records: list[Edit] = []
    try:
        for edit in action.edits:
            document, record = _again(document, edit)
            if record is None:
                return None
            records.append(record)
    except Refused:
        return None  # something of another kind stands there now
    write = replace(action, before=digest_of(found), data=document.data, edits=tuple(records))
    return write, found


def _without(action: WriteFile, data: bytes) -> bytes | None:
    """Return the bytes without the edits that go; None when something of them has to stay."""
    for taken in action.out:
        data, left, is_blank = take_out_all(data, action.path, taken.form, taken.edits)
        if left or is_blank:
            return None  # to be told, or the file is to go
    return data


def _again(document: Document, edit: Edit) -> tuple[Document, Edit | None]:
    """Put a recorded edit in again; None for the record when it is another edit there."""
    if edit.op == "remove":
        return document, None  # by its place, and who knows what stands there now
    asked = Edit(keys=edit.keys, op=edit.op, value=edit.value, marker=edit.marker)
    changed, made = put_in(document, asked)
    if len(made) != 1 or made[0].op != edit.op or made[0].was != edit.was:
        return document, None
    if edit.op == "append" and made[0].index != edit.index:
        return document, None
    return changed, made[0]
