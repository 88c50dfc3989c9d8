"""A request that was too long, told inside a stream with status 200, teaches what a 400 teaches."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.proxy.recording.reply import ReplyReader
from openmem.context.proxy.settings import ProxySettings
from openmem.context.trim.limits import TrimSettings, overflow_in
from openmem.context.trim.state import load_trims
from tests.fakes.codex_conversation import CodexConversation, output_of
from tests.fakes.proxied import body_of, register, send, streams, user, write_policy
from tests.fakes.responses_server import FakeResponses
from tests.fakes.running_proxy import Answer, Connection, RunningProxy, ask, request_bytes
from tests.fakes.script import play
from tests.fakes.wire import HttpServer, Reply, Request

TARGET = "/a/codex/responses"
POINTER = "[openmem: session_id="
NAMES_IT = "This model's maximum context length is 20000 tokens."
# As the provider words it: no number.
NAMES_NONE = "Your input exceeds the context window of this model. Please adjust your input."
OVERFLOW = "context_length_exceeded"
SSE = [("content-type", "text/event-stream")]


def event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def failed(code: str, message: str) -> list[bytes]:
    """The two events of a Responses stream that fails."""
    response = {"id": "resp_1", "status": "failed", "output": [], "usage": None}
    error = {"code": code, "message": message}
    return [
        event({"type": "response.created", "response": {**response, "status": "in_progress"}}),
        event({"type": "response.failed", "response": {**response, "error": error}}),
    ]


def error_event(code: str, message: str) -> list[bytes]:
    """The other form in which the same service says it."""
    return [event({"type": "error", "error": {"type": "x", "code": code, "message": message}})]


class Bench:
    """Codex, our proxy and its service, which may be told to answer otherwise."""

    def __init__(self, paths: Paths, proxy: RunningProxy, service: FakeResponses, folder: str):
        self.paths, self.proxy, self.service = paths, proxy, service
        self.client = CodexConversation(folder=folder)
        self.usual = service.http._handle

    def send(self) -> Answer:
        headers, body = self.client.headers("turn"), self.client.bytes()
        answer = ask(self.proxy.port, "POST", TARGET, headers=headers, body=body)
        if answer.status == 200 and b"response.completed" in answer.body:
            self.client.answer(output_of(answer.body))
        return answer

    def turn(self, prompt: str, size: int) -> Answer:
        call = {"call": {"name": "exec_command", "input": {"cmd": "do"}}}
        self.client.say(play(prompt, call, {"say": f"done with {prompt}"}))
        assert self.send().status == 200
        self.client.results(["line of text\n" * (size // 13)])
        return self.send()

    def answer_with(self, events: list[bytes], status: int = 200) -> None:
        def handle(_: Request, reply: Reply) -> None:
            if status != 200:
                reply.whole(status, [("content-type", "application/json")], b"".join(events))
                return
            reply.start(200, SSE)
            for one in events:
                reply.chunk(one)
            reply.end()

        self.service.http._handle = handle

    def limits(self) -> list[int]:
        threads = load_trims(self.paths, self.client.sid).threads.values()
        return [state.limit for state in threads if state.limit]


@pytest.fixture
def bench(home: Path, tmp_path: Path) -> Iterator[Bench]:
    paths, folder = Paths(os.environ), tmp_path / "work"
    folder.mkdir()
    write_policy(paths, allowed=str(folder))
    trim = TrimSettings(soft_tokens=15_000, hard_tokens=60_000)
    with FakeResponses() as service:
        settings = ProxySettings(paths=paths, routes={"codex": service.url}, trim=trim)
        with RunningProxy(settings) as proxy:
            yield Bench(paths, proxy, service, str(folder))


@pytest.mark.parametrize("form", [failed, error_event])
def test_a_window_that_a_stream_names_is_learnt_and_the_next_request_fits(
    bench: Bench, form: Any
) -> None:
    """Brief: `response.failed` inside a 200 teaches as a 400 does; the stream is not touched."""
    bench.turn("begin", 30_000)
    bench.client.say(play("go on", {"say": "Gone on."}))
    bench.client.items[-1]["content"][0]["text"] += "x" * 70_000
    events = form(OVERFLOW, NAMES_IT)
    bench.answer_with(events)
    assert bench.send().body == b"".join(events)
    assert bench.limits() == [20_000]
    text = Path(bench.paths.sessions_dir, f"{bench.client.sid}.trim.json").read_text()
    assert "maximum context" not in text  # a number is kept, never the words


@pytest.mark.parametrize("is_stream", [True, False])
def test_words_without_a_number_bound_the_window_by_what_was_sent(
    bench: Bench, is_stream: bool
) -> None:
    """OpenAI's own words name no window: then what was refused is too much, by its own counts."""
    for number in range(3):
        bench.turn(f"task {number}", 14_000)
    bench.client.say(play("go on", {"say": "Gone on."}))
    whole = json.dumps({"error": {"code": OVERFLOW, "message": NAMES_NONE}}).encode()
    bench.answer_with(failed(OVERFLOW, NAMES_NONE) if is_stream else [whole],
                      200 if is_stream else 400)  # fmt: skip
    for _ in range(2):  # the first one was so small that nothing had asked for its estimate
        bench.send()
    (limit,) = bench.limits()
    sent = len(bench.client.bytes()) // 4  # as this service counts
    assert 0.8 * sent < limit < 1.2 * sent
    bench.service.http._handle = bench.usual
    assert bench.send().status == 200
    assert POINTER in json.dumps(bench.service.records[-1].json["input"])
    # And it holds when the session is small again: what is known is not forgotten behind a hint.
    bench.turn("more", 14_000)
    bench.turn("and more", 14_000)
    last = bench.service.records[-1].request.plain_body
    assert len(last) // 4 < limit and bench.limits() == [limit]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("server_error", "The server had an error while processing 20000 tokens."),
        ("rate_limit_exceeded", "Limit 30000 tokens per min: 40000 tokens > 30000."),
        ("invalid_prompt", "Item 'rs_1' was provided without its required 'reasoning' item."),
    ],
)
@pytest.mark.parametrize("form", [failed, error_event])
def test_an_unrelated_failure_teaches_nothing(
    bench: Bench, form: Any, code: str, message: str
) -> None:
    """Brief: one test that an unrelated `response.failed` teaches nothing."""
    bench.turn("begin", 30_000)
    bench.client.say("x" * 70_000)
    bench.answer_with(form(code, message))
    for _ in range(2):
        bench.send()
    assert bench.limits() == []


def test_nothing_is_learnt_from_a_guess(bench: Bench) -> None:
    """Ours: before the provider counted anything the estimate bounds nothing."""
    bench.client.say("x" * 90_000)
    bench.answer_with(failed(OVERFLOW, NAMES_NONE))
    for _ in range(2):
        bench.send()
    assert bench.limits() == []


def test_the_first_event_does_not_wait_for_the_failure(bench: Bench) -> None:
    """Brief: do not buffer or delay the stream."""
    first, last = failed(OVERFLOW, NAMES_IT)
    goes_on = threading.Event()

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, SSE)
        reply.chunk(first)
        assert goes_on.wait(20)
        reply.chunk(last)
        reply.end()

    bench.service.http._handle = handle
    bench.client.say("x" * 60_000)
    headers, body = bench.client.headers("turn"), bench.client.bytes()
    with Connection(bench.proxy.port) as connection:
        connection.send(
            request_bytes("POST", TARGET, headers=headers, body=body, port=bench.proxy.port)
        )
        assert connection.head()[0] == 200
        assert connection.chunk() == first
        goes_on.set()
        rest = b""
        while piece := connection.chunk():
            rest += piece
        assert rest == last


def test_an_error_event_of_messages_teaches_too(home: Path, tmp_path: Path) -> None:
    """Brief: and for Messages streams, if the same gap exists there; it did."""
    paths, folder = Paths(os.environ), tmp_path / "work"
    folder.mkdir()
    write_policy(paths, allowed=str(folder))
    register(paths, "s1", str(folder))
    words = "prompt is too long: 26000 tokens > 20000 maximum"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
    usage = {"usage": {"input_tokens": 26_000, "output_tokens": 1}}
    start = {"type": "message_start", "message": {"content": [], **usage}}

    def fails(_: Request, reply: Reply) -> None:
        reply.start(200, SSE)
        reply.chunk(event(start) + event(error))
        reply.end()

    handlers = [streams(), fails]

    def handle(request: Request, reply: Reply) -> None:
        handlers.pop(0)(request, reply)

    trim = TrimSettings(soft_tokens=15_000, hard_tokens=60_000)
    with HttpServer(handle) as server:
        settings = ProxySettings(paths=paths, routes={"claude-code": server.url}, trim=trim)
        with RunningProxy(settings) as proxy:
            begun = [user("go on")]
            send(proxy.port, body_of(*begun))
            begun[0]["content"][0]["text"] += "x" * 60_000
            assert send(proxy.port, body_of(*begun)).body == event(start) + event(error)
    found = [state.limit for state in load_trims(paths, "s1").threads.values() if state.limit]
    assert found == [20_000]  # what the stream's own beginning counted disproves nothing


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        ("messages", {"type": "error", "error": {"type": "a", "message": "{}"}}),
        ("responses", {"type": "response.failed", "response": {"error": {"message": "{}"}}}),
        ("responses", {"type": "error", "code": "b", "message": "{}"}),
        ("chat", {"error": {"code": "c", "message": "{}"}}),
    ],
)
def test_each_wire_formats_failure_is_read_alike(wire: Any, value: dict[str, Any]) -> None:
    """Ours: OpenCode's Chat services tell it in a chunk."""
    for words, expected in [(NAMES_IT, 20_000), (NAMES_NONE, 0), ("The server is busy.", None)]:
        told = json.loads(json.dumps(value).replace("{}", words))
        reader = ReplyReader(status=200, content_type="text/event-stream", encoding="", wire=wire)
        for byte in event({"type": "x", **told}):
            reader.feed(bytes([byte]))
        reply = reader.finish("complete")
        assert reply.overflow == expected and words not in repr(reply)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("Input is too long for requested model.", 0),
        ("This endpoint's maximum context length is 32768 tokens. However,", 32_768),
        ("the request exceeds the available context size, try increasing it", 0),
        ('{"error":{"code":"context_length_exceeded","message":""}}', 0),
        ("max_tokens: 40000 > 32000, which is the maximum", None),
        ("Rate limit: 40000 tokens > 30000 per minute", None),
        ("", None),
    ],
)
def test_what_says_that_a_request_was_too_long(words: str, expected: int | None) -> None:
    """Words of services as they are published; numbers of another matter are left alone."""
    assert overflow_in(words) == expected
