"""The JSON editor on the files people really have."""

from __future__ import annotations

import json

import pytest

from openmem.base.errors import Refused, Unparseable
from openmem.plan.action import Edit, Json
from openmem.plan.edit.jsonc import JsonText
from openmem.plan.edit.record import put_in, take_out_all

HOOK: Json = {"hooks": [{"type": "command", "command": "openmem-hook stop", "timeout": 5}]}


def _set(source: str, *keys: str, value: Json = 1, strict: bool = False) -> str:
    return JsonText.parse(source.encode(), "f", strict=strict).set(keys, value).data.decode()


@pytest.mark.parametrize(
    ("source", "line", "column", "reason"),
    [
        ('{\n  "a": 1,\n  "b": 2,\n}\n', 3, 9, "trailing comma"),
        ('{\n  // note\n  "a": 1\n}', 2, 3, "comment"),
        ('{"a": 1 /* c */}', 1, 9, "comment"),
        ('{\r\n\t"a":\r\n}', 3, 1, 'missing after ":"'),
        ('{"a" 1}', 1, 6, '":" is missing'),
        ('{"a": 1 "b": 2}', 1, 9, '"," or a closing bracket'),
        ("{'a': 1}", 1, 2, "double quotes"),
        ("{\"a\": 'x'}", 1, 7, "double quotes"),
        ('{"a": "x', 1, 7, "not closed"),
        ('{"a": "x\ny"}', 1, 9, "line break"),
        ('{"a": NaN}', 1, 7, "NaN"),
        ('{"x": "NaN", "a": -Infinity}', 1, 19, "Infinity"),
        ('{"a": 1}}', 1, 9, "after the end"),
        ('{"a": "\\q"}', 1, 8, "escape"),
        ("{,}", 1, 2, "key"),
        ("", 1, 1, "empty"),
        ("  \n ", 2, 2, "empty"),
        ('{"ü": [1, 2', 1, 12, "closing bracket"),
    ],
)
def test_a_fault_is_named_with_its_place(source: str, line: int, column: int, reason: str) -> None:
    """Facts, user row 1: refused with file:line:column."""
    with pytest.raises(Unparseable) as caught:
        JsonText.parse(source.encode(), "settings.json", strict=True)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason
    assert caught.value.exit_status == 4
    assert "settings.json" in caught.value.message


@pytest.mark.parametrize(
    "source", ["{,}", '{"a":,}', "[1,,]", "[,1]", '{"a": 1 /* open', '{"a"/ :1}']
)
def test_what_is_no_jsonc_is_refused_too(source: str) -> None:
    """Facts, user row 4: a stray comma is a fault, also where trailing ones may stand."""
    with pytest.raises(Unparseable):
        JsonText.parse(source.encode(), "f", strict=False)


def test_bytes_that_are_not_utf8_are_refused_with_their_place() -> None:
    """Issue 2, part 2: refuses rather than guess."""
    with pytest.raises(Unparseable) as caught:
        JsonText.parse(b'{\n "a": "\xff"}', "f", strict=False)
    assert (caught.value.line, caught.value.column) == (2, 8)
    with pytest.raises(Unparseable, match="UTF-16"):
        JsonText.parse("{}".encode("utf-16"), "f", strict=False)


def test_a_byte_order_mark_stays_and_is_never_added() -> None:
    """Facts, user row 12."""
    with_mark = JsonText.parse(b'\xef\xbb\xbf{"a": 1}', "f", strict=True).set(("b",), 2).data
    assert with_mark == b'\xef\xbb\xbf{"a": 1, "b": 2}'
    assert not JsonText.parse(b"{}", "f", strict=True).set(("b",), 2).data.startswith(b"\xef")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{}", '{\n  "b": 1\n}'),
        ('{"a":1}', '{"a":1,"b":1}'),
        ('{ "a": 1 }\n', '{ "a": 1, "b": 1 }\n'),
        ('{\n    "a": 1\n}\n', '{\n    "a": 1,\n    "b": 1\n}\n'),
        ('{\r\n\t"a": 1\r\n}', '{\r\n\t"a": 1,\r\n\t"b": 1\r\n}'),
        ('{\n  "a": 1,\n}', '{\n  "a": 1,\n  "b": 1,\n}'),
        ('{\n  "a": 1 // why\n  // last\n}', '{\n  "a": 1, // why\n  "b": 1\n  // last\n}'),
        ('{"a": 1 /* x */}', '{"a": 1 /* x */, "b": 1}'),
        ("{ // only this\n}", '{ // only this\n  "b": 1\n}'),
        ('{"a": [1,],}', '{"a": [1,], "b": 1,}'),
        ('{\n  "a" : 1\n}', '{\n  "a" : 1,\n  "b" : 1\n}'),
    ],
)
def test_an_insertion_follows_the_file(source: str, expected: str) -> None:
    """Issue 2, part 2: in the file's own style."""
    assert _set(source, "b") == expected


def test_a_table_on_one_line_stays_on_one_line() -> None:
    """Issue 2, part 2."""
    source = '{\n  "env": {"A": "1"},\n  "x": []\n}\n'
    assert _set(source, "env", "B", value="2") == source.replace("}", ', "B": "2"}', 1)


def test_a_changed_value_leaves_the_rest_of_its_line() -> None:
    """Facts, user row 2."""
    source = '{\n  "a": 1, // one\n  "b": {"c": 1.10, "d": 10000000000000000000000}\n}'
    assert _set(source, "b", "c", value=2) == source.replace("1.10", "2")


def test_installing_shows_inserted_lines_only_and_uninstalling_gives_back_the_bytes() -> None:
    """Facts, user row 2: line comment above, block comment in a list, tabs, CRLF."""
    source = (
        b'{\r\n\t// my hooks\r\n\t"hooks": {\r\n\t\t"Stop": [/* mine */\r\n'
        b'\t\t\t{"hooks": [{"command": "x"}]}\r\n\t\t]\r\n\t}\r\n}\r\n'
    )
    document = JsonText.parse(source, "f", strict=False)
    records: list[Edit] = []
    for edit in (
        Edit(keys=("hooks", "Stop"), op="append", value=HOOK, marker="openmem-hook"),
        Edit(keys=("hooks", "SessionStart"), op="append", value=HOOK, marker="openmem-hook"),
        Edit(keys=("env", "ANTHROPIC_BASE_URL"), op="set", value="http://127.0.0.1:8913"),
    ):
        document, made = put_in(document, edit)
        records += made
    old, new = source.split(b"\r\n"), document.data.split(b"\r\n")
    assert b"\n" not in document.data.replace(b"\r\n", b"")
    kept = iter(new)
    for line in old:  # every old line stands, in order; at most a comma was added to it
        assert any(line in (other, other.removesuffix(b",")) for other in kept)
    back, left, _ = take_out_all(document.data, "f", "jsonc", records)
    assert back == source and left == []


def test_trailing_commas_at_every_level_and_a_last_comment() -> None:
    """Facts, user row 4: never `{,`; the person's server still there."""
    source = (
        '{\n  "mcp": {\n    "mine": {\n      "command": ["x",],\n    },\n  },\n'
        "  // the last line is a comment\n}\n"
    )
    edited = _set(source, "mcp", "openmem", value={"command": ["openmem-mcp"], "enabled": True})
    document = JsonText.parse(edited.encode(), "f", strict=False)
    assert document.value(("mcp", "mine")) == {"command": ["x"]}
    assert edited.count("// the last line is a comment") == 1
    assert document.remove(("mcp", "openmem")).data.decode() == source


def test_a_key_that_stands_twice_on_the_way_is_refused_with_both_lines() -> None:
    """Ours: readers disagree on which of two equal keys counts, so an edit would be a guess."""
    source = b'{\n  "hooks": {},\n  "hooks": {}\n}'
    document = JsonText.parse(source, "f", strict=True)
    with pytest.raises(Unparseable, match="first in line 2") as caught:
        document.set(("hooks", "Stop"), [])
    assert caught.value.line == 3
    with pytest.raises(Unparseable):
        document.remove(("hooks",))
    assert document.set(("other",), 1).value(("other",)) == 1


def test_something_of_another_kind_on_the_way_is_refused() -> None:
    """Issue 2, part 2: refuses rather than guess."""
    document = JsonText.parse(b'{\n "hooks": [],\n "list": {}, "n": null}', "f", strict=True)
    for keys in (("hooks", "Stop"), ("n", "x")):
        with pytest.raises(Refused, match="is not an object"):
            document.set(keys, 1)
    with pytest.raises(Refused, match="is not a list"):
        document.append(("list",), 1)
    with pytest.raises(Refused):
        JsonText.parse(b"[]", "f", strict=True).set(("a",), 1)


def test_true_is_not_one() -> None:
    """Ours: Python says True == 1, JSON does not."""
    assert _set('{"a": 1}', "a", value=True) == '{"a": true}'
    assert _set('{"a": [1]}', "a", value=[True]) == '{"a": [true]}'
    assert _set('{"a": true}', "a", value=True) == '{"a": true}'


def test_numbers_and_escapes_elsewhere_keep_their_spelling() -> None:
    """Facts, user row 38 in files: `1e400`, long integers, `\\/` and `\\u00e9` stay as written."""
    source = '{"n": 1e400, "i": 123456789012345678901234567890, "s": "\\u00e9\\/é"}'
    assert _set(source, "b") == source[:-1] + ', "b": 1}'


def test_a_value_that_utf8_cannot_hold_is_written_escaped() -> None:
    """Facts, oddities: a lone surrogate is no character."""
    assert _set("{}", "a", value="\ud83d é") == '{\n  "a": "\\ud83d \\u00e9"\n}'


def test_a_blank_line_that_is_the_persons_stays() -> None:
    """Ours: taking out a member takes its own line break, not the blank line above it."""
    source = '{\n  "a": 1,\n\n  "b": 2,\n\n  "c": 3\n}'
    document = JsonText.parse(source.encode(), "f", strict=True).remove(("b",))
    assert document.data.decode() == '{\n  "a": 1,\n\n\n  "c": 3\n}'


def test_deep_nesting_and_long_numbers_are_refused_not_crashed() -> None:
    """Ours: hostile input ends in a refusal."""
    with pytest.raises(Unparseable, match="nested"):
        JsonText.parse(b"[" * 100_000, "f", strict=True)
    with pytest.raises(Unparseable, match="digits"):
        JsonText.parse(b"[" + b"1" * 5000 + b"]", "f", strict=True)


def test_many_trailing_commas_cost_no_more_than_their_number() -> None:
    """Facts, libraries 4.3: a megabyte is well under a second; here the square would be minutes."""
    source = "[" + ",\n".join("[1, /* c */]" for _ in range(60_000)) + ",\n]"
    document = JsonText.parse(source.encode(), "f", strict=False).append((), 5)
    assert document.data.decode().endswith(",\n5,\n]")


def test_a_large_file_is_edited_and_restored() -> None:
    """Facts, libraries 4.3: agents' JSON files reach megabytes."""
    big = {
        f"project{i}": {"history": ["x" * 40] * 5, "n": [1, 2, {"a": None}]} for i in range(4000)
    }
    source = json.dumps(big, indent=2).encode()
    assert len(source) > 1_000_000
    document, records = put_in(
        JsonText.parse(source, "f", strict=True),
        Edit(keys=("mcpServers", "openmem"), op="set", value={"command": "x"}),
    )
    back, left, _ = take_out_all(document.data, "f", "json", records)
    assert back == source and left == []


class TestEntriesOfOurs:
    """Lists in which ours stand beside other people's."""

    EDIT = Edit(keys=("hooks", "Stop"), op="append", value=HOOK, marker="openmem-hook")

    def _install(self, root: Json) -> tuple[Json, list[Edit], JsonText]:
        document = JsonText.parse(json.dumps(root, indent=2).encode(), "f", strict=True)
        document, records = put_in(document, self.EDIT)
        return document.value(("hooks", "Stop")), list(records), document

    def test_an_older_form_is_replaced_where_it_stands(self) -> None:
        """Facts, user row 10: after an upgrade the new entry is there, once."""
        theirs = {"hooks": [{"command": "theirs"}]}
        old = {"hooks": [{"command": "/old/openmem-hook stop"}]}
        root: Json = {"hooks": {"Stop": [old, theirs]}}
        entries, records, document = self._install(root)
        assert entries == [HOOK, theirs]
        back, left, _ = take_out_all(document.data, "f", "json", records)
        assert json.loads(back) == root and left == []

    def test_four_older_entries_become_one(self) -> None:
        """Facts, user rows 7 and 10: 4 matchers of ours before, one after."""
        old = [{"matcher": m, "hooks": [{"command": "openmem-hook x"}]} for m in "abcd"]
        root: Json = {"hooks": {"Stop": [*old]}}
        entries, records, document = self._install(root)
        assert entries == [HOOK]
        back, _, _ = take_out_all(document.data, "f", "json", records)
        assert json.loads(back) == root

    def test_ours_inside_another_group_is_taken_out_of_it_alone(self) -> None:
        """Design, section 4: other people's entries untouched."""
        group = {"hooks": [{"command": "theirs"}, {"command": "openmem-hook old"}]}
        entries, records, document = self._install({"hooks": {"Stop": [group]}})
        assert entries == [{"hooks": [{"command": "theirs"}]}, HOOK]
        back, _, _ = take_out_all(document.data, "f", "json", records)
        assert json.loads(back) == {"hooks": {"Stop": [group]}}

    def test_ours_changed_by_the_person_is_still_ours_at_uninstall(self) -> None:
        """Facts, user row 8: leftovers list is empty."""
        _, records, document = self._install({"hooks": {"Stop": [{"hooks": []}]}})
        changed = document.set(("hooks", "Stop", 1, "hooks", 0, "timeout"), 60)
        back, left, _ = take_out_all(changed.data, "f", "json", records)
        assert json.loads(back) == {"hooks": {"Stop": [{"hooks": []}]}} and left == []

    def test_their_command_added_to_our_group_stays(self) -> None:
        """Design, section 4: other people's entries untouched."""
        _, records, document = self._install({})
        changed = document.append(("hooks", "Stop", 0, "hooks"), {"command": "theirs"})
        back, left, _ = take_out_all(changed.data, "f", "json", records)
        assert json.loads(back) == {"hooks": {"Stop": [{"hooks": [{"command": "theirs"}]}]}}
        assert left == []

    def test_without_a_marker_only_the_equal_entry_is_ours(self) -> None:
        """Ours: nothing else tells our entry from another one."""
        edit = Edit(keys=("allow",), op="append", value="mcp__openmem")
        document = JsonText.parse(b'{"allow": ["mcp__openmem_x"]}', "f", strict=True)
        document, records = put_in(document, edit)
        assert document.value(("allow",)) == ["mcp__openmem_x", "mcp__openmem"]
        back, _, _ = take_out_all(document.data, "f", "json", records)
        assert back == b'{"allow": ["mcp__openmem_x"]}'


def test_a_value_somebody_changed_meanwhile_stays_with_a_reason() -> None:
    """Design, section 4: gives back the bytes of before, or says what it left and why."""
    before = b'{\n  "env": {"URL": "theirs"}\n}'
    document, records = put_in(
        JsonText.parse(before, "f", strict=True),
        Edit(keys=("env", "URL"), op="set", value="ours"),
    )
    back, left, _ = take_out_all(document.data, "f", "json", records)
    assert back == before and left == []
    changed = document.set(("env", "URL"), "newer").data
    back, left, _ = take_out_all(changed, "f", "json", records)
    assert back == changed
    assert [item.keys for item in left] == [("env", "URL")] and "changed" in left[0].why


def test_what_we_removed_is_not_put_over_something_new() -> None:
    """Design, section 4."""
    document, records = put_in(
        JsonText.parse(b'{"mcp": {"old": 1}, "x": 2}', "f", strict=True),
        Edit(keys=("mcp", "old"), op="remove"),
    )
    newer = document.set(("mcp", "old"), 5)
    back, left, _ = take_out_all(newer.data, "f", "json", records)
    assert back == newer.data and len(left) == 1
    gone = document.remove(("mcp",))
    back, left, _ = take_out_all(gone.data, "f", "json", records)
    assert back == gone.data and len(left) == 1
