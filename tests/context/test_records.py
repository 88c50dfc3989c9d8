"""A file of JSON lines, read whatever became of it: nothing good lost, nothing bad hidden."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.context.formats.records import Record, document, records


def read(data: bytes, *, offset: int = 0, limit: int = 1 << 20) -> list[Record]:
    return list(records(io.BytesIO(data), offset, limit=limit))


def values(data: bytes, **more: Any) -> list[Any]:
    return [record.value for record in read(data, **more) if not record.problem]


def faults(data: bytes, **more: Any) -> list[tuple[int, str]]:
    return [(record.line, record.problem) for record in read(data, **more) if record.problem]


def test_two_objects_on_one_line_are_two() -> None:
    """Oddities: the newline was lost when a session was resumed."""
    data = b'{"a":1}{"b":"}{"} {"c":3}\n{"d":4}\n'
    assert values(data) == [{"a": 1}, {"b": "}{"}, {"c": 3}, {"d": 4}] and faults(data) == []


def test_a_record_half_written_and_then_whole_is_read_and_reported() -> None:
    """Oddities: openai/codex#24425."""
    whole = b'{"timestamp":"x","payload":{"text":"whole"}}'
    assert values(whole[:30] + whole + b"\n") == [json.loads(whole)]
    assert faults(b'{"ok":1}\n' + whole[:30] + whole + b"\n") == [(2, "a record that breaks off")]


def test_a_broken_line_hides_no_other() -> None:
    """Oddities: bad lines occur anywhere, and comments stand first."""
    data = b'// from a gist\n{"a":1}\n{"cut":"of\n[1\n\n{"b":2}\n'
    assert values(data) == [{"a": 1}, {"b": 2}]
    assert faults(data) == [
        (1, "a line that is no JSON"),
        (3, "a record that breaks off"),
        (4, "a line that is no JSON"),
    ]


def test_an_unfinished_last_line_is_left_for_the_next_time() -> None:
    """Users' report 27: cut inside a character; the next write completes it."""
    data = '{"a":1}\n{"b":"größe 🛰"}\n'.encode()
    for cut in range(9, len(data) - 2):
        assert values(data[:cut]) == [{"a": 1}] and faults(data[:cut]) == []
    found = read(data[: len(data) - 1])
    assert [record.value for record in found] == [{"a": 1}, {"b": "größe 🛰"}]
    assert values(data, offset=found[0].end) == [{"b": "größe 🛰"}]


def test_what_other_readers_stumble_over_is_read() -> None:
    """Users' reports 24 and 27: U+2028, lone surrogates, NUL, bytes that are no UTF-8, a BOM."""
    data = b'\xef\xbb\xbf{"a":1}\r\n{"u":"x\xe2\x80\xa8y\xc2\x85z"}\n{"s":"\\ud83d half"}\n'
    data += b'{"n":"a\x00b"}\n{"bad":"\xff"}\n{"big":1e999,"n":123456789012345678901234567890}\n'
    assert values(data)[:4] == [
        {"a": 1}, {"u": "x\u2028y\u0085z"}, {"s": "\ud83d half"}, {"n": "a\x00b"}
    ]  # fmt: skip
    assert values(data)[4] == {"bad": "\udcff"} and len(values(data)) == 6 and faults(data) == []


def test_files_joined_end_to_end_lose_no_record_at_the_seam() -> None:
    """Ours: `cat a.jsonl b.jsonl` leaves the second file's BOM in the middle."""
    data = b'\xef\xbb\xbf{"a":1}\n\xef\xbb\xbf{"a":2}\n\xef\xbb\xbf\n'
    assert [(one.value, one.problem) for one in records(io.BytesIO(data))] == [
        ({"a": 1}, ""),
        ({"a": 2}, ""),
    ]


def test_a_line_past_the_limit_is_passed_over_and_said() -> None:
    """Oddities: a line nobody can hold; the ones round it are read."""
    data = b'{"a":1}\n{"x":"' + b"y" * (5 << 20) + b'"}\n{"b":2}\n'
    assert values(data, limit=1 << 20) == [{"a": 1}, {"b": 2}]
    assert faults(data, limit=1 << 20) == [(2, "a line of 5 MB")]
    assert len(values(data, limit=8 << 20)) == 3


def test_deep_nesting_is_a_fault_and_no_crash() -> None:
    """Ours."""
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    assert values(b'{"a":1}\n' + deep + b'\n{"b":2}\n') == [{"a": 1}, {"b": 2}]


def test_a_document_that_is_none_says_so(tmp_path: Path) -> None:
    """Oddities: whole-file documents named .jsonl."""
    path = tmp_path / "chat.jsonl"
    path.write_bytes(b'{\n "a": [1,\n 2]\n}\n')
    assert document(str(path)) == {"a": [1, 2]}
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    with pytest.raises(ValueError, match="not one JSON document"):
        document(str(path))
    with pytest.raises(ValueError, match="a document of"):
        document(str(path), limit=3)


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.one_of(st.text(max_size=30), st.integers(), st.none())
        ),
        max_size=8,
    ),
    st.data(),
)
def test_any_cut_gives_every_value_once(found: list[dict[str, Any]], data: Any) -> None:
    """Ours: read up to any byte, then on from where it stopped."""
    whole = b"".join(json.dumps(value).encode() + b"\n" for value in found)
    cut = data.draw(st.integers(0, len(whole)))
    first = read(whole[:cut])
    offset = first[-1].end if first else 0
    rest = read(whole, offset=offset)
    assert [record.value for record in first + rest] == found
