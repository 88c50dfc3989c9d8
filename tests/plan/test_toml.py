"""The TOML editor on the files people really have, and on openmem's own."""

from __future__ import annotations

import tomllib

import pytest

from openmem.base.errors import Refused, Unparseable
from openmem.plan.action import Edit, Json
from openmem.plan.edit.record import put_in, take_out_all
from openmem.plan.edit.toml import TomlText

CODEX = """\
# my settings
model = "gpt"   # the good one

[mcp_servers."with.dot"] # theirs
command = "x"
startup_timeout_sec = 1_000

[projects."/home/u/my repo"]
trust_level = "trusted"
"""
SERVER: Json = {"command": "openmem-mcp", "args": ["--x"], "env": {"A": "1"}}


def _toml(text: str) -> TomlText:
    return TomlText.parse(text.encode(), "config.toml")


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_a_server_is_added_and_taken_out_without_a_trace(eol: str) -> None:
    """Facts, user row 6: header comment, quoted names, `1_000`, CRLF; nothing else changes."""
    before = CODEX.replace("\n", eol)
    document, records = put_in(
        _toml(before), Edit(keys=("mcp_servers", "openmem"), op="set", value=SERVER)
    )
    block = '\n[mcp_servers.openmem]\ncommand = "openmem-mcp"\nargs = ["--x"]\nenv = {A = "1"}\n'
    assert document.data.decode() == before + block.replace("\n", eol)
    back, left, _ = take_out_all(document.data, "config.toml", "toml", records)
    assert back.decode() == before and left == []


@pytest.mark.parametrize(
    ("source", "keys", "value", "expected"),
    [
        ("", ("a",), 1, "a = 1\n"),
        ("a = 1", ("b",), True, "a = 1\nb = true"),
        ("# note\n\n[t]\nx = 1\n", ("a",), 1, "# note\n\na = 1\n\n[t]\nx = 1\n"),
        ("[t]\nx = 1 # c\n\n[u]\n", ("t", "y"), "é", '[t]\nx = 1 # c\ny = "é"\n\n[u]\n'),
        ("[t]\n", ("t", "y"), 1, "[t]\ny = 1\n"),
        ("a.b = 1\n[t]\n", ("a", "c"), 2, "a.b = 1\na.c = 2\n[t]\n"),
        ("t = { a = 1 }\n", ("t", "b"), 2, "t = { a = 1, b = 2 }\n"),
        ("t = {}\n", ("t", "b", "c"), 2, "t = {b = {c = 2}}\n"),
        ("[a.b]\nx = 1\n", ("a", "y"), 2, "[a.b]\nx = 1\n\n[a]\ny = 2\n"),
        ("a = 1 # why\n", ("a",), 2, "a = 2 # why\n"),
        ("[t]\nx = 1\n[t.u]\ny = 1\n[z]\n", ("t",), {"q": 1}, "[t]\nq = 1\n[z]\n"),
        (
            "[[r]]\nx = 1\n\n[[r]]\nx = 2\n",
            ("r", 0, "y"),
            3,
            "[[r]]\nx = 1\ny = 3\n\n[[r]]\nx = 2\n",
        ),
    ],
)
def test_a_value_goes_where_a_person_would_put_it(
    source: str, keys: tuple[str | int, ...], value: Json, expected: str
) -> None:
    """Issue 2, part 2: in the file's own style; ours: taking it out leaves no trace."""
    document, records = put_in(_toml(source), Edit(keys=keys, op="set", value=value))
    assert document.data.decode() == expected
    back, left, _ = take_out_all(document.data, "f", "toml", records)
    assert back.decode() == source and left == []


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        ("", {"path": "~/x", "store": False}, '[[rules]]\npath = "~/x"\nstore = false\n'),
        ("[[rules]]\na = 1\n", {"b": 2}, "[[rules]]\na = 1\n\n[[rules]]\nb = 2\n"),
        ("rules = []\n", {"b": 2}, "rules = [{b = 2}]\n"),
        ("rules = [\n  1, # one\n]\n", 2, "rules = [\n  1, # one\n  2,\n]\n"),
        ("rules = [1, 2]\n", 3, "rules = [1, 2, 3]\n"),
    ],
)
def test_a_list_grows_in_its_own_form(source: str, value: Json, expected: str) -> None:
    """Ours: policy rules are `[[rules]]`; other people's lists stay as they write them."""
    document, records = put_in(_toml(source), Edit(keys=("rules",), op="append", value=value))
    assert document.data.decode() == expected
    back, left, _ = take_out_all(document.data, "f", "toml", records)
    assert back.decode() == source and left == []


def test_an_entry_of_a_list_of_tables_is_removed_and_restored_in_its_place() -> None:
    """Ours: the order of rules is what the person wrote."""
    before = "[[r]]\nx = 1\n\n[[r]]\nx = 2 # two\n\n[[r]]\nx = 3\n"
    document, records = put_in(_toml(before), Edit(keys=("r", 1), op="remove"))
    assert document.data.decode() == "[[r]]\nx = 1\n\n[[r]]\nx = 3\n"
    back, left, _ = take_out_all(document.data, "f", "toml", records)
    assert back.decode() == before and left == []


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("[[r]]\nx = 1 # one\n", ("r", 0)),
        ("a = 1\n\n[t]\nx = 1\n\n[t.u]\ny = 2 # c\n", ("t", "u")),
        ("[t.u]\ny = 2 # c\n", ("t", "u")),
        ("a = 1\nb = 0x2\n", ("b",)),
        ("a = { x = 1, y = 2 }\n", ("a", "y")),
    ],
)
def test_the_last_thing_removed_comes_back_with_its_bytes(
    source: str, keys: tuple[str | int, ...]
) -> None:
    """Issue 2, part 6: an older installation is taken out through the plan, and undo restores."""
    document, records = put_in(_toml(source), Edit(keys=keys, op="remove"))
    assert not document.has(keys)
    back, left, _ = take_out_all(document.data, "f", "toml", records)
    assert back.decode() == source and left == []


def test_comments_of_the_next_table_stay_when_a_table_goes() -> None:
    """Issue 2, part 2: keeps comments."""
    document = _toml("[a]\nx = 1\n\n[b]\ny = 1 # ours\n\n# about c\n[c]\nz = 1\n")
    assert document.remove(("b",)).data.decode() == "[a]\nx = 1\n\n# about c\n[c]\nz = 1\n"


def test_text_that_looks_like_structure_is_text() -> None:
    """Ours: headers and keys inside long texts are none."""
    source = 'a = """\n[t]\nb = 1\n"""\nc = \'\'\'x = [\n\'\'\'\n[t]\nd = "# no # comment" # yes\n'
    document = _toml(source)
    assert document.value(("t",)) == {"d": "# no # comment"}
    changed = document.set(("t", "d"), "new").set(("b",), 1)
    assert changed.data.decode() == source.replace('"# no # comment"', '"new"').replace(
        "[t]\nd", "b = 1\n[t]\nd"
    )


def test_dates_are_read_as_text_and_left_alone() -> None:
    """Ours: JSON has no dates; an edit beside one keeps it."""
    document = _toml("d = 1979-05-27 07:32:00Z\nt = 07:32:00 # noon\n")
    assert document.value(("d",)) == "1979-05-27T07:32:00+00:00"
    assert document.text(("d",)) == "1979-05-27 07:32:00Z"
    assert document.set(("x",), 1).data.decode().startswith("d = 1979-05-27 07:32:00Z\n")


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [("a = \n", 1, 5), ("[t]\nx = 1\nx = 2\n", 3, 6), ('a = "x', 1, 7), ("[t]\n[t]\n", 2, 3)],
)
def test_a_fault_is_named_with_its_place(source: str, line: int, column: int) -> None:
    """Facts, user row 1."""
    with pytest.raises(Unparseable) as caught:
        _toml(source)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_what_toml_cannot_hold_or_a_place_cannot_take_is_refused() -> None:
    """Issue 2, part 2: refuses rather than guess."""
    document = _toml("a = 1\nlist = [1]\n[[r]]\n[x.one]\n[y]\n[x.two]\n")
    for keys in (("a", "b"), ("list", "b"), ("r", "b")):
        with pytest.raises(Refused, match="is not a"):
            document.set(keys, 1)
    with pytest.raises(Refused, match="one place"):
        document.set(("x",), {})
    with pytest.raises(Refused, match="nothing"):
        document.set(("n",), None)
    with pytest.raises(Refused, match="not a list"):
        document.append(("a",), 1)


def test_an_entry_of_ours_is_found_by_its_marker() -> None:
    """Facts, user row 10: an older form is replaced, not doubled."""
    before = '[[hooks]]\ncommand = "theirs"\n\n[[hooks]]\ncommand = "/old/openmem-hook stop"\n'
    edit = Edit(
        keys=("hooks",), op="append", value={"command": "openmem-hook stop"}, marker="openmem-hook"
    )
    document, records = put_in(_toml(before), edit)
    assert document.value(("hooks",)) == [{"command": "theirs"}, {"command": "openmem-hook stop"}]
    back, left, _ = take_out_all(document.data, "f", "toml", records)
    assert tomllib.loads(back.decode()) == tomllib.loads(before) and left == []
    assert back.decode() == before


def test_a_mark_at_the_start_stays() -> None:
    """Facts, user row 12, for TOML."""
    document = TomlText.parse(b"\xef\xbb\xbfa = 1\n", "f")
    assert document.set(("b",), 2).data == b"\xef\xbb\xbfa = 1\nb = 2\n"
