"""Properties of the JSON editor over generated files."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.errors import Refused, Unparseable
from openmem.plan.action import Edit, Json, same
from openmem.plan.edit.jsonc import JsonText
from openmem.plan.edit.record import put_in, take_out_all
from tests.fakes.json_files import KEYS, VALUES, json_files

BUSY = settings(
    max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    """A `set` or `append`, with tables above it that may or may not be there."""
    keys = tuple(draw(st.lists(KEYS, min_size=1, max_size=4)))
    op = draw(st.sampled_from(["set", "append"]))
    return Edit(keys=keys, op=op, value=draw(VALUES))


def _all_put_in(data: bytes, wanted: list[Edit], *, strict: bool) -> tuple[bytes, list[Edit]]:
    """Put in the edits that fit the file; one that meets another kind is refused and left out."""
    document = JsonText.parse(data, "file", strict=strict)
    records: list[Edit] = []
    for edit in wanted:
        try:
            document, made = put_in(document, edit)
        except Refused as error:
            assert error.code == "unexpected-kind"
            continue
        records += made
    return document.data, records


@BUSY
@given(data=st.data(), comments=st.booleans(), wanted=st.lists(edits(), min_size=1, max_size=4))
def test_edits_put_in_and_taken_out_give_back_the_bytes(
    data: st.DataObject, comments: bool, wanted: list[Edit]
) -> None:
    """Issue 2, part 2: install→uninstall is the identity over generated files."""
    before = data.draw(json_files(comments=comments))
    form = "jsonc" if comments else "json"
    after, records = _all_put_in(before, wanted, strict=not comments)
    back, left, _ = take_out_all(after, "file", form, records)
    assert left == []
    assert back == before


@BUSY
@given(data=st.data(), comments=st.booleans(), edit=edits())
def test_an_edit_changes_its_value_and_no_other(
    data: st.DataObject, comments: bool, edit: Edit
) -> None:
    """Facts, user row 2: what stands outside our span survives."""
    before = data.draw(json_files(comments=comments))
    document = JsonText.parse(before, "file", strict=not comments)
    root = document.value()
    try:
        changed, records = put_in(document, edit)
    except Refused:
        return
    keys = edit.keys
    if edit.op == "append":
        entries = changed.value(keys)
        assert isinstance(entries, list) and any(same(edit.value, entry) for entry in entries)
    else:
        assert same(changed.value(keys), edit.value)
    assert isinstance(root, dict)
    for key, value in root.items():
        if key != keys[0]:
            assert same(changed.value((key,)), value)
    again, more = put_in(changed, edit)
    assert more == () and again.data == changed.data
    assert changed.data.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
    if records and b"\r\n" in before.replace(b"/* two\r\n", b""):
        assert b"\n" not in changed.data.replace(b"\r\n", b"")


@BUSY
@given(
    data=st.data(),
    comments=st.booleans(),
    wanted=st.lists(edits(), min_size=1, max_size=3),
    foreign=st.tuples(st.sampled_from(["theirs", "a"]), VALUES),
)
def test_taking_out_keeps_what_others_changed_meanwhile(
    data: st.DataObject, comments: bool, wanted: list[Edit], foreign: tuple[str, Json]
) -> None:
    """Design, section 4: uninstall takes out only ours from a file that somebody rewrote."""
    before = data.draw(json_files(comments=comments))
    form = "jsonc" if comments else "json"
    wanted = [edit for edit in wanted if edit.keys[0] != foreign[0]]
    after, records = _all_put_in(before, wanted, strict=not comments)
    theirs = JsonText.parse(after, "file", strict=not comments).set((foreign[0],), foreign[1])
    back, left, _ = take_out_all(theirs.data, "file", form, records)
    assert left == []
    expected = JsonText.parse(before, "file", strict=not comments).set((foreign[0],), foreign[1])
    assert same(JsonText.parse(back, "file", strict=not comments).value(), expected.value())


@BUSY
@given(data=st.data(), comments=st.booleans())
def test_a_removed_value_comes_back_where_it_stood(data: st.DataObject, comments: bool) -> None:
    """Issue 2, part 6: an older installation goes through the plan, and undo restores it."""
    before = data.draw(json_files(comments=comments))
    document = JsonText.parse(before, "file", strict=not comments)
    root = document.value()
    assert isinstance(root, dict)
    if not root:
        return
    key = data.draw(st.sampled_from(list(root)))
    without, records = put_in(document, Edit(keys=(key,), op="remove"))
    assert not without.has((key,))
    form = "jsonc" if comments else "json"
    back, left, _ = take_out_all(without.data, "file", form, records)
    assert left == []
    restored = JsonText.parse(back, "file", strict=not comments).value()
    assert same(restored, root)
    assert list(restored) == list(root)  # type: ignore[arg-type]


@BUSY
@given(data=st.data(), comments=st.booleans(), extra=st.sampled_from('{}[]",:/*x\\ \n1'))
def test_a_damaged_file_is_refused_or_means_what_json_means(
    data: st.DataObject, comments: bool, extra: str
) -> None:
    """Facts, user row 1: a file that does not parse is never edited."""
    before = data.draw(json_files(comments=comments)).decode("utf-8-sig")
    place = data.draw(st.integers(0, len(before)))
    if data.draw(st.booleans()):
        damaged = before[:place] + extra + before[place:]
    else:
        damaged = before[:place] + before[place + 1 :]
    for strict in (True, False):
        try:
            value: Json = JsonText.parse(damaged.encode(), "file", strict=strict).value()
        except Unparseable as error:
            assert error.line >= 1 and error.column >= 1
            if strict:
                with pytest.raises(ValueError):
                    json.loads(damaged)
            continue
        if strict:
            assert same(value, json.loads(damaged))
