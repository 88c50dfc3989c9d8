"""Properties of the TOML editor over generated files."""

from __future__ import annotations

import tomllib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.errors import Refused, Unparseable
from openmem.plan.action import Edit, Json, same
from openmem.plan.edit.record import put_in, take_out_all
from openmem.plan.edit.toml import TomlText
from tests.fakes.toml_files import NAMES, VALUES, toml_files

BUSY = settings(
    max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    keys = tuple(draw(st.lists(NAMES, min_size=1, max_size=3)))
    return Edit(keys=keys, op=draw(st.sampled_from(["set", "append"])), value=draw(VALUES))


def _all_put_in(data: bytes, wanted: list[Edit]) -> tuple[bytes, list[Edit]]:
    document = TomlText.parse(data, "file")
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
@given(before=toml_files())
def test_a_file_is_read_as_python_reads_it_and_written_as_it_was(before: bytes) -> None:
    """Issue 2, part 2: what is not edited keeps its bytes."""
    document = TomlText.parse(before, "file")
    assert document.data == before
    for key, value in tomllib.loads(before.decode()).items():
        assert document.has((key,))
        if isinstance(value, bool | int | float | str):
            assert same(document.value((key,)), value)
            assert tomllib.loads(f"v = {document.text((key,))}")["v"] == value


@BUSY
@given(before=toml_files(), wanted=st.lists(edits(), min_size=1, max_size=4))
def test_edits_put_in_and_taken_out_give_back_the_bytes(before: bytes, wanted: list[Edit]) -> None:
    """Facts, user row 6: add and remove is byte-identical, also with CRLF."""
    after, records = _all_put_in(before, wanted)
    if b"\r\n" in after:
        assert b"\n" not in after.replace(b"\r\n", b"")
    back, left, _ = take_out_all(after, "file", "toml", records)
    assert left == []
    assert back == before


@BUSY
@given(before=toml_files(), edit=edits())
def test_an_edit_changes_its_value_and_no_other(before: bytes, edit: Edit) -> None:
    """Facts, user row 6: change only our table."""
    document = TomlText.parse(before, "file")
    root = document.value()
    try:
        changed, _ = put_in(document, edit)
    except Refused:
        return
    assert isinstance(root, dict)
    for key, value in root.items():
        if key != edit.keys[0]:
            assert same(changed.value((key,)), value)
    again, more = put_in(changed, edit)
    assert more == () and again.data == changed.data
    for line in before.splitlines():  # no comment is lost
        if line.startswith(b"# "):
            assert line in changed.data or document.has(edit.keys)


@BUSY
@given(before=toml_files(), wanted=st.lists(edits(), min_size=1, max_size=3), value=VALUES)
def test_taking_out_keeps_what_others_changed_meanwhile(
    before: bytes, wanted: list[Edit], value: Json
) -> None:
    """Design, section 4: takes out only ours from a file that somebody rewrote."""
    after, records = _all_put_in(before, wanted)
    theirs = TomlText.parse(after, "file").set(("theirs",), value)
    back, left, _ = take_out_all(theirs.data, "file", "toml", records)
    assert left == []
    expected = TomlText.parse(before, "file").set(("theirs",), value)
    assert same(TomlText.parse(back, "file").value(), expected.value())


@BUSY
@given(data=st.data(), before=toml_files())
def test_a_removed_value_comes_back(data: st.DataObject, before: bytes) -> None:
    """Issue 2, part 6: an older installation goes through the plan, and undo restores it."""
    document = TomlText.parse(before, "file")
    root = document.value()
    assert isinstance(root, dict)
    if not root:
        return
    key = data.draw(st.sampled_from(list(root)))
    try:
        without, records = put_in(document, Edit(keys=(key,), op="remove"))
    except Refused as error:
        assert error.code == "unexpected-kind"
        return
    assert not without.has((key,))
    back, left, _ = take_out_all(without.data, "file", "toml", records)
    assert left == []
    assert same(TomlText.parse(back, "file").value(), root)


@BUSY
@given(data=st.data(), before=toml_files(), extra=st.sampled_from("[]{}=\"'#.,\n a1"))
def test_a_damaged_file_is_refused_or_means_what_toml_means(
    data: st.DataObject, before: bytes, extra: str
) -> None:
    """Facts, user row 1: a file that does not parse is never edited."""
    text = before.decode()
    place = data.draw(st.integers(0, len(text)))
    damaged = text[:place] + extra + text[place:]
    try:
        document = TomlText.parse(damaged.encode(), "file")
    except Unparseable as error:
        assert error.line >= 1 and error.column >= 1
        return
    assert document.data == damaged.encode()
    try:
        changed = document.set(("zzz",), 1)
    except Refused:
        return
    assert changed.remove(("zzz",)).data == damaged.encode()
