"""Keys of rows: what moves them and what must not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.context.rows import (
    Block,
    blob_id_of,
    chain,
    digest_of_text,
    escape_odd,
    fork_of,
    head_of,
    reminder_texts,
    seed_of,
)

KEY = b"k" * 32
OTHER_KEY = b"o" * 32
texts = st.text(max_size=20)
blocks = st.builds(
    Block,
    role=st.sampled_from(["user", "assistant", "tool", "system"]),
    kind=st.sampled_from(["text", "tool_result", "thinking"]),
    name=st.sampled_from(["", "Bash"]),
    text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20),
)


def said(text: str, role: str = "user") -> Block:
    return Block(role=role, kind="text", text=text)


def test_equal_text_at_two_places_has_two_fingerprints_and_one_content_key() -> None:
    """Design, section 4, Row: chained fingerprint, unchained content key."""
    first, second = chain(KEY, [said("yes"), said("yes")], "")
    assert first.fingerprint != second.fingerprint
    assert first.content_key == second.content_key
    assert all(len(key) == 32 for key in (first.fingerprint, first.content_key))


@pytest.mark.parametrize(
    "other",
    [
        said("no"),
        said("yes", "assistant"),
        Block(role="user", kind="other", text="yes"),
        Block(role="user", kind="text", name="Bash", text="yes"),
    ],
)
def test_role_kind_name_and_text_each_move_both_keys(other: Block) -> None:
    """Context store contract, Rows: the fingerprint is made of these."""
    ours, theirs = chain(KEY, [said("yes")], "")[0], chain(KEY, [other], "")[0]
    assert ours.fingerprint != theirs.fingerprint
    assert ours.content_key != theirs.content_key


def test_another_installation_has_other_keys() -> None:
    """Design, section 4: digests on disk give no secret away."""
    ours, theirs = chain(KEY, [said("yes")], "")[0], chain(OTHER_KEY, [said("yes")], "")[0]
    assert ours.fingerprint != theirs.fingerprint
    assert ours.content_key != theirs.content_key
    assert digest_of_text(KEY, "yes") != digest_of_text(OTHER_KEY, "yes")
    assert blob_id_of(KEY, b"x") != blob_id_of(OTHER_KEY, b"x")


@given(rows=st.lists(blocks, max_size=8), extra=blocks, place=st.integers(0, 8))
def test_side_blocks_leave_the_chain_as_it_is(rows: list[Block], extra: Block, place: int) -> None:
    """Newest models, 2.3: thinking is stripped and reminders re-rendered at a model switch."""
    side = Block(role=extra.role, kind="thinking", text=extra.text)
    with_side = [*rows[:place], side, *rows[place:]]
    plain = [row for row in chain(KEY, rows, "") if row.content_key]
    assert [row for row in chain(KEY, with_side, "") if row.content_key] == plain
    assert head_of(chain(KEY, with_side, ""), "") == head_of(chain(KEY, rows, ""), "")


@given(rows=st.lists(blocks, max_size=8), cut=st.integers(0, 8))
def test_a_chain_made_in_two_parts_is_the_chain(rows: list[Block], cut: int) -> None:
    """Context store contract, Rows: `prev` is all that a later row needs."""
    first = chain(KEY, rows[:cut], "")
    second = chain(KEY, rows[cut:], head_of(first, ""))
    assert first + second == chain(KEY, rows, "")


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ('{"n":1.0}', '{"n":1}', True),
        ('{"n":1e2}', '{"n":100}', True),
        ('{"n":12345678901234567891}', '{"n":12345678901234567000}', True),
        ('{"n":0.1}', '{"n":0.10}', True),
        ('{"n":1}', '{"n":2}', False),
        ('{"n":9007199254740993}', '{"n":1}', False),
        ('{"n":"1.0"}', '{"n":"1"}', False),
        ("not json 1.0", "not json 1", False),
    ],
)
def test_a_number_that_javascript_prints_otherwise_is_the_same(
    one: str, other: str, are_equal: bool
) -> None:
    """Ours: the client parses a tool's input and prints it again when it sends it back."""
    keys = [
        chain(KEY, [Block(role="assistant", kind="tool_use", name="T", text=text)], "")[0]
        for text in (one, other)
    ]
    assert (keys[0].fingerprint == keys[1].fingerprint) is are_equal
    assert (keys[0].content_key == keys[1].content_key) is are_equal


def test_numbers_in_plain_text_are_not_touched() -> None:
    """Ours: only a tool's input is JSON; `1.0` and `1` said by a person are two things."""
    assert chain(KEY, [said("1.0")], "") != chain(KEY, [said("1")], "")


def test_seeds_keep_sub_agents_and_side_requests_apart() -> None:
    """Users' report 28: a sub-agent that begins with the parent's words collides with nothing."""
    seeds = [
        seed_of(KEY, "main", ""),
        seed_of(KEY, "sub-agent", "a1"),
        seed_of(KEY, "sub-agent", "a2"),
        seed_of(KEY, "side", ""),
    ]
    assert seeds[0] == "" and len(set(seeds)) == len(seeds)
    keys = [chain(KEY, [said("go")], seed)[0] for seed in seeds]
    assert len({key.fingerprint for key in keys}) == len(keys)
    assert len({key.content_key for key in keys}) == 1
    forks = {fork_of(KEY, "0" * 32, "sub-agent", agent) for agent in ("a1", "a2")}
    assert len(forks) == 2 and not forks & set(seeds)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("cut \ud83d here", r"cut \ud83d here"),
        ("a\x00b", r"a\u0000b"),
        ("whole 😀 \u2028 stays", "whole 😀 \u2028 stays"),
        ("plain", "plain"),
    ],
)
def test_odd_code_points_are_escaped_and_others_are_not(text: str, escaped: str) -> None:
    """Users' report 24: a lone surrogate is stored escaped and loses no row."""
    assert escape_odd(text) == escaped
    assert escape_odd(escaped) == escaped
    escaped.encode("utf-8")


@given(st.text(alphabet=st.characters(), max_size=40))
def test_any_text_can_be_keyed_once_escaped(text: str) -> None:
    """Users' report 24: no text of JSON raises in the keys."""
    (row,) = chain(KEY, [said(escape_odd(text))], "")
    assert len(row.fingerprint) == 32


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("<system-reminder>\na\n</system-reminder>", ["a"]),
        (
            " <system-reminder>a</system-reminder>\n<system-reminder>\nb\n</system-reminder> ",
            ["a", "b"],
        ),
        ("<system-reminder>a</system-reminder> and words", None),
        ("words <system-reminder>a</system-reminder>", None),
        ("<system-reminder>a</system-reminder> b </system-reminder>", None),
        ("<system-reminder>never closed", None),
        ("", None),
        (json.dumps({"a": 1}), None),
    ],
)  # fmt: skip
def test_a_text_of_nothing_but_reminders_is_told_apart(text: str, inner: list[str] | None) -> None:
    """Agents, 3.3: reminders come as text blocks of the user; the prompt does too."""
    assert reminder_texts(text) == inner
