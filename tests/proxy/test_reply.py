"""Usage and content blocks are read from a copy of any response."""

from __future__ import annotations

import gzip
import json

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from openmem.context.proxy.recording.reply import ReplyReader
from openmem.context.proxy.recording.sse import EventReader, TooLong
from openmem.context.proxy.recording.usage import Usage

STREAM = (
    'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1",'
    '"role":"assistant","content":[],"usage":{"input_tokens":3,"cache_creation_input_tokens":40,'
    '"cache_read_input_tokens":500,"output_tokens":1}}}\n\n'
    'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    '"content_block":{"type":"thinking","thinking":"","signature":""}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    '"delta":{"type":"thinking_delta","thinking":"Hm."}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    '"delta":{"type":"signature_delta","signature":"c2ln"}}\n\n'
    'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    'event: ping\ndata: {"type": "ping"}\n\n'
    'event: content_block_start\ndata: {"type":"content_block_start","index":1,'
    '"content_block":{"type":"text","text":""}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
    '"delta":{"type":"text_delta","text":"Le café "}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,'
    '"delta":{"type":"text_delta","text":"\\ud83d\\ude00 \U0001f600"}}\n\n'
    'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}\n\n'
    'event: content_block_start\ndata: {"type":"content_block_start","index":2,'
    '"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,'
    '"delta":{"type":"input_json_delta","partial_json":""}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,'
    '"delta":{"type":"input_json_delta","partial_json":"{\\"command\\":\\"ec"}}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,'
    '"delta":{"type":"input_json_delta","partial_json":"ho 1\\"}"}}\n\n'
    'event: content_block_stop\ndata: {"type":"content_block_stop","index":2}\n\n'
    'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use"},'
    '"usage":{"output_tokens":77}}\n\n'
    'event: message_stop\ndata: {"type":"message_stop"}\n\n'
).encode()

BLOCKS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "text", "text": "Le café \U0001f600 \U0001f600"},
    {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo 1"}},
]
USAGE = Usage(input_tokens=3, cache_creation_tokens=40, cache_read_tokens=500, output_tokens=77)
MESSAGE = json.dumps(
    {
        "type": "message",
        "content": BLOCKS,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 40,
            "cache_read_input_tokens": 500,
            "output_tokens": 77,
        },
    }
).encode()
PACKERS = {"": bytes, "gzip": gzip.compress, "br": brotli.compress, "zstd": zstandard.compress}


def read(data, step=1 << 20, *, kind="text/event-stream; charset=utf-8", encoding="", status=200):
    reader = ReplyReader(status=status, content_type=kind, encoding=encoding)
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    return reader


@settings(max_examples=60, deadline=None)
@given(step=st.integers(1, 400), line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_a_stream_cut_anywhere_gives_the_same(step, line_end):
    """Users' report 44: pieces end inside lines and inside characters."""
    reply = read(STREAM.replace(b"\n", line_end), step).finish("complete")
    assert reply.blocks == BLOCKS
    assert reply.usage == USAGE
    assert reply.is_complete
    assert reply.note == ""


@pytest.mark.parametrize("encoding", PACKERS)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_compressed_responses_are_read(encoding, kind):
    """The brief of this part: usage also from compressed responses."""
    data = PACKERS[encoding](STREAM if "stream" in kind else MESSAGE)
    reply = read(data, 100, kind=kind, encoding=encoding).finish("complete")
    assert reply.blocks == BLOCKS
    assert reply.usage == USAGE
    assert reply.is_complete


def test_a_count_that_was_not_reported_is_none_not_zero():
    """Context-store contract, Events."""
    reply = read(b'{"content":[],"usage":{"input_tokens":5,"output_tokens":true}}', kind="json")
    assert reply.finish("complete").usage == Usage(input_tokens=5)


def test_later_reports_of_the_prompt_win():
    """Newest API: the end of a stream repeats the counts, grown by server-side tools."""
    last = b'data: {"type":"message_delta","usage":{"input_tokens":9,"output_tokens":2}}\n\n'
    assert read(STREAM + last).finish("complete").usage.input_tokens == 9


def test_a_cut_stream_keeps_whole_blocks_and_says_why():
    """The brief of this part: a cut stream records what was complete, with a note."""
    at = STREAM.index(b'"partial_json":"ho 1')
    reply = read(STREAM[:at]).finish("client-left")
    assert reply.blocks == BLOCKS[:2]
    assert not reply.is_complete
    assert reply.note == "client-left"
    assert reply.usage.cache_read_tokens == 500


def test_an_error_event_is_noted():
    """The brief of this part: error events."""
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
    at = STREAM.index(b"event: ping")
    reply = read(STREAM[:at] + error).finish("complete")
    assert reply.note == "error-event:overloaded_error"


@pytest.mark.parametrize(
    "data", [b"data: {broken\n\n", b"data: {}\n\n" * 3, b"", b"<html>", b"data: [DONE]\n\n"]
)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", ""])
def test_what_is_no_message_harms_nothing(data, kind):
    """Ours: gateways answer with all sorts of things."""
    reply = read(data, kind=kind).finish("complete")
    assert reply.blocks == []
    assert not reply.usage.is_reported


def test_an_error_status_is_no_answer():
    """Ours: an error body may look like anything."""
    reply = read(MESSAGE, kind="application/json", status=529).finish("complete")
    assert reply.blocks == []
    assert not reply.usage.is_reported


def test_a_tool_input_cut_by_the_limit_is_kept_as_text():
    """Ours: `max_tokens` ends a call in the middle of its input."""
    cut = STREAM.replace(b'"partial_json":"ho 1\\"}"', b'"partial_json":"ho"')
    assert read(cut).finish("complete").blocks[2]["input"] == '{"command":"echo'


def test_lone_surrogates_and_big_numbers_are_read():
    """Performance facts, edge cases: Node sends half of a cut emoji."""
    data = STREAM.replace(b"\\ud83d\\ude00 ", b"\\ud83d 1e400")
    assert read(data).finish("complete").blocks[1]["text"].startswith("Le café \ud83d")


def test_an_endless_event_is_given_up():
    """Ours: bounded memory."""
    reader = EventReader(limit_bytes=1000)
    with pytest.raises(TooLong):
        for _ in range(30):
            list(reader.feed(b"data: " + b"x" * 60))


def test_comments_names_and_the_byte_order_mark_are_read_by_the_standard():
    """WHATWG HTML, section 9.2."""
    data = (
        b"\xef\xbb\xbf: hi\nevent: a\ndata:1\ndata: 2\n\nevent: lost\n\ndata\n\nid: 7\ndata:  x\n\n"
    )
    for step in (1, 2, 5, 100):
        reader = EventReader()
        found = [
            event for at in range(0, len(data), step) for event in reader.feed(data[at : at + step])
        ]
        assert found == [("a", b"1\n2"), ("", b""), ("", b" x")]
