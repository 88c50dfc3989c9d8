"""The Messages format: splitting requests, and the blocks of messages in any wire form."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.context.formats.messages import (
    NotUnderstood,
    blocks_of,
    blocks_of_response,
    split_request,
)
from openmem.context.rows import Block
from tests.fakes.conversation import body, call, result, user

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


def blocks(message: dict[str, Any], names: dict[str, str] | None = None) -> list[Block]:
    return blocks_of(json.dumps(message).encode(), names)


def test_a_request_is_split_without_decoding_its_messages() -> None:
    """Facts, performance 4: only the tail is parsed."""
    whole = body(
        [user("hi"), user("there")],
        stream=True,
        system=[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        tools=[{"name": "Bash"}],
        metadata={"user_id": "u1"},
        prompt_cache_key="k",
        unknown_field={"kept": True},
    )
    found = split_request(whole)
    assert (found.model, found.stream, found.max_tokens) == ("claude-opus-5-5", True, 100)
    assert found.system == ("one", "two")
    assert (found.user_id, found.prompt_cache_key) == ("u1", "k")
    assert json.loads(found.tools) == [{"name": "Bash"}]
    assert [json.loads(bytes(raw)) for raw in found.messages] == [user("hi"), user("there")]
    assert [whole[a:b] for a, b in found.ranges()] == [bytes(raw) for raw in found.messages]


@pytest.mark.parametrize(
    "whole",
    [
        b'{"messages": [ {"role":"user","content":"a"} ,\n{"role":"user","content":"b"}]}',
        b'{"x":{"messages":[{"role":"user","content":"a"}]},"messages":[{"role":"user","content":"a"}]}',
        b'{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"a"}]}',
        b'{"x":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"a"}]}',
    ],
)
def test_the_place_of_a_message_is_told_or_refused_never_guessed(whole: bytes) -> None:
    """Design, section 7: a trimmed request is spliced from the original's byte ranges."""
    found = split_request(whole)
    ranges = found.ranges()
    start, end = ranges[0][0], ranges[-1][1]
    rest = json.loads(whole[:start] + whole[end:])
    assert rest["messages"] == []


def test_a_request_without_messages_has_no_ranges() -> None:
    """Ours: nothing to splice is said, not answered with an empty range."""
    with pytest.raises(NotUnderstood):
        split_request(b'{"messages":[]}').ranges()


ODD_BODIES = {
    "a lone surrogate": b'{"messages":[{"role":"user","content":"cut \\ud83d here"}]}',
    "a number out of range": b'{"messages":[{"role":"user","content":"x"}],"t":1e400}',
    "not a number": b'{"messages":[{"role":"user","content":"x"}],"t":NaN}',
    "a huge integer": b'{"messages":[{"role":"user","content":"x"}],"t":123456789012345678901234}',
    "a raw control character": b'{"messages":[{"role":"user","content":"a\x01b"}]}',
    "bytes that are no UTF-8": b'{"messages":[{"role":"user","content":"a\xff\xfeb"}]}',
    "a byte order mark": b'\xef\xbb\xbf{"messages":[{"role":"user","content":"x"}]}',
    "a model that is no text": b'{"model":7,"messages":[{"role":"user","content":"x"}]}',
}


@pytest.mark.parametrize("whole", ODD_BODIES.values(), ids=ODD_BODIES.keys())
def test_what_agents_really_send_is_read(whole: bytes) -> None:
    """Facts, performance, edge cases: what the fast decoder rejects, the slow one reads."""
    found = split_request(whole)
    (block,) = blocks_of(found.messages[0])
    block.text.encode("utf-8")
    assert block.role == "user" and block.text


@pytest.mark.parametrize(
    "whole",
    [
        b"",
        b"not json",
        b"[]",
        b'{"messages":{}}',
        b'{"messages":null}',
        b'{"no":"messages"}',
        b'{"messages":[' + b"[" * 5000 + b"]" * 5000 + b"]}",
        b'{"messages":[{"role":"user","content":"x"}]',
    ],
)
def test_what_is_no_request_is_said_to_be_none(whole: bytes) -> None:
    """Brief: such a request is passed through and counted."""
    with pytest.raises(NotUnderstood):
        split_request(whole)


@pytest.mark.parametrize("raw", [b"7", b'"text"', b"[]", b'{"content":"no role"}', b"{"])
def test_what_is_no_message_is_said_to_be_none(raw: bytes) -> None:
    """Ours: one odd entry is not taken for a row."""
    with pytest.raises(NotUnderstood):
        blocks_of(raw)


@pytest.mark.parametrize("depth", [100, 400, 700, 900, 980, 1100])
def test_deep_nesting_is_read_or_refused_never_a_crash(depth: int) -> None:
    """Facts, performance, edge cases: nesting of 1,100."""
    raw = b'{"role":"user","content":[{"type":"x","y":' + b"[" * depth + b"]" * depth + b"}]}"
    try:
        (block,) = blocks_of(raw)
    except NotUnderstood:
        assert depth > 400
    else:
        assert block.text.count("[") == depth


def test_thousands_of_reminders_take_no_time_to_speak_of() -> None:
    """Ours: a tool's output is not trusted. Quadratic, this ran into the test's time limit."""
    many = "".join(f"\n\n<system-reminder>\n{n}\n</system-reminder>" for n in range(100_000))
    assert len(blocks(result("out" + many))) == 100_001
    assert len(blocks(user(many.strip()))) == 100_000


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
                    max_leaves=12))  # fmt: skip
def test_any_content_gives_blocks_and_no_error(content: Any) -> None:
    """Users' report 24 and oddities: nothing a client sends loses the request's other rows."""
    for block in blocks({"role": "user", "content": content}):
        block.text.encode("utf-8")
        assert block.role in ("user", "tool", "system", "assistant")


SAME = {
    "a string and one text block": ("hi", [{"type": "text", "text": "hi"}]),
    "a cache marker": (
        [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
        [{"type": "text", "text": "hi"}],
    ),
    "an empty text beside it": (
        [{"type": "text", "text": ""}, {"type": "text", "text": "hi"}],
        [{"type": "text", "text": "hi"}],
    ),
    "thinking that is only a signature": (
        [{"type": "thinking", "thinking": "", "signature": "x"}, {"type": "text", "text": "hi"}],
        [{"type": "text", "text": "hi"}],
    ),
    "another tool id": (
        [{"type": "tool_use", "id": "a", "name": "T", "input": {"b": 1, "a": [2]}}],
        [{"type": "tool_use", "id": "b", "name": "T", "input": {"b": 1, "a": [2]}, "caller": {}}],
    ),
    "a result as string and as blocks": (
        [{"type": "tool_result", "tool_use_id": "a", "content": "out"}],
        [{"type": "tool_result", "tool_use_id": "a",
          "content": [{"type": "text", "text": "out", "cache_control": {}}]}],
    ),
    "no result and an empty one": (
        [{"type": "tool_result", "tool_use_id": "a"}],
        [{"type": "tool_result", "tool_use_id": "a", "content": ""}],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_wire_forms_of_one_thing_give_the_same_blocks(one: Any, other: Any) -> None:
    """Design, section 4, Row: the same conversation in any wire form gives the same chain."""
    assert blocks({"role": "assistant", "content": one}) == blocks(
        {"role": "assistant", "content": other}
    )


def test_reminders_and_system_messages_become_system_blocks_without_wrapper() -> None:
    """Newest models, section 4, rows: reminder text is system text."""
    wrapped = user("<system-reminder>\nToday is Monday.\n</system-reminder>")
    message = {"role": "system", "content": "Today is Monday."}
    assert blocks(wrapped) == blocks(message)
    assert blocks(wrapped) == [Block(role="system", kind="text", text="Today is Monday.")]
    assert blocks({"role": "system", "content": [], "output_config": {"effort": "low"}}) == []


def test_a_prompt_that_mentions_a_reminder_stays_the_users() -> None:
    """Ours: only a text of nothing but reminders is one."""
    (block,) = blocks(user("what is <system-reminder>x</system-reminder> for?"))
    assert block.role == "user"


def test_a_result_knows_the_name_of_its_tool() -> None:
    """Context store contract, Rows: `name` is the tool's for calls and results."""
    names: dict[str, str] = {}
    (called,) = blocks(call("Bash", {"command": "ls"}), names)
    (answered,) = blocks(result("a.py"), names)
    assert (called.kind, called.name, called.text) == ("tool_use", "Bash", '{"command":"ls"}')
    assert (answered.role, answered.kind, answered.name) == ("tool", "tool_result", "Bash")


def test_an_image_beside_a_caption_is_a_payload_of_its_own() -> None:
    """Users' report 25: the caption is text, the image is not."""
    image = {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(PNG).decode(),
        },
    }
    text, picture = blocks(result([{"type": "text", "text": "the plot"}, image]))
    assert (text.kind, text.text) == ("tool_result", "the plot")
    assert (picture.kind, picture.role, picture.payload) == ("image", "tool", PNG)
    assert (picture.media, picture.text) == ("image/png", "")


@pytest.mark.parametrize(
    ("source", "text", "payload"),
    [
        ({"type": "url", "url": "https://a/b.png"}, "https://a/b.png", None),
        ({"type": "file", "file_id": "file_1"}, "file_1", None),
        ({"type": "text", "media_type": "text/plain", "data": "words"}, "words", None),
        ({"type": "base64", "media_type": "image/png", "data": "not base64 é"}, "", "kept"),
    ],
)
def test_sources_that_are_no_base64_are_kept_as_they_are(
    source: dict[str, str], text: str, payload: str | None
) -> None:
    """Ours: a document by URL, by file or as text is text."""
    (block,) = blocks({"role": "user", "content": [{"type": "document", "source": source}]})
    assert block.text == text
    assert (block.payload is None) is (payload is None)


def test_blocks_we_do_not_know_are_kept_as_json_without_ids_and_markers() -> None:
    """Ours: a block of next year is stored, and does not move when a marker does."""
    block = {"type": "plan", "id": "p1", "steps": ["a"], "cache_control": {"type": "ephemeral"}}
    assert blocks({"role": "assistant", "content": [block]}) == [
        Block(role="assistant", kind="other", text='{"type":"plan","steps":["a"]}')
    ]


@given(st.lists(st.sampled_from([
    {"type": "text", "text": "words"},
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "redacted_thinking", "data": "xx"},
    {"type": "tool_use", "id": "t", "name": "Bash", "input": {"n": 1.5, "s": "é"}},
    {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {"query": "q"}},
]), max_size=5))  # fmt: skip
def test_a_reply_gives_the_blocks_that_its_resent_form_gives(content: list[dict[str, Any]]) -> None:
    """Brief: the client's resend of a reply adds nothing."""
    assert blocks_of_response(content) == blocks({"role": "assistant", "content": content})
