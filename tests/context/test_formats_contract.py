"""One contract for the three wire formats: the same conversation gives the same row chain."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmem.base.paths import Paths
from openmem.context.formats.registry import FORMATS, wire_of
from openmem.context.formats.view import NotUnderstood
from openmem.context.rows import Block, KeyedBlock, chain
from openmem.context.store.model import Incoming
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from tests.fakes.three_wires import PNG, WIRES, Move, Said, Step, System, body_in

KEY = b"k" * 32

texts = st.text(alphabet=st.characters(exclude_characters="<"), min_size=1, max_size=30).filter(
    str.strip
)
inputs = st.dictionaries(
    st.text(max_size=5),
    st.text(max_size=5) | st.integers() | st.floats(allow_nan=False) | st.none(),
)
pieces = st.lists(texts | st.just(PNG), min_size=1, max_size=3)


@st.composite
def steps(draw: Any) -> Step:
    calls = draw(st.lists(st.tuples(st.sampled_from(["Bash", "mcp__a__b"]), inputs), max_size=3))
    return Step(
        think=draw(st.just("") | texts),
        say=draw(st.lists(texts, max_size=2)),
        calls=calls,
        results=[draw(pieces) for _ in calls],
    )


conversations = st.lists(
    st.builds(Said, pieces=pieces) | st.builds(System, text=texts) | steps(),
    min_size=1,
    max_size=8,
)


def blocks_in(wire: str, moves: Sequence[Move]) -> list[Block]:
    form = FORMATS[wire]
    names: dict[str, str] = {}
    view = form.split(body_in(wire, moves))
    return [block for raw in view.messages for block in form.blocks(raw, names)]


def chain_in(wire: str, moves: Sequence[Move]) -> list[KeyedBlock]:
    return chain(KEY, blocks_in(wire, moves), "")


@settings(max_examples=150, deadline=None)
@given(conversations)
def test_the_same_conversation_gives_the_same_chain_in_each_format(moves: list[Move]) -> None:
    """Design, section 4, Row; issue 4 part 1."""
    first, *others = (chain_in(wire, moves) for wire in WIRES)
    for other in others:
        assert other == first


def test_what_another_tool_answered_moves_the_chain_in_each_format() -> None:
    """The same, the other way: two conversations never share what they do not share."""

    def with_result(text: str) -> list[Move]:
        step = Step(calls=[("Bash", {"command": "ls"})], results=[[text]])
        return [Said(pieces=["list it"]), step, Said(pieces=["and?"])]

    for wire in WIRES:
        one, other = chain_in(wire, with_result("a")), chain_in(wire, with_result("b"))
        assert [a == b for a, b in zip(one, other, strict=True)] == [True, True, False, False]


@pytest.mark.parametrize("wire", WIRES)
def test_thinking_and_the_clients_own_words_hang_beside_the_chain(wire: str) -> None:
    """Rows: a switch of models that drops or renews them leaves the rest as it was."""
    step = Step(think="hm", say=["yes"])
    bare = [Said(pieces=["is it?"]), Step(say=["yes"]), Said(pieces=["sure?"])]
    full = [System(text="be short"), Said(pieces=["is it?"]), System(text="now"), step,
            Said(pieces=["sure?"])]  # fmt: skip
    advancing = [row.fingerprint for row in chain_in(wire, full) if row.content_key]
    assert advancing == [row.fingerprint for row in chain_in(wire, bare)]
    assert {row.block.role for row in chain_in(wire, full) if not row.content_key} == {
        "system",
        "assistant",
    }


@pytest.mark.parametrize("wire", WIRES)
def test_reminders_in_a_prompt_and_behind_a_result_are_the_clients(wire: str) -> None:
    """Rows: `<system-reminder>` text is system text, in whichever format an agent sends it."""
    said = Said(pieces=["<system-reminder>\nbe careful\n</system-reminder>", "go on"])
    result = "done\n\n<system-reminder>\n7 left\n</system-reminder>"
    step = Step(calls=[("Bash", {})], results=[[result]])
    found = [(b.role, b.text) for b in blocks_in(wire, [said, step])]
    assert found == [
        ("system", "be careful"),
        ("user", "go on"),
        ("assistant", "{}"),
        ("tool", "done"),
        ("system", "7 left"),
    ]


@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_and_its_resent_form_are_the_same_rows(wire: str, home: Path) -> None:
    """Brief: the client's resend adds nothing to what the reply stored."""
    step = Step(think="hm", say=["yes"], calls=[("Bash", {"a": 1})], results=[["out"]])
    start: list[Move] = [Said(pieces=["is it?"])]
    form = FORMATS[wire]
    sent = json.loads(body_in(wire, [*start, step]))["input" if wire == "responses" else "messages"]
    reply = {"messages": sent[1]["content"] if wire == "messages" else [],
             "responses": sent[1:-1], "chat": sent[1:2]}[wire]  # fmt: skip
    paths = Paths(os.environ)
    recorder = Recorder(paths, KEY)
    first = form.split(body_in(wire, start))
    recorded = recorder.record_request("s", Incoming(agent="a", view=first))
    assert (
        recorder.record_response("s", recorded.thread, recorded.head, form.reply_blocks(reply)) == 3
    )
    again = form.split(body_in(wire, [*start, step]))
    assert recorder.record_request("s", Incoming(agent="a", view=again)).new_rows == 1
    recorder.close()
    with open_session(paths, "s") as reader:
        rows = [(row.role, row.kind, row.name) for row in reader.rows()]
    assert rows == [
        ("user", "text", ""),
        ("assistant", "thinking", ""),
        ("assistant", "text", ""),
        ("assistant", "tool_use", "Bash"),
        ("tool", "tool_result", "Bash"),
    ]


@pytest.mark.parametrize("wire", WIRES)
def test_a_session_that_changes_its_format_stores_nothing_twice(wire: str, home: Path) -> None:
    """Design, section 4: the same conversation in any wire form; one gateway speaks them all."""
    moves: list[Move] = [
        Said(pieces=["look", PNG]),
        Step(think="hm", say=["so"], calls=[("Bash", {"n": 1.0})], results=[["out"]]),
    ]
    paths = Paths(os.environ)
    recorder = Recorder(paths, KEY)
    counts = []
    for name in (wire, *(other for other in WIRES if other != wire)):
        view = FORMATS[name].split(body_in(name, moves))
        counts.append(recorder.record_request("s", Incoming(agent="a", view=view)).new_rows)
    recorder.close()
    assert counts == [6, 0, 0]


ODD = {
    "a lone surrogate": '"cut \\ud83d here"',
    "bytes that are no UTF-8": '"a\udcff\udcfeb"',
    "a raw control character": '"a\x01b"',
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("wire", WIRES)
def test_what_agents_really_send_is_read(wire: str, text: str) -> None:
    """Facts, performance, edge cases: what the fast decoder rejects, the slow one reads."""
    key = "input" if wire == "responses" else "messages"
    whole = f'{{"{key}":[{{"role":"user","content":{text}}}],"n":1e400}}'
    view = FORMATS[wire].split(whole.encode("utf-8", "surrogateescape"))
    (block,) = FORMATS[wire].blocks(view.messages[0], {})
    block.text.encode("utf-8")
    assert block.role == "user" and block.text


@pytest.mark.parametrize(
    "body",
    [b"", b"7", b"[]", b"{", b'{"model":"m"}', b'{"messages":7,"input":7}',
     b'{"messages":[' + b"[" * 3000 + b"]}"],
)  # fmt: skip
@pytest.mark.parametrize("wire", WIRES)
def test_what_is_no_request_is_said_to_be_none(wire: str, body: bytes) -> None:
    """Issue 4, Bad input: such a request passes untouched and is counted."""
    with pytest.raises(NotUnderstood):
        FORMATS[wire].split(body)


@pytest.mark.parametrize("raw", [b"7", b'"x"', b"[]", b"{}", b'{"type":7}', b'{"role":7}'])
@pytest.mark.parametrize("wire", WIRES)
def test_what_is_no_message_is_said_to_be_none(wire: str, raw: bytes) -> None:
    """The same, for one element of the list."""
    with pytest.raises(NotUnderstood):
        FORMATS[wire].blocks(raw, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
MEMBERS = ("type", "role", "content", "output", "call_id", "id", "name", "namespace", "arguments",
           "input", "action", "summary", "tool_calls", "function", "tool_call_id", "result",
           "reasoning_content", "thinking_blocks", "refusal")  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    item=st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
        optional={
            **{name: JSON for name in MEMBERS if name != "role"},
            "type": st.sampled_from(
                ["message", "function_call", "function_call_output", "reasoning", "mcp_call",
                 "custom_tool_call", "local_shell_call", "image_generation_call", "new_thing",
                 "tool_search_output"]
            ),
        },
    )
)  # fmt: skip
def test_any_element_gives_blocks_or_is_said_to_be_none(item: dict[str, Any]) -> None:
    """Users' report 24: nothing a client sends loses the request's other rows."""
    raw = json.dumps(item).encode()
    for wire in WIRES:
        try:
            found = FORMATS[wire].blocks(raw, {})
        except NotUnderstood:
            continue
        for block in found:
            block.text.encode("utf-8")
            block.name.encode("utf-8")
            assert block.role in ("user", "tool", "system", "assistant")


@pytest.mark.parametrize(
    ("path", "wire"),
    [
        (b"/v1/messages", "messages"),
        (b"/v1/responses", "responses"),
        (b"/responses", "responses"),
        (b"/r/x/v1/chat/completions", "chat"),
        (b"/v1/messages/count_tokens", None),
        (b"/v1/responses/compact", None),
        (b"/v1/embeddings", None),
        (b"/v1/models", None),
    ],
)
def test_the_path_tells_the_format(path: bytes, wire: str | None) -> None:
    """Issue 7 part 1: custom providers have bases of their own; only the end is the API's."""
    assert wire_of(path) == wire
