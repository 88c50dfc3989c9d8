"""Answers of the Responses and Chat APIs are read from a copy, whole or cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmem.context.formats.view import Wire
from openmem.context.proxy.ending import EndFinder
from openmem.context.proxy.recording.reply import Reply, ReplyReader
from openmem.context.proxy.recording.usage import Usage

STREAM = "text/event-stream; charset=utf-8"
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Le café \U0001f600"}],
    },
    {"type": "function_call", "call_id": "c1", "name": "exec", "arguments": '{"cmd":"ls"}'},
]
COUNTS = {
    "input_tokens": 540,
    "input_tokens_details": {"cached_tokens": 500},
    "output_tokens": 77,
}
USAGE = Usage(input_tokens=40, cache_read_tokens=500, output_tokens=77)


def sse(*values: dict[str, Any], named: bool = True, end: str = "\n") -> bytes:
    lines = []
    for value in values:
        if named:
            lines.append(f"event: {value['type']}{end}")
        lines.append(f"data: {json.dumps(value, ensure_ascii=False)}{end}{end}")
    return "".join(lines).encode()


def responses(**changes: Any) -> list[dict[str, Any]]:
    done = [
        {"type": "response.output_item.done", "output_index": n, "item": item}
        for n, item in enumerate(ITEMS)
    ]
    response = {"id": "resp_1", "output": ITEMS, "usage": COUNTS, **changes}
    return [
        {"type": "response.created", "response": {"output": []}},
        {"type": "response.output_text.delta", "delta": "event: response.completed\n"},
        *done,
        {"type": "response.completed", "response": response},
    ]


CHUNKS: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Le "}}]},
    {"choices": [{"index": 1, "delta": {"content": "another answer"}}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]},
    {"choices": [{"index": 0, "delta": {"content": "café \U0001f600"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "c1", "function": {"name": "exec", "arguments": '{"cm'}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "function": {"arguments": 'd":"ls"}'}}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 540, "completion_tokens": 77,
                              "prompt_tokens_details": {"cached_tokens": 500}}},
]  # fmt: skip
CHAT = sse(*CHUNKS, named=False) + b"data: [DONE]\n\n"
MESSAGE = {
    "role": "assistant",
    "content": "Le café \U0001f600",
    "reasoning_content": "Hm.",
    "tool_calls": [{"id": "c1", "function": {"name": "exec", "arguments": '{"cmd":"ls"}'}}],
}


def read(data: bytes, wire: Wire, step: int = 1 << 20, *, kind: str = STREAM) -> Reply:
    reader = ReplyReader(status=200, content_type=kind, encoding="", wire=wire)
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    return reader.finish("complete")


@settings(max_examples=40, deadline=None)
@given(step=st.integers(1, 300), named=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_a_stream_of_items_is_read_however_it_is_cut(step: int, named: bool, end: str) -> None:
    """Brief: `response.output_item.done`, `response.completed`."""
    found = read(sse(*responses(), named=named, end=end), "responses", step)
    assert (found.blocks, found.usage, found.is_complete, found.note) == (ITEMS, USAGE, True, "")


@settings(max_examples=40, deadline=None)
@given(step=st.integers(1, 300))
def test_a_stream_of_chunks_is_read_however_it_is_cut(step: int) -> None:
    """Brief: chat chunks; another choice is no part of the answer that is gone on from."""
    found = read(CHAT, "chat", step)
    assert (found.blocks, found.usage, found.is_complete) == ([MESSAGE], USAGE, True)


@pytest.mark.parametrize(
    ("wire", "whole", "blocks"),
    [
        ("responses", {"output": ITEMS, "usage": COUNTS}, ITEMS),
        ("chat", {"choices": [{"index": 0, "message": MESSAGE}], "usage": {
            "prompt_tokens": 540, "completion_tokens": 77,
            "prompt_tokens_details": {"cached_tokens": 500}}}, [MESSAGE]),
    ],
)  # fmt: skip
def test_an_answer_that_comes_at_once_is_read_the_same(
    wire: Wire, whole: dict[str, Any], blocks: list[Any]
) -> None:
    """The same, without a stream."""
    found = read(json.dumps(whole).encode(), wire, kind="application/json")
    assert (found.blocks, found.usage, found.is_complete) == (blocks, USAGE, True)


def test_a_stream_that_breaks_off_keeps_what_was_whole() -> None:
    """Ours: an item counts once it is done; a chat message only when its answer ended."""
    cut = read(sse(*responses()[:4]), "responses")
    assert (cut.blocks, cut.is_complete, cut.note) == (ITEMS[:2], False, "stream-ended-early")
    half = read(sse(*CHUNKS[:5], named=False), "chat")
    assert (half.blocks, half.is_complete) == ([], False)


def test_items_that_only_the_end_tells_are_taken_from_there() -> None:
    """API reference: servers that send no `output_item.done` give the output at the end."""
    found = read(sse(responses()[-1]), "responses")
    assert found.blocks == ITEMS


def test_a_failure_is_named_and_nothing_of_its_words_is_kept() -> None:
    """Facts 3.4: `context_length_exceeded` comes inside a stream with status 200."""
    error = {"code": "context_length_exceeded", "message": "secret words"}
    failed = {"type": "response.failed", "response": {"error": error, "usage": None}}
    found = read(sse(failed), "responses")
    assert (found.note, found.is_complete, found.blocks) == (
        "error-event:context_length_exceeded",
        False,
        [],
    )
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "report",
    [None, 7, [], {}, {"input_tokens": "7"}, {"input_tokens": -1}, {"input_tokens": True},
     {"input_tokens_details": 7}],
)  # fmt: skip
def test_a_count_that_was_not_reported_stays_unknown(report: object) -> None:
    """Context-store contract, Events: NULL, never 0."""
    assert Usage().updated_by_openai(report) == Usage()
    assert Usage().updated_by_openai({"prompt_tokens": 5}) == Usage(input_tokens=5)


def test_written_cache_tokens_are_counted_where_a_gateway_reports_them() -> None:
    """Context-store contract, Events: LiteLLM's fields."""
    report = {"prompt_tokens": 100, "cache_read_input_tokens": 60,
              "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 30}}  # fmt: skip
    found = Usage().updated_by_openai(report)
    assert found == Usage(input_tokens=10, cache_read_tokens=60, cache_creation_tokens=30)


@settings(max_examples=60, deadline=None)
@given(step=st.integers(1, 200))
@pytest.mark.parametrize(
    ("wire", "data"), [("responses", sse(*responses())), ("chat", CHAT)], ids=["items", "chunks"]
)
def test_the_last_byte_is_that_of_the_last_event_and_none_before(
    wire: Wire, data: bytes, step: int
) -> None:
    """Issue 2, part 5: only the last byte waits; `response.completed` spans many pieces."""
    finder = EndFinder(content_type=STREAM, encoding="", content_length=None, wire=wire)
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    ends = [finder.is_last(piece) for piece in pieces]
    start = data.index(b"\ndata: [DONE]") + 1 if wire == "chat" else len(data) - 1
    first = next(n for n, is_last in enumerate(ends) if is_last)
    assert (first + 1) * step > start


def test_words_of_the_end_inside_a_text_are_not_the_end() -> None:
    """Trap of the module: a text may quote the event."""
    finder = EndFinder(content_type=STREAM, encoding="", content_length=None, wire="responses")
    quoted = {"type": "response.output_text.delta", "delta": "\nevent: response.completed\n\n"}
    assert not finder.is_last(sse(quoted))
    chat = EndFinder(content_type=STREAM, encoding="", content_length=None, wire="chat")
    delta = {"choices": [{"delta": {"content": "\ndata: [DONE]\n\n"}}]}
    assert not chat.is_last(sse(delta, named=False))


def test_the_end_is_found_behind_words_that_quote_it_however_the_pieces_fall() -> None:
    """Ours: the search begins near the first such words, which may stand in a text."""
    delta = {"type": "content_block_delta", "delta": {"text": "event: message_stop\n" * 3}}
    data = sse(delta) + sse({"type": "message_stop"})
    start = data.index(b"event: message_stop", data.index(b"\n\n"))
    for step in (1, 7, 64, 100, len(data)):
        finder = EndFinder(content_type=STREAM, encoding="", content_length=None)
        ends = [finder.is_last(data[at : at + step]) for at in range(0, len(data), step)]
        first = ends.index(True)
        assert (first + 1) * step > start
